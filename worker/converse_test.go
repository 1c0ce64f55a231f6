package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/runs"
)

var players = agent.Table{{
	Short:   "codex",
	Backend: acp.Backend{Kind: "codex", Live: &acp.Agent{}},
	Live:    acp.Agent{Program: "player", Login: "player login", Modes: map[string]string{"read-only": "careful"}},
}}

// stage is a live run of a player.
type stage struct {
	*fixture
	dir  string // of the player
	spec Spec
}

func newStage(t *testing.T, does ...string) *stage {
	t.Helper()
	s := &stage{fixture: newFixture(t), dir: t.TempDir()}
	s.w.cfg.Agents = players
	s.spec = shell("r", "")
	s.spec.Argv, s.spec.Live, s.spec.Mode = append([]string{os.Args[0], "player", s.dir}, does...), true, runs.ReadOnly
	s.prompts("hello")
	return s
}

func (s *stage) prompts(text string) {
	s.spec.setInput(text)
	s.spec.Input = strings.NewReader(text)
}

func (s *stage) did(name string) string {
	s.t.Helper()
	return contents(s.t, filepath.Join(s.dir, name))
}

// told joins the bytes for the agent in the log, and fails the test unless each is there once, and before the end
// of the process.
func (s *stage) told() string {
	s.t.Helper()
	var all bytes.Buffer
	over := false
	for i, e := range s.entries("r") {
		var p runs.Process
		switch {
		case e.Kind == runs.Proc && json.Unmarshal(e.Body, &p) == nil:
			over = p.Do == runs.ProcessEnd
		case e.Kind != runs.Sent:
		case over, e.Offset != int64(all.Len()), len(e.Body) == 0, len(e.Body) > runs.MaxChunk:
			s.t.Fatalf("entry %d has %d bytes at offset %d after %d bytes, process ended: %t",
				i+1, len(e.Body), e.Offset, all.Len(), over)
		default:
			all.Write(e.Body)
		}
	}
	return all.String()
}

// transcript is what the log says, a word for each entry or line.
func (s *stage) transcript() string {
	s.t.Helper()
	var words []string
	var lines [2][]byte // that are not finished
	line := func(sign string, n int, body []byte) {
		lines[n] = append(lines[n], body...)
		for {
			one, rest, whole := bytes.Cut(lines[n], []byte("\n"))
			if !whole {
				return
			}
			lines[n] = rest
			var m struct {
				ID     json.RawMessage
				Method string
				Error  json.RawMessage
				Result struct{ Outcome struct{ OptionID string } }
			}
			if err := json.Unmarshal(one, &m); err != nil {
				s.t.Fatalf("line %q: %v", one, err)
			}
			word := m.Method[strings.LastIndexByte(m.Method, '/')+1:] + string(m.ID) + m.Result.Outcome.OptionID
			if m.Error != nil {
				word += "!"
			}
			words = append(words, sign+word)
		}
	}
	for _, e := range s.entries("r") {
		var p runs.Process
		var cmd runs.Command
		switch e.Kind {
		case runs.Out:
			line("<", 0, e.Body)
		case runs.Sent:
			line(">", 1, e.Body)
		case runs.Proc:
			_ = json.Unmarshal(e.Body, &p)
			words = append(words, "process-"+p.Do)
		case runs.Ordered:
			_ = json.Unmarshal(e.Body, &cmd)
			words = append(words, cmd.By+"-"+cmd.Question)
		default:
			words = append(words, string(e.Kind))
		}
	}
	return strings.Join(words, " ")
}

// turns is the transcript of a run in which the agent asked so many questions, one after the other.
func turns(asks int) string {
	var b strings.Builder
	b.WriteString("start process-start >initialize1 <1 >new2 <2 >set_mode3 <3 >prompt4 <update")
	for i := range asks {
		fmt.Fprintf(&b, " <update <request_permission%d policy-q%d >%dno", i, i+1, i)
	}
	return b.String() + " <4 >close5 <5 process-end exit"
}

// holds checks what holds for each run that has ended: the agent was started at most once, and has taken the lines
// in the log, each once and in order; not all if it ended before.
func (s *stage) holds(all bool) {
	s.t.Helper()
	waitFor(s.t, "the directory", s.empty)
	told, accepted := s.told(), s.did("accepted")
	if !strings.HasPrefix(told, accepted) || all && len(accepted) < len(told) {
		s.t.Errorf("the agent has taken %d bytes, not those of the log, which are %d", len(accepted), len(told))
	}
	if n := strings.Count(s.did("started"), "\n"); n > 1 || all && n == 0 {
		s.t.Errorf("the agent was started %d times", n)
	}
	s.output("r")
}

// answered returns how many answers the log has, and to how many requests.
func (s *stage) answered() (all, different int) {
	ids := map[string]bool{}
	for line := range strings.Lines(s.told()) {
		var m accepted
		if json.Unmarshal([]byte(line), &m) == nil && m.Method == "" {
			all++
			ids[string(m.ID)] = true
		}
	}
	return all, len(ids)
}

func (s *stage) ends(want runs.Exit) {
	s.t.Helper()
	ex := s.exit("r")
	if !sameExit(ex, want) {
		s.t.Errorf("exit %s, want %s; log: %s", runs.Encode(ex), runs.Encode(want), s.transcript())
	}
}

func TestLiveRunHasOneTurn(t *testing.T) {
	t.Parallel()
	s := newStage(t, "asks=2")
	s.drive(s.spec)
	s.holds(true)
	s.ends(runs.Exit{Reason: runs.ReasonEOF})
	if got := s.transcript(); got != turns(2) {
		t.Errorf("log:\n%s, want\n%s", got, turns(2))
	}
}

// Each worker is killed at one of its first appends, and each shim at one of its first writes, until the run has
// ended.
func TestLiveRunWhoseWorkersAndShimsAreKilledHasOneTurn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		env     []string
		prompt  int
		workers int    // at least
		does    string // beside two questions
	}{
		{"before the second append", []string{"TEST_KILL_AT=2"}, 100, 20, ""},
		{"after the first append", []string{"TEST_KILL_AT=1", "TEST_KILL_WHEN=after"}, 100, 20, ""},
		{"in a long prompt", []string{"TEST_KILL_AT=3", "TEST_KILL_WHEN=after"}, runs.MaxPrompt, 10, ""},
		{"with shims", []string{"TEST_KILL_AT=3", "TEST_KILL_WHEN=after", "TEST_KILL_FEED=7"}, 100, 4, ""},
		{"in a flood", []string{"TEST_KILL_AT=5", "TEST_KILL_WHEN=after"}, 100, 10, "flood=20"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, append([]string{"asks=2"}, strings.Fields(test.does)...)...)
			s.prompts(strings.Repeat(`"`, test.prompt/2) + strings.Repeat("x", test.prompt/2))
			s.create(s.spec).Close()
			workers := 0
			for over := func() bool { return s.ended("r") && s.empty() }; !over(); workers++ {
				worker := s.process(nil, test.env, "live")
				dead := make(chan error, 1)
				go func() { dead <- worker.Wait() }()
				waitFor(t, "the end of the worker or of the run", func() bool { return len(dead) > 0 || over() })
				_ = worker.Process.Kill()
				if err := <-dead; !isKilled(err) {
					t.Fatalf("worker %d was not killed: %v", workers, err)
				}
			}
			s.holds(true)
			s.ends(runs.Exit{Reason: runs.ReasonEOF})
			if got := s.transcript(); got != turns(2) && test.does == "" {
				t.Errorf("log:\n%s, want\n%s", got, turns(2))
			}
			if all, different := s.answered(); all != different || !strings.Contains(test.does, "flood") && all != 2 {
				t.Errorf("%d answers, %d different ones", all, different)
			}
			if workers < test.workers {
				t.Errorf("only %d workers", workers)
			}
		})
	}
}

// A responder that reaches no owner stores that a turn is cancelled. An owner that lives acts on it soon, also while
// the agent prints nothing.
func TestOwnerFindsACancelThatAnotherHasStored(t *testing.T) {
	t.Parallel()
	s := newStage(t, "waits")
	_, done := s.driven(t.Context(), s.create(s.spec))
	waitFor(t, "the turn", func() bool { return strings.HasSuffix(s.transcript(), "<update") })
	if got, err := s.absent(runs.Command{ID: "stop", Do: runs.DoStop, By: "ann", Turn: 1}); err != nil || !got.Holds {
		t.Fatalf("%+v, error %v", got, err)
	}
	waitFor(t, "the cancel", func() bool { return strings.HasSuffix(s.transcript(), " ann- >cancel") })
	write(t, filepath.Join(s.dir, "go"), "")
	if res := <-done; res.err != nil {
		t.Fatal(res.err)
	}
}

func isKilled(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ProcessState.String() == "signal: killed"
}

// The shim is killed again and again while one worker holds the conversation.
func TestLiveRunWhoseShimsAreKilledHasOneTurn(t *testing.T) {
	t.Parallel()
	s := newStage(t, "asks=6")
	_, done := s.driven(t.Context(), s.create(s.spec))
	for _, lines := range []int{1, 3, 6, 8} {
		waitFor(t, "line "+strconv.Itoa(lines), func() bool { return strings.Count(s.did("accepted"), "\n") >= lines })
		process := filepath.Join(s.root, "r", "p1")
		if pid, err := strconv.Atoi(contents(t, filepath.Join(process, shimFile))); err == nil && isShim(pid, process) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	if res := <-done; res.err != nil {
		t.Fatal(res.err)
	}
	s.holds(true)
	s.ends(runs.Exit{Reason: runs.ReasonEOF})
	if got := s.transcript(); got != turns(6) {
		t.Errorf("log:\n%s, want\n%s", got, turns(6))
	}
}

// Worker and shim are gone: who looks at the directory sees an agent that nobody watches, and what it has printed.
func TestLiveRunWithoutWorkerAndShimIsSeen(t *testing.T) {
	t.Parallel()
	s := newStage(t, "asks=1", "waits")
	ctx, stop := context.WithCancel(t.Context())
	_, done := s.driven(ctx, s.create(s.spec))
	waitFor(t, "the turn", func() bool { return s.did("asked") != "" })
	stop()
	<-done
	shim := filepath.Join(s.root, "r", "p1", shimFile)
	pid, err := strconv.Atoi(contents(t, shim))
	if err == nil {
		err = unix.Kill(pid, unix.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end of the shim", func() bool { busy, err := files.Held(shim); return err == nil && !busy })
	b, err := ReadBacklog(s.root)
	if err != nil || b.Runs != 1 || b.Writing != 1 || !slices.Equal(b.Unsupervised, []string{"r"}) {
		t.Errorf("%+v, error %v", b, err)
	}
	write(t, filepath.Join(s.dir, "go"), "")
	out := filepath.Join(s.root, "r", "p1", outFile)
	waitFor(t, "the end of the turn", func() bool { return strings.Contains(contents(t, out), "end_turn") })
	if more, err := ReadBacklog(s.root); err != nil || more.Bytes <= b.Bytes {
		t.Errorf("%d bytes, then %d, error %v", b.Bytes, more.Bytes, err)
	}
	s.adopt()
	waitFor(t, "the end", func() bool { return s.ended("r") })
	s.holds(true)
	s.ends(runs.Exit{Reason: runs.ReasonEOF})
	if got := s.transcript(); got != turns(1) {
		t.Errorf("log:\n%s, want\n%s", got, turns(1))
	}
}

func TestAgentThatMisbehavesEndsItsLiveRun(t *testing.T) {
	t.Parallel()
	const idle = 400 * time.Millisecond
	killed, finished := runs.Exit{Reason: runs.ReasonExited, Signal: 9}, runs.Exit{Reason: runs.ReasonEOF}
	session := func(why string) runs.Exit { return runs.Exit{Reason: runs.ReasonSession, Why: why} }
	for _, test := range []struct {
		does   string
		idle   time.Duration
		want   runs.Exit
		reads  bool   // all that it is told
		within string // of the transcript
	}{
		{"asks=1 dies", 0, killed, true, ">0no process-end exit"},
		{"stillborn", 0, killed, false, " process-end exit"},
		{"asks=1 leaves", 0, runs.Exit{Reason: runs.ReasonExited, Code: code(0)}, true, ">0no process-end exit"},
		{"numb", idle, runs.Exit{Reason: runs.ReasonIdle, Signal: 15}, false, ""},
		{"silent", idle, runs.Exit{Reason: runs.ReasonIdle, Signal: 15}, false, ">initialize1 "},
		{"deaf", idle, runs.Exit{Reason: runs.ReasonIdle, Signal: 15}, false, ">initialize1 "},
		{"closed", idle, runs.Exit{Reason: runs.ReasonIdle, Signal: 15}, false, ">initialize1 "},
		{"refuses", 0, session("the agent refused to set the mode careful"), true, "<3! >close4 <4 process-end"},
		{"login", 0, session("the agent is not logged in: run player login"), true, "<2! process-end"},
		{"version=2", 0, session("the agent does not speak version 1 of the protocol"), true, "<1 process-end"},
		{"unknown=3", 0, finished, true, ">5002! <4 >close5"},
		{"flood=300", 0, finished, true, " <4 >close5"},
		{"line=10485760 asks=1", 0, finished, true, "<update <update <request_permission0 policy-q1 >0no <4 >close5"},
		{"twice", 0, finished, true, " <4 "},
		{"stays", 0, finished, true, ">close5 <5 process-end"},
	} {
		t.Run(test.does, func(t *testing.T) {
			t.Parallel()
			begin := func() *stage {
				s := newStage(t, strings.Fields(test.does)...)
				s.spec.Limits.Idle = test.idle
				if test.does == "numb" {
					s.prompts(strings.Repeat("x", runs.MaxPrompt))
				}
				s.drive(s.spec)
				return s
			}
			s := begin()
			for !strings.Contains(s.transcript(), test.within) && longer(&test.idle) {
				s = begin()
			}
			s.holds(test.reads)
			s.ends(test.want)
			if got := s.transcript(); !strings.Contains(got, test.within) {
				t.Errorf("log:\n%s, want in it\n%s", got, test.within)
			}
			if all, different := s.answered(); all != different || strings.Contains(test.does, "flood") && all != 300 {
				t.Errorf("%d answers, %d different ones", all, different)
			}
		})
	}
}

// once calls do before or after the first append of an entry for which is is true.
func (s *stage) once(is func(e runs.Entry) bool, after bool, do func()) {
	did := false
	call := func(e runs.Entry) {
		if !did && is(e) {
			did = true
			do()
		}
	}
	if after {
		s.logs.stored = call
		return
	}
	s.logs.hook = func(_ *fileLog, e runs.Entry) runs.Entry {
		call(e)
		return e
	}
}

func (s *stage) cancels() { s.foreign("r", runs.Cancelled, runs.Remark{}) }

func isKind(kind runs.Kind) func(runs.Entry) bool {
	return func(e runs.Entry) bool { return e.Kind == kind }
}

// A cancel entry of another writer stands before an entry of the worker, which then has no place any more.
func TestCancelledLiveRunEnds(t *testing.T) {
	t.Parallel()
	asked := turns(1)[:strings.Index(turns(1), " policy")]
	for kind, want := range map[runs.Kind]string{
		runs.Proc:    "start cancel exit",
		runs.Ordered: asked + " cancel process-end exit",
	} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("before %s, worker restarted: %t", kind, restarted), func(t *testing.T) {
				t.Parallel()
				s := newStage(t, "asks=1")
				d := s.create(s.spec)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				s.once(isKind(kind), false, func() {
					if s.cancels(); restarted {
						stop()
					}
				})
				_, done := s.driven(ctx, d)
				if res := <-done; res.err != nil && !restarted {
					t.Fatal(res.err)
				}
				if s.adopt(); restarted {
					waitFor(t, "the end", func() bool { return s.ended("r") })
				}
				s.holds(kind == runs.Ordered)
				ex := s.exit("r")
				if ex.Reason != runs.ReasonCancelled {
					t.Errorf("exit %s", runs.Encode(ex))
				}
				if got := s.transcript(); got != want {
					t.Errorf("log:\n%s, want\n%s", got, want)
				}
			})
		}
	}
}

// A cancel after the end of the turn cancels nothing.
func TestLiveRunThatIsCancelledAfterItsTurnIsCompleted(t *testing.T) {
	t.Parallel()
	s := newStage(t, "asks=1")
	s.once(func(e runs.Entry) bool {
		return e.Kind == runs.Sent && bytes.Contains(e.Body, []byte("session/close"))
	}, false, s.cancels)
	s.drive(s.spec)
	s.ends(runs.Exit{Reason: runs.ReasonEOF})
}

// While no entry can be stored, nobody answers the question of the agent, and a cancel ends it.
func TestLiveRunIsCancelledWhileItsLogIsAway(t *testing.T) {
	t.Parallel()
	s := newStage(t, "asks=1")
	away := make(chan struct{})
	asks := make(chan struct{})
	s.once(isKind(runs.Ordered), false, func() { close(asks); <-away })
	r, done := s.driven(t.Context(), s.create(s.spec))
	<-asks
	if err := r.Cancel(t.Context(), "enough"); err != nil {
		t.Error(err)
	}
	waitFor(t, "the end of the agent", r.AgentEnded)
	close(away)
	if res := <-done; res.err != nil || res.Reason != runs.ReasonCancelled {
		t.Errorf("exit %s, error %v", runs.Encode(res.Exit), res.err)
	}
	s.holds(false)
}

// The raw log loses entries of a live run, all or its end: it gets them again, in their order, and the run goes on.
func TestLiveRunWhoseLogIsLostGoesOn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		at        runs.Kind // it is lost before the first append of this kind
		kept      int       // entries
		after     bool      // it is lost after that append
		restarted bool      // the worker ends then
		others    int       // entries of others since
	}{
		{"all, before a decision", runs.Ordered, 0, false, false, 0},
		{"its end, before a decision", runs.Ordered, 4, false, false, 0},
		{"its end, after a decision", runs.Ordered, 4, true, false, 0},
		{"all, before the first line for the agent", runs.Sent, 0, false, false, 0},
		{"all, after the first line for the agent", runs.Sent, 0, true, false, 0},
		{"all, and others have written since", runs.Sent, 0, false, false, 3},
		{"all, before the exit", runs.Exited, 0, false, false, 0},
		{"its end, before the exit", runs.Exited, 4, false, false, 0},
		{"all, before the exit, and others have written since", runs.Exited, 0, false, false, 3},
		{"all, while no worker is there", runs.Ordered, 0, false, true, 0},
		{"its end, while no worker is there", runs.Ordered, 4, false, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "asks=2")
			s.logs.lossy, s.spec.Source = true, runs.SourceQueue
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			s.once(isKind(test.at), test.after, func() {
				s.lose(test.kept)
				for range test.others {
					s.foreign("r", runs.Note, runs.Remark{})
				}
				if test.restarted {
					stop()
				}
			})
			_, done := s.driven(ctx, s.create(s.spec))
			if res := <-done; res.err != nil && !test.restarted {
				t.Error(res.err)
			}
			s.adopt()
			s.goesOn(turns(2))
		})
	}
}

// A cancel does not get into a log that was lost before what was there.
func TestLiveRunWhoseLogIsLostBeforeItsCancelIsFilledAgain(t *testing.T) {
	t.Parallel()
	for _, kept := range []int{0, 4} {
		s := newStage(t, "asks=1", "waits")
		s.logs.lossy, s.spec.Source = true, runs.SourceQueue
		s.once(isKind(runs.Cancelled), false, func() { s.lose(kept) })
		r, done := s.driven(t.Context(), s.create(s.spec))
		waitFor(t, "the turn", func() bool { return s.did("asked") != "" && strings.HasSuffix(s.transcript(), "no") })
		log := s.transcript()
		if err := r.Cancel(t.Context(), "enough"); err != nil {
			t.Error(err)
		}
		if res := <-done; res.err != nil || res.Reason != runs.ReasonCancelled {
			t.Errorf("exit %s, error %v", runs.Encode(res.Exit), res.err)
		}
		s.reads(log + " cancel process-end exit")
	}
}

// goesOn waits for the end of a run whose log was lost, and checks that nothing is missing.
func (s *stage) goesOn(want string) {
	s.t.Helper()
	waitFor(s.t, "the end", func() bool { return s.ended("r") })
	s.holds(true)
	s.ends(runs.Exit{Reason: runs.ReasonEOF})
	if got := strings.ReplaceAll(s.transcript(), "note ", ""); got != want {
		s.t.Errorf("log:\n%s, want\n%s", got, want)
	}
}

// All of the log is lost while people are asked, again and again, and the worker is killed at each append while it
// fills the log again: the question stays open, and the agent gets the answers, once.
func TestQuestionStaysOpenWhileTheLogIsFilledAgain(t *testing.T) {
	t.Parallel()
	for _, env := range [][]string{
		{"TEST_KILL_AT=2"}, {"TEST_KILL_AT=1", "TEST_KILL_WHEN=after"}, {"TEST_KILL_AT=3", "TEST_KILL_WHEN=after"},
		{"TEST_KILL_AT=3", "TEST_KILL_FEED=5"},
	} {
		t.Run(strings.Join(env, " "), func(t *testing.T) {
			t.Parallel()
			s := asking(t, time.Hour, "asks=3")
			s.create(s.spec).Close()
			env := append(slices.Clip(env), "TEST_LOSSY=1")
			lost := map[string]int{}            // how often, by question
			waits := func() (question string) { // for people
				answers := s.commands(runs.DoAnswer)
				for q := range s.commands(runs.DoAsk) {
					if len(answers[q]) == 0 {
						return q
					}
				}
				return ""
			}
			for workers, over := 0, func() bool { return s.ended("r") && s.empty() }; !over() && !t.Failed(); workers++ {
				worker := s.process(nil, env, "live")
				dead := make(chan error, 1)
				go func() { dead <- worker.Wait() }()
				waitFor(t, "the end of the worker or of the run, or a question", func() bool {
					return len(dead) > 0 || over() || waits() != ""
				})
				_ = worker.Process.Kill()
				if err := <-dead; !isKilled(err) {
					t.Fatalf("worker %d was not killed: %v", workers, err)
				}
				switch q := waits(); {
				case q == "":
				case lost[q] < 2:
					s.lose(5 * lost[q])
					lost[q]++
				default:
					option := map[bool]string{true: "no", false: "yes"}[q == "q2"]
					if got, err := s.absent(answerBy("ann", q, option)); err != nil || !got.Holds {
						t.Errorf("%s: %+v, error %v", q, got, err)
					}
				}
			}
			if len(lost) != 3 {
				t.Errorf("lost at %v", lost)
			}
			s.goesOn(asked("ann", "yes", "no", "yes"))
		})
	}
}

// Where the journal lacks what the agent was sent, nobody knows what it has got, and the run ends.
func TestLiveRunWhoseLogAndJournalAreLostEnds(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string, size int64) error{
		"gone":  func(path string, _ int64) error { return os.Remove(path) },
		"empty": func(path string, _ int64) error { return os.Truncate(path, 0) },
		"torn":  func(path string, size int64) error { return os.Truncate(path, size/2) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "asks=1")
			s.logs.lossy = true
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			s.once(isKind(runs.Ordered), false, func() { s.lose(0); stop() })
			_, done := s.driven(ctx, s.create(s.spec))
			<-done
			path := filepath.Join(s.root, "r", journalFile)
			info, err := os.Stat(path)
			if err == nil {
				err = damage(path, info.Size())
			}
			if err != nil {
				t.Fatal(err)
			}
			s.adopt()
			waitFor(t, "the end", func() bool { return s.ended("r") })
			waitFor(t, "the directory", s.empty)
			s.ends(runs.Exit{Reason: runs.ReasonSession, Why: "the raw log lost entries of the conversation with the agent"})
			if got := s.transcript(); !strings.HasPrefix(got, "start ") || !strings.HasSuffix(got, " exit") {
				t.Errorf("log: %s", got)
			}
			if strings.Contains(s.did("accepted"), `"no"`) {
				t.Error("the agent has an answer that is not in the log")
			}
		})
	}
}

// A log that is lost before the conversation has begun is begun again.
func TestLiveRunWhoseLogIsLostAtOnceGoesOn(t *testing.T) {
	t.Parallel()
	s := newStage(t, "asks=1")
	s.logs.lossy = true
	s.once(isKind(runs.Proc), false, func() { s.lose(0) })
	s.drive(s.spec)
	s.holds(true)
	s.ends(runs.Exit{Reason: runs.ReasonEOF})
	if got := s.transcript(); got != turns(1) {
		t.Errorf("log:\n%s, want\n%s", got, turns(1))
	}
}

// lose shortens the log to its first entries.
func (s *stage) lose(kept int) {
	path := filepath.Join(s.logs.dir, "r")
	entries, _ := readLog(path)
	var body []byte
	for _, e := range entries[:kept] {
		body = append(body, fileEntry(e)...)
	}
	if err := os.Truncate(path, int64(len(body))); err != nil {
		s.t.Error(err)
	}
}
