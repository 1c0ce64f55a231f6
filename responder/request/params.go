// Package request reads the arguments of calls, a JSON object, by a table of
// parameters: types, limits, aliases and defaults. It collects all mistakes. It
// also has the parameters of the requests that several surfaces accept in the
// same form, and converts them to requests of package api: a submission, a
// resumption, a cancel and a status, by the names of the v3.6 tools.
//
//	JSON, table of Param ──▶ Read ──▶ Args ──▶ api types ──▶ responder.Service
//
// The one rule: no error quotes a value of a caller, except short words of plain
// ASCII.
package request

import (
	"cmp"
	"slices"
	"strings"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/internal/lazy"
	"github.com/linesman/linesman/responder/codexcloud"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
)

// Names of tools whose requests other surfaces accept, too. They are part of the
// hash that identifies a request with an idempotency key.
const (
	ToolRun    = "_codex_local_run"
	ToolExec   = "_codex_local_exec"
	ToolResume = "_codex_local_resume"
	ToolStatus = "_codex_local_status"
	ToolCancel = "_codex_local_cancel"
)

// Names of parameters that more than one package reads.
const (
	Key        = "idempotency_key"
	echoed     = "context"
	ContextID  = "context_id"
	governance = "governance_context"
	Format     = "format"
	Webhook    = "push_notification_config"

	IncludeResult = "include_result"
)

// Limits of parameters.
const (
	MaxRef     = 512 // bytes of the id of a task in any form
	maxSeconds = 86_400
	maxWebhook = 16 << 10 // bytes
	maxLabels  = 32 << 10 // bytes
	// maxAgentPrompt, in bytes, leaves room in a message of MCP, of 1 MiB, for escapes in JSON.
	maxAgentPrompt = 256 << 10
	maxFilters     = 16   // labels of a filter
	maxCursor      = 1024 // bytes
)

// toolNames and agentToolNames are the names of parameters by the fields of package api. Those of the
// tools for agents of every kind differ.
var (
	toolNames      = api.NamesOf(func(n api.Name) string { return n.Tool })
	agentToolNames = api.NamesOf(func(n api.Name) string { return cmp.Or(n.Agent, n.Tool) })
)

// agentNames are the short names of the agents that need no setting.
var agentNames = strings.Join(known.All().Names(), ", ")

// KeyForm is the form of an idempotency key.
var KeyForm = idempotency.KeyForm

var printable = lazy.Regexp(`^[\x20-\x7E]+$`)

// Parameters of several requests.
var (
	FormatParam = Choice(Format, "markdown", "How to answer: text to read, or the v3.6 envelope.", "markdown", "json")
	taskParam   = Param{
		Name: "task", Kind: text, Required: true, Chars: runs.MaxShortPrompt, Lines: true,
		About: "What the agent is to do.",
	}
	longTaskParam = Param{
		Name: "task", Kind: text, Required: true, Max: runs.MaxPrompt, Lines: true, Any: true,
		About: "What the agent is to do.",
	}
	modeParam = Choice("mode", "read-only", "What the agent may do to this machine.",
		"read-only", "workspace-write", "danger-full-access")
	confirmParam = Flag("confirm",
		"Must be true for the modes that can write: workspace-write and danger-full-access.")
	agentParam = Text("agent", 64, "Agent of the task, by its short name or its kind; default: that of the "+
		"thread to resume, else "+api.DefaultAgent+".")
	schemaParam = Param{
		Name: "outputSchema", Kind: object, About: "JSON Schema of the agent's final answer, at most 64 KiB.",
	}
	modelParam = Text("model", runs.MaxModel, "Model of the agent; default: the agent's own.")
	titleParam = Param{
		Name: "title", Kind: text, Chars: runs.MaxTitle,
		About: "What the task is for, in one line; default: the first line of task (an extension of v3.6).",
	}
	labelsParam = Param{
		Name: "labels", Kind: object, Max: maxLabels,
		About: "Labels of the run, an object of texts: at most 16, keys of at most 64 bytes, values of at most 256 (an " +
			"extension of v3.6).",
	}
	dirParam = Text("workingDir", runs.MaxDir,
		"Directory to work in, an absolute path without ..; default: that of the worker.")
	skipParam = Flag("skipGitRepoCheck", "Work outside of a git repository, too.")
	liveParam = Flag("live", "Start the agent as a server of the Agent Client Protocol: it may ask while it works. What "+
		"its mode allows is allowed; for all else people are asked.")
	askParam = Param{Name: "ask", Kind: boolean, Default: true,
		About: "With live: people are asked what its mode does not allow. If false, it is denied."}
	keepParam   = Flag("keep", "With live: the run goes on after its first turn, for further messages, until it is ended.")
	policyParam = Names("policy", runs.MaxPolicy, "With live: rules that deny, or let people be asked, what the worker "+
		"would allow, such as \"deny execute: git push\" or \"ask edit\".")
	resumeParam  = threadParam(api.FieldResume, "Thread to continue")
	forkParam    = threadParam(api.FieldFork, "Thread to copy: the run begins with what it has, in a thread of its own")
	addDirsParam = Names("addDirs", runs.MaxAddDirs, "Further directories that the agent may use, absolute or relative "+
		"to workingDir, each of at most 1024 bytes; each must be one where tasks may work. Not with live.")
	nonInteractiveParam = Param{Name: "nonInteractive", Kind: boolean, Default: true,
		About: "If false, the agent of a live run asks people; other runs never ask."}
	unboxedParam = Flag("externalSandbox", "The worker is in a sandbox: start the agent without its own sandbox and "+
		"checks, in mode danger-full-access. Only for a worker with the setting work.external_sandbox. Not with live.")
	extensionsParam = Object("extensions", 128<<10, "Options by their ids in the Universal Agent API.")
	forceParam      = Flag("force", "Continue a session that changed in the last minute, not by a run of linesman. Two "+
		"programs that use one session damage it.")
	idleParam = Integer("idleTimeoutSec", 1, maxSeconds, 0,
		"End the task when it was silent for so long (an extension of v3.6).")
	hardParam = Integer("timeoutSec", 1, maxSeconds, 0, "End the task when it took so long (an extension of v3.6).")
	gitParam  = Flag("allow_destructive_git", "Allow git commands that may lose work, where they are guarded.")

	reasonParam = Param{
		Name: "reason", Kind: text, Max: runs.MaxReason, Lines: true, About: "Why, for whoever reads the log.",
	}
	webhookParam = Param{
		Name: Webhook, Kind: object, Max: maxWebhook,
		About: "Webhook to notify when the task starts and when it has ended, unless the answer to this call says " +
			"how it ended: url (https), operation_id, token, authentication {schemes: [Bearer or HMAC-SHA256], " +
			"credentials}. All but token are required.",
	}
	keyParam = Param{
		Name: Key, Kind: text, Max: idempotency.MaxKey, Form: KeyForm,
		Rule: "must be 16 to 255 letters, digits, '_', '.', ':' and '-'",
		About: "The same request with the same key is carried out once. Required with format adcp for what changes " +
			"something; reads change nothing.",
	}
	// KeyParam is the idempotency key of a request.
	KeyParam = Text(Key, idempotency.MaxKey, "The same request with the same key is carried out once.")

	contextParam = Param{
		Name: echoed, Kind: object, Max: webhook.MaxContext,
		About: "Comes back as it is in format adcp, at most 64 KiB; nothing is read from it.",
	}
	contextIDParam = Text(ContextID, runs.MaxThread,
		"Thread of the task, a UUID: a new task resumes it; any other task must belong to it, once it has one.")
	governanceParam = Param{
		Name: governance, Kind: text, Max: runs.MaxGovernance, Form: printable,
		Rule:  "must be printable ASCII",
		About: "Opaque token that is kept with a new task, and is in every answer of format adcp about it.",
	}
)

// Parameters of every request in the envelope of AdCP.
var (
	versionParam = Param{
		Name: versionField, Kind: text, Max: 64, Unread: true, Hidden: true,
		About: "Release of AdCP that the caller reads, such as 3.1.",
	}
	majorParam = Param{
		Name: majorField, Kind: integer, Min: 1, Max: 99, Unread: true, Hidden: true,
		About: "Major version of AdCP that the caller reads: 3.",
	}
	extParam = Param{
		Name: "ext", Kind: object, Max: webhook.MaxContext, Hidden: true,
		About: "Extensions, at most 64 KiB; nothing is read from them.",
	}
	// ignoredWebhook is a webhook in a request that creates no run.
	ignoredWebhook = Param{Name: Webhook, Kind: object, Unread: true, Hidden: true, About: "Nothing is sent."}
	// otherParams lets a request have any other parameters.
	otherParams = Param{Name: "*", Unread: true, Hidden: true, About: "Ignored."}
)

// versioned adds the fields of every request of AdCP that have no place in the schemas of v3.6.
func versioned(list []Param) []Param {
	list = append(list, versionParam, majorParam, extParam)
	if !slices.ContainsFunc(list, func(p Param) bool { return p.Name == Webhook }) {
		list = append(list, ignoredWebhook)
	}
	return slices.Clip(list)
}

// Skill returns the parameters of a request as those of a skill: its answer is always the envelope of AdCP, so there
// is no format. Of some agent: that is what the skill says; "": what the caller says.
func Skill(params []Param, agent string) (all []Param) {
	for _, p := range params {
		switch p.Name {
		case Format, "verbose":
			continue
		case agentParam.Name:
			if p.Hidden = agent != ""; agent == api.DefaultAgent {
				continue // no value: the same request is the same over other surfaces
			}
		case versionField, majorField, extParam.Name:
			p.Hidden = false
		case ContextID:
			p.About = "Thread or run to continue, or any name of yours, which is kept with a new task and is a filter of lists."
		}
		all = append(all, p)
	}
	return all
}

// IDParam is the parameter that names the task of a request.
func IDParam(name string) Param {
	return RequiredText(name, MaxRef, "Id of the task, as the answer to its submission told it.")
}

// threadParam is the parameter of an earlier thread.
func threadParam(name, about string) Param {
	return Param{
		Name: name, Kind: object, Max: 1024, Members: []Param{
			{
				Name: "selector", Kind: choice, Required: true, Words: []string{api.SelectLast, api.SelectID},
				About: "last: the thread of the agent in the directory of the task whose newest run ended last.",
			},
			Text("id", runs.MaxThread, "Id of the thread, with the selector id."),
		},
		About: about + " (an extension of v3.6).",
	}
}

func unlisted(p Param) Param {
	p.Unlisted = true
	return p
}

// ADCP adds the parameters of every request that can be answered in the envelope
// of AdCP.
func ADCP(list ...Param) []Param {
	format := FormatParam
	format.Words = []string{"markdown", "json", "adcp"}
	format.About = "How to answer: text to read, the v3.6 envelope, or that of AdCP 3.1."
	return versioned(slices.Concat(list, []Param{keyParam, contextParam, contextIDParam, governanceParam, format}))
}

// long returns parameters with a prompt of any length that a task may have; that of a v3.6 tool is
// shorter.
func long(params []Param) []Param {
	params = slices.Clone(params)
	i := slices.IndexFunc(params, func(p Param) bool { return p.Name == taskParam.Name })
	params[i] = longTaskParam
	return slices.Clip(params)
}

// forLive returns parameters for a run that is live, which begins a thread.
func forLive(params []Param) (all []Param) {
	for _, p := range params {
		switch p.Name {
		case "thread", resumeParam.Name, forkParam.Name:
			continue
		case liveParam.Name:
			p = Param{Name: keepParam.Name, Kind: boolean, Default: true, About: "The run goes on after its first turn, for " +
				"further messages, until it is ended; if false, it ends with it."}
		case askParam.Name:
			p.About = "People are asked what the mode does not allow. If false, it is denied."
		}
		p.About = strings.Replace(p.About, "that of the thread, else ", "", 1)
		all = append(all, p)
	}
	return all
}

// The parameters of the requests of this package. They must not be changed.
var (
	RunParams = ADCP(taskParam,
		Choice("mode", "read-only", modeParam.About, "read-only", "preview", "workspace-write", "danger-full-access"),
		confirmParam, schemaParam, modelParam, dirParam, skipParam,
		Choice("envPolicy", runs.InheritNone,
			"Which environment variables of the worker the agent gets, beyond what every program needs.",
			runs.InheritNone, runs.InheritAll, runs.InheritList),
		Names("envAllowList", runs.MaxEnv, "Names of environment variables, for envPolicy allow-list."),
		Flag("async", "Answer once the task is queued, not when it has ended."),
		idleParam, hardParam, gitParam, webhookParam, titleParam, labelsParam)

	ExecParams = ADCP(taskParam, dirParam, modeParam, confirmParam, schemaParam, skipParam, modelParam, idleParam,
		hardParam, gitParam, webhookParam, titleParam, labelsParam)

	ResumeParams = ADCP(
		RequiredText("threadId", runs.MaxThread, "Id of the thread, a UUID: thread_id of an earlier result."),
		taskParam, modeParam, confirmParam, schemaParam, modelParam, idleParam, hardParam, gitParam, webhookParam,
		titleParam, labelsParam)

	// Those of surfaces whose tasks are of any agent; the tools are Codex's.
	TaskParams = append(long(ExecParams), agentParam, liveParam, askParam, keepParam, policyParam, forceParam,
		resumeParam, forkParam, addDirsParam, nonInteractiveParam, unboxedParam, extensionsParam)
	ContinueParams = append(long(ResumeParams), skipParam, agentParam, liveParam, askParam, keepParam, policyParam,
		forceParam, addDirsParam, nonInteractiveParam, unboxedParam, extensionsParam)

	// Those of the tools for agents of every kind.
	AgentRunParams = []Param{
		{
			Name: "prompt", Kind: text, Required: true, Max: maxAgentPrompt, Lines: true, Any: true,
			About: "What the agent is to do, at most 256 KiB.",
		},
		Text("agent", 64, "Which agent: "+agentNames+", or another one of the settings; default: that of the thread, else "+
			api.DefaultAgent+"."),
		Text("directory", runs.MaxDir,
			"Directory to work in, an absolute path without ..; default: that of the thread, else that of the worker."),
		modeParam, confirmParam, modelParam,
		Text("thread", runs.MaxThread, "Thread of an earlier run to continue: its threadId. Instead: resume or fork, "+
			"each {\"selector\":\"last\"} or {\"selector\":\"id\",\"id\":THREAD}."),
		{
			Name: "title", Kind: text, Chars: runs.MaxTitle,
			About: "What the run is for, in one line; default: the first line of the prompt.",
		},
		Integer("timeout_seconds", 1, maxSeconds, 0, "Time limit of the run, in seconds."),
		skipParam, liveParam, askParam, gitParam, keyParam, unlisted(resumeParam), unlisted(forkParam),
	}
	// LiveStartParams are AgentRunParams for a live run.
	LiveStartParams = forLive(AgentRunParams)

	AgentRefParam = RequiredText("run", MaxRef,
		"Id of the run, at least 3 characters with which only its id begins or ends, or \"last\".")
	AgentCancelParams = []Param{AgentRefParam, reasonParam}
	AgentListParams   = []Param{
		Text("agent", 64, "Only runs of this agent."),
		Text("directory", runs.MaxDir, "Only runs in this directory, an absolute path."),
		Choice("state", "", "Only runs in this state.", "queued", "working", "input-required", "completed", "failed",
			"cancelled", "timeout"),
		Integer("limit", 1, 100, 20, "How many runs to list."),
		Text("cursor", maxCursor, "next of an earlier answer, for the runs after it."),
	}

	StatusParams = ADCP(
		Text("workingDir", runs.MaxDir, "Only tasks that work in this directory, an absolute path."),
		Param{
			Name: "showAll", Kind: boolean, Default: true,
			About: "All runs; false: only those that came by the work queue.",
		},
		Integer("limit", 1, 100, 5, "How many ended tasks to list."),
		Flag("verbose", "Adds the last lines of output of each running task, at most 5."),
		Text("task_id", MaxRef, "Only this task (an extension of v3.6)."),
		Names("labels", maxFilters, "Only tasks with all of these labels, KEY=VALUE (an extension of v3.6)."),
		Text("agent", 64, "Only tasks of this agent, by its short name or its kind (an extension of v3.6)."),
		Choice("state", "", "Only tasks in this state (an extension of v3.6).", "queued", "working", "input-required",
			"completed", "failed", "cancelled", "timeout"),
		Text("since", 64, "Only tasks that entered their state at this time of RFC 3339 or later (an extension of v3.6)."),
		Text("until", 64, "Only tasks that entered their state before this time (an extension of v3.6)."),
		Flag("unseen",
			"Only tasks that ended in the last 7 days and that their owner has not opened (an extension of v3.6)."))

	// PollParams and CapabilitiesParams are those of requests of AdCP alone.
	PollParams = []Param{
		IDParam("task_id"), Flag(IncludeResult, "Adds the result of a task that has completed or failed."),
		Flag("include_history", "Nothing is added: there is no history."),
		contextParam, versionParam, majorParam, extParam, otherParams,
	}
	// FieldParams are those of every request of AdCP, beside which there are others.
	FieldParams = []Param{keyParam, contextParam, contextIDParam, governanceParam, versionParam, majorParam, extParam,
		ignoredWebhook, otherParams}

	CapabilitiesParams = []Param{contextParam, versionParam, majorParam, extParam, otherParams}

	CancelParams = ADCP(IDParam("task_id"), reasonParam)

	CloudSubmitParams = ADCP(taskParam,
		RequiredText("envId", codexcloud.MaxEnvironment, "Environment of Codex Cloud: its id or its unique label."),
		Integer("attempts", 1, codexcloud.MaxAttempts, 1, "How many solutions to make."),
		Text("model", runs.MaxModel, "Not supported: Codex Cloud chooses the model."),
		gitParam, webhookParam)
)
