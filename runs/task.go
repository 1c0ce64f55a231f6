package runs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Attributes are what is said of a run everywhere: in requests, in the work queue, in run.json, in RAW and in
// lists. They have nothing that a caller who may read runs must not see: no prompt, no environment.
type Attributes struct {
	Agent string `json:"agent,omitempty"` // kind of the agent, see [CheckAgent]
	// What the run is for, at most 120 characters: as its submitter named it, else the first line of its prompt,
	// redacted, see [Title].
	Title  string `json:"title,omitempty"`
	Dir    string `json:"workingDir,omitempty"` // working directory, absolute, see [MaxDir]
	Model  string `json:"model,omitempty"`      // model of the agent; absent: its default, or unknown, see [MaxModel]
	Thread string `json:"threadId,omitempty"`   // thread of the run; of a task: the one to resume, see [MaxThread]
	// Thread of which that of the run is a copy, see [MaxThread]; of a task: the one to fork. Absent: it is none, or
	// not known.
	ForkedFrom string `json:"forkedFrom,omitempty"`
	Mode       Mode   `json:"mode,omitempty"`   // what the agent may do; absent: not recorded
	Labels     Labels `json:"labels,omitempty"` // labels of the run, see [Labels.Check]
}

// Task is a request to an agent: the prompt, and the settings of the run.
type Task struct {
	Attributes
	Prompt  string          `json:"prompt"`                 // 1 to MaxPrompt bytes, not blank
	Schema  json.RawMessage `json:"outputSchema,omitempty"` // JSON Schema of the answer, an object; MaxSchema
	SkipGit bool            `json:"skipGitRepoCheck,omitempty"`
	// Live starts the agent as a server of the Agent Client Protocol: it may ask while it works. Without it
	// an agent runs by its command line, if it has one.
	Live bool `json:"live,omitempty"`
	// Ask says whether people are asked what the policy of the mode does not allow; else it is denied. Absent: they are.
	// Only with Live.
	Ask *bool `json:"ask,omitempty"`
	// Keep lets the run go on after its first turn, for further messages, until somebody ends it. Only with Live.
	Keep bool `json:"keep,omitempty"`
	// Policy are rules that deny, or let people be asked, what the worker would allow. Only with Live.
	Policy []string `json:"policy,omitempty"`
	// AddDirs are further directories that the agent may use, 1 to 16, each of at most 1024 bytes: absolute, or relative
	// to the working directory. Not with Live.
	AddDirs []string `json:"addDirs,omitempty"`
	// Unboxed starts the agent without its own sandbox and checks, as there is a sandbox around the worker: only a
	// worker with the setting work.external_sandbox does. The mode is danger-full-access. Not with Live.
	Unboxed *bool     `json:"externalSandbox,omitempty"`
	Env     EnvPolicy `json:"env,omitzero"`
	Idle    int64     `json:"idleTimeoutSec,omitempty"` // idle limit in seconds; 0: that of the worker
	Hard    int64     `json:"timeoutSec,omitempty"`     // hard limit in seconds; 0: that of the worker

	// Within is a directory that Dir is in or below once all links are resolved, else the worker refuses the task; "":
	// it may be elsewhere. Only linesman sets it.
	Within string `json:"within,omitempty"`

	// Governance is an opaque token of the caller, see [CheckGovernance]; "": none.
	// It is stored with the run and returned unchanged, and never interpreted.
	Governance string `json:"governanceContext,omitempty"`

	// Type is the name of the request that submitted the task, of letters, digits, '_' and '-', at most maxType bytes;
	// "": not told. It is in the entry of the queued run alone.
	Type string `json:"-"`
}

// QueuedTask is the message in the work queue: a task that has a run.
type QueuedTask struct {
	Run string `json:"run"` // run id, see [CheckID]
	Task
}

// Earlier returns the thread that a task resumes or forks; "": it begins a new one.
func (a Attributes) Earlier() string { return cmp.Or(a.Thread, a.ForkedFrom) }

// Terms are what was asked for a live run, beside what its mode allows: see [Task].
type Terms struct {
	Ask    bool     `json:"ask,omitempty"`    // people are asked what its mode does not allow; else it is denied
	Policy []string `json:"policy,omitempty"` // rules that deny, or let people be asked, what the worker would allow
}

// Asks reports whether people are asked.
func (t *Task) Asks() bool { return t.Live && (t.Ask == nil || *t.Ask) }

// OfRun returns the attributes of the run of t: without a title it has that of its prompt.
func (t *Task) OfRun() Attributes {
	a := t.Attributes
	a.Title = cmp.Or(a.Title, Title(t.Prompt))
	return a
}

// Entry returns the queued entry of the run; at is in Unix milliseconds.
func (t *QueuedTask) Entry(queue string, work uint64, at int64) Entry {
	return Entry{Kind: Queued, Time: at, Body: Encode(Start{
		Source: SourceQueue, Attributes: t.OfRun(), Queue: queue, Work: work, Governance: t.Governance,
		Keep: t.Keep, Type: t.Type,
	})}
}

// Limits of a task.
const (
	MaxPrompt  = 1 << 20  // bytes
	MaxSchema  = 64 << 10 // bytes
	MaxDir     = 4096     // bytes
	MaxModel   = 128      // bytes
	MaxThread  = 256      // bytes of a thread to resume
	maxType    = 64       // bytes of the name of a request
	MaxEnv     = 64       // names
	maxEnvName = 128      // bytes

	MaxPolicy     = 32 // rules
	maxPolicyJSON = 4 << 10
)

// MaxShortPrompt is the maximum length, in characters, of a prompt that an agent gets as an argument; it
// gets a longer one on stdin, and an agent that would alter arguments all. It is also that of the prompts of the v3.6
// tools, of Codex Cloud and of a [Question].
const MaxShortPrompt = 10_000

// Mode is the access of an agent to the machine.
type Mode string

// The modes, in ascending order of access.
const (
	ReadOnly       Mode = "read-only"
	WorkspaceWrite Mode = "workspace-write"
	DangerFull     Mode = "danger-full-access"
)

// Modes are all of them, in this order.
var Modes = []Mode{ReadOnly, WorkspaceWrite, DangerFull}

func (m Mode) known() bool { return slices.Contains(Modes, m) }

// Within reports whether m allows at most what another mode allows.
func (m Mode) Within(other Mode) bool { return slices.Index(Modes, m) <= slices.Index(Modes, other) }

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
	Field   string // as in the JSON of a Task; fork is ForkedFrom
	Problem string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Problem }

// fieldErrors collects a [FieldError] for each mistake.
type fieldErrors []error

func (f *fieldErrors) add(field, format string, a ...any) {
	*f = append(*f, &FieldError{field, fmt.Sprintf(format, a...)})
}

// addErr adds err, if there is one. Its text may begin with the name of the field.
func (f *fieldErrors) addErr(field string, err error) {
	if err != nil {
		f.add(field, "%s", strings.TrimPrefix(err.Error(), field+": "))
	}
}

// addText adds a mistake of a text that has too many bytes, or is not one line of printable text.
func (f *fieldErrors) addText(field, s string, limit int) {
	switch {
	case len(s) > limit:
		f.add(field, "at most %d bytes, got %d", limit, len(s))
	case s != "" && (!printable(s) || strings.TrimSpace(s) != s):
		f.add(field, "must be printable text without white space around it")
	}
}

// Check returns all errors of t, each as a [FieldError].
func (t *QueuedTask) Check() error {
	var wrong fieldErrors
	wrong.addErr("run", CheckID(t.Run))
	return errors.Join(append(wrong, t.Task.Check())...)
}

// Check returns all errors of t, each as a [FieldError].
func (t *Task) Check() error {
	var wrong fieldErrors
	t.Attributes.check(&wrong)
	switch n := len(t.Prompt); {
	case !utf8.ValidString(t.Prompt) || strings.ContainsRune(t.Prompt, 0):
		wrong.add("prompt", "must be UTF-8 text without NUL")
	case strings.TrimSpace(t.Prompt) == "":
		wrong.add("prompt", "must not be blank")
	case n > MaxPrompt:
		wrong.add("prompt", "at most %d bytes, got %d", MaxPrompt, n)
	}
	if len(t.Schema) > MaxSchema {
		wrong.add("outputSchema", "at most %d bytes, got %d", MaxSchema, len(t.Schema))
	} else if len(t.Schema) > 0 && (!json.Valid(t.Schema) || t.Schema[0] != '{') {
		wrong.add("outputSchema", "must be a JSON object")
	}
	if t.Live && len(t.Schema) > 0 {
		wrong.add("outputSchema", "not with live: the protocol has no schemas of answers")
	}
	if t.ForkedFrom != "" && t.Thread != "" {
		wrong.add("fork", "not with a thread to resume")
	}
	if t.Keep && !t.Live {
		wrong.add("keep", "only with live")
	}
	if t.Ask != nil && !t.Live {
		wrong.add("ask", "only with live")
	}
	if len(t.Policy) > 0 && !t.Live {
		wrong.add("policy", "only with live")
	}
	if len(t.Policy) > MaxPolicy || len(Encode(t.Policy)) > maxPolicyJSON {
		wrong.add("policy", "at most %d rules, and %d bytes as JSON", MaxPolicy, maxPolicyJSON)
	}
	t.checkOptions(&wrong)
	t.Env.check(wrong.add)
	if t.Governance != "" && CheckGovernance(t.Governance) != nil {
		wrong.add("governanceContext", "must be printable ASCII, at most %d bytes", MaxGovernance)
	}
	if t.Idle < 0 {
		wrong.add("idleTimeoutSec", "must not be negative")
	}
	if t.Hard < 0 {
		wrong.add("timeoutSec", "must not be negative")
	}
	return errors.Join(wrong...)
}

func (a *Attributes) check(wrong *fieldErrors) {
	wrong.addErr("agent", CheckAgent(a.Agent))
	wrong.addErr("labels", a.Labels.Check())
	if !a.Mode.known() {
		wrong.add("mode", "must be one of %s, %s, %s", ReadOnly, WorkspaceWrite, DangerFull)
	}
	wrong.addText("workingDir", a.Dir, MaxDir)
	if a.Dir != "" && (a.Dir[0] != '/' || strings.Contains(a.Dir+"/", "/../")) {
		wrong.add("workingDir", "must be an absolute path without ..")
	}
	wrong.addText("model", a.Model, MaxModel)
	wrong.addText("threadId", a.Thread, MaxThread)
	wrong.addText("fork", a.ForkedFrom, MaxThread)
	switch n := utf8.RuneCountInString(a.Title); {
	case n > MaxTitle:
		wrong.add("title", "at most %d characters, got %d", MaxTitle, n)
	case a.Title != "" && (!printable(a.Title) || strings.TrimSpace(a.Title) != a.Title):
		wrong.add("title", "must be one line of printable text without white space around it")
	}
}

// foldAttributes folds those of a queued or start entry.
func (r *Record) foldAttributes(a Attributes) {
	r.setDir(a.Dir)
	if title := Title(a.Title); title != "" {
		r.Title = title
	}
	r.setModel(a.Model)
	if a.Mode.known() {
		r.Mode = a.Mode
	}
	if a.Labels != "" && a.Labels.Check() == nil {
		r.Labels = a.Labels
		if task := r.Labels.Value(LabelContinues); isLink(r.ID, task) {
			r.Continues = task
		}
	}
	if from := a.Earlier(); r.Thread == "" && from != "" && len(from) <= MaxThread {
		r.Resumes, r.ForkedFrom = from, a.ForkedFrom
	}
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
