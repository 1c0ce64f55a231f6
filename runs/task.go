package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Task is a submission: what an agent is asked to do, and how. It is what the
// work queue holds.
type Task struct {
	Run    string `json:"run"`    // run id, see [CheckID]
	Agent  string `json:"agent"`  // agent kind, see [CheckAgent]
	Prompt string `json:"prompt"` // 1 to MaxPrompt characters, not blank
	Mode   Mode   `json:"mode"`
	Dir    string `json:"dir,omitempty"`    // working directory, absolute; "": where the worker was started
	Model  string `json:"model,omitempty"`  // "": the agent's default
	Thread string `json:"thread,omitempty"` // thread to go on with; "": a new one

	Schema  json.RawMessage `json:"output_schema,omitempty"` // JSON Schema of the answer, an object of at most MaxSchema bytes
	SkipGit bool            `json:"skip_git_repo_check,omitempty"`
	Env     EnvPolicy       `json:"env"`

	Idle   int64             `json:"idle_s,omitempty"` // limits in seconds; 0: the worker's own
	Hard   int64             `json:"hard_s,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`

	// Governance is a caller's opaque token, see [CheckGovernance]; "": none.
	// It is kept with the run and given back, and nothing is read from it.
	Governance string `json:"governance_context,omitempty"`
}

// Limits of a task.
const (
	MaxPrompt  = 10_000   // characters
	MaxSchema  = 64 << 10 // bytes
	MaxDir     = 4096     // bytes
	MaxModel   = 128      // bytes
	MaxThread  = 256      // bytes of a thread to go on with
	MaxEnv     = 64       // names
	MaxEnvName = 128      // bytes
)

// Mode is what an agent may do to the machine.
type Mode string

// The modes, from the least to the most.
const (
	ReadOnly       Mode = "read-only"
	WorkspaceWrite Mode = "workspace-write"
	DangerFull     Mode = "danger-full-access"
)

// Writes reports whether an agent in mode m may change files.
func (m Mode) Writes() bool { return m != ReadOnly }

// EnvPolicy says which of the worker's environment variables an agent gets.
type EnvPolicy struct {
	Policy string   `json:"policy,omitempty"` // one of the Inherit constants; "": InheritNone
	Allow  []string `json:"allow,omitempty"`  // names, for InheritList
}

// The policies of an environment.
const (
	InheritNone = "inherit-none" // what a program needs to run, and what is configured
	InheritAll  = "inherit-all"
	InheritList = "allow-list" // as InheritNone, and the names of the list
)

// FieldError is what is wrong with one field of a [Task]. It never quotes a value.
type FieldError struct {
	Field   string // as in the JSON of a Task
	Problem string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// Check reports everything that is wrong with t, each a [FieldError].
func (t *Task) Check() error {
	var errs []error
	wrong := func(field, format string, a ...any) {
		errs = append(errs, &FieldError{field, fmt.Sprintf(format, a...)})
	}
	for field, err := range map[string]error{"run": CheckID(t.Run), "agent": CheckAgent(t.Agent), "labels": CheckLabels(t.Labels)} {
		if err != nil {
			wrong(field, "%s", strings.TrimPrefix(err.Error(), field+": "))
		}
	}
	text := func(field, s string, most int) {
		switch {
		case len(s) > most:
			wrong(field, "at most %d bytes, got %d", most, len(s))
		case s != "" && (!printable(s) || strings.TrimSpace(s) != s):
			wrong(field, "must be printable text without white space around it")
		}
	}
	switch n := utf8.RuneCountInString(t.Prompt); {
	case !utf8.ValidString(t.Prompt) || strings.ContainsRune(t.Prompt, 0):
		wrong("prompt", "must be UTF-8 text without NUL")
	case strings.TrimSpace(t.Prompt) == "":
		wrong("prompt", "must not be blank")
	case n > MaxPrompt:
		wrong("prompt", "at most %d characters, got %d", MaxPrompt, n)
	}
	switch t.Mode {
	case ReadOnly, WorkspaceWrite, DangerFull:
	default:
		wrong("mode", "must be one of %s, %s, %s", ReadOnly, WorkspaceWrite, DangerFull)
	}
	text("dir", t.Dir, MaxDir)
	if t.Dir != "" && (t.Dir[0] != '/' || strings.Contains(t.Dir+"/", "/../")) {
		wrong("dir", "must be an absolute path without ..")
	}
	text("model", t.Model, MaxModel)
	text("thread", t.Thread, MaxThread)
	if len(t.Schema) > MaxSchema {
		wrong("output_schema", "at most %d bytes, got %d", MaxSchema, len(t.Schema))
	} else if len(t.Schema) > 0 && (!json.Valid(t.Schema) || t.Schema[0] != '{') {
		wrong("output_schema", "must be a JSON object")
	}
	t.Env.check(wrong)
	if t.Governance != "" && CheckGovernance(t.Governance) != nil {
		wrong("governance_context", "must be printable ASCII, at most %d bytes", MaxGovernance)
	}
	if t.Idle < 0 {
		wrong("idle_s", "must not be negative")
	}
	if t.Hard < 0 {
		wrong("hard_s", "must not be negative")
	}
	return errors.Join(errs...)
}

func (p EnvPolicy) check(wrong func(field, format string, a ...any)) {
	switch p.Policy {
	case "", InheritNone, InheritAll, InheritList:
	default:
		wrong("env.policy", "must be one of %s, %s, %s", InheritNone, InheritAll, InheritList)
	}
	if len(p.Allow) > MaxEnv {
		wrong("env.allow", "at most %d names, got %d", MaxEnv, len(p.Allow))
	}
	for _, name := range p.Allow {
		if CheckEnvName(name) != nil {
			wrong("env.allow", "a name must be letters, digits and '_', at most %d, and begin with no digit", MaxEnvName)
			return
		}
		if strings.HasPrefix(name, "LINESMAN_") {
			wrong("env.allow", "linesman's own variables may hold credentials: only a worker's configuration can pass them")
			return
		}
	}
}

// CheckEnvName reports why name is no name of an environment variable.
func CheckEnvName(name string) error {
	ok := name != "" && len(name) <= MaxEnvName && (name[0] < '0' || name[0] > '9')
	for i := 0; ok && i < len(name); i++ {
		c := name[i]
		ok = 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
	}
	if !ok {
		return fmt.Errorf("environment variable: letters, digits and '_', 1 to %d of them, no digit first", MaxEnvName)
	}
	return nil
}
