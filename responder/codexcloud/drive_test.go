package codexcloud_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/pipeline"
	"github.com/linesman/linesman/normalizer"
	backend "github.com/linesman/linesman/normalizer/cloud"
	"github.com/linesman/linesman/responder/codexcloud"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
	"github.com/linesman/linesman/test/lab/agents"
	standin "github.com/linesman/linesman/test/lab/cloud"
)

// program is the stand-in, built once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "cloud-test-*")
	if err != nil {
		return "", err
	}
	built = dir
	return standin.Build(dir)
})

var built string // removed by TestMain

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "follow" {
		if err := follower(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// logs adapts the real bus.
type logs struct{ *bus.Bus }

func (l logs) Open(ctx context.Context, agent, run string, m runs.Mark) (codexcloud.Log, error) {
	return l.OpenLog(ctx, agent, run, m)
}

func (l logs) Output(ctx context.Context, agent, run string) ([]byte, error) {
	out, _, err := l.Bus.Output(ctx, agent, run, codexcloud.MaxOutput, false)
	return out.Head, err
}

// stage is a server with its streams, a running normalizer, and the stand-in.
type stage struct {
	server  *embedded.Server
	bus     *bus.Bus
	service *standin.Service
	command string
	scratch string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	server, b := bustest.Serve(t, embedded.StartServer)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	n := &pipeline.Normalizer{Bus: b, Out: b.Names, Backends: []normalizer.Backend{codex.Backend{}, backend.Backend{}},
		Log: zap.NewNop()}
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("normalizer: %v", err)
		}
	})
	s := &stage{server: server, bus: b, scratch: t.TempDir()}
	var err error
	if s.command, err = program(); err != nil {
		t.Fatal(err)
	}
	if s.service, err = standin.New(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stage) config() codexcloud.Config {
	return codexcloud.Config{
		Command: []string{s.command}, Scratch: s.scratch, Logs: logs{s.bus}, Env: s.service.Env(),
		Min: 5 * time.Millisecond, Max: 40 * time.Millisecond,
	}
}

func (s *stage) driver(t *testing.T, cfg codexcloud.Config) *codexcloud.Driver {
	t.Helper()
	d, err := codexcloud.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (s *stage) change(t *testing.T, change func(*standin.State)) {
	t.Helper()
	if err := s.service.Change(change); err != nil {
		t.Fatal(err)
	}
}

func (s *stage) state(t *testing.T) standin.State {
	t.Helper()
	st, err := s.service.State()
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func (s *stage) submit(t *testing.T, d *codexcloud.Driver, prompt string) codexcloud.Submitted {
	t.Helper()
	got, err := d.Submit(t.Context(), codexcloud.Request{Prompt: prompt, Environment: "env"})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// start follows the run until stop is called.
func start(t *testing.T, d *codexcloud.Driver, runID ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	var open []codexcloud.Open
	for _, run := range runID {
		open = append(open, codexcloud.Open{Run: run})
	}
	go func() { ended <- d.Follow(ctx, func(context.Context) ([]codexcloud.Open, error) { return open, nil }) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("follow: %v", err)
		}
	})
}

var errEnough = errors.New("enough")

// events waits for the end of a run, and returns its messages; for an event
// with a message, only the message.
func (s *stage) events(t *testing.T, run string) (all []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := s.bus.Read(ctx, runs.Selection{Run: run, Follow: true}, func(m bus.Stored) error {
		var body struct{ Message *string }
		if err := json.Unmarshal(m.Body, &body); err != nil {
			return err
		}
		if strings.Contains(string(m.Body), "S3CR3T") {
			t.Errorf("an event tells more than the status: %s", m.Body)
		}
		if body.Message != nil {
			all = append(all, *body.Message)
		} else {
			all = append(all, m.Token)
		}
		if m.Token == normalizer.CompletionToken {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatalf("run %s does not end: %v, %q", run, err, all)
	}
	return all
}

// record waits for the record of an ended run.
func (s *stage) record(t *testing.T, run string) *runs.Record {
	t.Helper()
	var r *runs.Record
	eventually(t, "the record of "+run+" says that it has ended", func() bool {
		var found bool
		var err error
		r, found, err = s.bus.Record(t.Context(), run)
		return err == nil && found && r.State.Final()
	})
	return r
}

// eventually waits until ok is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(fixture.Patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

const diff = `diff --git a/parse.go b/parse.go
--- a/parse.go
+++ b/parse.go
@@ -1 +1,2 @@
-S3CR3T
+new
+more
diff --git a/new.txt b/new.txt
new file mode 100644
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+x
`

func TestTaskBecomesARunThatCompletes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.change(t, func(st *standin.State) {
		st.Next = standin.Task{
			Title: "S3CR3T \x1b[31mtitle\x00\nwith a second line", Label: "owner/repo",
			Plan: []string{"PENDING", "PENDING", "PENDING", "READY"}, Diff: diff, Files: 2, Added: 3, Lost: 1,
		}
	})
	cfg := s.config()
	core, seen := observer.New(zap.DebugLevel)
	cfg.Log = zap.New(core)
	d := s.driver(t, cfg)
	prompt := "- --help\n$(touch x) `id` \"quoted\" 'é' 𝄞\n\n"
	got, err := d.Submit(t.Context(), codexcloud.Request{Prompt: prompt, Environment: "env", Attempts: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := runs.CheckID(got.Run); err != nil || !strings.HasPrefix(got.Run, "T-cloud-") ||
		got.URL != standin.URL(got.ID) || got.At == 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	stop := start(t, d, got.Run)
	events := s.events(t, got.Run)
	stop()
	if want := []string{"cloud task submitted", "cloud task pending", "cloud task ready", "cloud task diff",
		"completion"}; !slices.Equal(events, want) {
		t.Errorf("events %q, want %q", events, want)
	}
	r := s.record(t, got.Run)
	want := runs.Cloud{ID: got.ID, URL: got.URL, Environment: "env", Status: "ready", Attempts: 3, FilesChanged: 2,
		Added: 3, Removed: 1}
	if r.State != runs.StateCompleted || r.Source != "cloud" || r.Agent != codexcloud.Agent ||
		r.Cloud == nil || *r.Cloud != want {
		t.Errorf("record %s", r.JSON())
	}
	if f := r.Files; f == nil || !slices.Equal(f.Modified, []string{"parse.go"}) ||
		!slices.Equal(f.Added, []string{"new.txt"}) || f.LinesChanged == nil || *f.LinesChanged != 4 {
		t.Errorf("record %s", r.JSON())
	}

	st := s.state(t)
	if task := st.Tasks[0]; task.Prompt != prompt || task.Branch != "main" || task.Tries != 3 {
		t.Errorf("the service got %q on %q, %d attempts", task.Prompt, task.Branch, task.Tries)
	}
	cwds := map[string]bool{}
	for _, c := range st.Calls {
		if filepath.Dir(c.Cwd) != s.scratch || cwds[c.Cwd] {
			t.Errorf("%q ran in %s", c.Args, c.Cwd)
		}
		cwds[c.Cwd] = true
	}
	if left, err := os.ReadDir(s.scratch); err != nil || len(left) != 0 {
		t.Errorf("left in the scratch directory: %v, %v", left, err)
	}
	if _, err := os.Stat("error.log"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the program wrote into our working directory: %v", err)
	}
	for _, e := range seen.All() {
		if line := fmt.Sprint(e.Message, e.ContextMap()); strings.Contains(line, "S3CR3T") ||
			strings.Contains(line, "touch") {
			t.Errorf("logged: %s", line)
		}
	}
	out, err := logs{s.bus}.Output(t.Context(), codexcloud.Agent, got.Run)
	if err != nil {
		t.Fatal(err)
	}
	type fileChange struct{ Path, Kind string }
	var last struct {
		Diff  string
		Files []fileChange
	}
	lines := bytes.Split(bytes.TrimSuffix(out, []byte{'\n'}), []byte{'\n'})
	if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil || last.Diff != diff ||
		!slices.Equal(last.Files, []fileChange{{Path: "parse.go", Kind: "update"},
			{Path: "new.txt", Kind: "add"}}) {
		t.Errorf("RAW has %s, %v", lines[len(lines)-1], err)
	}
}

func TestTaskInErrorIsARunThatFailed(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.change(t, func(st *standin.State) { st.Next.Plan = []string{"ERROR"} })
	d := s.driver(t, s.config())
	got := s.submit(t, d, "Go.")
	if err := d.Refresh(t.Context(), got.Run, got.ID); err != nil {
		t.Fatal(err)
	}
	if events := s.events(t, got.Run); !slices.Equal(events, []string{"cloud task submitted", "cloud task error",
		"completion"}) {
		t.Errorf("events %q", events)
	}
	if r := s.record(t, got.Run); r.State != runs.StateFailed || r.Reason != "turn failed" || r.Cloud.Status != "error" {
		t.Errorf("record %s", r.JSON())
	}
	calls := len(s.state(t).Calls)
	if err := d.Refresh(t.Context(), got.Run, ""); err != nil {
		t.Errorf("of a run that has ended: %v", err)
	}
	if n := len(s.state(t).Calls); n != calls {
		t.Errorf("the service is asked for a run that has ended")
	}
}

func TestAppliedTaskSaysSo(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.change(t, func(st *standin.State) { st.Next.Plan = []string{"APPLIED"} })
	d := s.driver(t, s.config())
	got := s.submit(t, d, "Go.")
	if err := d.Refresh(t.Context(), got.Run, ""); err != nil { // the log has the id
		t.Fatal(err)
	}
	if r := s.record(t, got.Run); r.State != runs.StateCompleted || !r.Cloud.Applied {
		t.Errorf("record %s", r.JSON())
	}
}

// TestManyRunsAndTwoDrivers: two drivers follow ten runs of one service.
func TestManyRunsAndTwoDrivers(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.change(t, func(st *standin.State) {
		st.Next.Plan, st.Next.Diff, st.Next.Files = []string{"PENDING", "PENDING", "PENDING", "READY"},
			strings.Repeat("+\x01\n", 40_000), 1
	})
	one, two := s.driver(t, s.config()), s.driver(t, s.config())
	var open []string
	for i := range 10 {
		open = append(open, s.submit(t, one, fmt.Sprint("Task ", i)).Run)
	}
	stops := []func(){start(t, one, open...), start(t, two, open...)}
	for _, run := range open {
		if events := s.events(t, run); !slices.Equal(events, []string{"cloud task submitted", "cloud task pending",
			"cloud task ready", "cloud task diff", "completion"}) {
			t.Errorf("run %s: %q", run, events)
		}
	}
	for _, stop := range stops {
		stop()
	}
	for _, run := range open {
		if r := s.record(t, run); r.State != runs.StateCompleted || r.Gaps+r.Malformed != 0 {
			t.Errorf("record %s", r.JSON())
		}
	}
}

// follower runs a driver in a separate process.
func follower() error {
	login := func(what string) bus.Login {
		return bus.Login{URL: os.Getenv("TEST_URL"), User: os.Getenv("TEST_" + what + "_USER"),
			Password: os.Getenv("TEST_" + what)}
	}
	ctx := context.Background()
	b, err := bus.Connect(ctx, login("INSIDE"), login("PUBLIC"), bus.Names{Prefix: bus.DefaultPrefix}, zap.NewNop())
	if err != nil {
		return err
	}
	d, err := codexcloud.New(codexcloud.Config{
		Command: []string{os.Getenv("TEST_COMMAND")}, Scratch: os.Getenv("TEST_SCRATCH"), Logs: logs{b},
		Min: 5 * time.Millisecond, Max: 40 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	return d.Follow(ctx, func(context.Context) ([]codexcloud.Open, error) {
		return []codexcloud.Open{{Run: os.Getenv("TEST_RUN")}}, nil
	})
}

// TestDriverIsKilled kills a driver with SIGKILL after each call of the
// program, and lets another one resume.
func TestDriverIsKilled(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	long := diff + strings.Repeat("+\\ \x01é\n", 40_000/fixture.Every(4))
	s.change(t, func(st *standin.State) {
		st.Next.Plan, st.Next.Diff, st.Next.Files = []string{"PENDING", "PENDING", "READY"}, long, 1
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	inside, public := s.server.Credentials.Logins(s.server.URL(), embedded.OperatorUser)
	for after := 1; after <= 5; after++ {
		got := s.submit(t, s.driver(t, s.config()), "Go.")
		before := len(s.state(t).Calls)
		env := append(s.service.Env(), "TEST_URL="+s.server.URL(), "TEST_COMMAND="+s.command, "TEST_SCRATCH="+s.scratch,
			"TEST_RUN="+got.Run,
			"TEST_INSIDE_USER="+inside.User, "TEST_INSIDE="+inside.Password, "TEST_PUBLIC_USER="+public.User,
			"TEST_PUBLIC="+public.Password)
		p, err := os.StartProcess(self, []string{self, "follow"}, &os.ProcAttr{Env: env, Files: []*os.File{nil, os.Stderr,
			os.Stderr}})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, fmt.Sprintf("%d calls", after), func() bool {
			if len(s.state(t).Calls)-before >= after {
				return true
			}
			if after < 5 {
				return false
			}
			out, err := logs{s.bus}.Output(t.Context(), codexcloud.Agent, got.Run)
			return err == nil && bytes.Contains(out, []byte("cloud.diff"))
		})
		if err := p.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(); err != nil {
			t.Fatal(err)
		}
		stop := start(t, s.driver(t, s.config()), got.Run)
		events := s.events(t, got.Run)
		stop()
		if !slices.Equal(events, []string{"cloud task submitted", "cloud task pending", "cloud task ready", "cloud task diff",
			"completion"}) {
			t.Errorf("killed after call %d: %q", after, events)
		}
		if r := s.record(t, got.Run); r.State != runs.StateCompleted || r.Gaps+r.Malformed != 0 {
			t.Errorf("killed after call %d: record %s", after, r.JSON())
		}
	}
}

func TestProgramThatFailsIsAFailureWithoutARun(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	for behave, reason := range map[string]string{
		standin.SignedOut: "not_signed_in", standin.Garbage: "unreadable",
		standin.Silent: "unreadable",
		standin.Crash:  "exit_error", standin.Offline: "network",
		"environment": "not_found", "missing": "spawn_error",
	} {
		t.Run(behave, func(t *testing.T) {
			s.change(t, func(st *standin.State) { st.Behave["exec"] = behave })
			cfg, env := s.config(), "env"
			switch behave {
			case "environment":
				env = "another"
			case "missing":
				cfg.Command = []string{filepath.Join(t.TempDir(), "codex")}
			}
			got, err := s.driver(t, cfg).Submit(t.Context(), codexcloud.Request{Prompt: "Go.", Environment: env})
			var f *codexcloud.Failure
			if !errors.As(err, &f) || f.Reason != reason || got != (codexcloud.Submitted{}) {
				t.Fatalf("got %+v, %v", got, err)
			}
			if f.Suggestion == "" || len(f.Stderr) > 1024 {
				t.Errorf("%+v", f)
			}
			for _, secret := range []string{"hunter2", "abcdef0123456789", "backtrace", "deprecated"} {
				if strings.Contains(err.Error()+f.Stderr+f.Suggestion, secret) {
					t.Errorf("%v, %q, %q", err, f.Stderr, f.Suggestion)
				}
			}
			if behave == standin.Crash && !strings.HasSuffix(f.Stderr, "the end") {
				t.Errorf("stderr does not end as the program's: %q", f.Stderr)
			}
		})
	}
	if tasks := s.state(t).Tasks; len(tasks) != 0 {
		t.Errorf("%d tasks", len(tasks))
	}
}

// TestAcceptedTaskGetsARun: an accepted task gets a run, even if the program
// hangs afterwards, the client has disconnected, and the driver is stopped.
func TestAcceptedTaskGetsARun(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.change(t, func(st *standin.State) { st.Behave["exec"] = standin.LateHang })
	ctx, cancel := context.WithCancel(t.Context())
	awaited := make(chan struct{})
	d := s.driver(t, s.config())
	go func() {
		defer close(awaited)
		defer d.Stop()
		defer cancel()
		s.service.AwaitHung(t)
	}()
	got, err := d.Submit(ctx, codexcloud.Request{Prompt: "Go.", Environment: "env"})
	<-awaited
	if err != nil || got.Run == "" || got.ID != s.state(t).Tasks[0].ID {
		t.Errorf("%+v, %v", got, err)
	}
	s.service.AwaitGone(t)
}

// TestFollowingOutlivesAProgramThatFails: following continues once the program
// works again.
func TestFollowingOutlivesAProgramThatFails(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.change(t, func(st *standin.State) { st.Next.Plan = []string{"READY"} })
	d := s.driver(t, s.config())
	got := s.submit(t, d, "Go.")
	stop := start(t, d, got.Run)
	defer stop()
	for _, behave := range []string{standin.Garbage, standin.Silent, standin.Crash, standin.NotFound, standin.Offline,
		standin.SignedOut} {
		s.change(t, func(st *standin.State) { st.Behave["status"] = behave })
		before := len(s.state(t).Calls)
		eventually(t, "two looks at "+behave, func() bool { return len(s.state(t).Calls) >= before+2 })
		var f *codexcloud.Failure
		if err := d.Refresh(t.Context(), got.Run, got.ID); !errors.As(err, &f) {
			t.Errorf("%s: %v", behave, err)
		}
	}
	s.change(t, func(st *standin.State) { clear(st.Behave) })
	if events := s.events(t, got.Run); !slices.Equal(events, []string{"cloud task submitted", "cloud task ready",
		"completion"}) {
		t.Errorf("events %q", events)
	}
}

func TestRealCodexAcceptsTheArguments(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	home := t.TempDir()
	cfg := s.config()
	cfg.Command = []string{agents.Codex(t)}
	cfg.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "CODEX_HOME=" + home}
	d := s.driver(t, cfg)
	signedOut := func(err error) {
		t.Helper()
		var f *codexcloud.Failure
		if !errors.As(err, &f) || f.Reason != "not_signed_in" || f.Exit != 1 || !strings.Contains(f.Suggestion,
			"codex login") ||
			!strings.HasPrefix(f.Stderr, "Not signed in.") {
			t.Errorf("%v: %+v", err, f)
		}
	}
	// Flags that it does not know, or values that it refuses, are exit status 2.
	_, err := d.Submit(t.Context(), codexcloud.Request{Prompt: "--help", Environment: "-env", Attempts: 4})
	signedOut(err)
	l, err := logs{s.bus}.Open(t.Context(), codexcloud.Agent, "T-cloud-real", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), runs.Entry{Kind: runs.Started, Time: 1,
		Body: runs.Encode(runs.Start{Source: "cloud"})}); err != nil {
		t.Fatal(err)
	}
	signedOut(d.Refresh(t.Context(), "T-cloud-real", "task_e_1"))
	if left, err := os.ReadDir(s.scratch); err != nil || len(left) != 0 {
		t.Errorf("left in the scratch directory: %v, %v", left, err)
	}
}
