package tools

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/codexcloud"
	"github.com/linesman/linesman/responder/request"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
)

// tool is one of the tools, and how it is carried out.
type tool struct {
	v36.Tool
	params  []request.Param
	id      string // the parameter that names the task; "": none
	reads   bool   // the run table must have been read
	driven  bool   // the responder must drive Codex Cloud
	changes bool   // in format adcp it requires an idempotency key
	request string // the name of its request for idempotency keys; "": its own
	agent   string // the value of the argument agent; "": none

	// check reads the arguments, and adds their mistakes. Nil: nothing more to check.
	check func(*call)
	// act carries out a call whose arguments have no mistakes.
	act func(*call, context.Context) (outcome, error)
}

// changesRun reports whether a tool changes a run that exists.
func (t *tool) changesRun() bool { return strings.HasSuffix(t.Name, "cancel") }

// read reads the arguments of a call.
func (t *tool) read(raw json.RawMessage) *request.Args {
	if t.agent == "" || t.agent == api.DefaultAgent { // which takes no argument
		return request.Read(t.params, raw)
	}
	return request.Read(t.params, raw, request.Preset{Name: "agent", Value: t.agent})
}

// maxDays bounds the age of a stuck task that a cleanup asks for.
const maxDays = 30

var (
	reading = v36.Hints{ReadOnly: true, Idempotent: true}
	working = v36.Hints{Destructive: true, OpenWorld: true}
)

// table returns every tool. Limits are those of tasks, in words.
func table(limits string) []*tool {
	all := slices.Concat(localTools(limits), cloudTools(), []*tool{{
		Tool: v36.Tool{
			Name: "_codex_cleanup_registry", Title: "Clean up old tasks", Category: v36.RegistryInfo,
			Hints: v36.Hints{Destructive: true, Idempotent: true},
			Description: "Ends tasks whose worker is gone, and forgets tasks that ended long ago. " +
				"With dryRun it only looks.",
		},
		reads: true, act: (*call).cleanup,
		params: []request.Param{
			request.Integer("stuckTaskMaxAgeSeconds", 60, maxDays*86_400, 3600,
				"A running task is stuck when its worker is gone and nothing was heard of it for so many seconds."),
			request.Integer("oldTaskMaxAgeHours", 1, 8760, 24, "A task is old when it ended so many hours ago."),
			request.Flag("dryRun", "Change nothing."), request.FormatParam,
		},
	}})
	for _, t := range all {
		t.InputSchema = request.Schema(t.params)
	}
	return all
}

func localTools(limits string) []*tool {
	return []*tool{
		{
			Tool: v36.Tool{
				Name: request.ToolRun, Title: "Run a Codex task", Category: v36.ExecutionAck, Hints: working,
				Description: "Runs a coding task with codex on this machine and waits for its end, or with async only for " +
					"its acceptance. _codex_local_results returns the outcome under the same task id. " + limits,
			},
			changes: true, reads: true, params: request.RunParams, check: (*call).readTask, act: (*call).run,
		},
		{
			Tool: v36.Tool{
				Name: request.ToolExec, Title: "Start a Codex task", Category: v36.ExecutionAck, Hints: working,
				Description: "Starts a coding task with codex in the background and answers at once with its task id. " +
					"Wait for it with _codex_local_wait, or look with _codex_local_status. " + limits,
			},
			changes: true, reads: true, params: request.ExecParams, check: (*call).readTask, act: (*call).submit,
		},
		{
			Tool: v36.Tool{
				Name: request.ToolResume, Title: "Go on with a Codex thread", Category: v36.ExecutionAck, Hints: working,
				Description: "Starts a new turn on a thread of codex that an earlier task began, in the background and in " +
					"the directory of that task.",
			},
			changes: true, reads: true, params: request.ResumeParams, check: (*call).readTask, act: (*call).submit,
		},
		{
			Tool: v36.Tool{
				Name: request.ToolStatus, Title: "Status of local tasks", Category: v36.StatusSnapshot, Hints: reading,
				Description: "Says which tasks run on this machine and how far they are, which wait, and which ended " +
					"lately. Never shows outputs.",
			},
			reads: true, params: request.StatusParams, check: func(c *call) { c.args.CheckDir() }, act: (*call).localStatus,
		},
		{
			Tool: v36.Tool{
				Name: "_codex_local_results", Title: "Results of a local task", Category: v36.ResultSet, Hints: reading,
				Description: "Tells what came of a task that has ended: summary, files, tests, tokens, error. " +
					"The output of one that failed or timed out is always there.",
			},
			reads: true, id: "task_id", act: (*call).results,
			params: request.ADCP(request.IDParam("task_id"), includeParam, maxBytesParam,
				request.Flag("include_events", "Adds the last events, at most 50.")),
		},
		{
			Tool: v36.Tool{
				Name: "_codex_local_wait", Title: "Wait for a local task", Category: v36.WaitResult, Hints: reading,
				Description: "Waits until a task has ended, and tells what came of it. After timeout_sec it answers " +
					"TIMEOUT; the task goes on.",
			},
			reads: true, id: "task_id", act: (*call).wait,
			params: request.ADCP(request.IDParam("task_id"), timeoutParam(300), includeParam, maxBytesParam),
		},
		{
			Tool: v36.Tool{
				Name: request.ToolCancel, Title: "Cancel a local task", Category: v36.RegistryInfo,
				Hints:       v36.Hints{Destructive: true},
				Description: "Ends a task: one that waits is never started, one that runs is ended with its process group.",
			},
			changes: true, reads: true, params: request.CancelParams, act: (*call).localCancel,
		},
	}
}

func cloudTools() []*tool {
	return []*tool{
		{
			Tool: v36.Tool{
				Name: "_codex_cloud_submit", Title: "Submit a Codex Cloud task", Category: v36.ExecutionAck, Hints: working,
				Description: "Hands a coding task over to Codex Cloud and answers with its task id.",
			},
			changes: true, params: request.CloudSubmitParams,
			check: (*call).readCloudTask, act: (*call).cloudSubmit,
		},
		{
			Tool: v36.Tool{
				Name: "_codex_cloud_status", Title: "Status of Codex Cloud tasks", Category: v36.StatusSnapshot,
				Hints: reading,
				Description: "Says how tasks in Codex Cloud stand: those that are pending; one with taskId; with list all " +
					"that fit the filters.",
			},
			reads: true, driven: true, id: "taskId", check: (*call).checkCloudStatus, act: (*call).cloudStatus,
			params: request.ADCP(
				request.Text("taskId", request.MaxRef,
					"Id of the task: T-cloud-…, the id that Codex Cloud gave it, or the address of its page."),
				request.Flag("list", "List tasks by the filters."),
				request.Text("workingDir", runs.MaxDir, "Filter: the working directory."),
				request.Text("envId", codexcloud.MaxEnvironment, "Filter: the environment."),
				request.Choice("status", "", "Filter: the state.", "submitted", "completed", "failed", "cancelled"),
				request.Integer("limit", 1, 100, 50, "How many ended tasks to list."),
				request.Flag("showStats", "Adds how many tasks are in each state.")),
		},
		{
			Tool: v36.Tool{
				Name: "_codex_cloud_results", Title: "Results of a Codex Cloud task", Category: v36.ResultSet,
				Hints: reading,
				Description: "Tells what came of a task in Codex Cloud, with a link to its page; with include_output its " +
					"diff, too.",
			},
			reads: true, driven: true, id: "taskId", act: (*call).results,
			params: request.ADCP(request.IDParam("taskId"), includeParam, maxBytesParam),
		},
		{
			Tool: v36.Tool{
				Name: "_codex_cloud_wait", Title: "Wait for a Codex Cloud task", Category: v36.WaitResult, Hints: reading,
				Description: "Waits until a task in Codex Cloud has ended, and tells what came of it.",
			},
			reads: true, driven: true, id: "task_id", act: (*call).wait,
			params: request.ADCP(request.IDParam("task_id"), timeoutParam(600), includeParam, maxBytesParam),
		},
		{
			Tool: v36.Tool{
				Name: "_codex_cloud_cancel", Title: "Cancel a Codex Cloud task", Category: v36.RegistryInfo, Hints: reading,
				Description: "Codex Cloud can be asked to end a task on its web page only: the answer is UNSUPPORTED, with " +
					"the address of that page.",
			},
			changes: true, reads: true, id: "task_id", params: request.CancelParams, act: (*call).cloudCancel,
		},
		{
			Tool: v36.Tool{
				Name: "_codex_cloud_list_environments", Title: "List Codex Cloud environments", Category: v36.RegistryInfo,
				Hints: reading, Description: "Lists the environments of Codex Cloud that a local file names.",
			},
			params: []request.Param{request.FormatParam}, act: (*call).listEnvironments,
		},
		{
			Tool: v36.Tool{
				Name: "_codex_cloud_github_setup", Title: "GitHub setup guide", Category: v36.RegistryInfo, Hints: reading,
				Description: "Writes a guide to connecting a GitHub repository with an environment of Codex Cloud.",
			},
			check: (*call).checkSetup, act: (*call).gitHubSetup,
			params: []request.Param{
				request.RequiredText("repoUrl", 200, "https://github.com/OWNER/REPOSITORY"), stackParam,
				{Name: "gitUserName", Max: 100, Default: "Codex Agent", About: "Name for the commits."},
				{Name: "gitUserEmail", Max: 254, Default: "codex@example.com", About: "Address for the commits."},
				request.FormatParam,
			},
		},
	}
}

var (
	includeParam  = request.Flag("include_output", "Adds what the agent printed.")
	maxBytesParam = request.Integer("max_output_bytes", 1024, 1<<20, 64<<10, "Most bytes of output to add, half of "+
		"them for stdout, half for stderr; of a longer one its beginning and its end.")
	stackParam = required(request.Choice("stack", "", "What the repository is built with.",
		"node", "python", "go", "rust"))
)

func required(p request.Param) request.Param {
	p.Required = true
	return p
}

func timeoutParam(seconds int64) request.Param {
	return request.Integer("timeout_sec", 1, 3600, seconds, "How long to wait, in seconds.")
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
