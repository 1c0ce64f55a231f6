package bridge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/linesman/linesman/api"
)

// The directory is created after the start, and a parent is a symbolic link: the next bridge has the same journal.
func TestLinkedDirectoryHasOneJournal(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	linked := filepath.Join(filepath.Dir(l.dir), "linked")
	if err := os.Symlink(l.dir, linked); err != nil {
		t.Fatal(err)
	}
	l.dir = filepath.Join(linked, "sub")
	c := l.config()
	c.Dirs[0].Must = false
	stop := l.start(c)
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l.request(request, "id-1", "hang")
	l.until("it is submitted", func() bool { return len(l.names(l.runs)) == 1 })
	stop()
	run := l.names(l.runs)[0]
	l.start(l.config())
	if err := os.WriteFile(filepath.Join(l.runs, run+".cancelled"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.until("it is answered or run again", func() bool { return l.has(response) || len(l.names(l.runs)) > 2 })
	if names := l.names(l.runs); !slices.Equal(names, []string{run, run + ".cancelled"}) {
		t.Errorf("run again: %q", strings.Join(names, " "))
	}
}

// The journal of a directory that appears later cannot be opened: the bridge ends, as it does at its start.
func TestUnusableJournalOfALaterDirectoryEndsTheBridge(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.dir = filepath.Join(l.dir, "sub")
	if err := os.WriteFile(l.state, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, ready := l.config(), make(chan struct{})
	c.Dirs[0].Must, c.Ready = false, func() { close(ready) }
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- newBridge(c).run(ctx) }()
	<-ready
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, errState) {
		t.Errorf("got %v", err)
	}
}

// awayRunner reaches no responder when a run is to be ended, until it is back.
type awayRunner struct {
	runner
	back atomic.Bool
}

func (r *awayRunner) Expire(ctx context.Context, run string) error {
	if !r.back.Load() {
		return errors.New("NATS is away")
	}
	return r.runner.Expire(ctx, run)
}

func (r *awayRunner) Cancel(ctx context.Context, run, reason string) error {
	if !r.back.Load() {
		return errors.New("NATS is away")
	}
	return r.runner.Cancel(ctx, run, reason)
}

// A run whose request timed out while no responder answered is ended once one answers, also by the next bridge. The
// response does not wait for that, nor does it matter whether the program still waits for it.
func TestRunThatTimedOutInAnOutageIsEnded(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		for _, gone := range []bool{false, true} {
			t.Run(fmt.Sprintf("restart=%v/gone=%v", restart, gone), func(t *testing.T) {
				t.Parallel()
				l := newFixture(t)
				c := l.config()
				away := &awayRunner{runner: c.runner}
				c.runner = away
				l.step = func(at string) {
					if gone && at == "answered" && !away.back.Load() {
						_ = os.Remove(l.path(request))
					}
				}
				stop := l.start(c)
				l.write(request, `{"request_id":"id-1","prompt":"hang","timeout_seconds":0.2}`)
				if gone {
					l.until("its answer is dropped", func() bool {
						return l.logs.FilterMessage("the request is gone, its answer is dropped").Len() == 1
					})
				} else if r := l.response(response); r["status"] != statusTimeout {
					t.Errorf("got %v", r)
				} else {
					l.removed()
				}
				if restart {
					stop()
					l.start(c)
				}
				away.back.Store(true)
				l.until("the run is ended", func() bool {
					return slices.ContainsFunc(l.names(l.runs), func(name string) bool {
						return strings.HasSuffix(name, ".cancelled")
					})
				})
				if gone {
					l.request(request, "id-1", "say again") // it was withdrawn, so its id is free
					l.until("its entry is gone", func() bool { return l.has(response) })
				}
			})
		}
	}
}

// refusing refuses each job, as a responder with other settings.
type refusing struct{ runner }

func (refusing) Submit(context.Context, job) error { return &refusedError{"not any more"} }

// The next bridge would not submit the run of a request, or could not: its settings or the request have changed. If
// there is the run, its answer is the response.
func TestRunThatExistsIsNotSubmittedAgain(t *testing.T) {
	t.Parallel()
	const invalid = `{"request_id":"id-1","prompt":7}`
	for name, tt := range map[string]struct {
		killed string // step of the first bridge
		now    string // content of the request file after it; "": the same
		want   string
	}{
		"refused":           {"submitted", "", "late"},
		"invalid":           {"submitted", invalid, "late"},
		"refused, no run":   {"claimed", "", "not any more"},
		"invalid, no run":   {"claimed", invalid, "invalid request: prompt: must be text that is not blank"},
		"ended, not stored": {"ended", invalid, "late"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t)
			l.request(request, "id-1", "hang late")
			if tt.killed == "ended" {
				l.crash("submitted")
				if err := (&fileRunner{l.runs}).Cancel(t.Context(), l.names(l.runs)[0], ""); err != nil {
					t.Fatal(err)
				}
			}
			l.crash(tt.killed)
			if tt.now != "" {
				l.write(request, tt.now)
			}
			c := l.config()
			c.runner = refusing{c.runner}
			l.start(c)
			if runs := l.names(l.runs); len(runs) == 1 {
				if err := (&fileRunner{l.runs}).Cancel(t.Context(), runs[0], ""); err != nil {
					t.Fatal(err)
				}
			}
			if r := l.response(response); r["response"] != tt.want && r["error_message"] != tt.want {
				t.Errorf("got %v, want %q", r, tt.want)
			}
		})
	}
}

// endingRunner has no outcome of a run, and ends it with an error, which may be nil.
type endingRunner struct {
	goneRunner
	err error
}

func (r *endingRunner) Expire(context.Context, string) error { return r.err }

// Only a run that could not be ended is to be ended later: until that is refused for good, which is said once.
func TestRunIsToBeEndedLaterUnlessThatIsRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err          error
		later, again bool
		said         int
	}{
		"ended":   {},
		"away":    {errors.New("NATS is away"), true, true, 0},
		"refused": {&api.Error{Code: api.Validation}, true, false, 1},
		"error":   {&api.Error{Code: api.Internal}, true, true, 0},
		"moment":  {&api.Error{Code: api.Unavailable, Retryable: true}, true, true, 0},
		"later":   {&api.Error{Code: api.NotEnded}, true, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.WarnLevel)
				w := &dirWatcher{bridge: newBridge(Config{runner: &endingRunner{err: tt.err}}), log: zap.New(core)}
				e := entry{ID: "id-1", Run: "T-local-1", At: time.Now().UnixMilli(), Timeout: 1}
				o, err := w.outcome(t.Context(), requestFile{ID: e.ID, Prompt: "Which one?"}, e, false)
				if err != nil || o.Status != statusTimeout || o.Unended != tt.later {
					t.Errorf("got %+v, %v", o, err)
				}
				if w.journal, err = openJournal(filepath.Join(t.TempDir(), "journal")); err != nil {
					t.Fatal(err)
				}
				e.Answered, e.Unended = e.At, true
				if err := w.journal.put(e); err != nil {
					t.Fatal(err)
				}
				logs.TakeAll()
				w.endLate(t.Context(), e)
				if again := len(w.journal.unended()) > 0; again != tt.again || logs.Len() != tt.said {
					t.Errorf("again: %v, %v", again, logs.All())
				}
			})
		})
	}
}

// An invalid request was claimed by an earlier bridge, and no responder answers: the response has the errors.
func TestInvalidRequestIsNotATimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &dirWatcher{bridge: newBridge(Config{runner: &endingRunner{err: errors.New("NATS is away")}}), log: zap.NewNop()}
		e := entry{ID: "id-1", Run: "T-local-1", At: time.Now().UnixMilli(), Timeout: time.Hour.Milliseconds()}
		o, err := w.outcome(t.Context(), requestFile{ID: e.ID, Problems: []string{"prompt: is blank"}}, e, true)
		if err != nil || o.Status != statusError || o.Message != "invalid request: prompt: is blank" || !o.Unended {
			t.Errorf("got %+v, %v", o, err)
		}
	})
}
