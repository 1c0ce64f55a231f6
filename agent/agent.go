// Package agent describes the coding agents that linesman starts and whose output
// it understands.
//
//	                ┌─ Backend: lines ─▶ events
//	known.Agents ─▶ Agent ─┼─ Launch: a task ─▶ command line, environment
//	                └─ Name, Program, Tested, …: what help, run and doctor print
//
// Each agent is one [Agent], made by a package of its own below this one, and one
// line in the table of package known. Everything else takes the agents from a
// [Table] and names none of them.
package agent

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// Agent is one kind of agent.
type Agent struct {
	// Name is the name that people read: "Claude Code". Short is the one that they type:
	// "claude", of --agent, of a request, and of the settings agents.SHORT.command and
	// agents.SHORT.env.
	Name, Short string
	// Backend has the kind of the agent and maps its lines to events.
	Backend normalizer.Backend
	// LastMessage returns the text of the last message of the agent in a part of
	// its output, whose first line may be the end of a line. Nil: not known.
	LastMessage func(output []byte) (text string, ok bool)
	// Live is how it speaks the Agent Client Protocol; without a program, it does not. Backend reads
	// the lines of that, too. An agent without Launch.Args speaks nothing else: each of its tasks is live.
	Live acp.Agent

	// Models begins the names of the models that only this agent offers, as in requests that name a
	// model and no agent. "": none.
	Models string

	// Program is the program's name on the PATH, and the default of its setting.
	Program string
	// JSONCall is the command line that people type for JSON lines. JSONWords are the words
	// that such a command line has: one of each list.
	JSONCall  string
	JSONWords [][]string
	// Sandbox says what keeps a task of mode workspace-write in its directory, for people.
	Sandbox string
	// Install is the command that installs the program.
	Install string
	// Tested is the version that linesman was tested with. The program prints its
	// own with --version.
	Tested string
	Known  []string // further versions that linesman is known to read
	// Tools are the tools that it comes with.
	Tools Tools
	// Provider is the provider of its models, as OpenTelemetry names it. "": the one in the name of a
	// model, PROVIDER/MODEL.
	Provider string
	// Counters are those in its events.
	Counters Counters
	// Pieces reports that it prints a message in pieces. Else each text is a message.
	Pieces bool
	// Sessions is where the agent keeps logs of its sessions. Their lines are read by
	// Backend, too. The zero value: nowhere, or not known.
	Sessions Sessions

	Launch
}

// Launch is how an agent is started for a task.
type Launch struct {
	// Args returns the arguments that follow the command, for a task that passed
	// Check. t.Dir is absolute. schemaFile is the path of a file with t.Schema, or
	// "" if t has none. If the prompt of t is empty, the agent reads it from stdin; else stdin is
	// empty.
	//
	// The content of a task is data: each value is an argument of its own, never
	// part of a shell command, and cannot become a flag.
	//
	// Nil: it has no command line for a task, and speaks the Agent Client Protocol only.
	Args func(t runs.Task, schemaFile string) []string
	// Stdin reports that short prompts are on stdin, too: the agent would alter an argument.
	Stdin bool
	// Check reports why the agent cannot run a task, as a [runs.FieldError]. Nil:
	// it can run all.
	Check func(t runs.Task) error
	// Env has the environment variables that the agent needs, beside those that
	// every program needs: they pass under every policy.
	Env []string
	// Keys are the variables with the credentials of the agent's own vendor, and what belongs
	// to them, such as the address that they are for. They pass as Env does, unless the setting
	// agents.SHORT.keys is off.
	Keys []string
	// Others are variables with credentials of other vendors that the agent uses. They do not
	// pass by themselves; linesman says so where one is set.
	Others []string
	// Set returns variables for a task, as NAME=value, which are stronger than others. Nil:
	// none.
	Set func(t runs.Task) []string
	// SetLive is Set for a live run. Nil: none.
	SetLive func(t runs.Task) []string
	// Able are its capabilities beside those of each agent, and AbleIf further ones that depend on the version or the
	// settings of a worker. Without Able nothing is proven of it, and it has none. Flags are the flags of the options
	// among them, by their ids.
	Able, AbleIf []string
	Flags        map[string]string
	// AbleLive are those of Able that a live run has, too, beside what all have: its agent offers each in the answer to
	// `initialize`.
	AbleLive []string
	// Prompt returns the prompt in a command line of this agent, of a task or typed by a
	// person: "" if there is none, or if it is not certain. Nil: not known.
	Prompt func(argv []string) string
	// Thread returns the thread in a command line of this agent that resumes it, or forks it: "" if
	// there is none, or if it is not certain. Nil: not known.
	Thread func(argv []string) (id string, forks bool)
	// NoSession reports whether stderr, all of it, says that there is no session of the thread to resume or to fork.
	// Nil: that is never certain.
	NoSession func(stderr []byte) bool
	// Command is the program and its first arguments, as configured.
	Command []string
	// ACP is the program, with its arguments, that serves the Agent Client Protocol, as configured. Nil:
	// there is none.
	ACP []string
	// Logs is where Command keeps the logs of its sessions. The zero value: nowhere, or not
	// known, for example because it is a program of the user.
	Logs Sessions
	// Setting is the name of the setting that passes further variables.
	Setting string
}

// Withheld returns the credentials that are set in environ, that the agent would use, and that a
// task does not get: passed is its environment. Both are as of [os.Environ]. Nil: there are none.
func (l Launch) Withheld(environ, passed []string) *runs.Withheld {
	var names []string
	for _, name := range slices.Concat(l.Keys, l.Others) {
		set := slices.ContainsFunc(environ, func(v string) bool {
			return len(v) > len(name)+1 && strings.HasPrefix(v, name+"=")
		})
		passes := slices.ContainsFunc(passed, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		if set && !passes {
			names = append(names, name)
		}
	}
	if names == nil {
		return nil
	}
	return &runs.Withheld{Names: names[:min(len(names), runs.MaxWithheld)], Setting: l.Setting}
}

// OnStdin reports whether the agent gets a prompt on stdin: an argument of a program has a limit, and
// is shown to all users of the machine for as long as the program runs.
func (l Launch) OnStdin(prompt string) bool {
	return l.Stdin || utf8.RuneCountInString(prompt) > runs.MaxShortPrompt
}

// Argv returns the command line for a task, without its prompt if that is on stdin; that of the Agent Client
// Protocol if there is no other.
func (l Launch) Argv(t runs.Task, schemaFile string) []string {
	if l.Args == nil {
		return l.ACP
	}
	if l.OnStdin(t.Prompt) {
		t.Prompt = ""
	}
	return slices.Concat(l.Command, l.Args(t, schemaFile))
}

// Speaker returns an agent of which nothing else is known than how it speaks the Agent Client Protocol. Its names
// are its kind.
func Speaker(kind string, live acp.Agent) Agent {
	return Agent{
		Name: kind, Short: kind, Backend: acp.Backend{Kind: kind, Live: &live}, Live: live,
		Counters: Counters{
			Input: "input_tokens", Cached: "cached_input_tokens", Written: "cache_write_input_tokens",
			Output: "output_tokens", Reasoning: "reasoning_output_tokens",
		},
		Sandbox: "none: linesman answers what it asks for, by the mode",
	}
}

// CheckName returns an error unless a configuration may name an agent so: it is a kind that no other source of
// runs has, and not a word of the command line.
func CheckName(name string) error {
	if slices.Contains([]string{"auto", runs.AgentExternal, "codex_cloud"}, name) {
		return errors.New("agent: the name has another meaning")
	}
	return runs.CheckAgent(name)
}

// LiveOnly reports whether each task of the agent is a live run: it has no other command line.
func (a Agent) LiveOnly() bool { return a.Args == nil && a.Live.Program != "" }

// Kind returns the kind: the agent_kind of events, a token of subjects, and the
// agent of a request. It matches ^[a-z][a-z0-9_]*$.
func (a Agent) Kind() string { return a.Backend.Agent() }

var uuid = regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)

// IsUUID reports whether text is a UUID, as the ids of sessions of several agents are.
func IsUUID(text string) bool { return uuid.MatchString(text) }

// CheckThread returns a [runs.FieldError] if t resumes or forks a thread whose id is not valid.
func CheckThread(t runs.Task, valid func(id string) bool, form string) error {
	field := "threadId"
	if t.ForkedFrom != "" {
		field = "fork"
	}
	if id := t.Earlier(); id != "" && !valid(id) {
		return &runs.FieldError{Field: field, Problem: "must be the id of a " + form}
	}
	return nil
}

// Table has the known agents, each kind once.
type Table []Agent

// Find returns the agent of a kind or a short name, false if there is none.
func (t Table) Find(name string) (Agent, bool) {
	return t.find(func(a Agent) bool { return a.Kind() == name || a.Short == name })
}

// Of returns the agent of a kind. Of one that is not in the table it is what all have in common that only speak
// the Agent Client Protocol.
func (t Table) Of(kind string) Agent {
	if a, ok := t.Find(kind); ok {
		return a
	}
	return Speaker(kind, acp.Agent{})
}

// Named is Find with an error that lists the names.
func (t Table) Named(name string) (Agent, error) {
	a, known := t.Find(name)
	if !known {
		return a, fmt.Errorf("%q is not known; there is: %s", name, strings.Join(t.Names(), ", "))
	}
	return a, nil
}

// OfModel returns the agent that a model tells by its name, false if none does.
func (t Table) OfModel(model string) (Agent, bool) {
	return t.find(func(a Agent) bool { return a.Models != "" && strings.HasPrefix(model, a.Models) })
}

func (t Table) find(match func(Agent) bool) (Agent, bool) {
	if i := slices.IndexFunc(t, match); i >= 0 {
		return t[i], true
	}
	return Agent{}, false
}

// Detect returns the agent that printed some lines: the one whose dialect understands more
// of them than any other. It returns false if there is no such agent.
func (t Table) Detect(lines [][]byte) (best Agent, ok bool) {
	most := 0
	for _, a := range t {
		d, understood := a.Backend.Dialect(), 0
		for i, line := range lines {
			for _, record := range recordsOf(line, i == 0) {
				var out normalizer.Out
				if d.Line(record, &out) == normalizer.NoFault && !out.Facts.Unknown {
					understood++
					if out.Session != "" { // only one of them finds the session
						understood++
					}
				}
			}
		}
		switch {
		case understood > most:
			best, most, ok = a, understood, true
		case understood == most:
			ok = false
		}
	}
	return best, ok
}

// recordsOf returns the records in a line, which may be damaged.
func recordsOf(line []byte, first bool) [][]byte {
	line = normalizer.Trim(line, first)
	if records, _ := normalizer.Salvage(line); len(records) > 0 {
		return records
	}
	return [][]byte{line}
}

// Names returns the short names, in the order of the table.
func (t Table) Names() []string {
	names := make([]string, len(t))
	for i, a := range t {
		names[i] = a.Short
	}
	return names
}

// Kinds returns the kinds, in the order of the table.
func (t Table) Kinds() []string {
	kinds := make([]string, len(t))
	for i, a := range t {
		kinds[i] = a.Kind()
	}
	return kinds
}

// Backends returns the backends, in the order of the table.
func (t Table) Backends() []normalizer.Backend {
	backends := make([]normalizer.Backend, len(t))
	for i, a := range t {
		backends[i] = a.Backend
	}
	return backends
}
