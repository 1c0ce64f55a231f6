package responder_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"

	"go.uber.org/zap/zaptest"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/pipeline"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

func TestMain(m *testing.M) { fixture.VerifyGoroutines(m) }

// newService returns a service at work on a NATS server, beside a normalizer.
func newService(t *testing.T, change func(*responder.Config)) *responder.Service {
	t.Helper()
	log := zaptest.NewLogger(t)
	server, _ := bustest.Serve(t, embedded.StartServer)
	b := bustest.Connect(t, server, embedded.ResponderUser)
	cfg := responder.Config{
		Streams: b, Queue: bus.DefaultQueue, LostAfter: time.Minute, Log: log, Cause: b.Cause,
		Requests: &idempotency.Requests{Store: b.RequestStore()}, Patience: fixture.Patience,
	}
	if change != nil {
		change(&cfg)
	}
	s := responder.New(cfg)
	n := &pipeline.Normalizer{Bus: bustest.Connect(t, server, embedded.NormalizerUser), Out: bustest.Names, Log: log,
		Backends: []normalizer.Backend{codex.Backend{}}}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, run := range []func(context.Context) error{n.Run, s.Run} {
		group.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { cancel(); group.Wait() })
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// code is the code of an error, "" of none.
func code(t *testing.T, err error) api.Code {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *api.Error
	if !errors.As(err, &e) {
		t.Fatalf("an error that is no *api.Error: %v", err)
	}
	return e.Code
}

type other struct{ codex.Backend }

func (other) Agent() string { return "other" }

func TestSubmissionReportsAllMistakes(t *testing.T) {
	s := responder.New(responder.Config{GitGate: true, Agents: agent.Table{codex.Agent, {Backend: other{}}}})
	of := func(n int, rule string) api.Submission {
		return api.Submission{Task: runs.Task{Prompt: "x", Live: true, Policy: slices.Repeat([]string{rule}, n)}}
	}
	for name, c := range map[string]struct {
		q    api.Submission
		want string // fields, sorted
	}{
		"fine":     {api.Submission{Task: runs.Task{Prompt: "x"}}, ""},
		"agent":    {api.Submission{Task: runs.Task{Attributes: runs.Attributes{Agent: "other"}, Prompt: "x"}}, ""},
		"no agent": {api.Submission{Task: runs.Task{Attributes: runs.Attributes{Agent: "unknown"}, Prompt: "x"}}, "agent"},
		"all at once": {api.Submission{Task: runs.Task{Attributes: runs.Attributes{Mode: runs.WorkspaceWrite, Dir: "rel",
			Thread: "name"}}},
			"confirm prompt threadId workingDir"},
		"preview": {api.Submission{Task: runs.Task{Attributes: runs.Attributes{Mode: api.Preview},
			Prompt: strings.Repeat("x", runs.MaxPrompt)}}, "prompt"},
		"git":         {api.Submission{Task: runs.Task{Prompt: "git push --force"}}, "allowDestructiveGit"},
		"git allowed": {api.Submission{Task: runs.Task{Prompt: "git push --force"}, DestructiveGit: true}, ""},
		"environment": {api.Submission{Task: runs.Task{Prompt: "x", Env: runs.EnvPolicy{Allow: []string{"A"}}}},
			"env.allow"},
		"a webhook for a run id of one's own": {api.Submission{Task: runs.Task{Prompt: "x"}, Run: "T-x",
			Webhook: &api.Webhook{}}, "webhook"},
		"policy": {api.Submission{Task: runs.Task{Prompt: "x", Live: true,
			Policy: []string{"deny execute: git push", "ask edit in ./docs"}}}, ""},
		"policy that allows": {api.Submission{Task: runs.Task{Prompt: "x", Live: true,
			Policy: []string{"ask edit", "allow edit"}}}, "policy"},
		"policy with a mistake":       {of(1, "x"), "policy"},
		"policy of a task not live":   {api.Submission{Task: runs.Task{Prompt: "x", Policy: []string{"ask *"}}}, "policy"},
		"policy with too many rules":  {of(runs.MaxPolicy+1, "ask *"), "policy"},
		"policy with enough rules":    {of(runs.MaxPolicy, "ask *"), ""},
		"policy with too long a rule": {of(1, "ask *: "+strings.Repeat("x", 4090)), "policy"},
		"run and labels": {api.Submission{
			Run: "no id!", Task: runs.Task{Attributes: runs.Attributes{Labels: "=x"}, Prompt: "x"},
		}, "labels run"},
	} {
		t.Run(name, func(t *testing.T) {
			err := s.CheckSubmit(c.q)
			var fields []string
			var e *api.Error
			if errors.As(err, &e) {
				for _, i := range e.Issues {
					fields = append(fields, i.Field)
				}
			}
			slices.Sort(fields)
			if got := strings.Join(slices.Compact(fields), " "); got != c.want {
				t.Errorf("wrong with it: %q, want %q (%v)", got, c.want, err)
			}
		})
	}
}

// A Go caller names no hash: the service makes one of what is asked for, so
// that a key belongs to one request.
func TestTypedRequestWithAKeyIsCarriedOutOnce(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	q := api.Submission{Task: runs.Task{Prompt: "once"}, Once: api.Once{Key: "0123456789abcdef"}, Webhook: nil}
	first, err := s.Submit(t.Context(), q)
	if err != nil || first.Replayed {
		t.Fatalf("first: %+v, %v", first, err)
	}
	again, err := s.Submit(t.Context(), q)
	if err != nil || !again.Replayed || again.Run != first.Run || again.At != first.At {
		t.Errorf("again: %+v, %v; first %+v", again, err, first)
	}
	q.Prompt = "another"
	if _, err := s.Submit(t.Context(), q); code(t, err) != api.KeyConflict {
		t.Errorf("another request with the key: %v", err)
	}
	other := responder.WithCaller(t.Context(), "another")
	if done, err := s.Submit(other, q); err != nil || done.Run == first.Run {
		t.Errorf("the key of another caller: %+v, %v", done, err)
	}
	for i, want := range []bool{false, true} {
		c, err := s.Cancel(t.Context(), api.Cancel{Run: first.Run, Once: api.Once{Key: "fedcba9876543210"}})
		if err != nil || c.State != runs.StateCancelled || c.Replayed != want {
			t.Errorf("cancel %d: %+v, %v", i+1, c, err)
		}
	}
	if _, err := s.Wait(t.Context(), first.Run, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Cancel(t.Context(), api.Cancel{Run: first.Run}); code(t, err) != api.Ended {
		t.Errorf("a cancel without a key of a run that has ended: %v", err)
	}
}

// The label is not one of those that a submitter may have.
func TestTaskNamesTheTokenOfItsSubmitter(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	const most = 16 // labels of a submitter
	labels := map[string]string{}
	for i := range most {
		labels[fmt.Sprint(i)] = "x"
	}
	for name, want := range map[string]int{"ci": most + 1, "": most} {
		ctx := responder.WithCaller(t.Context(), name)
		done, err := s.Submit(ctx,
			api.Submission{Task: runs.Task{Attributes: runs.Attributes{Labels: runs.LabelsOf(labels)}, Prompt: "x"}})
		if err != nil {
			t.Fatal(err)
		}
		run, ok := s.Get(done.Run)
		if !ok || len(run.Labels.Map()) != want || run.Labels.Map()[runs.LabelCaller] != name {
			t.Errorf("token %q: labels %q", name, run.Labels)
		}
	}
	if len(labels) != most {
		t.Error("the labels of the request were changed")
	}
}

// A caller may choose the id of a run: then the id is the key.
func TestSubmissionWithAKnownRunIDReturnsThatRun(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	q := api.Submission{Run: "T-mine",
		Task: runs.Task{Attributes: runs.Attributes{Labels: runs.LabelsOf(map[string]string{"a": "b"})}, Prompt: "x"}}
	for i, want := range []bool{false, true} {
		done, err := s.Submit(t.Context(), q)
		if err != nil || done.Run != q.Run || done.Replayed != want {
			t.Errorf("attempt %d: %+v, %v", i+1, done, err)
		}
	}
}

// The ids of some agents have capitals.
func TestTaskOfAThreadRunsInItsDirectory(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *responder.Config) { c.Agents = agent.Table{codex.Agent, {Backend: other{}}} })
	for thread, again := range map[string]string{
		"ses_df89a8450ffev5H3D0e8jjYU0N":       "ses_df89a8450ffev5H3D0e8jjYU0N",
		"01a1fe74-0000-7e33-89c9-b25c3e636bcc": "01A1FE74-0000-7E33-89C9-B25C3E636BCC",
	} {
		var run string
		for _, q := range []api.Submission{
			{Task: runs.Task{Attributes: runs.Attributes{Agent: "other", Thread: thread, Dir: "/of/" + thread}, Prompt: "x"}},
			{Task: runs.Task{Attributes: runs.Attributes{Agent: "other", Thread: again}, Prompt: "x"}},
		} {
			done, err := s.Submit(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			run = done.Run
		}
		if v, ok := s.Get(run); !ok || v.Dir != "/of/"+thread {
			t.Errorf("thread %s: the directory is %q, want that of the thread", again, v.Dir)
		}
	}
}

func TestPagesOfAListAreComplete(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	var want []string
	for i := range 7 {
		run := fmt.Sprintf("T-list-%d", i)
		if _, err := s.Submit(t.Context(), api.Submission{Run: run,
			Task: runs.Task{Attributes: runs.Attributes{Dir: fmt.Sprintf("/d%d", i%2)}, Prompt: "x"}}); err != nil {
			t.Fatal(err)
		}
		want = append(want, run)
	}
	if _, err := s.Cancel(t.Context(), api.Cancel{Run: "T-list-6"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Wait(t.Context(), "T-list-6", nil); err != nil {
		t.Fatal(err)
	}
	pages := func(q api.List) (ids []string) {
		t.Helper()
		for {
			page, err := s.List(q)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range page.Runs {
				ids = append(ids, v.ID)
			}
			if page.Next == "" {
				if total, err := s.Count(q); err != nil || total != len(ids) {
					t.Errorf("total %d of %d, %v", total, len(ids), err)
				}
				return ids
			}
			if len(page.Runs) != q.Limit {
				t.Errorf("a page of %d has %d and a next one", q.Limit, len(page.Runs))
			}
			q.Cursor = page.Next
		}
	}
	slices.Sort(want)
	for _, q := range []api.List{{Limit: 1}, {Limit: 3}, {Limit: 7}, {}} {
		got := pages(q)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: %v", q.Limit, got)
		}
	}
	if got := pages(api.List{Limit: 2, Order: api.ByChange}); len(got) != 7 || got[0] != "T-list-6" {
		t.Errorf("by change: %v", got)
	}
	if got := pages(api.List{States: []runs.State{runs.StateCancelled}}); !slices.Equal(got, []string{"T-list-6"}) {
		t.Errorf("cancelled: %v", got)
	}
	if got := pages(api.List{Dir: "/d0/", Limit: 2}); len(got) != 4 {
		t.Errorf("in a directory: %v", got)
	}
	page, err := s.List(api.List{Limit: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []api.List{{Limit: 2, Agent: "codex", Cursor: page.Next}, {Cursor: "x"}, {Cursor: page.Next[1:]}} {
		if _, err := s.List(q); code(t, err) != api.Validation {
			t.Errorf("a cursor of another list: %v", err)
		}
	}
}

func TestUnknownRunIsNotFound(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	ctx := t.Context()
	for name, ask := range map[string]func() error{
		"look":   func() error { _, err := s.Look(ctx, "T-none"); return err },
		"record": func() error { _, err := s.Record(ctx, "T-none"); return err },
		"wait":   func() error { _, err := s.Wait(ctx, "T-none", nil); return err },
		"cancel": func() error { _, err := s.Cancel(ctx, api.Cancel{Run: "T-none"}); return err },
		"result": func() error { _, err := s.Result(ctx, "T-none", api.ResultRequest{}); return err },
		"events": func() error { _, err := s.Events(ctx, "T-none", 0, 10, 1<<20); return err },
		"output": func() error { _, err := s.Output(ctx, api.OutputRequest{Run: "T-none", Limit: 10}); return err },
		"answer": func() error {
			_, err := s.AnswerLate(ctx, api.LateAnswer{Run: "T-none", Status: runs.ReplySuccess})
			return err
		},
		"no id": func() error { _, err := s.Look(ctx, "no id!"); return err },
	} {
		if got := code(t, ask()); got != api.NotFound {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestOpenRunHasNoResult(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	done, err := s.Submit(t.Context(), api.Submission{Task: runs.Task{Prompt: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Result(t.Context(), done.Run, api.ResultRequest{})
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.NotEnded || e.State != runs.StateQueued || e.Run != done.Run || !e.Retryable {
		t.Errorf("%+v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	v, err := s.Wait(ctx, done.Run, nil)
	if !errors.As(err, &e) || e.Code != api.Timeout || e.Limit != api.LimitWait || v.ID != done.Run {
		t.Errorf("a wait that ended first: %+v, %v", v, err)
	}
}

// Times of the wire are strings with three digits of a second's fraction, and
// come back as they were.
func TestTimesRoundTrip(t *testing.T) {
	for _, want := range []runs.Time{0, 1, 1_760_000_000_000, 1_760_000_000_123} {
		b, err := json.Marshal(want)
		var got runs.Time
		if err == nil {
			err = json.Unmarshal(b, &got)
		}
		if err != nil || got != want {
			t.Errorf("%d: %s came back as %d (%v)", want, b, got, err)
		}
	}
}

// A cleanup without ages would remove every run that has ended.
func TestCleanupRequiresAges(t *testing.T) {
	s := responder.New(responder.Config{})
	for _, c := range []api.Cleanup{
		{}, {DryRun: true}, {Stuck: time.Hour}, {Old: time.Hour}, {Stuck: -time.Hour, Old: -time.Hour},
	} {
		if _, err := s.Cleanup(t.Context(), c); code(t, err) != api.Validation {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A submission that is refused for the run that has its thread has done nothing, so its key is free.
func TestASubmissionInConflictFreesItsKey(t *testing.T) {
	t.Parallel()
	s := newService(t, func(c *responder.Config) { c.Agents = known.All() })
	const thread = "01a1fd7c-3234-7431-a730-2b1ea25bc866"
	of := runs.Attributes{Agent: "codex", Dir: "/srv", Thread: thread}
	live := runs.Task{Attributes: of, Prompt: "Go on.", Live: true}
	if _, err := s.Submit(t.Context(), api.Submission{Task: live}); err != nil {
		t.Fatal(err)
	}
	once := api.Once{Key: "0123456789abcdef"}
	if _, err := s.Submit(t.Context(), api.Submission{Task: live, Once: once}); code(t, err) != api.Conflict {
		t.Fatalf("beside a run that has the thread: %v", err)
	}
	done, err := s.Submit(t.Context(), api.Submission{Task: runs.Task{Prompt: "another"}, Once: once})
	if err != nil || done.Run == "" || done.Replayed {
		t.Errorf("another request with the key: %+v, %v", done, err)
	}
}

func TestKeyFormIsChecked(t *testing.T) {
	t.Parallel()
	s := newService(t, nil)
	for _, key := range []string{"1", "with a space in it", strings.Repeat("x", 256)} {
		if _, err := s.Submit(t.Context(), api.Submission{Task: runs.Task{Prompt: "x"}, Once: api.Once{Key: key}}); code(t,
			err) != api.Validation {
			t.Errorf("%q: %v", key, err)
		}
	}
}
