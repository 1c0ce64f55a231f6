// Package request reads what every surface takes in the same form: the
// arguments of a submission, a resumption, a cancel and a status, by the names
// of the v3.6 tools. It owns these parameters and their texts, and how they
// become requests of package api.
//
//	JSON ──▶ Args ──▶ request ──▶ api types ──▶ responder.Service
package request

import (
	"regexp"
	"slices"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
)

// Names of tools whose requests other surfaces take, too. They are part of the
// hash that compares requests with one idempotency key.
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
)

// Limits of parameters.
const (
	MaxRef     = 512 // bytes of the id of a task in any form
	maxSeconds = 86_400
	maxWebhook = 16 << 10 // bytes
)

// parameters are the names of parameters by the fields of package api.
var parameters = map[string]string{
	api.FieldPrompt: "task", api.FieldMode: "mode", api.FieldConfirm: "confirm", api.FieldDir: "workingDir",
	api.FieldModel:  "model",
	api.FieldThread: "threadId", api.FieldSchema: "outputSchema", api.FieldEnvPolicy: "envPolicy",
	api.FieldEnvAllow: "envAllowList",
	api.FieldIdle:     "idleTimeoutSec", api.FieldHard: "timeoutSec", api.FieldGit: "allow_destructive_git",
	api.FieldGovernance: governance, api.FieldContext: echoed, api.FieldWebhook: Webhook, api.FieldKey: Key,
	api.FieldRun: "task_id", api.FieldEnvironment: "envId", api.FieldAttempts: "attempts", "request": Whole,
}

// KeyForm is the form of an idempotency key.
var KeyForm = regexp.MustCompile(idempotency.KeyPattern)

// Parameters of several requests.
var (
	FormatParam = Param{
		Name: Format, Kind: Choice, Words: []string{"markdown", "json"}, Default: "markdown",
		About: "How to answer: text to read, or the v3.6 envelope.",
	}
	taskParam = Param{
		Name: "task", Kind: Text, Required: true, Chars: runs.MaxPrompt, Lines: true,
		About: "What the agent is to do.",
	}
	confirmParam = Param{
		Name: "confirm", Kind: Boolean, Default: false,
		About: "Must be true for the modes that can write: workspace-write and danger-full-access.",
	}
	schemaParam = Param{
		Name: "outputSchema", Kind: object, About: "JSON Schema of the agent's final answer, at most 64 KiB.",
	}
	modelParam = Param{
		Name: "model", Kind: Text, Max: runs.MaxModel, About: "Model of the agent; default: the agent's own.",
	}
	dirParam = Param{
		Name: "workingDir", Kind: Text, Max: runs.MaxDir,
		About: "Directory to work in, an absolute path without ..; default: that of the worker.",
	}
	skipParam = Param{
		Name: "skipGitRepoCheck", Kind: Boolean, Default: false, About: "Work outside of a git repository, too.",
	}
	idleParam = Param{
		Name: "idleTimeoutSec", Kind: Integer, Min: 1, Max: maxSeconds,
		About: "End the task when it was silent for so long (an extension of v3.6).",
	}
	hardParam = Param{
		Name: "timeoutSec", Kind: Integer, Min: 1, Max: maxSeconds,
		About: "End the task when it took so long (an extension of v3.6).",
	}
	gitParam = Param{
		Name: "allow_destructive_git", Kind: Boolean, Default: false,
		About: "Allow git commands that may lose work, where they are guarded.",
	}
	reasonParam = Param{
		Name: "reason", Kind: Text, Max: runs.MaxReason, Lines: true, About: "Why, for whoever reads the log.",
	}
	webhookParam = Param{
		Name: Webhook, Kind: object, Max: maxWebhook,
		About: "Webhook that is told when the task works and when it has ended, unless the answer to this call says " +
			"how it ended: " +
			"url (https), operation_id, token, authentication {schemes: [Bearer or HMAC-SHA256], credentials}. All but " +
			"token are required.",
	}
	keyParam = Param{
		Name: Key, Kind: Text, Max: idempotency.MaxKey, Form: KeyForm,
		Rule: "must be 16 to 255 letters, digits, '_', '.', ':' and '-'",
		About: "The same request with the same key is carried out once. Required with format adcp for what changes " +
			"something; reads change nothing.",
	}
	contextParam = Param{
		Name: echoed, Kind: object, Max: webhook.MaxContext,
		About: "Comes back as it is in format adcp, at most 64 KiB; nothing is read from it.",
	}
	contextIDParam = Param{
		Name: ContextID, Kind: Text, Max: runs.MaxThread,
		About: "Thread of the task, a UUID: a new task goes on with it, others must belong to it, once they have one.",
	}
	governanceParam = Param{
		Name: governance, Kind: Text, Max: runs.MaxGovernance, Form: regexp.MustCompile(`^[\x20-\x7E]+$`),
		Rule:  "must be printable ASCII",
		About: "Opaque token that is kept with a new task, and is in every answer of format adcp about it.",
	}
)

func modeParam(words ...string) Param {
	return Param{
		Name: "mode", Kind: Choice, Words: words, Default: "read-only",
		About: "What the agent may do to this machine.",
	}
}

// IDParam is the parameter that names the task of a request.
func IDParam(name string) Param {
	return Param{
		Name: name, Kind: Text, Required: true, Max: MaxRef,
		About: "Id of the task, as the answer to its submission told it.",
	}
}

// ADCP adds to the parameters of a request those that every request has which
// can be answered in the envelope of AdCP.
func ADCP(list ...Param) []Param {
	format := FormatParam
	format.Words = []string{"markdown", "json", "adcp"}
	format.About = "How to answer: text to read, the v3.6 envelope, or that of AdCP 3.1."
	return slices.Concat(list, []Param{keyParam, contextParam, contextIDParam, governanceParam, format})
}

// The parameters of the requests of this package. They must not be changed.
var (
	RunParams = ADCP(taskParam, modeParam("read-only", "preview", "workspace-write", "danger-full-access"), confirmParam,
		schemaParam,
		modelParam, dirParam, skipParam,
		Param{
			Name: "envPolicy", Kind: Choice, Words: []string{runs.InheritNone, runs.InheritAll, runs.InheritList},
			Default: runs.InheritNone, About: "Which environment variables of the worker the agent gets, beyond what " +
				"every program needs.",
		},
		Param{
			Name: "envAllowList", Kind: names, Max: runs.MaxEnv,
			About: "Names of environment variables, for envPolicy allow-list.",
		},
		Param{
			Name: "async", Kind: Boolean, Default: false, About: "Answer once the task is queued, not when it has ended.",
		},
		idleParam, hardParam, gitParam, webhookParam)

	ExecParams = ADCP(taskParam, dirParam, modeParam("read-only", "workspace-write", "danger-full-access"), confirmParam,
		schemaParam,
		skipParam, modelParam, idleParam, hardParam, gitParam, webhookParam)

	ResumeParams = ADCP(
		Param{
			Name: "threadId", Kind: Text, Required: true, Max: runs.MaxThread,
			About: "Id of the thread, a UUID: thread_id of an earlier result.",
		},
		taskParam, modeParam("read-only", "workspace-write", "danger-full-access"), confirmParam, schemaParam, modelParam,
		idleParam,
		hardParam, gitParam, webhookParam)

	StatusParams = ADCP(
		Param{
			Name: "workingDir", Kind: Text, Max: runs.MaxDir,
			About: "Only tasks that work in this directory, an absolute path.",
		},
		Param{
			Name: "showAll", Kind: Boolean, Default: true,
			About: "All runs; false: only those that came by the work queue.",
		},
		Param{
			Name: "limit", Kind: Integer, Min: 1, Max: 100, Default: int64(5), About: "How many ended tasks to list.",
		},
		Param{
			Name: "verbose", Kind: Boolean, Default: false,
			About: "Adds the last lines of output of each running task, at most 5.",
		},
		Param{Name: "task_id", Kind: Text, Max: MaxRef, About: "Only this task (an extension of v3.6)."})

	CancelParams = ADCP(IDParam("task_id"), reasonParam)

	CloudSubmitParams = ADCP(taskParam,
		Param{
			Name: "envId", Kind: Text, Required: true, Max: maxEnvironment,
			About: "Environment of Codex Cloud: its id or its unique label.",
		},
		Param{
			Name: "attempts", Kind: Integer, Min: 1, Max: maxAttempts, Default: int64(1),
			About: "How many solutions to make.",
		},
		Param{Name: "model", Kind: Text, Max: runs.MaxModel,
			About: "Not supported: Codex Cloud lets nobody choose."},
		gitParam, webhookParam)
)
