package tools

import (
	"slices"
	"strings"
	"time"

	"github.com/linesman/linesman/responder/codexcloud"
	"github.com/linesman/linesman/responder/request"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
)

// tool is one of the tools, and how it is done.
type tool struct {
	name, title, about, category string
	params                       []request.Param
	hints                        hints
	reads                        bool // the run table must have been read
	changes                      bool // on AdCP it needs an idempotency key

	// prepare reads the arguments, adds what is wrong with them, and returns
	// what to do where nothing is.
	prepare   func(*call) action
	envelopes v36.Encoder
}

type hints struct{ readOnly, destructive, idempotent, open bool }

// changesRun reports whether a tool changes a run that exists.
func (t *tool) changesRun() bool { return strings.HasSuffix(t.name, "_cancel") }

func describe(list []*tool) []v36.Tool {
	var all []v36.Tool
	for _, t := range list {
		all = append(all, v36.Tool{
			Name: t.name, Title: t.title, Description: t.about, Category: t.category, InputSchema: request.Schema(t.params),
			ReadOnly: t.hints.readOnly, Destructive: t.hints.destructive, Idempotent: t.hints.idempotent,
			OpenWorld: t.hints.open,
		})
	}
	return all
}

// maxDays bounds the age of a stuck task that a cleanup asks for.
const maxDays = 30

var (
	reading = hints{readOnly: true, idempotent: true}
	working = hints{destructive: true, open: true}
)

// table is every tool, with the limits of tasks in words.
func table(limits string) []*tool {
	return []*tool{
		{
			name: request.ToolRun, title: "Run a Codex task",
			changes: true, category: v36.ExecutionAck, hints: working, reads: true,
			about: "Runs a coding task with codex on this machine and waits for its end, or with " +
				"async only for its acceptance. " +
				"What came of it is told by _codex_local_results under the same task id. " + limits,
			params: request.RunParams, prepare: run,
		},
		{
			name: request.ToolExec, title: "Start a Codex task",
			changes: true, category: v36.ExecutionAck, hints: working, reads: true,
			about: "Starts a coding task with codex in the background and answers at once with its task id. " +
				"Wait for it with _codex_local_wait, or look with _codex_local_status. " + limits,
			params: request.ExecParams, prepare: submit,
		},
		{
			name: request.ToolResume, title: "Go on with a Codex thread",
			changes: true, category: v36.ExecutionAck, hints: working, reads: true,
			about: "Starts a new turn on a thread of codex that an earlier task began, in the " +
				"background and in the directory of that task.",
			params: request.ResumeParams, prepare: submit,
		},
		{
			name: request.ToolStatus, title: "Status of local tasks",
			category: v36.StatusSnapshot, hints: reading, reads: true,
			about: "Says which tasks run on this machine and how far they are, which wait, and " +
				"which ended lately. Never shows outputs.",
			params: request.StatusParams, prepare: localStatus,
		},
		{
			name: "_codex_local_results", title: "Results of a local task",
			category: v36.ResultSet, hints: reading, reads: true,
			about: "Tells what came of a task that has ended: summary, files, tests, tokens, error. " +
				"The output of one that failed or timed out is always there.",
			params: request.ADCP(request.IDParam("task_id"), includeParam, maxBytesParam,
				request.Param{
					Name: "include_events", Kind: request.Boolean, Default: false, About: "Adds the last events, at most 50.",
				}),
			prepare: localResults,
		},
		{
			name: "_codex_local_wait", title: "Wait for a local task",
			category: v36.WaitResult, hints: reading, reads: true,
			about: "Waits until a task has ended, and tells what came of it. After timeout_sec it " +
				"answers TIMEOUT; the task goes on.",
			params:  request.ADCP(request.IDParam("task_id"), timeoutParam(300), includeParam, maxBytesParam),
			prepare: localWait,
		},
		{
			name: request.ToolCancel, title: "Cancel a local task",
			changes: true, category: v36.RegistryInfo, reads: true,
			hints:  hints{destructive: true},
			about:  "Ends a task: one that waits is never started, one that runs is ended with its process group.",
			params: request.CancelParams, prepare: localCancel,
		},
		{
			name: "_codex_cloud_submit", title: "Submit a Codex Cloud task",
			changes: true, category: v36.ExecutionAck, hints: working,
			about:  "Hands a coding task over to Codex Cloud and answers with its task id.",
			params: request.CloudSubmitParams, prepare: cloudSubmit,
		},
		{
			name: "_codex_cloud_status", title: "Status of Codex Cloud tasks",
			category: v36.StatusSnapshot, hints: reading, reads: true,
			about: "Says how tasks in Codex Cloud stand: those that are pending; one with taskId; " +
				"with list all that fit the filters.",
			params: request.ADCP(
				request.Param{
					Name: "taskId", Kind: request.Text, Max: request.MaxRef,
					About: "Id of the task: T-cloud-…, the id that Codex Cloud gave it, or the address of its page.",
				},
				request.Param{Name: "list", Kind: request.Boolean, Default: false, About: "List tasks by the filters."},
				request.Param{Name: "workingDir", Kind: request.Text, Max: runs.MaxDir, About: "Filter: the working directory."},
				request.Param{Name: "envId", Kind: request.Text, Max: codexcloud.MaxEnvironment, About: "Filter: the environment."},
				request.Param{
					Name: "status", Kind: request.Choice, Words: []string{"submitted", "completed", "failed", "cancelled"},
					About: "Filter: the state.",
				},
				request.Param{
					Name: "limit", Kind: request.Integer, Min: 1, Max: 100, Default: int64(50), About: "How many ended tasks to list.",
				},
				request.Param{
					Name: "showStats", Kind: request.Boolean, Default: false, About: "Adds how many tasks are in each state.",
				}),
			prepare: cloudStatus,
		},
		{
			name: "_codex_cloud_results", title: "Results of a Codex Cloud task",
			category: v36.ResultSet, hints: reading, reads: true,
			about: "Tells what came of a task in Codex Cloud, with a link to its page; with " +
				"include_output its diff, too.",
			params:  request.ADCP(request.IDParam("taskId"), includeParam, maxBytesParam),
			prepare: cloudResults,
		},
		{
			name: "_codex_cloud_wait", title: "Wait for a Codex Cloud task",
			category: v36.WaitResult, hints: reading, reads: true,
			about:   "Waits until a task in Codex Cloud has ended, and tells what came of it.",
			params:  request.ADCP(request.IDParam("task_id"), timeoutParam(600), includeParam, maxBytesParam),
			prepare: cloudWait,
		},
		{
			name: "_codex_cloud_cancel", title: "Cancel a Codex Cloud task",
			changes: true, category: v36.RegistryInfo, hints: reading, reads: true,
			about: "Codex Cloud can be asked to end a task on its web page only: the answer is " +
				"UNSUPPORTED, with the address of that page.",
			params: request.CancelParams, prepare: cloudCancel,
		},
		{
			name: "_codex_cloud_list_environments", title: "List Codex Cloud environments",
			category: v36.RegistryInfo, hints: reading,
			about:  "Lists the environments of Codex Cloud that a local file names.",
			params: params(), prepare: listEnvironments,
		},
		{
			name: "_codex_cloud_github_setup", title: "GitHub setup guide", category: v36.RegistryInfo, hints: reading,
			about: "Writes a guide to connecting a GitHub repository with an environment of Codex Cloud.",
			params: params(
				request.Param{
					Name: "repoUrl", Kind: request.Text, Required: true, Max: 200, About: "https://github.com/OWNER/REPOSITORY",
				},
				request.Param{
					Name: "stack", Kind: request.Choice, Required: true, Words: []string{"node", "python", "go", "rust"},
					About: "What the repository is built with.",
				},
				request.Param{
					Name: "gitUserName", Kind: request.Text, Max: 100, Default: "Codex Agent", About: "Name for the commits.",
				},
				request.Param{
					Name: "gitUserEmail", Kind: request.Text, Max: 254, Default: "codex@example.com", About: "Address for the commits.",
				}),
			prepare: gitHubSetup,
		},
		{
			name: "_codex_cleanup_registry", title: "Clean up old tasks", category: v36.RegistryInfo, reads: true,
			hints: hints{destructive: true, idempotent: true},
			about: "Ends tasks whose worker is gone, and forgets tasks that ended long ago. With dryRun it only looks.",
			params: params(
				request.Param{
					Name: "stuckTaskMaxAgeSeconds", Kind: request.Integer, Min: 60, Max: maxDays * 86_400, Default: int64(3600),
					About: "A running task is stuck when its worker is gone and nothing was heard of it for so many seconds.",
				},
				request.Param{
					Name: "oldTaskMaxAgeHours", Kind: request.Integer, Min: 1, Max: 8760, Default: int64(24),
					About: "A task is old when it ended so many hours ago.",
				},
				request.Param{Name: "dryRun", Kind: request.Boolean, Default: false, About: "Change nothing."}),
			prepare: cleanup,
		},
	}
}

// params are those of a tool that does not speak AdCP.
func params(list ...request.Param) []request.Param {
	return slices.Concat(list, []request.Param{request.FormatParam})
}

var (
	includeParam = request.Param{
		Name: "include_output", Kind: request.Boolean, Default: false, About: "Adds what the agent printed.",
	}
	maxBytesParam = request.Param{
		Name: "max_output_bytes", Kind: request.Integer, Min: 1024, Max: 1 << 20, Default: int64(64 << 10),
		About: "Most bytes of output to add, half of them for stdout, half for stderr; of a " +
			"longer one its beginning and its end.",
	}
)

func timeoutParam(seconds int64) request.Param {
	return request.Param{
		Name: "timeout_sec", Kind: request.Integer, Min: 1, Max: 3600, Default: seconds,
		About: "How long to wait, in seconds.",
	}
}

// limits are the limits of a task that asks for none, in words; 0: unknown.
func limits(idle, hard time.Duration) string {
	s := ""
	if idle > 0 {
		s += "A task that is silent for " + idle.String() + " is ended. "
	}
	if hard > 0 {
		s += "One that takes longer than " + hard.String() + " is ended. "
	}
	if s == "" {
		return "A task that is silent or runs for too long is ended."
	}
	return s[:len(s)-1]
}
