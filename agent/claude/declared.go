package claude

import "github.com/linesman/linesman/normalizer/wire"

// What Claude Code 2.1.332 declares that it can print. Most of it is in no recording: the names
// are from the program itself. A line of a type, or a system line of a subtype, that is in none
// of these lists is drift.

// subtypes are the known ones of system lines. Each becomes an event of its name.
var subtypes = map[string]bool{
	// These change the run record, see [dialect.system].
	"api_error": true, "api_retry": true, "compact_boundary": true, "init": true,
	"model_consent_fallback": true, "model_fallback": true, "model_refusal_fallback": true,
	"session_state_changed": true, "session_title_changed": true, "status": true, "thinking_tokens": true,
	// These do not: tasks and hooks have events of their own, or none; the others are about the
	// user interface, the cloud, or what the agent tells its host beside its work.
	"agents_killed": true, "away_summary": true, "background_tasks_changed": true, "bridge_state": true,
	"bridge_status": true, "checkpoint_done": true, "cloud_session_delta": true, "cloud_session_status": true,
	"code_change_published": true, "commands_changed": true, "control_request_progress": true,
	"dev_intent": true, "elicitation_complete": true, "feedback_draft_queued": true,
	"file_attachments_missing": true, "file_snapshot": true, "files_persisted": true, "hook_progress": true,
	"hook_response": true, "hook_started": true, "informational": true, "inherited_asks_settled": true,
	"instruction_size_warning": true, "late_allow_not_run": true, "local_command": true,
	"local_command_output": true, "memory_recall": true, "memory_saved": true, "mirror_error": true,
	"model_refusal_no_fallback": true, "notification": true, "peer_message_hold": true,
	"per_turn_effort_changed": true, "permission_check_status": true, "permission_denied": true,
	"permission_retry": true, "placed": true, "plugin_install": true, "post_turn_summary": true,
	"rewind_stand_in": true, "scheduled_task_fire": true, "session_metadata": true,
	"session_writes_lost": true, "shell_cwd": true, "start_folder": true, "stop_hook_summary": true,
	"task_list_statuses": true, "task_notification": true, "task_progress": true, "task_started": true,
	"task_summary": true, "task_updated": true, "thinking": true, "tool_host_result": true,
	"turn_began_before_init": true, "turn_duration": true, "turn_handoff_available": true,
	"turn_preempted": true, "turn_starting": true, "ui_focus": true, "ui_invalidate": true, "ui_log": true,
	"ui_notify": true, "ui_notify_cancel": true, "ui_panes": true, "ui_placed": true, "ui_scroll": true,
	"ui_status": true, "ui_toast": true, "upgrade_relay_marker": true, "vcs_state_changed": true,
	"voice_call_talk": true, "worker_shutting_down": true,
}

// types are the types of further lines that become an event of their name.
var types = map[string]bool{
	"tool_progress": true, "auth_status": true, "tool_use_summary": true, "prompt_suggestion": true,
	"active_goal": true, "command_lifecycle": true, "control_response": true, "conversation_reset": true,
	"session_notice": true, "transcript_mirror": true, "update_environment_variables": true,
}

// The types of blocks that are a call, or its result, that the model's provider carries out.
var (
	serverCalls   = map[string]bool{"server_tool_use": true, "mcp_tool_use": true}
	serverResults = map[string]bool{
		"web_search_tool_result": true, "web_fetch_tool_result": true, "code_execution_tool_result": true,
		"bash_code_execution_tool_result": true, "text_editor_code_execution_tool_result": true, "mcp_tool_result": true,
		"advisor_tool_result": true, "tool_search_tool_result": true,
	}
)

// ignored are the known members of lines that are not read, also of session logs, where fields are
// not compared.
var ignored = wire.FieldsOf(
	"abandoned_blocks", "aborted", "action", "additional_directories", "advisor_model", "agent_id",
	"agent_note", "agents", "always_scope", "ambient", "analytics_disabled", "apiKeySource", "api_error",
	"api_error_code", "api_error_origin", "api_error_params", "api_error_status", "api_error_type",
	"api_message_id", "api_refusal_category", "api_refusal_cyber_verification", "api_refusal_explanation",
	"at", "attributionSkill", "attribution_agent", "attribution_mcp_server", "attribution_mcp_tool",
	"attribution_plugin", "attribution_skill", "awaited", "backgrounded", "batch_tool_uses",
	"begun_message_ids", "betas", "branch", "budget_limit", "budget_nudges", "budget_tokens", "can_deliver",
	"capabilities", "carried_writes", "cause", "changed", "choice", "client_composed", "client_content_width",
	"client_id", "client_platform", "client_thinking", "cloud_session", "color", "command_uuid", "commands",
	"compact_error", "compact_metadata", "compact_output_chars", "compact_result", "comparison_fork",
	"component", "content", "context_usage", "credential_expires_at", "decision_reason",
	"decision_reason_code", "decision_reason_type", "deferred_tool_use", "delay_ms", "description", "detail",
	"details_preview", "draft_id", "draft_type", "duration_api_ms", "duration_ms", "effort", "elapsed_time_seconds",
	"elicitation_id", "entries", "entrypoint", "error_code", "error_details", "estimated_tokens",
	"estimated_tokens_delta", "exit_code", "failed", "fast_mode_disabled_reason", "fast_mode_state",
	"filePath", "file_count", "file_names", "files", "first_content_frame_ms",
	"first_request_cache_read_input_tokens", "first_request_input_tokens", "first_stream_post_ack_ms",
	"first_stream_post_ms", "first_stream_post_queue_wait_ms", "first_stream_post_queued_behind",
	"first_stream_post_wall_ms", "first_text_post_ms", "first_text_post_queue_wait_ms",
	"first_text_post_queued_behind", "first_text_post_wall_ms", "flag_fetch_kick", "flag_restate_noop",
	"follow_end", "footer_indicator", "frame_enqueued_wall_ms", "frame_intake_phases_ms",
	"frame_received_wall_ms", "from", "from_name", "from_session_id", "gitBranch", "handback",
	"handback_report", "handedOff", "handoff_intake_phases_ms", "has_output", "heartbeat", "historical",
	"hold_id", "home_files", "hook_additional_context", "hook_count", "hook_errors", "hook_event", "hook_id",
	"hook_infos", "hook_label", "hook_name", "hook_no_verdict", "host_dropped_env", "hydrates_carried_lines",
	"identifier", "image_paste_ids", "inbound_origin", "initiator", "input_attachments_detail", "instance_id",
	"instances", "interruptedMessageId", "interrupted_by_shutdown", "interrupted_message_id",
	"invalid_config_file", "isAuthenticating", "isReplay", "isSynthetic", "isVirtual",
	"isVisibleInTranscriptOnly", "is_backgrounded", "is_compact_summary", "is_meta", "is_virtual",
	"is_visible_in_transcript_only", "keeps_request_id", "kept_request_ids", "key", "kind", "label", "lane",
	"largest_chars", "last_tool_name", "leafUuid", "level", "local_command", "local_command_outcome",
	"local_command_run", "local_command_source", "logicalParentUuid", "logical_parent_uuid", "lost",
	"main_stream_chunk_count", "main_stream_count", "main_stream_event_count", "mcp_meta", "mcp_server_errors",
	"mcp_server_name", "mcp_servers", "mcp_task", "memories", "memory_check_detail", "memory_paths",
	"message_count", "message_normalization_detail", "message_undelivered", "message_uuid",
	"messaging_socket_path", "metadata", "missing", "mode", "model_restriction",
	"name", "narration_block_indexes", "narration_hint", "needs_action",
	"new_conversation_id", "no_query_first", "no_response", "notice_class", "offset", "origin", "original_cwd",
	"original_model_name", "outcome", "output", "output_file", "output_style", "owed_rows", "parent_task_id",
	"patch", "pending_background_agent_count", "pending_workflow_count", "per_turn_effort_active",
	"permissionMode", "permission_denials", "permission_mode", "persist", "persisted_as_default",
	"plan_content", "plugin", "plugin_errors", "plugin_name", "plugin_prompt", "plugin_warnings", "plugins",
	"policy_answer", "policy_answer_reason", "powershell_path", "preceding_tool_use_ids", "preempted_by_uuid",
	"preempted_message_uuids", "prevent_continuation", "prevented_continuation", "preview", "priority",
	"process_anon_mib_result", "process_anon_mib_turn_start", "process_cpu_ms_between_turns",
	"process_cpu_ms_streaming", "process_cpu_ms_turn", "process_garbage_collections", "process_peak_rss_mib",
	"process_rss_mib_result", "process_rss_mib_turn_start", "process_start_purge_delay_ms",
	"process_start_tuning", "process_turn_index", "process_turn_states", "process_turn_threads",
	"process_wall_ms_between_turns", "process_wall_ms_streaming", "process_wall_ms_turn", "processed_at",
	"product_feedback_disabled", "prompt", "promptId", "prompt_submit_outcome", "prompts_screened", "provider",
	"queueSkipAttachments", "queued_turn_count", "ran_ahead", "reason", "refusal_retry", "refused_message_id",
	"refused_user_message_uuid", "relay_marker", "repo", "requestId", "request_build_detail", "request_id",
	"request_sent_wall_ms", "requeue_if_interrupted_within_ms", "requires_rewind_request_id", "resource_links",
	"response", "restored_rewind", "result_index", "resume_held_for_plan", "resume_reason",
	"resume_store_confirm_detail", "resumed_from_incomplete_thinking", "retracted_message_uuids", "retry_attempt",
	"retry_in_ms", "rewritten", "rows", "run_id", "runner_exit", "safety_stops", "sandbox_enabled", "saved_files",
	"saved_from", "saw_cyber_refusal", "scheduledTaskId", "scheduled_for", "scratchpad_path", "seeded_summon",
	"sent_count", "seq", "served_by_anthropic", "served_notice", "server_received_wall_ms", "session_class",
	"shared_message_id", "shell_cpu_ms_since_last_result", "shell_cpu_ms_turn",
	"shell_wall_ms_since_last_result", "shouldQuery", "skills", "skip_transcript", "slash_commands", "slug",
	"snapshot_files", "source", "sourceToolAssistantUUID", "source_tool_assistant_uuid", "source_tool_use_id",
	"spawn_depth", "staged_files", "startup_failure_reason", "startup_timing", "status_category",
	"status_detail", "statuses", "stderr", "stdout", "stopped_by_permission_check", "structured_output",
	"subagent_retry", "subagent_stats", "subagent_type", "suggestion", "summarize_metadata", "summarizes_uuid",
	"summary", "summary_is_report", "supersedes", "synced_skills_path", "tag", "takes_late_allow",
	"task_description", "task_id", "task_type", "team_count", "terminal_slash_commands", "text",
	"textNotTyped", "text_not_typed", "text_post_count", "text_post_flush_timer_max_late_ms",
	"text_post_gap_over_500ms_count", "text_runs_joined", "thinking_display", "thinking_duration_ms",
	"time_origin_ms", "time_to_request_cpu_ms", "time_to_request_from_spawn_ms", "time_to_request_loop_lag_ms",
	"time_to_request_major_faults", "time_to_request_ms", "time_to_request_phases_ms", "timeout_ms",
	"tool_hold_detail", "tool_input", "tool_name", "tool_pool_build_count", "tool_pool_build_lapsed_count",
	"tool_pool_limit_ms", "tool_pool_moved_at_lapse_count", "tool_result_meta", "tool_schema_build_detail",
	"tool_use_id", "tool_use_meta", "tools", "total_chars", "total_duration_ms", "total_limit_chars",
	"transcript_session_ids", "trigger", "ttft_ms", "ttft_stream_ms", "turnOrigin",
	"turn_start_control_requests_ms", "turn_start_phases_ms", "turn_start_resume_kind", "turn_started_wall_ms",
	"ultrathink_available", "ultrathink_typed_raises", "unhooked", "until_back", "url", "usage_report",
	"userType", "user_message_from_human", "user_message_server_received_wall_ms", "user_message_uuid",
	"user_message_uuids", "v", "value", "variables", "verb", "verified_pid", "view_mode", "wakeupSource",
	"wakeup_source", "warm_spare_claimed", "wire_ingest_context", "wire_tool_inputs", "worker_epoch",
	"workflow_name", "written_paths",
)
