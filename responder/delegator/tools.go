package delegator

import (
	"context"
	"regexp"

	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/cloud"
	"github.com/linesman/linesman/runs"
)

// tool is one of the tools, and how it is done.
type tool struct {
	name, title, about, category string
	params                       []param
	hints                        hints
	reads                        bool        // the run table must have been read
	changes                      bool        // on AdCP it needs an idempotency key
	check                        func(*call) // what params cannot say; adds issues
	handle                       func(*call, context.Context) (*reply, error)
	begin                        []byte // of its envelopes
}

type hints struct{ readOnly, destructive, idempotent, open bool }

// Tools describes the tools, in the order of the v3.6 contract.
func (d *Delegator) Tools() []Tool { return describe(d.list) }

// Tools describes the tools of a [Delegator] that was configured with nothing.
func Tools() []Tool { return describe((&Delegator{}).all()) }

func describe(list []*tool) []Tool {
	var all []Tool
	for _, t := range list {
		all = append(all, Tool{
			Name: t.name, Title: t.title, Description: t.about, Category: t.category, InputSchema: schema(t.params),
			ReadOnly: t.hints.readOnly, Destructive: t.hints.destructive, Idempotent: t.hints.idempotent, OpenWorld: t.hints.open,
		})
	}
	return all
}

// Limits of arguments.
const (
	maxSeconds = 86_400 // of an idle or hard limit that is asked for
	maxReason  = runs.MaxReason
	maxDays    = 30
)

var formatParam = param{name: "format", kind: choice, words: []string{"markdown", "json"}, def: "markdown",
	about: "How to answer: text to read, or the v3.6 envelope."}

var (
	reading = hints{readOnly: true, idempotent: true}
	working = hints{destructive: true, open: true}
)

// all is every tool.
func (d *Delegator) all() []*tool {
	list := []*tool{
		{name: "_codex_local_run", title: "Run a Codex task", changes: true, category: executionAck, hints: working, reads: true,
			about: "Runs a coding task with codex on this machine and waits for its end, or with async only for its acceptance. " +
				"What came of it is told by _codex_local_results under the same task id. " + d.limits(),
			params: adcpParams(taskParam, mode("read-only", "preview", "workspace-write", "danger-full-access"), confirmParam, schemaParam,
				modelParam, dirParam, skipParam,
				param{name: "envPolicy", kind: choice, words: []string{runs.InheritNone, runs.InheritAll, runs.InheritList}, def: runs.InheritNone,
					about: "Which environment variables of the worker the agent gets, beyond what every program needs."},
				param{name: "envAllowList", kind: names, most: runs.MaxEnv, about: "Names of environment variables, for envPolicy allow-list."},
				param{name: "async", kind: boolean, def: false, about: "Answer once the task is queued, not when it has ended."},
				idleParam, hardParam, gitParam, pushParam),
			check: checkTask, handle: run},
		{name: "_codex_local_exec", title: "Start a Codex task", changes: true, category: executionAck, hints: working, reads: true,
			about: "Starts a coding task with codex in the background and answers at once with its task id. " +
				"Wait for it with _codex_local_wait, or look with _codex_local_status. " + d.limits(),
			params: adcpParams(taskParam, dirParam, mode("read-only", "workspace-write", "danger-full-access"), confirmParam, schemaParam,
				skipParam, modelParam, idleParam, hardParam, gitParam, pushParam),
			check: checkTask, handle: exec},
		{name: "_codex_local_resume", title: "Go on with a Codex thread", changes: true, category: executionAck, hints: working, reads: true,
			about: "Starts a new turn on a thread of codex that an earlier task began, in the background and in the directory of that task.",
			params: adcpParams(
				param{name: "threadId", kind: text, required: true, most: runs.MaxThread, about: "Id of the thread, a UUID: thread_id of an earlier result."},
				taskParam, mode("read-only", "workspace-write", "danger-full-access"), confirmParam, schemaParam, modelParam, idleParam, hardParam, gitParam,
				pushParam),
			check: checkTask, handle: resume},
		{name: "_codex_local_status", title: "Status of local tasks", category: statusSnapshot, hints: reading, reads: true,
			about: "Says which tasks run on this machine and how far they are, which wait, and which ended lately. Never shows outputs.",
			params: adcpParams(
				param{name: "workingDir", kind: text, most: runs.MaxDir, about: "Only tasks that work in this directory, an absolute path."},
				param{name: "showAll", kind: boolean, def: true, about: "All runs; false: only those that came by the work queue."},
				param{name: "limit", kind: integer, least: 1, most: 100, def: int64(5), about: "How many ended tasks to list."},
				param{name: "verbose", kind: boolean, def: false, about: "Adds the last lines of output of each running task, at most 5."},
				param{name: "task_id", kind: text, most: maxRef, about: "Only this task (an extension of v3.6)."}),
			check: checkDir, handle: localStatus},
		{name: "_codex_local_results", title: "Results of a local task", category: resultSet, hints: reading, reads: true,
			about: "Tells what came of a task that has ended: summary, files, tests, tokens, error. " +
				"The output of one that failed or timed out is always there.",
			params: adcpParams(idParam("task_id"), includeParam, maxBytesParam,
				param{name: "include_events", kind: boolean, def: false, about: "Adds the last events, at most 50."}),
			handle: localResults},
		{name: "_codex_local_wait", title: "Wait for a local task", category: waitResult, hints: reading, reads: true,
			about:  "Waits until a task has ended, and tells what came of it. After timeout_sec it answers TIMEOUT; the task goes on.",
			params: adcpParams(idParam("task_id"), timeoutParam(300), includeParam, maxBytesParam),
			handle: localWait},
		{name: "_codex_local_cancel", title: "Cancel a local task", changes: true, category: registryInfo, hints: hints{destructive: true}, reads: true,
			about:  "Ends a task: one that waits is never started, one that runs is ended with its process group.",
			params: adcpParams(idParam("task_id"), reasonParam),
			handle: localCancel},
		{name: "_codex_cloud_submit", title: "Submit a Codex Cloud task", changes: true, category: executionAck, hints: working,
			about: "Hands a coding task over to Codex Cloud and answers with its task id.",
			params: adcpParams(taskParam,
				param{name: "envId", kind: text, required: true, most: cloud.MaxEnvironment, about: "Environment of Codex Cloud: its id or its unique label."},
				param{name: "attempts", kind: integer, least: 1, most: cloud.MaxAttempts, def: int64(1), about: "How many solutions to make."},
				param{name: "model", kind: text, most: runs.MaxModel, about: "Not supported: Codex Cloud lets nobody choose."},
				gitParam, pushParam),
			check: checkCloudTask, handle: cloudSubmit},
		{name: "_codex_cloud_status", title: "Status of Codex Cloud tasks", category: statusSnapshot, hints: reading, reads: true,
			about: "Says how tasks in Codex Cloud stand: those that are pending; one with taskId; with list all that fit the filters.",
			params: adcpParams(
				param{name: "taskId", kind: text, most: maxRef, about: refAbout},
				param{name: "list", kind: boolean, def: false, about: "List tasks by the filters."},
				param{name: "workingDir", kind: text, most: runs.MaxDir, about: "Filter: the working directory."},
				param{name: "envId", kind: text, most: cloud.MaxEnvironment, about: "Filter: the environment."},
				param{name: "status", kind: choice, words: []string{"submitted", "completed", "failed", "cancelled"}, about: "Filter: the state."},
				param{name: "limit", kind: integer, least: 1, most: 100, def: int64(50), about: "How many ended tasks to list."},
				param{name: "showStats", kind: boolean, def: false, about: "Adds how many tasks are in each state."}),
			check: checkCloudStatus, handle: cloudStatus},
		{name: "_codex_cloud_results", title: "Results of a Codex Cloud task", category: resultSet, hints: reading, reads: true,
			about:  "Tells what came of a task in Codex Cloud, with a link to its page; with include_output its diff, too.",
			params: adcpParams(idParam("taskId"), includeParam, maxBytesParam),
			handle: cloudResults},
		{name: "_codex_cloud_wait", title: "Wait for a Codex Cloud task", category: waitResult, hints: reading, reads: true,
			about:  "Waits until a task in Codex Cloud has ended, and tells what came of it.",
			params: adcpParams(idParam("task_id"), timeoutParam(600), includeParam, maxBytesParam),
			handle: cloudWait},
		{name: "_codex_cloud_cancel", title: "Cancel a Codex Cloud task", changes: true, category: registryInfo, hints: reading, reads: true,
			about:  "Codex Cloud can be asked to end a task on its web page only: the answer is UNSUPPORTED, with the address of that page.",
			params: adcpParams(idParam("task_id"), reasonParam),
			handle: cloudCancel},
		{name: "_codex_cloud_list_environments", title: "List Codex Cloud environments", category: registryInfo, hints: reading,
			about:  "Lists the environments of Codex Cloud that a local file names.",
			params: params(), handle: listEnvironments},
		{name: "_codex_cloud_github_setup", title: "GitHub setup guide", category: registryInfo, hints: reading,
			about: "Writes a guide to connecting a GitHub repository with an environment of Codex Cloud.",
			params: params(
				param{name: "repoUrl", kind: text, required: true, most: 200, about: "https://github.com/OWNER/REPOSITORY"},
				param{name: "stack", kind: choice, required: true, words: []string{"node", "python", "go", "rust"}, about: "What the repository is built with."},
				param{name: "gitUserName", kind: text, most: 100, def: "Codex Agent", about: "Name for the commits."},
				param{name: "gitUserEmail", kind: text, most: 254, def: "codex@example.com", about: "Address for the commits."}),
			check: checkGitHub, handle: gitHubSetup},
		{name: "_codex_cleanup_registry", title: "Clean up old tasks", category: registryInfo, hints: hints{destructive: true, idempotent: true}, reads: true,
			about: "Ends tasks whose worker is gone, and forgets tasks that ended long ago. With dryRun it only looks.",
			params: params(
				param{name: "stuckTaskMaxAgeSeconds", kind: integer, least: 60, most: maxDays * 86_400, def: int64(3600),
					about: "A running task is stuck when its worker is gone and nothing was heard of it for so many seconds."},
				param{name: "oldTaskMaxAgeHours", kind: integer, least: 1, most: 8760, def: int64(24), about: "A task is old when it ended so many hours ago."},
				param{name: "dryRun", kind: boolean, def: false, about: "Change nothing."}),
			handle: cleanup},
	}
	return list
}

// params are those of a tool, and format.
func params(list ...param) []param { return append(list, formatParam) }

// adcpParams are those of a tool that speaks AdCP, too.
func adcpParams(list ...param) []param {
	format := formatParam
	format.words = []string{"markdown", "json", "adcp"}
	format.about = "How to answer: text to read, the v3.6 envelope, or that of AdCP 3.1."
	return append(list, keyParam, contextParam, contextIDParam, governanceParam, format)
}

var (
	keyParam = param{name: "idempotency_key", kind: text, most: adcp.MaxKey,
		form: regexp.MustCompile(adcp.KeyPattern), rule: "must be 16 to 255 letters, digits, '_', '.', ':' and '-'",
		about: "The same request with the same key is carried out once. Required with format adcp for what changes something; reads change nothing."}
	contextParam = param{name: "context", kind: object, most: adcp.MaxContext,
		about: "Comes back as it is in format adcp, at most 64 KiB; nothing is read from it."}
	contextIDParam = param{name: "context_id", kind: text, most: runs.MaxThread,
		about: "Thread of the task, a UUID: a new task goes on with it, others must belong to it, once they have one."}
	governanceParam = param{name: "governance_context", kind: text, most: runs.MaxGovernance,
		form: regexp.MustCompile(`^[\x20-\x7E]+$`), rule: "must be printable ASCII",
		about: "Opaque token that is kept with a new task, and is in every answer of format adcp about it."}
)

var (
	taskParam = param{name: "task", kind: text, required: true, chars: runs.MaxPrompt, lines: true, about: "What the agent is to do."}

	confirmParam = param{name: "confirm", kind: boolean, def: false,
		about: "Must be true for the modes that can write: workspace-write and danger-full-access."}
	schemaParam = param{name: "outputSchema", kind: object, about: "JSON Schema of the agent's final answer, at most 64 KiB."}
	modelParam  = param{name: "model", kind: text, most: runs.MaxModel, about: "Model of the agent; default: the agent's own."}
	dirParam    = param{name: "workingDir", kind: text, most: runs.MaxDir,
		about: "Directory to work in, an absolute path without ..; default: that of the worker."}
	skipParam = param{name: "skipGitRepoCheck", kind: boolean, def: false, about: "Work outside of a git repository, too."}
	idleParam = param{name: "idleTimeoutSec", kind: integer, least: 1, most: maxSeconds,
		about: "End the task when it was silent for so long (an extension of v3.6)."}
	hardParam = param{name: "timeoutSec", kind: integer, least: 1, most: maxSeconds,
		about: "End the task when it took so long (an extension of v3.6)."}
	gitParam = param{name: "allow_destructive_git", kind: boolean, def: false,
		about: "Allow git commands that may lose work, where they are guarded."}
	reasonParam  = param{name: "reason", kind: text, most: maxReason, lines: true, about: "Why, for whoever reads the log."}
	includeParam = param{name: "include_output", kind: boolean, def: false, about: "Adds what the agent printed."}

	maxBytesParam = param{name: "max_output_bytes", kind: integer, least: 1024, most: 1 << 20, def: int64(64 << 10),
		about: "Most bytes of output to add, half of them for stdout, half for stderr; of a longer one its beginning and its end."}
)

const (
	maxRef   = 512 // bytes of whatever names a task
	refAbout = "Id of the task: T-cloud-…, the id that Codex Cloud gave it, or the address of its page."
)

func idParam(name string) param {
	p := param{name: name, kind: text, required: true, most: maxRef, about: "Id of the task, as the answer to its submission told it."}
	return p
}

func mode(words ...string) param {
	return param{name: "mode", kind: choice, words: words, def: "read-only", about: "What the agent may do to this machine."}
}

func timeoutParam(def int64) param {
	return param{name: "timeout_sec", kind: integer, least: 1, most: 3600, def: def, about: "How long to wait, in seconds."}
}

// limits says how long a task may take that asks for nothing else.
func (d *Delegator) limits() string {
	s := ""
	if d.Idle > 0 {
		s += "A task that is silent for " + d.Idle.String() + " is ended. "
	}
	if d.Hard > 0 {
		s += "One that takes longer than " + d.Hard.String() + " is ended. "
	}
	if s == "" {
		return "A task that is silent or runs for too long is ended."
	}
	return s[:len(s)-1]
}
