package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	testfixture "github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/worker"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// The test binary is also the program of the bridge in crash tests, and the supervisor of agents.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "shim" {
		if worker.Shim(os.Args[2]) != nil {
			os.Exit(1)
		}
		return
	}
	if os.Getenv("BRIDGE_DIR") == "" {
		testfixture.VerifyGoroutines(m)
		return
	}
	b := newBridge(Config{
		Dirs: []Dir{{Path: os.Getenv("BRIDGE_DIR"), Must: true}}, State: os.Getenv("BRIDGE_STATE"),
		runner: &fileRunner{os.Getenv("BRIDGE_RUNS")}, Poll: 20 * time.Millisecond, Settle: 50 * time.Millisecond,
	})
	b.step = func(at string) {
		if at == os.Getenv("BRIDGE_KILL") {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	if err := b.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// fileRunner keeps runs in files, so that they outlive a bridge: one for a
// submitted run, and one next to it for a request to end it. The prompt
// determines the outcome of a run.
type fileRunner struct{ dir string }

func (r *fileRunner) Submit(_ context.Context, j job) error {
	if j.Prompt == "refuse" {
		return &refusedError{"this is not allowed here"}
	}
	if j.Prompt == "away" {
		return errors.New("NATS is away")
	}
	f, err := os.OpenFile(filepath.Join(r.dir, j.Run), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		_, err = f.WriteString(j.Prompt)
		err = errors.Join(err, f.Close())
	}
	return err
}

func (r *fileRunner) Wait(ctx context.Context, run string) (outcome, error) {
	b, err := os.ReadFile(filepath.Join(r.dir, run))
	if errors.Is(err, fs.ErrNotExist) {
		return outcome{}, &api.Error{Code: api.NotFound}
	}
	if err != nil {
		return outcome{}, err
	}
	switch prompt := string(b); {
	case strings.HasPrefix(prompt, "hang"):
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return outcome{}, ctx.Err()
			case <-tick.C:
			}
			if _, err := os.Stat(filepath.Join(r.dir, run+".cancelled")); err != nil {
				continue
			}
			if prompt == "hang late" { // the answer came while the run was being ended
				return outcome{Status: statusSuccess, Text: "late"}, nil
			}
			if prompt == "hang taken" {
				return outcome{Status: statusError, Message: "nobody knows", Taken: true}, nil
			}
			return failed("the run was cancelled"), nil
		}
	case prompt == "fail":
		return outcome{Status: statusError, Message: "the agent failed (exit status 3)", Took: time.Second}, nil
	default:
		return outcome{Status: statusSuccess, Text: strings.TrimPrefix(prompt, "say "), Took: 1500 * time.Millisecond}, nil
	}
}

// ask takes a while, as a request to a responder, in which the directory is scanned again.
func (r *fileRunner) ask(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(50 * time.Millisecond):
		return nil
	}
}

func (r *fileRunner) Cancel(ctx context.Context, run, _ string) error {
	if err := r.ask(ctx); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, run+".cancelled"), nil, 0o600)
}

func (r *fileRunner) Expire(ctx context.Context, run string) error {
	return r.Cancel(ctx, run, "")
}

func (r *fileRunner) Overtaken(ctx context.Context, run string, o outcome) error {
	if err := r.ask(ctx); err != nil {
		return err
	}
	name := run + ".overtaken" // a test that sees it reads it at once
	whole := filepath.Join(filepath.Dir(r.dir), name)
	err := os.WriteFile(whole, []byte(o.Status+" "+o.Text+o.Message), 0o600)
	return errors.Join(err, os.Rename(whole, filepath.Join(r.dir, name)))
}

// fixture is a directory with a bridge.
type fixture struct {
	t                *testing.T
	dir, state, runs string
	logs             *observer.ObservedLogs
	step             func(at string) // of the bridges; nil: none
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	root := t.TempDir()
	l := &fixture{
		t: t, dir: filepath.Join(root, "dir"), state: filepath.Join(root, "state"), runs: filepath.Join(root, "runs"),
	}
	for _, dir := range []string{l.dir, l.runs} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func (l *fixture) config() Config {
	core, logs := observer.New(zap.DebugLevel)
	l.logs = logs
	return Config{
		Dirs: []Dir{{Path: l.dir, Must: true}}, State: l.state, runner: &fileRunner{l.runs},
		Poll: 20 * time.Millisecond, Patience: 200 * time.Millisecond,
		Settle: 50 * time.Millisecond, Retry: 10 * time.Millisecond,
		Log: zap.New(core),
	}
}

// start runs a bridge until the test ends or stop is called.
func (l *fixture) start(c Config) (stop func()) {
	l.t.Helper()
	ctx, cancel := context.WithCancel(l.t.Context())
	ended := make(chan struct{})
	ready := make(chan struct{})
	c.Ready = func() { close(ready) }
	var err error // valid after the bridge has ended
	go func() {
		defer close(ended)
		b := newBridge(c)
		if l.step != nil {
			b.step = l.step
		}
		err = b.run(ctx)
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if <-ended; err != nil {
			l.t.Errorf("the bridge ended with %v", err)
		}
	}
	l.t.Cleanup(stop)
	select {
	case <-ready:
	case <-ended:
		l.t.FailNow() // stop reports the error
	}
	return stop
}

// crash runs a bridge in another process, which must be killed at a step.
func (l *fixture) crash(step string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), "BRIDGE_DIR="+l.dir, "BRIDGE_STATE="+l.state, "BRIDGE_RUNS="+l.runs,
		"BRIDGE_KILL="+step)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || ctx.Err() != nil || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		l.t.Fatalf("the bridge was not killed at %q: %v\n%s", step, err, out)
	}
}

func (l *fixture) path(name string) string { return filepath.Join(l.dir, name) }

func (l *fixture) write(name, text string) {
	l.t.Helper()
	whole := filepath.Join(l.t.TempDir(), "whole") // a file is read while it is written
	if err := errors.Join(os.WriteFile(whole, []byte(text), 0o600), os.Rename(whole, l.path(name))); err != nil {
		l.t.Fatal(err)
	}
}

// request writes a request atomically.
func (l *fixture) request(name, id, prompt string) {
	l.t.Helper()
	b, err := json.Marshal(map[string]any{
		"request_id": id, "version": "1.0", "phase": 1, "phase_name": "analysis", "agent_name": "reviewer", "prompt": prompt,
		"timeout_seconds": 120, "created_at": "2025-11-24T14:22:45.123456+00:00",
		"context": map[string]any{"x": 1}, "model": nil,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.write(name+".new", string(b))
	if err := os.Rename(l.path(name+".new"), l.path(name)); err != nil {
		l.t.Fatal(err)
	}
}

// response waits for a response and reads it.
func (l *fixture) response(name string) map[string]any {
	l.t.Helper()
	l.until(name+" is there", func() bool { return l.has(name) })
	b, err := os.ReadFile(l.path(name))
	if err != nil {
		l.t.Fatal(err)
	}
	if mistakes := Check(b); mistakes != nil {
		l.t.Errorf("the response is invalid: %q\n%s", mistakes, b)
	}
	var r map[string]any
	if err := json.Unmarshal(b, &r); err != nil {
		l.t.Fatal(err)
	}
	return r
}

// removed waits until the request is gone, also under its temporary name.
func (l *fixture) removed() {
	l.t.Helper()
	l.until("the request is removed", func() bool { return !l.has(request) && !l.has(request+takenSuffix) })
}

func (l *fixture) has(name string) bool {
	_, err := os.Lstat(l.path(name))
	return err == nil
}

// names lists a directory.
func (l *fixture) names(dir string) []string {
	l.t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		l.t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

const deadline = testfixture.Patience

// until waits until a condition holds, and checks it after each change of a
// file.
func (l *fixture) until(what string, holds func() bool) {
	l.t.Helper()
	w, err := fsnotify.NewWatcher()
	if err != nil {
		l.t.Fatal(err)
	}
	defer w.Close()
	for _, dir := range []string{l.dir, l.runs} {
		if err := w.Add(dir); err != nil {
			l.t.Fatal(err)
		}
	}
	timeout := time.After(deadline)
	tick := time.NewTicker(10 * time.Millisecond) // for conditions without a file
	defer tick.Stop()
	for !holds() {
		select {
		case <-w.Events:
		case <-tick.C:
		case <-timeout:
			l.t.Fatalf("not within %v: %s\n%q %q\n%v", deadline, what, l.names(l.dir), l.names(l.runs), l.logs.All())
		}
	}
}
