package programs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

// AskTime is how long a program may take to say its version. Some take seconds on a busy
// machine.
const AskTime = 15 * time.Second

// Agent is an agent of the table on this machine. Its JSON form is a contract.
type Agent struct {
	Name  string `json:"name"`  // for people
	Short string `json:"agent"` // of --agent and of requests
	Kind  string `json:"agent_kind"`

	Command []string `json:"command"`           // as configured
	Path    string   `json:"path,omitempty"`    // of the program; "": it was not found
	Version string   `json:"version,omitempty"` // "": it did not say it
	Support Support  `json:"support,omitempty"` // of the version
	Problem string   `json:"problem,omitempty"` // why there is no version
	Fix     string   `json:"fix,omitempty"`     // what to do about it
	Slow    bool     `json:"slow,omitempty"`    // the problem is that it did not answer within AskTime
	Install string   `json:"install"`
	Default bool     `json:"default"` // the command is the program's name

	Tested    string     `json:"tested"`
	Known     []string   `json:"known"`
	Prints    string     `json:"prints"` // the command line that prints JSON lines
	Variables []Variable `json:"variables"`
	Setting   string     `json:"setting"` // that names further variables to pass
	// Withheld says which credentials are set here that a task does not get; "": none. The environment of
	// a worker may be another one.
	Withheld string `json:"withheld,omitempty"`
	Sandbox  string `json:"sandbox"`
	Modes    []Mode `json:"modes"`

	// Capabilities of its tasks, sorted: ids of the Universal Agent API. Some depend on the settings here.
	Capabilities []string `json:"capabilities"`

	Live *Live `json:"live,omitempty"` // nil: it has no live runs

	// Drift is what recent runs printed that linesman does not know, if a linesman can be
	// reached that has them.
	Drift []string `json:"drift,omitempty"`
}

// Live is the program that serves the Agent Client Protocol. An adapter is another one than that of the agent.
type Live struct {
	Command []string `json:"command"`           // as configured
	Path    string   `json:"path,omitempty"`    // "": it was not found
	Install string   `json:"install,omitempty"` // the command that installs it; "": not known
	Version string   `json:"version,omitempty"` // of an adapter; "": not known
	Tested  string   `json:"tested,omitempty"`  // version of an adapter that linesman was tested with
	Problem string   `json:"problem,omitempty"` // why it was not found
	Fix     string   `json:"fix,omitempty"`     // what to do about it
}

// Ready reports whether the program was found and, if it was asked, said its version.
func (a Agent) Ready() bool { return a.Problem == "" }

// Support is what is known of a version.
type Support string

// The supports.
const (
	Tested  Support = "tested"  // linesman was tested with it
	Known   Support = "known"   // what it prints was played, and understood
	Unknown Support = "unknown" // it may print something that linesman does not know
)

// Variable is an environment variable that tasks of an agent get. Its value may be a secret.
type Variable struct {
	Name string `json:"name"`
	Set  bool   `json:"set"` // here: the environment of a worker may be another one
}

// Mode is how an agent is started for a task of one mode. Words in capitals stand for the
// values of a task.
type Mode struct {
	Mode    runs.Mode `json:"mode"`
	Allowed bool      `json:"allowed"` // by the settings here
	Argv    []string  `json:"argv"`
	Resume  []string  `json:"resume"` // the same with a model, in an earlier session; empty if it has no such line
	Env     []string  `json:"env"`    // variables that are set, as NAME=value
}

// Here is where agents are looked for: how they are started, by kind, and the environment
// from which their variables are taken.
type Here struct {
	Launches map[string]agent.Launch
	Danger   bool          // tasks may run without a sandbox
	Boxed    bool          // there is a sandbox around this machine
	Environ  []string      // nil: that of this process
	Ask      time.Duration // how long a program may take to say its version; 0: AskTime
}

// List looks for the agents of a table, or for the one of a name that is not "", and asks
// their programs for their versions, all at the same time. It takes up to AskTime. The
// error is that of an unknown name, or of ctx.
func (h Here) List(ctx context.Context, table agent.Table, name string) ([]Agent, error) {
	if name != "" {
		one, err := table.Named(name)
		if err != nil {
			return nil, err
		}
		table = agent.Table{one}
	}
	if h.Environ == nil {
		h.Environ = os.Environ()
	}
	all := make([]Agent, len(table))
	var group sync.WaitGroup
	for i, a := range table {
		group.Go(func() { all[i] = h.look(ctx, a) })
	}
	group.Wait()
	return all, ctx.Err()
}

func (h Here) look(ctx context.Context, a agent.Agent) Agent {
	how := h.Launches[a.Kind()]
	setting := "agents." + a.Short
	l := Agent{
		Name: a.Name, Short: a.Short, Kind: a.Kind(), Command: how.Command, Install: a.Install, Tested: a.Tested,
		Default: slices.Equal(how.Command, []string{a.Program}),
		Known:   append([]string{}, a.Known...), Prints: a.JSONCall, Sandbox: a.Sandbox, Setting: setting + ".env",
		Variables: variables(how.Env, h.Environ), Modes: modes(how, h.Danger),
		Capabilities: how.Capabilities(launch.Rules{Boxed: h.Boxed}.Allows()...),
	}
	if w := how.Withheld(h.Environ, launch.Environ(runs.EnvPolicy{}, how.Env, h.Environ)); w != nil {
		l.Withheld = w.String()
	}
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	if len(how.ACP) > 0 {
		l.Live = &Live{Command: how.ACP, Install: a.Live.Install, Tested: a.Live.Tested}
		p, found := Find(a, agent.Launch{Command: how.ACP[:1], Env: how.Env}, dir, h.Environ)
		if l.Live.Path = p.Path; !found {
			l.Live.Problem, l.Live.Fix = missing(how.ACP[0], a.Live.Install, setting+".acp")
		} else if a.Live.Tested != "" {
			l.Live.Version = packaged(p.Path, a.Live.Package())
		}
	}
	if a.Args == nil {
		setting += ".acp"
	} else {
		setting += ".command"
	}
	p, found := Find(a, how, dir, h.Environ)
	if !found {
		l.Problem, l.Fix = missing(how.Command[0], a.Install, setting)
		return l
	}
	if l.Path = p.Path; a.Args == nil && !p.Own { // a program of the user, which may be a server whatever it is asked
		return l
	}
	if l.Version, err = p.Version(ctx, cmp.Or(h.Ask, AskTime)); err != nil {
		l.Problem = fmt.Sprintf("%s --version: %v", strings.Join(p.argv, " "), err)
		l.Fix = "run that yourself; if it fails, install it again, or set " + setting
		if l.Slow = errors.Is(err, errLate); l.Slow {
			l.Fix = "the machine is busy, or the program waits: run that yourself"
		}
		return l
	}
	switch {
	case l.Version == a.Tested:
		l.Support = Tested
	case slices.Contains(a.Known, l.Version):
		l.Support = Known
	default:
		l.Support = Unknown
	}
	return l
}

// missing says why a program was not found, and what to do. Install is the command that installs it, "" if that is
// not known.
func missing(program, install, setting string) (problem, fix string) {
	if !strings.Contains(program, "/") {
		if install != "" {
			install += ", or "
		}
		return program + " is not on the PATH", install + "set " + setting
	}
	problem = program + " cannot be executed"
	if _, err := os.Stat(program); err != nil {
		problem = program + " does not exist"
	}
	return problem, "set " + setting + " to the path of the program"
}

func variables(names, environ []string) []Variable {
	all := []Variable{}
	for _, name := range names {
		set := slices.ContainsFunc(environ, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		all = append(all, Variable{name, set})
	}
	return all
}

// modes returns the command lines of an agent, as [agent.Launch] makes them.
func modes(how agent.Launch, danger bool) (all []Mode) {
	for _, mode := range []runs.Mode{runs.ReadOnly, runs.WorkspaceWrite, runs.DangerFull} {
		t := runs.Task{Attributes: runs.Attributes{Mode: mode, Dir: "DIR"}, Prompt: "PROMPT"}
		m := Mode{Mode: mode, Allowed: danger || mode != runs.DangerFull, Argv: how.Argv(t, ""), Env: []string{}}
		if how.Set != nil {
			m.Env = how.Set(t)
		}
		t.Model, t.Thread = "MODEL", "SESSION"
		if m.Resume = []string{}; how.Args != nil {
			m.Resume = how.Argv(t, "")
		}
		all = append(all, m)
	}
	return all
}
