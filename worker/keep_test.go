package worker

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linesman/linesman/live"
	"github.com/linesman/linesman/runs"
)

// keeping returns a live run that goes on after a turn.
func keeping(t *testing.T, does ...string) *stage {
	s := newStage(t, does...)
	s.spec.Keep, s.spec.Limits.Hard = true, time.Hour
	return s
}

// lasts waits until the log says so, up to now.
func (s *stage) lasts(want string) {
	s.t.Helper()
	waitFor(s.t, want, func() bool { return s.transcript() == want })
}

func message(id, text string) runs.Command {
	return runs.Command{ID: id, Do: runs.DoSend, By: "ann", Via: "rest", Text: text}
}

const firstTurn = "start process-start >initialize1 <1 >new2 <2 >set_mode3 <3 >prompt4 <update <4"

func TestRunGoesOnAfterATurnUntilItIsEnded(t *testing.T) {
	t.Parallel()
	s := keeping(t)
	r, done := s.driven(t.Context(), s.create(s.spec))
	log := firstTurn
	s.lasts(log)
	for i := range 3 {
		got, err := r.Answer(t.Context(), message(fmt.Sprint("m", i), fmt.Sprint("text ", i)))
		if err != nil || !got.Holds || got.Turn != i+2 || !got.Delivered {
			t.Errorf("message %d: %+v, error %v", i, got, err)
		}
		log += fmt.Sprintf(" ann- >prompt%d <update <%[1]d", i+5)
		s.lasts(log)
	}
	again, err := r.Answer(t.Context(), message("m1", "text 1"))
	if err != nil || !again.Holds {
		t.Errorf("the same command again: %+v, error %v", again, err)
	}
	if got, err := r.Answer(t.Context(), runs.Command{ID: "e", Do: runs.DoEnd, By: "bob"}); err != nil || !got.Holds {
		t.Errorf("end: %+v, error %v", got, err)
	}
	res := <-done
	if res.err != nil || res.Exit.Reason != runs.ReasonEOF {
		t.Fatalf("%+v", res)
	}
	s.reads(log + " bob- >close8 <8 process-end exit")
	if got := strings.Count(s.did("accepted"), `"text":"text `); got != 3 {
		t.Errorf("the agent has accepted %d messages", got)
	}
}

// What waits is in the log: the worker after this one sends it.
func TestMessagesWaitThroughARestartOfTheWorker(t *testing.T) {
	t.Parallel()
	s := keeping(t, "waits")
	ctx, end := context.WithCancel(t.Context())
	defer end()
	r, done := s.driven(ctx, s.create(s.spec))
	waitFor(t, "the turn", func() bool { return strings.HasSuffix(s.transcript(), "<update") })
	for i := range 2 {
		if got, err := r.Answer(ctx, message(fmt.Sprint("m", i), fmt.Sprint("text ", i))); err != nil || !got.Holds {
			t.Fatalf("%+v, error %v", got, err)
		}
	}
	end()
	<-done
	if got, err := s.absent(message("m2", "text 2")); err != nil || !got.Holds {
		t.Fatalf("without an owner: %+v, error %v", got, err)
	}
	if err := os.WriteFile(s.dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.adopt()
	waitFor(t, "four turns", func() bool { return strings.HasSuffix(s.transcript(), "<update <7") })
	if got, err := s.absent(runs.Command{ID: "e", Do: runs.DoEnd, By: "ann"}); err != nil || !got.Holds {
		t.Fatalf("end without an owner: %+v, error %v", got, err)
	}
	waitFor(t, "the end", func() bool { return s.ended("r") })
	if got := s.did("accepted"); strings.Index(got, "text 0") > strings.Index(got, "text 1") ||
		strings.Index(got, "text 1") > strings.Index(got, "text 2") || strings.Count(got, `"text":"text `) != 3 {
		t.Errorf("accepted:\n%s", got)
	}
}

// Time in which nothing can be stored is not that of an agent, whose lines and answers wait for that.
func TestTimeInWhichTheLogIsAwayIsNotThatOfTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := live.Status{Process: 1, Turn: 1, Alive: true, Ready: true, Running: true}
		stopped, idle := running, live.Status{Process: 1, Turn: 1, Alive: true, Ready: true, Idle: true}
		stopped.Stopped = true
		for name, s := range map[string]live.Status{
			"start": {Process: 1, Alive: true}, "a later start": {Process: 1, Turn: 1, Alive: true},
			"turn": running, "stop": stopped, "rest": idle,
		} {
			r := &Run{talk: &dialog{pace: pace{turn: time.Minute, rest: time.Minute, start: time.Minute}}}
			p := &r.talk.pace
			over := func() bool {
				_, reached := p.limit(s, time.Now(), time.Now().UnixMilli())
				return reached || p.stuck(time.Now())
			}
			over()
			over() // the turn is known
			for range 20 {
				_ = r.supervised(func() error { time.Sleep(time.Hour); return nil })
				if p.stuck(time.Now()) || over() {
					t.Fatalf("%s: over too soon", name)
				}
			}
			if time.Sleep(time.Minute); !over() {
				t.Errorf("%s: not over", name)
			}
		}
	})
}

// The log is away while a process starts, for longer than that may take.
func TestProcessThatStartsWhileTheLogIsAwayIsReadyInTime(t *testing.T) {
	t.Parallel()
	limit := 2 * superviseInterval
	for {
		s := keeping(t, "resumes")
		s.w.startTime = limit
		s.once(func(e runs.Entry) bool {
			return e.Kind == runs.Sent && bytes.Contains(e.Body, []byte("session/new"))
		}, false, func() { <-time.After(limit + time.Second/2) })
		r, done := s.driven(t.Context(), s.create(s.spec))
		waitFor(t, "the turn, or the end", func() bool { return s.transcript() == firstTurn || len(done) > 0 })
		if len(done) == 0 {
			s.over(r, done)
			return
		}
		if !longer(&limit) { // the machine is busy
			t.Fatalf("log: %s", s.transcript())
		}
	}
}

func TestLimitsOfTurnsAndOfRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pace{turn: time.Hour, rest: 24 * time.Hour}
		at := func(s live.Status, passed time.Duration, want string) {
			t.Helper()
			time.Sleep(passed)
			if c, _ := p.limit(s, time.Now(), time.Now().UnixMilli()); c.ID != want {
				t.Errorf("%+v: %+v, want %q", s, c, want)
			}
		}
		running := live.Status{Turn: 1, Running: true}
		at(running, 0, "")
		at(running, 59*time.Minute, "")
		at(live.Status{Turn: 1, Running: true, Asking: true}, 10*time.Hour, "")
		at(running, time.Minute, "limit-turn-1")
		stopped := live.Status{Turn: 1, Running: true, Stopped: true}
		at(stopped, 0, "")
		at(stopped, stopTime-1, "")
		if p.stuck(time.Now()) {
			t.Error("stuck too soon")
		}
		if at(stopped, 1, ""); !p.stuck(time.Now()) {
			t.Error("not stuck")
		}
		idle := live.Status{Turn: 1, Idle: true}
		at(idle, 0, "")
		at(idle, 24*time.Hour-1, "")
		at(live.Status{Turn: 2, Running: true}, 0, "")
		at(live.Status{Turn: 2, Idle: true}, 0, "")
		at(live.Status{Turn: 2, Idle: true}, 24*time.Hour, "limit-rest-2")

		p.start = time.Minute
		starts := live.Status{Process: 2, Turn: 2, Alive: true}
		at(starts, 0, "")
		at(starts, time.Minute-1, "")
		at(live.Status{Process: 2, Turn: 2, Alive: true, Ready: true}, 0, "")
		at(live.Status{Process: 2, Turn: 2, Alive: true, Sleeps: true}, time.Hour, "")
		at(live.Status{Process: 3, Turn: 2, Alive: true}, time.Minute-1, "")
		at(live.Status{Process: 4, Turn: 2, Alive: true}, 2*time.Minute, "")
		at(live.Status{Process: 4, Turn: 2, Alive: true}, time.Minute-1, "")
		if p.stuck(time.Now()) {
			t.Error("stuck in its start too soon")
		}
		if at(live.Status{Process: 4, Turn: 2, Alive: true}, 1, ""); !p.stuck(time.Now()) {
			t.Error("not stuck in its start")
		}
		if at(live.Status{Process: 4, Turn: 2, Alive: true, Ready: true}, 0, ""); p.stuck(time.Now()) {
			t.Error("stuck when it is ready")
		}
		first := live.Status{Process: 5, Alive: true}
		at(first, 0, "")
		at(first, time.Minute, "limit-start-5")

		next := pace{rest: 24 * time.Hour} // of the next worker
		if _, reached := next.limit(idle, time.Now(), time.Now().Add(-24*time.Hour).UnixMilli()); reached {
			t.Error("at the first look")
		}
		if c, _ := next.limit(idle, time.Now(), 0); c.Do != runs.DoEnd {
			t.Errorf("%+v", c)
		}
	})
}
