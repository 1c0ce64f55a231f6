package codexcloud

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linesman/linesman/test/lab/agents"
	standin "github.com/linesman/linesman/test/lab/cloud"
)

func standinProgram(t *testing.T) (*program, *standin.Service) {
	t.Helper()
	command, err := standin.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	service, err := standin.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p, err := newProgram([]string{command}, t.TempDir(), service.Env())
	if err != nil {
		t.Fatal(err)
	}
	return p, service
}

// TestHungProgramIsEndedWithItsGroup: after its time limit, and when the caller
// gives up. Its processes ignore SIGTERM.
func TestHungProgramIsEndedWithItsGroup(t *testing.T) {
	t.Parallel()
	p, service := standinProgram(t)
	if err := service.Change(func(st *standin.State) { st.Behave["status"] = standin.Hang }); err != nil {
		t.Fatal(err)
	}
	for name, timeout := range map[string]time.Duration{"its time is over": 2 * time.Second, "nobody waits": time.Hour} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if timeout == time.Hour {
				go func() {
					defer cancel()
					service.AwaitHung(t)
				}()
			}
			_, err := p.call(ctx, call{args: []string{"status", "task_1"}, timeout: timeout})
			var f *Failure
			if timedOut := errors.As(err, &f) && f.Reason == reasonTimeout && f.Exit == -1 &&
				f.Suggestion != ""; timedOut != (timeout < time.Hour) {
				t.Errorf("got %v", err)
			}
			if timeout == time.Hour && !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			service.AwaitGone(t)
			if left, err := os.ReadDir(p.scratch); err != nil || len(left) != 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// TestProgramThatFailsLeavesNoProcess: one that it started, and that holds the output.
func TestProgramThatFailsLeavesNoProcess(t *testing.T) {
	t.Parallel()
	p, service := standinProgram(t)
	if err := service.Change(func(st *standin.State) { st.Behave["status"] = standin.Leave }); err != nil {
		t.Fatal(err)
	}
	o, err := p.call(t.Context(), call{args: []string{"status", "task_1"}, timeout: time.Minute})
	if err != nil || o.exit != 1 {
		t.Errorf("exit %d, %v", o.exit, err)
	}
	service.AwaitGone(t)
}

// TestOutputIsBounded: a program that prints more than the limit still ends.
func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	p, service := standinProgram(t)
	if err := service.Change(func(st *standin.State) { st.Behave["diff"] = standin.Garbage }); err != nil {
		t.Fatal(err)
	}
	o, err := p.call(t.Context(), call{args: []string{"diff", "task_1"}, limit: 1000, timeout: time.Minute})
	if err != nil || len(o.stdout) != 1000 || !o.cut || o.exit != 0 {
		t.Errorf("%d bytes, cut: %v, exit %d, %v", len(o.stdout), o.cut, o.exit, err)
	}
}

func TestFewCallsRunAtATime(t *testing.T) {
	t.Parallel()
	p, service := standinProgram(t)
	if err := service.Change(func(st *standin.State) { st.Behave["status"] = standin.Hang }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const calls = maxCalls + 3
	done := make(chan error, calls)
	for range calls {
		go func() {
			_, err := p.call(ctx, call{args: []string{"status", "task_1"}, timeout: time.Hour})
			done <- err
		}()
	}
	for range maxCalls {
		service.AwaitHung(t)
	}
	if st, err := service.State(); err != nil || len(st.Calls) > maxCalls {
		t.Errorf("%d calls at a time, %v", len(st.Calls), err)
	}
	cancel()
	for range calls {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	service.AwaitGone(t)
}

// TestSubmissionsLeaveASlotForPolls: submissions that hang do not delay the polls of other tasks.
func TestSubmissionsLeaveASlotForPolls(t *testing.T) {
	t.Parallel()
	p, service := standinProgram(t)
	if err := service.Change(func(st *standin.State) { st.Behave["exec"] = standin.Hang }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const calls = maxCalls + 3
	done := make(chan error, calls)
	for range calls {
		go func() {
			_, err := p.call(ctx, call{args: []string{"exec", "--env=env", "Go."}, timeout: time.Hour})
			done <- err
		}()
	}
	for range maxCalls - 1 {
		service.AwaitHung(t)
	}
	o, err := p.call(ctx, call{args: []string{"list", "--json"}, timeout: time.Minute})
	if st, _ := service.State(); err != nil || o.exit != 0 || len(st.Calls) != maxCalls {
		t.Errorf("exit %d, %v, after %d calls", o.exit, err, len(st.Calls))
	}
	cancel()
	for range calls {
		if err := <-done; err == nil {
			t.Error("a submission that hangs has ended well")
		}
	}
	service.AwaitGone(t)
}

// TestCallWithoutASlotDoesNothing: it waits for a limited time, and for as long as somebody waits for it.
func TestCallWithoutASlotDoesNothing(t *testing.T) {
	t.Parallel()
	p, _ := standinProgram(t)
	synctest.Test(t, func(t *testing.T) {
		p.slots = make(chan struct{}) // none is free
		over, cancel := context.WithCancel(t.Context())
		cancel()
		exec := call{args: []string{"exec", "--env=env", "Go."}, timeout: execTimeout}
		abandoned := exec
		abandoned.waiting = over
		began := time.Now()
		for _, c := range []struct {
			name string
			ctx  context.Context
			call call
			want error
			at   time.Duration
		}{
			{"abandoned", t.Context(), abandoned, context.Canceled, 0},
			{"stopped", over, exec, context.Canceled, 0},
			{"too long", t.Context(), exec, context.DeadlineExceeded, slotTimeout},
		} {
			_, err := p.call(c.ctx, c.call)
			var f *Failure
			if !errors.As(err, &f) || !f.NothingDone() || !f.Passes() || f.Suggestion == "" || !errors.Is(err, c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
			if after := time.Since(began); after != c.at {
				t.Errorf("%s: after %v, want %v", c.name, after, c.at)
			}
		}
	})
	p.slots = make(chan struct{}, maxCalls)
	left, leave := context.WithCancel(t.Context())
	leave()
	for range 20 { // there is a slot, too
		var f *Failure
		_, err := p.call(t.Context(), call{args: []string{"list", "--json"}, timeout: time.Minute, waiting: left})
		if !errors.As(err, &f) || !f.NothingDone() {
			t.Errorf("abandoned before its start: %v", err)
		}
	}
}

func TestProgramGetsNoSettingsOfTheDaemon(t *testing.T) {
	t.Setenv("LINESMAN_TOKEN", "S3CR3T")
	t.Setenv("OTHER", "x")
	p, err := newProgram([]string{"codex"}, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if env := strings.Join(p.env, " "); strings.Contains(env, "S3CR3T") || !strings.Contains(env, "OTHER=x") {
		t.Error("the environment is not that of this process without its settings")
	}
}

func TestRelativeCommandIsResolved(t *testing.T) {
	p, _ := standinProgram(t)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(here, p.command[0])
	if err != nil || !strings.HasPrefix(relative, "..") {
		t.Fatalf("%q, %v", relative, err)
	}
	q, err := newProgram([]string{relative}, t.TempDir(), p.env)
	if err != nil {
		t.Fatal(err)
	}
	if o, err := q.call(t.Context(), call{args: []string{"list", "--json"}, timeout: time.Minute}); err != nil ||
		o.exit != 0 {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestStandInAnswersLikeTheRealProgram, as far as that is possible without an
// account: usage errors, and what the program refuses before it calls the
// service.
func TestStandInAnswersLikeTheRealProgram(t *testing.T) {
	t.Parallel()
	stand, service := standinProgram(t)
	home := t.TempDir()
	codex, err := newProgram([]string{agents.Codex(t)}, t.TempDir(), []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home,
		"CODEX_HOME=" + home})
	if err != nil {
		t.Fatal(err)
	}
	err = service.Change(func(st *standin.State) {
		for _, name := range []string{"exec", "status", "list", "diff"} {
			st.Behave[name] = standin.SignedOut
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	prompt := "Go."
	for _, c := range []call{
		{args: []string{"exec", "--env=e", "--attempts=1", "--branch=main", "-"}, stdin: &prompt},
		{args: []string{"exec", "--env", "e", "-"}, stdin: &prompt},
		{args: []string{"exec", "-"}, stdin: &prompt},
		{args: []string{"exec", "--env=e", "--attempts=5", "-"}, stdin: &prompt},
		{args: []string{"exec", "--env=e", "--model=x", "-"}, stdin: &prompt},
		{args: []string{"status", "task_e_1"}},
		{args: []string{"status"}},
		{args: []string{"status", "a", "b"}},
		{args: []string{"list", "--json", "--limit=20"}},
		{args: []string{"list", "--json", "--limit=20", "--cursor=abc"}},
		{args: []string{"list", "--limit=21"}},
		{args: []string{"diff", "task_e_1"}},
		{args: []string{"diff", "-x"}},
		{args: []string{"cancel", "task_e_1"}},
	} {
		c.timeout = time.Minute
		got, err := stand.call(t.Context(), c)
		want, wantErr := codex.call(t.Context(), c)
		if err != nil || wantErr != nil {
			t.Fatalf("%q: %v, %v", c.args, err, wantErr)
		}
		if got.exit != want.exit || len(got.stdout) != len(want.stdout) {
			t.Errorf("%q: exit %d, %q; the real one: exit %d, %q, %q", c.args, got.exit, got.stdout, want.exit, want.stdout,
				want.stderr)
		}
		if g, w := c.failed(got).Reason, c.failed(want).Reason; g != w {
			t.Errorf("%q: %s; the real one: %s", c.args, g, w)
		}
	}
	var exit *exec.ExitError
	if err := exec.Command(agents.Codex(t), "cloud", "exec", "--help").Run(); errors.As(err, &exit) {
		t.Errorf("cloud exec --help: %v", err)
	}
}
