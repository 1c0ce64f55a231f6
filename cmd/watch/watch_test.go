package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/internal/delivery"
	"github.com/linesman/linesman/runs"
)

// linesman is what a watcher sees of one.
type linesman struct {
	mu        sync.Mutex
	runs      map[string]*api.Run
	events    []client.Event
	err       error // of all requests
	keeps     error // of a cancel
	cancelled []string
}

func newLinesman() *linesman { return &linesman{runs: map[string]*api.Run{}} }

// set stores the state of a run, with its end as an event.
func (l *linesman) set(run *api.Run) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[run.ID] = run
	if run.State.Final() {
		l.events = append(l.events, client.Event{
			Seq: uint64(len(l.events)+1) * 10, Raw: uint64(len(l.events)+1) * 100, Time: time.Now(), Run: run.ID,
			Kind: api.Completion,
		})
	}
}

func (l *linesman) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// keep sets the error of each cancel.
func (l *linesman) keep(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keeps = err
}

func (l *linesman) List(_ context.Context, q api.List) (api.RunPage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var page api.RunPage
	for _, run := range l.runs {
		if slices.Contains(q.States, run.State) && run.ID > q.Cursor {
			page.Runs = append(page.Runs, new(*run))
		}
	}
	slices.SortFunc(page.Runs, func(a, b *api.Run) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	if len(page.Runs) > 2 { // so that there are pages
		page.Runs = page.Runs[:2]
		page.Next = page.Runs[1].ID
	}
	return page, l.err
}

func (l *linesman) Status(_ context.Context, id string) (*api.Run, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	run := l.runs[id]
	switch {
	case l.err != nil:
		return nil, l.err
	case run == nil:
		return nil, &api.Error{Code: api.NotFound}
	}
	return new(*run), nil
}

func (l *linesman) Questions(_ context.Context, q api.QuestionsRequest) (all api.Questions, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if run := l.runs[q.Request]; run != nil {
		for _, id := range run.Questions {
			all.Requests = append(all.Requests, api.Question{
				Run: run.ID, ID: id, Kind: api.KindPermission, RunTitle: run.Title, Title: "rm -rf /home/dev", Tool: "execute",
				Command: "rm -rf /home/dev", Options: []api.QuestionOption{{ID: "y", Kind: "allow_once"}},
			})
		}
	}
	return all, l.err
}

func (l *linesman) Cancel(_ context.Context, q api.Cancel) (api.Cancelled, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancelled = append(l.cancelled, q.Run+" "+q.Reason)
	return api.Cancelled{}, errors.Join(l.err, l.keeps)
}

func (l *linesman) Follow(ctx context.Context, f client.Filter) iter.Seq2[client.Event, error] {
	next := func(after uint64) (client.Event, bool, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, e := range l.events {
			if e.Seq > after && !e.Time.Before(f.Since) {
				return e, true, l.err
			}
		}
		return client.Event{}, false, l.err
	}
	return func(yield func(client.Event, error) bool) {
		for ctx.Err() == nil {
			e, ok, err := next(f.After)
			switch {
			case err != nil:
				yield(client.Event{}, err)
				return
			case ok:
				if f.After = e.Seq; !yield(e, nil) {
					return
				}
			case !f.Follow:
				return
			default:
				_ = sleep(ctx, 2*time.Second)
			}
		}
	}
}

// inbox is a sink. It refuses what refuse, which may be nil, has an error for.
type inbox struct {
	mu     sync.Mutex
	got    []string
	times  []time.Time
	refuse func(n notice, times int) error
	tries  map[string]int
}

func (b *inbox) Deliver(_ context.Context, n notice) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tries == nil {
		b.tries = map[string]int{}
	}
	b.tries[n.ID]++
	if b.refuse != nil {
		if err := b.refuse(n, b.tries[n.ID]); err != nil {
			return err
		}
	}
	said := n.Run + " " + string(n.Kind)
	if n.Question != "" || strings.Contains(n.Text, "not cancelled") {
		said = n.Text
	}
	b.got = append(b.got, said)
	b.times = append(b.times, time.Now())
	return nil
}

func (b *inbox) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.got)
}

// watching runs a watcher until stop is called.
func watching(t *testing.T, cfg Config) (stop func() error) {
	t.Helper()
	w, err := newWatcher(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() error {
		cancel()
		return errors.Join(<-ended, w.Close())
	}
}

// pass lets time pass, and compares what was delivered in it.
func pass(t *testing.T, b *inbox, d time.Duration, want ...string) {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.Sort(b.got) // notices about several runs have no order
	if !slices.Equal(b.got, want) {
		t.Errorf("after %v: got %q, want %q", d, b.got, want)
	}
	b.got = nil
}

// now is a run as of now.
func nowRun(id string, change func(*api.Run)) *api.Run {
	at := runs.Time(time.Now().UnixMilli())
	run := &api.Run{
		Summary: runs.Summary{
			ID: id, Attributes: runs.Attributes{Agent: "codex"}, State: runs.StateWorking, Source: "queue", Worker: "w",
			StartedAt: at, ActiveAt: at,
			Seq: uint64(at), Doing: &runs.Doing{Phase: runs.Thinking, Since: at},
		},
	}
	if change != nil {
		change(run)
	}
	return run
}

// Only time passes: no event, and no change of a row.
func TestStallIsNoticedAlthoughNothingHappens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, b := newLinesman(), &inbox{}
		stop := watching(t, Config{Runs: l, Rules: all(), Sink: b})
		l.set(nowRun("dead", nil))
		l.set(nowRun("tool", func(r *api.Run) { r.Doing.Phase = runs.RunningTool }))
		pass(t, b, 9*time.Minute)
		pass(t, b, 2*time.Minute, "dead stalled")
		pass(t, b, 3*time.Hour) // once, and a tool call may take as long as it wants
		l.set(nowRun("tool", func(r *api.Run) { r.Doing.Phase, r.WorkerLost = runs.RunningTool, true }))
		pass(t, b, 11*time.Minute, "tool lost", "tool stalled")
		l.set(nowRun("dead", nil)) // it writes again, and is silent again
		pass(t, b, 9*time.Minute)
		pass(t, b, 2*time.Minute, "dead stalled")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestEndsAreReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, b := newLinesman(), &inbox{}
		state := filepath.Join(t.TempDir(), "state")
		l.set(nowRun("before", func(r *api.Run) { r.State = runs.StateCompleted }))
		time.Sleep(time.Second)
		cfg := Config{Runs: l, Rules: all(), Sink: b, State: state}
		stop := watching(t, cfg)
		pass(t, b, time.Minute)
		l.set(nowRun("first", func(r *api.Run) { r.State = runs.StateCompleted }))
		pass(t, b, time.Minute, "first completed")
		if err := stop(); err != nil {
			t.Error(err)
		}
		l.set(nowRun("away", func(r *api.Run) { r.State = runs.StateFailed }))
		stop = watching(t, cfg)
		pass(t, b, time.Minute, "away failed")
		l.fail(&api.Error{Code: api.Unavailable, Retryable: true, Err: client.ErrUnreachable})
		time.Sleep(time.Hour)
		l.set(nowRun("outage", func(r *api.Run) { r.State = runs.StateTimeout }))
		l.fail(nil)
		pass(t, b, time.Minute, "outage failed")
		if err := stop(); err != nil {
			t.Error(err)
		}
		// The streams were created again: sequences begin at 1.
		l.events = nil
		l.set(nowRun("other", func(r *api.Run) { r.State = runs.StateCompleted }))
		stop = watching(t, cfg)
		pass(t, b, time.Minute, "other completed")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// EVENTS are made again from the raw log: no end is missed where another one has the sequence of
// the last one, and none that was handled is reported again.
func TestEndsOfARecreatedStreamAreReportedOnce(t *testing.T) {
	t.Parallel()
	for _, expired := range []int{0, 1, 2} { // which the new stream lacks
		synctest.Test(t, func(t *testing.T) {
			l, b := newLinesman(), &inbox{}
			cfg := Config{Runs: l, Rules: all(), Sink: b, State: filepath.Join(t.TempDir(), "state")}
			stop := watching(t, cfg)
			end := func(run string) {
				time.Sleep(time.Minute)
				l.set(nowRun(run, func(r *api.Run) { r.State = runs.StateCompleted }))
			}
			end("a")
			end("b")
			pass(t, b, time.Minute, "a completed", "b completed")
			if err := stop(); err != nil {
				t.Error(err)
			}
			end("c")
			end("d")
			l.events = l.events[expired:]
			for i := range l.events {
				l.events[i].Seq = uint64(i+1) * 10
			}
			stop = watching(t, cfg)
			pass(t, b, time.Minute, "c completed", "d completed")
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The record of a run follows its completion.
func TestEndWaitsForTheRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, b := newLinesman(), &inbox{}
		stop := watching(t, Config{Runs: l, Rules: all(), Sink: b})
		time.Sleep(time.Second)
		late := nowRun("late", func(r *api.Run) { r.State = runs.StateCompleted })
		l.set(late)
		for _, id := range []string{"gone", "continued"} {
			l.set(nowRun(id, func(r *api.Run) { r.State = runs.StateCompleted }))
		}
		l.mu.Lock()
		delete(l.runs, "gone")
		l.runs["continued"] = nowRun("continued", func(r *api.Run) { r.ContinuedBy = "other" })
		l.runs["late"] = nowRun("late", nil)
		l.mu.Unlock()
		pass(t, b, 10*time.Second)
		l.mu.Lock()
		l.runs["late"] = late
		l.mu.Unlock()
		l.set(nowRun("next", func(r *api.Run) { r.State = runs.StateCompleted }))
		pass(t, b, 10*time.Second, "late completed", "next completed")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// Each question of a live run has a notice of its own, once, also over a restart; the phase that waits for it has none.
// One that is answered while its notice waits to be delivered is not reported.
func TestEachQuestionIsReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, b := newLinesman(), &inbox{}
		cfg := Config{Runs: l, Rules: all(), Sink: b, State: filepath.Join(t.TempDir(), "state")}
		asks := func(since time.Time, ids ...string) {
			l.set(nowRun("r", func(r *api.Run) {
				r.Title = "Fix it"
				if r.Questions = ids; ids != nil {
					r.State, r.Doing = runs.StateInputRequired, &runs.Doing{Phase: runs.AwaitingInput, Since: api.TimeOf(since)}
				}
			}))
		}
		said := func(id string) string {
			return "run r (codex) asks for execute: Fix it — linesman answer r/" + id + " allow (or deny)"
		}
		stop := watching(t, cfg)
		asks(time.Now(), "q1")
		pass(t, b, time.Minute, said("q1"))
		asks(time.Now(), "q1", "q2")
		pass(t, b, time.Hour, said("q2"))
		if err := stop(); err != nil {
			t.Error(err)
		}
		stop = watching(t, cfg)
		pass(t, b, time.Minute)
		asks(time.Now())
		pass(t, b, time.Minute)
		asks(time.Now(), "q3")
		pass(t, b, time.Minute, said("q3"))

		b.mu.Lock()
		b.refuse = func(notice, int) error { return &delivery.Refusal{Why: "away"} }
		b.mu.Unlock()
		asks(time.Now(), "q4", "q5")
		time.Sleep(time.Minute)
		asks(time.Now(), "q5")
		b.mu.Lock()
		b.refuse = nil
		b.mu.Unlock()
		pass(t, b, time.Hour, said("q5"))
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// Each turn after which a run waits for a message is reported once, also over a restart.
func TestEachTurnIsReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, b := newLinesman(), &inbox{}
		cfg := Config{Runs: l, Rules: all(), Sink: b, State: filepath.Join(t.TempDir(), "state")}
		waits := func(turn int, state runs.State) {
			l.set(nowRun("r", func(r *api.Run) { r.Turn, r.State = turn, state }))
		}
		stop := watching(t, cfg)
		for turn := range 3 {
			waits(turn+1, runs.StateWorking)
			pass(t, b, time.Minute)
			waits(turn+1, runs.StateInputRequired)
			pass(t, b, time.Hour, "r turn")
			if err := stop(); err != nil {
				t.Error(err)
			}
			stop = watching(t, cfg)
			pass(t, b, time.Minute)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestDeliveryIsRetriedAndGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLinesman()
		b := &inbox{refuse: func(n notice, times int) error {
			switch {
			case n.Run == "never":
				return &delivery.Refusal{Why: "no"}
			case n.Run == "final":
				return &delivery.Refusal{Why: "no", Final: true}
			case n.Run == "pause" && times == 1:
				return &delivery.Refusal{Why: "later", After: time.Hour}
			case n.Run == "again" && times < 5:
				return &delivery.Refusal{Why: "not now"}
			}
			return nil
		}}
		log, logs := observer.New(zap.WarnLevel)
		stop := watching(t, Config{Runs: l, Rules: all(), Sink: b, Log: zap.New(log)})
		time.Sleep(time.Second)
		for _, id := range []string{"never", "final", "pause", "again", "good"} {
			l.set(nowRun(id, func(r *api.Run) { r.State, r.Title = runs.StateCompleted, "a secret title" }))
		}
		pass(t, b, time.Minute, "again completed", "good completed")
		pass(t, b, time.Hour, "pause completed")
		time.Sleep(25 * time.Hour)
		b.mu.Lock()
		tries := b.tries["never/completed"]
		b.mu.Unlock()
		time.Sleep(25 * time.Hour)
		b.mu.Lock()
		defer b.mu.Unlock()
		if tries < 100 || tries > 1000 || b.tries["never/completed"] != tries || b.tries["final/completed"] != 1 {
			t.Errorf("%d attempts, then %v", tries, b.tries)
		}
		if n := logs.FilterMessage("a notice is given up").Len(); n != 2 {
			t.Errorf("%d notices are given up", n)
		}
		for _, e := range logs.All() {
			if text := fmt.Sprint(e.Message, e.ContextMap()); slices.Contains([]string{text}, "secret title") {
				t.Errorf("the log has %s", text)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// Nothing is accepted for ten minutes: the watcher waits with what comes, and loses nothing.
func TestOutboxIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, down := newLinesman(), true
		b := &inbox{refuse: func(notice, int) error {
			if down {
				return &delivery.Refusal{Why: "no"}
			}
			return nil
		}}
		w, err := newWatcher(Config{Runs: l, Rules: all(), Sink: b})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		time.Sleep(time.Second)
		const many = maxPending + 100
		for i := range many {
			l.set(nowRun(fmt.Sprintf("r%04d", i), func(r *api.Run) { r.State = runs.StateCompleted }))
		}
		time.Sleep(10 * time.Minute)
		if n := len(w.out.pending()); n != maxPending {
			t.Errorf("%d notices are pending, want %d", n, maxPending)
		}
		b.mu.Lock()
		down = false
		b.mu.Unlock()
		time.Sleep(10 * time.Minute)
		got := b.all()
		slices.Sort(got)
		if n := len(slices.Compact(got)); n != many || len(b.all()) != many {
			t.Errorf("%d notices, %d of them different, want %d", len(b.all()), n, many)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A kill at any moment is a restart with any state file that there was. Each notice is
// delivered at least once, with the same id.
func TestRestartWithAnyStateFileLosesNothing(t *testing.T) {
	t.Parallel()
	var files [][]byte
	play := func(l *linesman, each func()) { // a story
		for _, step := range []func(){
			func() { l.set(nowRun("stalls", nil)) },
			func() { l.set(nowRun("ends", func(r *api.Run) { r.State = runs.StateCompleted })) },
			func() { time.Sleep(11 * time.Minute) },
			func() { l.set(nowRun("fails", func(r *api.Run) { r.State = runs.StateFailed })) },
			func() {
				l.set(nowRun("stalls", func(r *api.Run) {
					r.StartedAt, r.Tokens, r.State = l.runs["stalls"].StartedAt, &runs.Spend{Input: 100}, runs.StateCompleted
				}))
			},
		} {
			step()
			time.Sleep(time.Minute)
			each()
		}
	}
	want := []string{
		"ends completed", "fails failed", "stalls budget", "stalls completed", "stalls stalled",
	}
	rules := all()
	rules.Budgets = budgets(t, "tokens=100/run")
	run := func(kill int) (got []string) {
		synctest.Test(t, func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "state")
			l, b := newLinesman(), &inbox{}
			begin := func() *watcher {
				w, err := newWatcher(Config{Runs: l, Rules: rules, Sink: b, State: state})
				if err != nil {
					t.Fatal(err)
				}
				return w
			}
			w := begin()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- w.Run(ctx) }()
			keep := func() { // with the lock of b
				if body, err := os.ReadFile(state); err == nil && kill < 0 {
					files = append(files, body)
				}
			}
			b.refuse = func(notice, int) error { keep(); return nil }
			time.Sleep(time.Second)
			play(l, func() {
				b.mu.Lock()
				defer b.mu.Unlock()
				keep()
			})
			cancel()
			if err := errors.Join(<-ended, w.Close()); err != nil {
				t.Error(err)
			}
			got = b.all()
			if kill < 0 {
				return
			}
			if err := os.WriteFile(state, files[kill], 0o600); err != nil {
				t.Fatal(err)
			}
			b.got = nil
			w = begin()
			ctx, cancel = context.WithCancel(t.Context())
			go func() { ended <- w.Run(ctx) }()
			time.Sleep(time.Minute)
			cancel()
			if err := errors.Join(<-ended, w.Close()); err != nil {
				t.Error(err)
			}
			got = b.all()
		})
		return got
	}
	got := run(-1)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range files {
		var s state
		if err := json.Unmarshal(files[i], &s); err != nil {
			t.Fatal(err)
		}
		again := run(i)
		for _, n := range []string{"ends completed", "fails failed", "stalls completed"} {
			end := slices.Index([]string{"ends completed", "fails failed", "stalls completed"}, n)
			handled := s.After >= uint64(end+1)*10 && !slices.ContainsFunc(s.Pending, func(p notice) bool {
				return p.Run+" "+string(p.Kind) == n
			})
			if slices.Contains(again, n) == handled {
				t.Errorf("state %s: %q, want %s: %v", files[i], again, n, !handled)
			}
		}
	}
	if len(files) < 10 {
		t.Errorf("only %d state files", len(files))
	}
}

func TestBudgetCancelsItsRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, b := newLinesman(), &inbox{}
		rules := all()
		rules.Budgets, rules.CancelOn = budgets(t, "time=5m/run", "time=1s/day"), []kind{kindBudget}
		stop := watching(t, Config{Runs: l, Rules: rules, Sink: b})
		l.set(nowRun("long", nil))
		pass(t, b, time.Minute, " budget")
		pass(t, b, 5*time.Minute, "long budget")
		if err := stop(); err != nil {
			t.Error(err)
		}
		if want := []string{"long linesman watch: budget/time=5m0s/run"}; !slices.Equal(l.cancelled, want) {
			t.Errorf("cancelled %q, want %q", l.cancelled, want)
		}
	})
}

// Nothing is accepted, and an earlier notice about the run is pending: the run does not go on spending.
func TestCancelDoesNotWaitForEarlierNotices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, b := newLinesman(), &inbox{refuse: func(notice, int) error { return &delivery.Refusal{Why: "no"} }}
		rules := all()
		rules.Budgets, rules.CancelOn = budgets(t, "time=2h/run"), []kind{kindBudget}
		stop := watching(t, Config{Runs: l, Rules: rules, Sink: b})
		l.set(nowRun("long", nil))
		time.Sleep(2*time.Hour + time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if b.tries["long/budget/time=2h0m0s/run"] == 0 || len(b.tries) != 2 ||
			!slices.Contains(l.cancelled, "long linesman watch: budget/time=2h0m0s/run") {
			t.Errorf("cancelled %q after %v", l.cancelled, b.tries)
		}
	})
}

// Nothing is accepted, and the outbox is full: a run that begins then does not go on spending.
func TestCancelDoesNotWaitForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, b := newLinesman(), &inbox{refuse: func(notice, int) error { return &delivery.Refusal{Why: "no"} }}
		rules := rules{On: []kind{kindLost, kindBudget}, StalledAfter: time.Hour,
			Budgets: budgets(t, "tokens=1k/run"), CancelOn: []kind{kindBudget}}
		for i := range 2 * maxPending {
			l.set(nowRun(fmt.Sprintf("r%04d", i), func(r *api.Run) { r.WorkerLost = true }))
		}
		stop := watching(t, Config{Runs: l, Rules: rules, Sink: b})
		time.Sleep(10 * time.Second)
		l.set(nowRun("long", func(r *api.Run) { r.Tokens = &runs.Spend{Output: 1000} }))
		time.Sleep(10 * time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if !slices.Contains(l.cancelled, "long linesman watch: budget/tokens=1000/run") {
			t.Errorf("cancelled %q", l.cancelled)
		}
	})
}

// A stalled run is cancelled for what holds when that is done, however long its notice was pending.
func TestRunThatHasOutputAgainIsNotCancelled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, b := newLinesman(), &inbox{}
		rules := all()
		rules.CancelOn = []kind{kindStalled}
		l.keep(&api.Error{Code: api.Unavailable, Retryable: true})
		stop := watching(t, Config{Runs: l, Rules: rules, Sink: b})
		for _, id := range []string{"again", "ends", "still"} {
			l.set(nowRun(id, nil))
		}
		pass(t, b, 20*time.Minute) // none can be cancelled
		l.set(nowRun("again", nil))
		l.set(nowRun("ends", func(r *api.Run) { r.CancelRequested = true })) // by an attempt whose delivery failed
		l.mu.Lock()
		l.cancelled = nil
		l.mu.Unlock()
		l.keep(nil)
		pass(t, b, 6*time.Minute, "ends stalled", "run again (codex) has had no output for 10m00s; it is not cancelled: "+
			"it has output again", "still stalled")
		if err := stop(); err != nil {
			t.Error(err)
		}
		slices.Sort(l.cancelled)
		if got := strings.Join(l.cancelled, "; "); strings.Contains(got, "again ") || !strings.Contains(got, "still ") {
			t.Errorf("cancelled %q", got)
		}
	})
}

// Codex Cloud ends no task, and credentials may lack the right: that is no reason not to tell of the budget.
func TestNoticeOfARunThatCannotBeCancelledIsDelivered(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		err  error
		said string
	}{
		"cloud":  {&api.Error{Code: api.Unsupported, Message: "on its web page only"}, "on its web page only"},
		"denied": {&api.Error{Code: api.Unavailable, Message: "not permitted", Err: client.ErrDenied}, "not permitted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, b := newLinesman(), &inbox{}
				l.keep(of.err)
				rules := all()
				rules.Budgets, rules.CancelOn = budgets(t, "time=5m/run"), []kind{kindBudget}
				rules.On = rules.CancelOn
				stop := watching(t, Config{Runs: l, Rules: rules, Sink: b})
				l.set(nowRun("long", func(r *api.Run) { r.Source = "cloud" }))
				pass(t, b, 10*time.Minute,
					"run long (codex) has used 5m00s, its budget is 5m00s; it is not cancelled: "+of.said)
				if len(l.cancelled) != 1 {
					t.Errorf("cancelled %q, want one attempt", l.cancelled)
				}
				l.keep(&api.Error{Code: api.Unavailable, Retryable: true})
				l.set(nowRun("other", nil))
				pass(t, b, 10*time.Minute)
				l.keep(nil)
				pass(t, b, 10*time.Minute, "other budget")
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestDeniedRequestsEndTheWatcher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLinesman()
		l.fail(&api.Error{Code: api.Unavailable, Err: client.ErrDenied})
		w, err := newWatcher(Config{Runs: l, Rules: all(), Sink: &inbox{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Run(t.Context()); !errors.Is(err, client.ErrDenied) {
			t.Errorf("got %v", err)
		}
	})
}

func TestOnceDeliversAndReportsFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, b := newLinesman(), &inbox{}
		cfg := Config{Runs: l, Rules: all(), Sink: b, State: filepath.Join(t.TempDir(), "state")}
		if err := Run(t.Context(), cfg, true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		l.set(nowRun("a", func(r *api.Run) { r.State = runs.StateCompleted }))
		b.refuse = func(notice, int) error { return &delivery.Refusal{Why: "no"} }
		if err := Run(t.Context(), cfg, true); err == nil || err.Error() != "no" {
			t.Errorf("got %v", err)
		}
		b.refuse = nil
		for range 2 {
			if err := Run(t.Context(), cfg, true); err != nil {
				t.Error(err)
			}
		}
		pass(t, b, 0, "a completed")
	})
}

// More is to be reported than the outbox holds: it is delivered in parts, or all ends with an
// error, and the next time continues there.
func TestOnceReportsMoreThanTheOutboxHolds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, b := newLinesman(), &inbox{}
		cfg := Config{Runs: l, Rules: all(), Sink: b, State: filepath.Join(t.TempDir(), "state")}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := Run(ctx, cfg, true); err != nil {
			t.Fatal(err)
		}
		const many = maxPending + 10
		for i := range many {
			l.set(nowRun(fmt.Sprintf("r%04d", i), func(r *api.Run) { r.State = runs.StateCompleted }))
		}
		b.refuse = func(notice, int) error { return &delivery.Refusal{Why: "no"} }
		for range 2 {
			if err := Run(ctx, cfg, true); err == nil || ctx.Err() != nil {
				t.Fatalf("got %v", err)
			}
		}
		b.refuse = nil
		if err := Run(ctx, cfg, true); err != nil {
			t.Error(err)
		}
		got := b.all()
		slices.Sort(got)
		if n := len(slices.Compact(got)); n != many || len(b.all()) != many {
			t.Errorf("%d notices, %d of them different, want %d", len(b.all()), n, many)
		}
	})
}

// Many runs lose their worker at once, while nothing is accepted.
func TestOutboxIsBoundedForOpenRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const many = 3 * maxPending
		l, down := newLinesman(), true
		for i := range many {
			l.set(nowRun(fmt.Sprintf("r%04d", i), func(r *api.Run) { r.WorkerLost = true }))
		}
		b := &inbox{refuse: func(notice, int) error {
			if down {
				return &delivery.Refusal{Why: "no"}
			}
			return nil
		}}
		rules := rules{On: []kind{kindLost}, StalledAfter: time.Hour}
		w, err := newWatcher(Config{Runs: l, Rules: rules, Sink: b})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		time.Sleep(2 * time.Second)
		if n := len(w.out.pending()); n < maxPending || n > 2*maxPending {
			t.Errorf("%d notices are pending", n)
		}
		b.mu.Lock()
		down = false
		b.mu.Unlock()
		time.Sleep(15 * time.Second)
		if n := len(b.all()); n != many {
			t.Errorf("%d notices, want %d", n, many)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestStateFileBelongsToOneWatcher(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	cfg := Config{Runs: newLinesman(), Rules: all(), Sink: &inbox{}, State: state}
	w, err := newWatcher(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newWatcher(cfg); err == nil {
		t.Error("two watchers use one state file")
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	for _, body := range []string{"", "{", `{"format":2}`} {
		if err := os.WriteFile(state, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := newWatcher(cfg); err == nil {
			t.Errorf("a state file %q is read", body)
		}
	}
}
