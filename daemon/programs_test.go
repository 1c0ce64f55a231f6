package daemon

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/worker"
)

// A run's record has the version of the agent that was started, also after an update of the
// program, and workers say which agents they find. A program of the user is not asked.
func TestRunsAndWorkersHaveTheVersionsOfAgents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	install := func(name, version string) {
		t.Helper()
		body := fmt.Sprintf("#!/bin/sh\n[ \"$*\" != --version ] || { echo %s; touch %s/asked-%s; exit; }\n"+
			"echo '{\"type\":\"thread.started\",\"thread_id\":\"0199\"}'\n", version, dir, name)
		next := filepath.Join(dir, "new")
		if err := os.WriteFile(next, []byte(body), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	install("codex", "codex-cli 0.169.0")
	install("deploy", "1.2.3")
	settings := config.Default()
	settings.DataDir, settings.NATSListen, settings.HTTP = filepath.Join(dir, "data"), "127.0.0.1:0", ""
	settings.Work.Roots, settings.LostAfter = config.List{dir}, 2*time.Second
	settings.Agents["gemini"].Command = config.List{"deploy"}
	environ := []string{"PATH=" + dir + ":/usr/bin:/bin"}
	c := Config{Settings: settings, Environ: environ, Dialer: &datadir.Dialer{Config: settings, Stderr: t.Output()}}
	ctx, cancel := context.WithCancel(t.Context())
	d, err := New(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	d.worker.lookEvery = 20 * time.Millisecond
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
	x := client.New(b)

	announced := func(versions map[string]string) {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(fixture.Patience); ; <-tick.C {
			list, err := x.Workers(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if len(list.Workers) == 1 && maps.Equal(list.Workers[0].AgentVersions, versions) {
				w, modes := list.Workers[0], []string{"read-only", "workspace-write"}
				if !slices.Equal(w.Roots, settings.Work.Roots) || !slices.Equal(w.Modes, modes) {
					t.Errorf("the worker allows %q in %q", w.Modes, w.Roots)
				}
				if got := list.Workers[0].Agents; !slices.Equal(got, []string{"codex", "gemini_cli"}) {
					t.Errorf("the worker finds %q", got)
				}
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the workers are %+v, want the versions %v", list.Workers, versions)
			}
		}
	}
	task := func(agent string) *runs.Record {
		t.Helper()
		done, err := x.Submit(ctx, api.Submission{Task: runs.Task{Attributes: runs.Attributes{Agent: agent, Dir: dir},
			Prompt: "Go."}})
		if err == nil {
			_, err = x.Wait(ctx, done.Run, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		return recordOf(ctx, t, b, done.Run)
	}
	announced(map[string]string{"codex": "0.169.0"})
	if r := task("codex"); r.Version != "0.169.0" {
		t.Errorf("a task of version %q", r.Version)
	}
	if r := task("gemini"); r.Version != "" {
		t.Errorf("a program of the user has version %q", r.Version)
	}
	// An agent that no worker has is queued, and the task fails when it is taken.
	if r := task("claude"); r.State != runs.StateFailed || r.Exit == nil || r.Exit.Spawn != runs.SpawnNotFound {
		t.Errorf("a task of an agent that is not installed is %s", r.JSON())
	}

	install("codex", "codex-cli 0.170.0")
	announced(map[string]string{"codex": "0.170.0"})
	if r := task("codex"); r.Version != "0.170.0" {
		t.Errorf("after an update a task of version %q", r.Version)
	}

	// A command starts the agent itself, and learns the version before.
	c.Settings.DataDir, c.learnTime = filepath.Join(dir, "another"), fixture.Patience
	s, err := d.Session(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	run := func(argv ...string) string {
		t.Helper()
		spec := worker.Spec{Attributes: runs.Attributes{Agent: "codex", Dir: dir}, Source: runs.SourceRun, Argv: argv,
			Env: environ}
		w, err := s.Create(ctx, spec)
		if err == nil {
			err = s.Drive(ctx, w)
		}
		if err == nil {
			_, err = x.Wait(ctx, w.Spec.Run, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		return recordOf(ctx, t, b, w.Spec.Run).Version
	}
	if v := run("codex", "exec"); v != "0.170.0" {
		t.Errorf("a run of version %q", v)
	}
	install("codex", "codex-cli 0.171.0-alpha.2")
	if v := run("./codex", "exec"); v != "0.171.0-alpha.2" {
		t.Errorf("after an update a run of version %q", v)
	}
	if v := run("deploy", "exec"); v != "" {
		t.Errorf("a program of the user has version %q", v)
	}
	if _, err := os.Stat(filepath.Join(dir, "asked-deploy")); err == nil {
		t.Error("a program of the user was asked for its version")
	}
}

func recordOf(ctx context.Context, t *testing.T, b *bus.Bus, run string) *runs.Record {
	t.Helper()
	r, ok, err := b.Record(ctx, run)
	if err != nil || !ok {
		t.Fatalf("no record of run %s: %v", run, err)
	}
	return r
}
