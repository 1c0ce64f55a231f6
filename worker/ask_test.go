package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/live"
	"github.com/linesman/linesman/runs"
)

// asking returns a live run whose questions people are asked.
func asking(t *testing.T, answer time.Duration, does ...string) *stage {
	s := newStage(t, does...)
	s.spec.Ask, s.spec.Limits.Answer = true, answer
	return s
}

// commands are those in the log that do a thing, by their question.
func (s *stage) commands(do string) map[string][]runs.Command {
	all := map[string][]runs.Command{}
	for _, e := range s.entries("r") {
		var c runs.Command
		if e.Kind == runs.Ordered && json.Unmarshal(e.Body, &c) == nil && c.Do == do {
			all[c.Question] = append(all[c.Question], c)
		}
	}
	return all
}

// puts waits until people are asked a question.
func (s *stage) puts(question string) {
	s.t.Helper()
	waitFor(s.t, "question "+question, func() bool { return len(s.commands(runs.DoAsk)[question]) > 0 })
}

func answerBy(by, question, option string) runs.Command {
	return runs.Command{
		ID: by + "-" + question + "-" + option, Do: runs.DoAnswer, By: by, Via: "rest", Question: question, Option: option,
	}
}

// absent stores an answer as a responder does that reaches no owner.
func (s *stage) absent(c runs.Command) (runs.Ruling, error) { return s.absentAfter(0, c) }

// absentAfter is absent when the first entries of the log have expired.
func (s *stage) absentAfter(expired int, c runs.Command) (runs.Ruling, error) {
	open := func(m runs.Mark) (ReadLog, error) {
		log, err := s.logs.Open(s.t.Context(), "codex", "r", m)
		if err != nil {
			return nil, err
		}
		return log.(ReadLog), nil
	}
	read := func(each func(seq uint64, e runs.Entry) error) (err error) {
		for i, e := range s.entries("r") {
			if i >= expired {
				err = errors.Join(err, each(uint64(i+1), e))
			}
		}
		return err
	}
	return Rule(s.t.Context(), open, read, players[0].Live, c)
}

// asked is the transcript of a run with questions that somebody answered by an option.
func asked(by string, options ...string) string {
	var b strings.Builder
	b.WriteString("start process-start >initialize1 <1 >new2 <2 >set_mode3 <3 >prompt4 <update")
	for i, option := range options {
		fmt.Fprintf(&b, " <update <request_permission%d policy-q%d %s-q%[2]d >%[1]d%[4]s", i, i+1, by, option)
	}
	return b.String() + " <4 >close5 <5 process-end exit"
}

func (s *stage) reads(want string) {
	s.t.Helper()
	if got := s.transcript(); got != want {
		s.t.Errorf("log:\n%s, want\n%s", got, want)
	}
}

func isDo(do string) func(runs.Entry) bool {
	return func(e runs.Entry) bool {
		var c runs.Command
		return e.Kind == runs.Ordered && json.Unmarshal(e.Body, &c) == nil && c.Do == do
	}
}

func TestOwnerTakesTheFirstAnswer(t *testing.T) {
	t.Parallel()
	s := asking(t, time.Hour, "asks=2")
	r, done := s.driven(t.Context(), s.create(s.spec))
	s.puts("q1")
	for _, c := range []struct {
		command runs.Command
		want    runs.Ruling
	}{
		{answerBy("ann", "q1", "maybe"), runs.Ruling{Why: runs.WhyUnfit}},
		{answerBy("ann", "q2", "yes"), runs.Ruling{Why: runs.WhyUnknown}},
		{runs.Command{Do: runs.DoAnswer, By: "ann", Question: "q1", Option: "yes"}, runs.Ruling{Why: runs.WhyUnfit}},
		{runs.Command{ID: "look", By: "ann", Question: "q1", Option: "yes"}, runs.Ruling{}},
		{answerBy("ann", "q1", "yes"), runs.Ruling{Holds: true, Option: "yes", By: "ann", Via: "rest", Delivered: true}},
		{answerBy("bob", "q1", "no"), runs.Ruling{
			Why: runs.WhyDecided, Option: "yes", By: "ann", Via: "rest", Delivered: true,
		}},
		{answerBy("bob", "q1", "yes"), runs.Ruling{Holds: true, Option: "yes", By: "ann", Via: "rest", Delivered: true}},
	} {
		got, err := r.Answer(t.Context(), c.command)
		if got.Seq = 0; got != c.want || err != nil {
			t.Errorf("%+v: %+v, error %v; want %+v", c.command, got, err, c.want)
		}
	}
	s.puts("q2")
	if got, err := r.Answer(t.Context(), answerBy("ann", "q2", "no")); err != nil || !got.Holds {
		t.Errorf("%+v, error %v", got, err)
	}
	if res := <-done; res.err != nil {
		t.Fatal(res.err)
	}
	s.holds(true)
	s.reads(asked("ann", "yes", "no"))
	if _, err := r.Answer(t.Context(), answerBy("ann", "q2", "no")); !errors.Is(err, ErrEnded) {
		t.Errorf("after the end: error %v", err)
	}
	if got, err := s.absent(answerBy("eve", "q2", "yes")); err != nil || got.By != "ann" || got.Why != runs.WhyDecided {
		t.Errorf("after the end: %+v, error %v", got, err)
	}
}

// A responder that reaches no owner stores the answer in its place. An owner that lives gives it to the agent soon.
func TestOwnerFindsAnAnswerThatAnotherHasStored(t *testing.T) {
	t.Parallel()
	s := asking(t, 0, "asks=1")
	_, done := s.driven(t.Context(), s.create(s.spec))
	s.puts("q1")
	if got, err := s.absent(answerBy("ann", "q1", "yes")); err != nil || !got.Holds || got.By != "ann" {
		t.Fatalf("%+v, error %v", got, err)
	}
	if got, err := s.absent(answerBy("bob", "q1", "no")); err != nil || got.By != "ann" || got.Why != runs.WhyDecided {
		t.Fatalf("%+v, error %v", got, err)
	}
	if res := <-done; res.err != nil {
		t.Fatal(res.err)
	}
	s.holds(true)
	s.reads(asked("ann", "yes"))
}

// Nobody answers in time, also while no worker is there: the question is denied, or closed. A responder takes no answer
// then that the owner would not take.
func TestQuestionWithoutAnswerIsDenied(t *testing.T) {
	t.Parallel()
	for _, away := range []bool{false, true} {
		for _, test := range []struct{ does, option string }{{"", "no"}, {"bare", ""}} {
			t.Run(fmt.Sprintf("%s, away: %t", test.does, away), func(t *testing.T) {
				t.Parallel()
				s := asking(t, time.Millisecond, append([]string{"asks=1"}, strings.Fields(test.does)...)...)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				if away {
					s.once(isDo(runs.DoAsk), true, stop)
				}
				_, done := s.driven(ctx, s.create(s.spec))
				if res := <-done; res.err != nil && !away {
					t.Fatal(res.err)
				}
				if away {
					due := s.commands(runs.DoAsk)["q1"][0].Due
					waitFor(t, "the due time", func() bool { return time.Now().UnixMilli() >= due })
					if got, err := s.absent(answerBy("ann", "q1", "yes")); err != nil || got.Why != runs.WhyExpired {
						t.Errorf("%+v, error %v", got, err)
					}
					s.adopt()
					waitFor(t, "the end", func() bool { return s.ended("r") })
				}
				s.holds(true)
				s.reads(asked("timeout", test.option))
			})
		}
	}
}

// A clock that is set forward makes a question due; one that is set back gives nobody more time.
// What a program has started and left, such as the agent of a launcher, gets no answer any more.
func TestLiveRunEndsWithItsProgram(t *testing.T) {
	t.Parallel()
	s := asking(t, time.Hour, "asks=1")
	s.spec.Limits.Grace = 100 * time.Millisecond
	launcher := filepath.Join(s.dir, "launcher")
	s.spec.Argv = append([]string{"sh", "-c", `echo $$ >"$0"; "$@"; exit 0`, launcher}, s.spec.Argv...)
	_, done := s.driven(t.Context(), s.create(s.spec))
	s.puts("q1")
	pid, err := strconv.Atoi(strings.TrimSpace(contents(t, launcher)))
	if err == nil {
		err = unix.Kill(pid, unix.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
	if res := <-done; res.err != nil {
		t.Fatal(res.err)
	}
	s.ends(runs.Exit{Reason: runs.ReasonExited, Signal: int(unix.SIGKILL)})
}

func TestClockThatJumps(t *testing.T) {
	const began, hour = int64(1e12), int64(3600_000)
	q := live.Question{ID: "q1", Kind: "permission", People: true, Due: began + hour}
	for _, test := range []struct {
		passed time.Duration
		wall   int64
		due    bool
	}{
		{59 * time.Minute, began + hour - 60_000, false}, {60 * time.Minute, began + hour, true},
		{59 * time.Minute, began - 24*hour, false}, {60 * time.Minute, began - 24*hour, true},
		{time.Minute, began + 24*hour, true},
	} {
		if _, due := (live.Policy{Ask: true}).Decide(q, steady(began, test.passed, test.wall)); due != test.due {
			t.Errorf("%+v: due: %t", test, due)
		}
	}
}

// Each worker is killed at one of its first appends, and answers come from outside. Each question has one answer, and
// the agent gets that, once.
func TestAnswersSurviveWorkersThatAreKilled(t *testing.T) {
	t.Parallel()
	for _, env := range [][]string{
		{"TEST_KILL_AT=2"}, {"TEST_KILL_AT=3"}, {"TEST_KILL_AT=1", "TEST_KILL_WHEN=after"},
		{"TEST_KILL_AT=2", "TEST_KILL_WHEN=after"}, {"TEST_KILL_AT=3", "TEST_KILL_WHEN=after", "TEST_KILL_FEED=7"},
	} {
		t.Run(strings.Join(env, " "), func(t *testing.T) {
			t.Parallel()
			s := asking(t, time.Hour, "asks=3")
			s.create(s.spec).Close()
			told := map[string]runs.Ruling{}
			answers := func() {
				asks, have := s.commands(runs.DoAsk), s.commands(runs.DoAnswer)
				for n, option := range []string{"yes", "no", "yes"} {
					q := "q" + strconv.Itoa(n+1)
					if len(asks[q]) == 0 || len(have[q]) > 0 {
						continue
					}
					got, err := s.absent(answerBy("ann", q, option))
					if err != nil || !got.Holds {
						t.Errorf("%s: %+v, error %v", q, got, err)
					}
					told[q] = got
				}
			}
			workers := 0
			for over := func() bool { return s.ended("r") && s.empty() }; !over() && !t.Failed(); workers++ {
				worker := s.process(nil, env, "live")
				dead := make(chan error, 1)
				go func() { dead <- worker.Wait() }()
				waitFor(t, "the end of the worker or of the run", func() bool {
					answers()
					return len(dead) > 0 || over()
				})
				_ = worker.Process.Kill()
				if err := <-dead; !isKilled(err) {
					t.Fatalf("worker %d was not killed: %v", workers, err)
				}
			}
			s.holds(true)
			s.reads(asked("ann", "yes", "no", "yes"))
			if len(told) != 3 || workers < 4 {
				t.Errorf("%d answers, %d workers", len(told), workers)
			}
		})
	}
}

// The worker ends right before or after it stores an answer. Who asked is told nothing, and asks again: there is one
// answer, and the next worker gives it to the agent.
func TestAnswerSurvivesItsOwner(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprintf("after the append: %t", after), func(t *testing.T) {
			t.Parallel()
			s := asking(t, time.Hour, "asks=1")
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			s.once(isDo(runs.DoAnswer), after, stop)
			r, done := s.driven(ctx, s.create(s.spec))
			s.puts("q1")
			if got, err := r.Answer(t.Context(), answerBy("ann", "q1", "yes")); err == nil {
				t.Errorf("%+v", got)
			}
			<-done
			stored := len(s.commands(runs.DoAnswer)["q1"]) // the log may have taken it at the last moment
			option := "no"
			if stored > 0 {
				option = "yes"
			}
			if got, err := s.absentAfter(1, answerBy("eve", "q1", "no")); !errors.Is(err, runs.ErrNoOwner) {
				t.Errorf("a log without its beginning: %+v, error %v", got, err)
			}
			got, err := s.absent(answerBy("bob", "q1", "no"))
			if err != nil || got.Option != option || got.Holds != (stored == 0) || after && stored == 0 {
				t.Errorf("%+v, error %v, stored: %d", got, err, stored)
			}
			s.adopt()
			waitFor(t, "the end", func() bool { return s.ended("r") })
			s.holds(true)
			s.reads(asked(got.By, option))
		})
	}
}

// While no entry can be stored, an answer ends with its caller's patience. It counts if the log takes it later, before
// another one.
func TestAnswerWhileTheLogIsAway(t *testing.T) {
	t.Parallel()
	s := asking(t, time.Hour, "asks=1")
	away, blocked := make(chan struct{}), make(chan struct{})
	s.once(isDo(runs.DoAnswer), false, func() { close(blocked); <-away })
	r, done := s.driven(t.Context(), s.create(s.spec))
	s.puts("q1")
	ctx, giveUp := context.WithCancel(t.Context())
	go func() { <-blocked; giveUp() }()
	if got, err := r.Answer(ctx, answerBy("ann", "q1", "yes")); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, error %v", got, err)
	}
	other, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := r.Answer(other, answerBy("eve", "q1", "no")); !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, error %v", got, err)
	}
	close(away)
	got, err := r.Answer(t.Context(), answerBy("bob", "q1", "no"))
	if err != nil && !errors.Is(err, ErrEnded) || err == nil && (got.By != "ann" || got.Why != runs.WhyDecided) {
		t.Errorf("%+v, error %v", got, err)
	}
	if res := <-done; res.err != nil {
		t.Fatal(res.err)
	}
	s.holds(true)
	s.reads(asked("ann", "yes"))
}

// A shim that is stopped feeds nothing: an answer is not said to be delivered before the agent has it. Another shim
// gives it to the agent.
func TestAnswerBesideAStoppedShim(t *testing.T) {
	t.Parallel()
	s := asking(t, time.Hour, "asks=1")
	r, done := s.driven(t.Context(), s.create(s.spec))
	s.puts("q1")
	process := filepath.Join(s.root, "r", "p1")
	pid, err := strconv.Atoi(contents(t, filepath.Join(process, shimFile)))
	if err == nil {
		err = unix.Kill(pid, unix.SIGSTOP)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Answer(t.Context(), answerBy("ann", "q1", "yes"))
	if err != nil || !got.Holds || got.Delivered && !strings.Contains(contents(t, filepath.Join(process, inFile)), "yes") {
		t.Errorf("%+v, error %v", got, err)
	}
	if res := <-done; res.err != nil {
		t.Fatal(res.err)
	}
	s.holds(true)
	s.reads(asked("ann", "yes"))
}

func TestDeliveredIsWhatTheShimHasFed(t *testing.T) {
	t.Parallel()
	s := asking(t, time.Hour)
	d := s.create(s.spec)
	defer d.Close()
	r := s.w.Run(d)
	if err := d.makeProcess(1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if !fedUpTo(ctx, r.file(fedFile), 0) || fedUpTo(ctx, r.file(fedFile), 1) {
		t.Error("a new process has nothing")
	}
	if err := os.Remove(r.file(fedFile)); err != nil || fedUpTo(ctx, r.file(fedFile), 0) {
		t.Error("a process that is gone has something", err)
	}
	if err := unix.Mkfifo(r.file(fedFile), 0o600); err != nil || fedUpTo(ctx, r.file(fedFile), 0) {
		t.Error("an agent that replaced the file has something", err)
	}
}

// People think for longer than the limits: they stand still until a minute after the due time, whether a worker is
// there or not, and count again after the answer. The next shim knows how long they stood still.
func TestLimitsStandStillWhilePeopleAreAsked(t *testing.T) {
	t.Parallel()
	dir, began := t.TempDir(), time.Now()
	limits := Limits{Idle: time.Second, Hard: 2 * time.Second}
	shimAt := func(now time.Time) *shim {
		return &shim{dir: dir, spec: Spec{Live: true, Limits: limits}, watchdog: newWatchdog(limits, now)}
	}
	s := shimAt(began)
	looks := func(after time.Duration, want runs.Reason) {
		t.Helper()
		now := began.Add(after)
		if got := s.watchdog.check(now, [2]int64{}, s.holds(now)); got != want {
			t.Errorf("after %v: %q, want %q", after, got, want)
		}
	}
	asks := func(until time.Duration) {
		t.Helper()
		text := strconv.FormatInt(began.Add(until).UnixMilli(), 10)
		if err := os.WriteFile(filepath.Join(dir, askingFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	looks(900*time.Millisecond, "")
	asks(time.Hour)
	looks(time.Second, "")
	looks(59*time.Minute, "")
	looks(time.Hour+59*time.Second, "")
	asks(2 * time.Hour)
	looks(119*time.Minute, "")
	if err := os.Remove(filepath.Join(dir, askingFile)); err != nil {
		t.Fatal(err)
	}
	looks(119*time.Minute+50*time.Millisecond, "") // 950 ms count
	s.watchdog.grew = began.Add(119*time.Minute + 50*time.Millisecond)

	held := heldBefore(dir, began)
	if want := 119*time.Minute - 900*time.Millisecond; held != want {
		t.Errorf("the limits stood still for %v, want %v", held, want)
	}
	next := began.Add(119*time.Minute + 60*time.Millisecond)
	s = shimAt(next)
	s.watchdog.began = began
	s.watchdog.hold(heldBefore(dir, next))
	s.watchdog.grew = next
	looks(119*time.Minute+100*time.Millisecond, "")
	looks(119*time.Minute+1060*time.Millisecond, runs.ReasonIdle)
	s.watchdog.grew = began.Add(3 * time.Hour)
	looks(119*time.Minute+1100*time.Millisecond, runs.ReasonHard)

	asks(4 * time.Hour) // the worker is killed, and this shim, too
	s.holds(began.Add(2 * time.Hour))
	if err := os.Chtimes(filepath.Join(dir, heldFile), time.Time{}, began.Add(2*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if more := heldBefore(dir, began.Add(3*time.Hour)) - held; more < time.Hour-time.Second {
		t.Errorf("the limits stood still for %v more", more)
	}
	s = shimAt(began)
	looks(4*time.Hour+59*time.Second, "")
	looks(4*time.Hour+60500*time.Millisecond, runs.ReasonIdle)
}

// A tool works in silence for longer than an agent may be idle. The time limit counts, and bounds a call that never
// ends; a kept run has its worker for that, and the mark an end for one without.
func TestIdleStandsStillWhileACallIsOpen(t *testing.T) {
	t.Parallel()
	dir, began := t.TempDir(), time.Now()
	limits := Limits{Idle: time.Second, Hard: time.Hour}
	s := &shim{dir: dir, spec: Spec{Live: true, Limits: limits}, watchdog: newWatchdog(limits, began)}
	looks := func(after time.Duration, want runs.Reason) {
		t.Helper()
		now := began.Add(after)
		if got := s.watchdog.check(now, [2]int64{}, s.holds(now)); got != want {
			t.Errorf("after %v: %q, want %q", after, got, want)
		}
	}
	calls := func(until time.Duration) {
		t.Helper()
		text := fmt.Sprint("calls ", began.Add(until).UnixMilli())
		if err := os.WriteFile(filepath.Join(dir, askingFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	looks(900*time.Millisecond, "")
	calls(2 * time.Hour)
	looks(time.Second, "")
	looks(59*time.Minute, "")
	if err := os.Remove(filepath.Join(dir, askingFile)); err != nil {
		t.Fatal(err)
	}
	looks(59*time.Minute+900*time.Millisecond, "")
	looks(59*time.Minute+time.Second, runs.ReasonIdle)
	calls(2 * time.Hour)
	looks(time.Hour, runs.ReasonHard)
	if heldBefore(dir, began) != 0 {
		t.Error("the next shim takes it for time without a limit")
	}
	s.watchdog = newWatchdog(Limits{Idle: time.Second}, began) // of a kept run
	looks(119*time.Minute, "")
	looks(2*time.Hour+time.Second, runs.ReasonIdle)
}

// The worker tells the shim that a call is open, if the run has a time limit.
func TestWorkerTellsThatACallIsOpen(t *testing.T) {
	t.Parallel()
	for _, hard := range []time.Duration{time.Hour, 0} {
		t.Run(hard.String(), func(t *testing.T) {
			t.Parallel()
			s := asking(t, time.Hour, "waits", "calls")
			s.spec.Limits.Hard = hard
			_, done := s.driven(t.Context(), s.create(s.spec))
			mark := filepath.Join(s.root, "r", "p1", askingFile)
			calls := func() bool { b, err := os.ReadFile(mark); return err == nil && strings.HasPrefix(string(b), "calls ") }
			waitFor(t, "the call", func() bool { return strings.HasSuffix(s.transcript(), "<update <update") })
			if hard > 0 {
				waitFor(t, "the mark", calls)
			}
			write(t, filepath.Join(s.dir, "go"), "")
			waitFor(t, "its end", func() bool { return strings.HasSuffix(s.transcript(), "<update <update <update") })
			waitFor(t, "no mark", func() bool { return !exists(mark) })
			write(t, filepath.Join(s.dir, "on"), "")
			if res := <-done; res.err != nil {
				t.Fatal(res.err)
			}
			s.ends(runs.Exit{Reason: runs.ReasonEOF})
		})
	}
}
