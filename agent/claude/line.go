package claude

import (
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
)

// line has the values of one line. They share its memory.
type line struct {
	s scan.Scanner
	fields
}

// fields are the values of a line; reset clears all of them.
type fields struct {
	typ, subtype, session, uuid, parent scan.Value
	content                             scan.Value // of the message
	apiError, error, version            scan.Value

	// Of a result.
	result, errors, isError, cost, models scan.Value
	usage                                 wire.Counters

	// Of tool_use_result; resultType and path are for the run record only.
	stdout, stderr, resultType, path scan.Value

	sawMessage, sawUsage, sawToolResult bool

	drift wire.Drift

	log   logFields // of a session log
	doing doingFields
}

// counters are the keys of a usage that are published.
var counters = []string{
	"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
}

// The known members that are not read.
var (
	ignored = wire.FieldsOf(
		"additional_directories", "agent_id", "agents", "analytics_disabled", "apiKeySource", "api_error_status",
		"api_error_type", "api_message_id", "begun_message_ids", "capabilities", "compact_result", "cwd", "description",
		"duration_api_ms", "duration_ms", "estimated_tokens", "estimated_tokens_delta",
		"fast_mode_disabled_reason", "fast_mode_state", "first_content_frame_ms", "isReplay", "isSynthetic",
		"is_backgrounded", "last_tool_name", "local_command", "logical_parent_uuid", "mcp_servers", "memory_paths",
		"messaging_socket_path",
		"model_usage_since_last_result", "num_turns", "origin", "original_cwd", "output_file",
		"output_style", "patch", "per_turn_effort_active", "permissionMode", "permission_denials", "plugins",
		"product_feedback_disabled", "prompt", "queued_turn_count", "result_index", "run_id",
		"safety_stops", "served_by_anthropic", "skills", "slash_commands", "spawn_depth", "stop_reason",
		"structured_output", "subagent_stats", "subagent_type", "summary", "summary_is_report", "task_description",
		"task_id", "task_type", "tasks", "terminal_reason", "terminal_slash_commands", "thinking_display",
		"thinking_duration_ms", "time_to_request_ms", "tool_result_meta", "tool_use_id", "tool_use_meta",
		"tools", "ttft_ms", "ttft_stream_ms", "ultrathink_available", "ultrathink_typed_raises", "view_mode",
		// Of session logs, where fields are not compared.
		"attributionSkill", "entrypoint", "gitBranch", "interruptedMessageId", "leafUuid", "level",
		"logicalParentUuid", "promptId", "requestId", "slug", "sourceToolAssistantUUID", "userType",
		// Of lines that no recording has.
		"compact_metadata", "decision_reason", "decision_reason_type", "elapsed_time_seconds", "elicitation_id",
		"exit_code", "failed", "files", "hook_event", "hook_id", "hook_name", "isAuthenticating", "mcp_server_name",
		"outcome", "output", "preceding_tool_use_ids", "processed_at", "request_id", "state",
		"stderr", "stdout", "suggestion", "tool_input", "tool_name",
	)
	ignoredMessage = wire.FieldsOf("container", "context_management", "diagnostics", "id", "role",
		"stop_details", "stop_reason", "stop_sequence", "type", "usage")
	ignoredUsage = wire.FieldsOf("cache_creation", "duration_ms", "fallback_credit", "inference_geo", "iterations",
		"output_tokens_details", "server_tool_use", "service_tier", "speed", "tool_uses", "total_tokens")
	ignoredBlock = wire.FieldsOf("cache_control", "caller", "citations", "signature")
)

// scan reads raw. Call reset before the next line.
func (l *line) scan(raw []byte) scan.Fault {
	s := &l.s
	s.Reset(raw)
	l.usage.Names = counters
	ok := s.Object()
	if !ok {
		s.Skip()
	}
	for ok && s.Next() {
		switch string(s.Key()) {
		case "type":
			s.First(&l.typ)
		case "subtype":
			s.First(&l.subtype)
		case "session_id":
			s.First(&l.session)
		case "uuid":
			s.First(&l.uuid)
		case "parent_tool_use_id":
			s.First(&l.parent)
		case "message":
			wire.Members(s, &l.sawMessage, l.message)
		case "is_api_error_message":
			s.First(&l.apiError)
		case "error":
			s.First(&l.error)
		case "result":
			s.First(&l.result)
		case "errors":
			s.First(&l.errors)
		case "is_error":
			s.First(&l.isError)
		case "total_cost_usd":
			s.First(&l.cost)
		case "claude_code_version":
			s.First(&l.version)
		case "modelUsage":
			s.First(&l.models)
		case "usage":
			wire.Members(s, &l.sawUsage, l.counter)
		case "tool_use_result":
			wire.Members(s, &l.sawToolResult, l.toolResult)
		default:
			if !l.logMember(s.Key()) && !l.doingMember(s.Key()) {
				l.drift.Field(ignored, "", s.Key())
				s.Skip()
			}
		}
	}
	return s.End()
}

func (l *line) message(key []byte) bool {
	if string(key) != "content" {
		if l.logMessage(key) {
			return true
		}
		l.drift.Field(ignoredMessage, "message.", key)
		return false
	}
	l.s.First(&l.content)
	return true
}

func (l *line) counter(key []byte) bool {
	if l.usage.Read(&l.s, key) {
		return true
	}
	l.drift.Field(ignoredUsage, "usage.", key)
	return false
}

func (l *line) toolResult(key []byte) bool {
	switch string(key) {
	case "stdout":
		l.s.First(&l.stdout)
	case "stderr":
		l.s.First(&l.stderr)
	case "type":
		l.s.First(&l.resultType)
	case "filePath":
		l.s.First(&l.path)
	default:
		return false
	}
	return true
}

// block has the values of one block of a message.
type block struct {
	typ, text, thinking, id, name, input, useID, content, isError scan.Value
}

// scan reads v, an object that was scanned before. Drift may be nil.
func (b *block) scan(s *scan.Scanner, v scan.Value, drift *wire.Drift) {
	*b = block{}
	s.Reset(v.Raw)
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "type":
			s.First(&b.typ)
		case "text":
			s.First(&b.text)
		case "thinking":
			s.First(&b.thinking)
		case "id":
			s.First(&b.id)
		case "name":
			s.First(&b.name)
		case "input":
			s.First(&b.input)
		case "tool_use_id":
			s.First(&b.useID)
		case "content":
			s.First(&b.content)
		case "is_error":
			s.First(&b.isError)
		default:
			if drift != nil {
				drift.Field(ignoredBlock, "message.content.", s.Key())
			}
			s.Skip()
		}
	}
}

// reset clears the values and releases the line.
func (l *line) reset() {
	l.s.Reset(nil)
	l.fields = fields{}
}
