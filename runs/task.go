package runs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Task is a submitted task: the prompt for an agent and the settings of the run.
// It is the message in the work queue.
type Task struct {
	Run    string `json:"run"`    // run id, see [CheckID]
	Agent  string `json:"agent"`  // agent kind, see [CheckAgent]
	Prompt string `json:"prompt"` // 1 to MaxPrompt bytes, not blank
	Mode   Mode   `json:"mode"`
	Dir    string `json:"dir,omitempty"`    // working directory, absolute; "": that of the worker
	Model  string `json:"model,omitempty"`  // "": the agent's default
	Thread string `json:"thread,omitempty"` // thread to resume; "": a new thread

	Schema  json.RawMessage `json:"output_schema,omitempty"` // JSON Schema of the answer, an object; MaxSchema
	SkipGit bool            `json:"skip_git_repo_check,omitempty"`
	Env     EnvPolicy       `json:"env"`

	Idle   int64             `json:"idle_s,omitempty"` // idle limit in seconds; 0: that of the worker
	Hard   int64             `json:"hard_s,omitempty"` // hard limit in seconds; 0: that of the worker
	Labels map[string]string `json:"labels,omitempty"`
	Title  string            `json:"title,omitempty"` // what the run is for, see [Title]; "": that of the prompt

	// Governance is an opaque token of the caller, see [CheckGovernance]; "": none.
	// It is stored with the run and returned unchanged, and never interpreted.
	Governance string `json:"governance_context,omitempty"`
}

// TitleOf returns the title of the run of t: its own, else that of its prompt.
func (t *Task) TitleOf() string { return cmp.Or(t.Title, Title(t.Prompt)) }

// Limits of a task.
const (
	MaxPrompt  = 1 << 20  // bytes
	MaxSchema  = 64 << 10 // bytes
	MaxDir     = 4096     // bytes
	MaxModel   = 128      // bytes
	MaxThread  = 256      // bytes of a thread to resume
	MaxEnv     = 64       // names
	maxEnvName = 128      // bytes
)

// MaxShortPrompt is the maximum length, in characters, of a prompt that an agent gets as an argument; it
// gets a longer one on stdin. It is also that of the prompts of the v3.6 tools, of Codex Cloud and of a
// [Question].
const MaxShortPrompt = 10_000

// Mode is the access of an agent to the machine.
type Mode string

// The modes, in ascending order of access.
const (
	ReadOnly       Mode = "read-only"
	WorkspaceWrite Mode = "workspace-write"
	DangerFull     Mode = "danger-full-access"
)

func (m Mode) known() bool { return m == ReadOnly || m == WorkspaceWrite || m == DangerFull }

// Writes reports whether an agent in mode m may change files.
func (m Mode) Writes() bool { return m != ReadOnly }

// EnvPolicy selects the environment variables of the worker that an agent gets.
type EnvPolicy struct {
	Policy string   `json:"policy,omitempty"` // one of the Inherit constants; "": InheritNone
	Allow  []string `json:"allow,omitempty"`  // names, for InheritList
}

// The policies of an environment.
const (
	InheritNone = "inherit-none" // only those that a program needs, and the configured ones
	InheritAll  = "inherit-all"
	InheritList = "allow-list" // as InheritNone, and the names in Allow
)

// FieldError describes an invalid field of a [Task]. It never quotes the value.
type FieldError struct {
	Field   string // as in the JSON of a Task
	Problem string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// Check returns all errors of t, each as a [FieldError].
func (t *Task) Check() error {
	var errs []error
	fail := func(field, format string, a ...any) {
		errs = append(errs, &FieldError{field, fmt.Sprintf(format, a...)})
	}
	for field, err := range map[string]error{
		"run": CheckID(t.Run), "agent": CheckAgent(t.Agent), "labels": CheckLabels(t.Labels),
	} {
		if err != nil {
			fail(field, "%s", strings.TrimPrefix(err.Error(), field+": "))
		}
	}
	text := func(field, s string, limit int) {
		switch {
		case len(s) > limit:
			fail(field, "at most %d bytes, got %d", limit, len(s))
		case s != "" && (!printable(s) || strings.TrimSpace(s) != s):
			fail(field, "must be printable text without white space around it")
		}
	}
	switch n := len(t.Prompt); {
	case !utf8.ValidString(t.Prompt) || strings.ContainsRune(t.Prompt, 0):
		fail("prompt", "must be UTF-8 text without NUL")
	case strings.TrimSpace(t.Prompt) == "":
		fail("prompt", "must not be blank")
	case n > MaxPrompt:
		fail("prompt", "at most %d bytes, got %d", MaxPrompt, n)
	}
	if !t.Mode.known() {
		fail("mode", "must be one of %s, %s, %s", ReadOnly, WorkspaceWrite, DangerFull)
	}
	text("dir", t.Dir, MaxDir)
	if t.Dir != "" && (t.Dir[0] != '/' || strings.Contains(t.Dir+"/", "/../")) {
		fail("dir", "must be an absolute path without ..")
	}
	text("model", t.Model, MaxModel)
	text("thread", t.Thread, MaxThread)
	if len(t.Schema) > MaxSchema {
		fail("output_schema", "at most %d bytes, got %d", MaxSchema, len(t.Schema))
	} else if len(t.Schema) > 0 && (!json.Valid(t.Schema) || t.Schema[0] != '{') {
		fail("output_schema", "must be a JSON object")
	}
	switch n := utf8.RuneCountInString(t.Title); {
	case n > MaxTitle:
		fail("title", "at most %d characters, got %d", MaxTitle, n)
	case t.Title != "" && (!printable(t.Title) || strings.TrimSpace(t.Title) != t.Title):
		fail("title", "must be one line of printable text without white space around it")
	}
	t.Env.check(fail)
	if t.Governance != "" && CheckGovernance(t.Governance) != nil {
		fail("governance_context", "must be printable ASCII, at most %d bytes", MaxGovernance)
	}
	if t.Idle < 0 {
		fail("idle_s", "must not be negative")
	}
	if t.Hard < 0 {
		fail("hard_s", "must not be negative")
	}
	return errors.Join(errs...)
}

func (p EnvPolicy) check(fail func(field, format string, a ...any)) {
	switch p.Policy {
	case "", InheritNone, InheritAll, InheritList:
	default:
		fail("env.policy", "must be one of %s, %s, %s", InheritNone, InheritAll, InheritList)
	}
	if len(p.Allow) > MaxEnv {
		fail("env.allow", "at most %d names, got %d", MaxEnv, len(p.Allow))
	}
	for _, name := range p.Allow {
		if !consists(name, maxEnvName, isWordChar) || isDigit(name[0]) {
			fail("env.allow", "a name must be letters, digits and '_', at most %d, and begin with no digit", maxEnvName)
			return
		}
		if strings.HasPrefix(name, "LINESMAN_") {
			fail("env.allow", "linesman's own variables may hold credentials: only a worker's configuration can "+
				"pass them")
			return
		}
	}
}
