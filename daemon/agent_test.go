package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/doctor"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// parrot is an agent that no package of linesman knows: all of it is in this file. Its program prints
// what it says, which sticks it breaks, and how many words it has used.
func parrot(program string) agent.Agent {
	return agent.Agent{
		Name: "Parrot", Short: "parrot", Backend: parrotBackend{}, Program: program, Tested: "1.2.3", Install: "buy a cage",
		Tools:    agent.Tools{Classes: map[string]agent.Class{"break": agent.FileChange}, Inner: []string{"break"}},
		Counters: agent.Counters{Input: "heard", Cached: "repeated", Output: "said", Apart: true, Thread: true},
		Provider: "jungle", Pieces: true,
		Launch: agent.Launch{
			Env: []string{"PARROT_HOME"},
			Args: func(t runs.Task, _ string) []string {
				return []string{"--mode=" + string(t.Mode), "--model=" + t.Model, "--resume=" + t.Thread, "--", t.Prompt}
			},
			Able: []string{agent.ToolsStructured}, AbleIf: []string{runs.CanUnboxed},
			Check: func(t runs.Task) error {
				if t.Model == "raven" {
					return &runs.FieldError{Field: "model", Problem: "is another bird"}
				}
				return nil
			},
		},
	}
}

type parrotBackend struct{}

func (parrotBackend) Agent() string               { return "parrot" }
func (parrotBackend) Dialect() normalizer.Dialect { return parrotDialect{} }

type parrotDialect struct{}

func (parrotDialect) Line(line []byte, out *normalizer.Out) normalizer.Fault {
	var l struct {
		Says, Session, Breaks string
		Used                  json.RawMessage
	}
	if json.Unmarshal(line, &l) != nil {
		return normalizer.Fault(scan.InvalidJSON)
	}
	out.Session, out.Facts.Thread = l.Session, l.Session
	switch {
	case l.Breaks != "":
		f := normalizer.Facet{Kind: "tool_use", Phase: "complete", Status: "completed", ToolName: "break", UseID: l.Breaks}
		out.Tool(normalizer.ToolResult, &f)
	case l.Used != nil:
		out.Facts.Used = &runs.Account{Usage: runs.Usage{Input: 10, CachedInput: 6, Output: 3}}
		out.Facts.Turn = runs.TurnCompleted
		out.Event(normalizer.StatusMessage("turn completed", []byte(`{"schema":"backend.parrot.usage.v1","usage":`+
			string(l.Used)+`}`)))
	default:
		out.Event(normalizer.AssistantText(l.Says))
		out.Final(l.Says)
	}
	return normalizer.NoFault
}

func (parrotDialect) State() ([]byte, error) { return []byte("{}"), nil }
func (parrotDialect) Restore([]byte) error   { return nil }

// aviary is an `up` whose table of agents has the parrot, too.
type aviary struct {
	*client.Client
	bus    *bus.Bus
	config daemon.Config
}

// newAviary starts an `up` with a parrot whose program is a script of the shell. Settings and console have
// the table of the program: for the test it is that with the parrot.
func newAviary(t *testing.T, script string) *aviary {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "parrot")
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	before := known.Agents
	t.Cleanup(func() { known.Agents = before })
	known.Agents = append(slices.Clone(before), parrot(program))
	settings := config.Default()
	settings.DataDir, settings.NATSListen, settings.HTTP = filepath.Join(dir, "data"), "127.0.0.1:0", ""
	settings.Work.Roots = config.List{dir}
	a := &aviary{config: daemon.Config{
		Settings: settings, Agents: known.Agents, Registry: prometheus.NewRegistry(),
		Environ: []string{"PATH=" + os.Getenv("PATH"), "PARROT_HOME=/perch", "OTHER_HOME=/other"},
	}}
	ctx, cancel := context.WithCancel(t.Context())
	d, err := daemon.New(ctx, a.config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := d.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	b, err := d.Server.Connect(bus.WithPatience(ctx, fixture.Patience/2), embedded.OperatorUser)
	if err != nil {
		t.Fatal(err)
	}
	a.bus, a.Client = b, client.New(b)
	return a
}

// An agent is one entry of the table: with it alone tasks of the agent are checked,
// started, understood and answered for, and doctor knows its program.
func TestAgentIsOneEntryOfTheTable(t *testing.T) {
	c := newAviary(t, `#!/bin/sh
[ "$1" = --version ] && { echo parrot 1.2.3; exit; }
printf '{"says":"%s %s %s %s","session":"s-1"}\n' "$1" "$2" "$3" "$5"
printf '{"says":"%s %s"}\n' "$PARROT_HOME" "$OTHER_HOME"
`)
	ctx, dir := t.Context(), c.config.Settings.Work.Roots[0]
	task, err := c.Submit(ctx, api.Submission{Task: runs.Task{Attributes: runs.Attributes{Agent: "parrot",
		Model: "grey", Dir: dir}, Prompt: "hello"}})
	if err != nil {
		t.Fatal(err)
	}
	run, err := c.Wait(ctx, task.Run, nil)
	if err != nil {
		t.Fatal(err)
	}
	if run.State != runs.StateCompleted || run.Agent != "parrot" || run.Thread != "s-1" {
		t.Errorf("got %s of %q in thread %q, want a completed one of parrot in s-1", run.State, run.Agent, run.Thread)
	}
	page, err := c.Events(ctx, api.EventsRequest{Run: task.Run})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, e := range page.Events {
		var body struct{ Text *string }
		if err := json.Unmarshal(e.Body, &body); err != nil {
			t.Fatal(err)
		}
		if body.Text != nil {
			said = append(said, *body.Text)
		}
	}
	want := []string{"--mode=read-only --model=grey --resume= hello", "/perch "}
	if !slices.Equal(said, want) {
		t.Errorf("its events have %q, want %q", said, want)
	}

	for _, q := range []api.Submission{{Task: runs.Task{Attributes: runs.Attributes{Agent: "parrot", Model: "raven"},
		Prompt: "x"}}, {Task: runs.Task{Attributes: runs.Attributes{Agent: "crow"}, Prompt: "x"}}} {
		_, err := c.Submit(ctx, q)
		if e := (*api.Error)(nil); !errors.As(err, &e) || e.Code != api.Validation ||
			!strings.Contains(err.Error(), "another bird") && !strings.Contains(err.Error(), "opencode, parrot") {
			t.Errorf("%+v: got %v, want an error that names what is wrong", q, err)
		}
	}
	checks := doctor.Examine(ctx, &datadir.Dialer{Config: c.config.Settings}, c.config.Agents, nil)
	if !slices.ContainsFunc(checks, func(c doctor.Check) bool {
		return c.Name == "parrot" && c.Level == "ok" && strings.HasSuffix(c.Text, "1.2.3")
	}) {
		t.Errorf("doctor does not find the program: %+v", checks)
	}
}
