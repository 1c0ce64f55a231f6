package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// clock says ten times in a second what the time is, and ends. The file said has the times
// after it has said so.
const clock = `
say begun
await go
for i in 1 2 3 4 5 6 7 8 9 10; do say "$(date +%s%3N)"; date +%s%3N >> said; sleep 0.1; done
`

// away is how long nothing follows an agent after its end.
const away = 3 * time.Second

// wantTimes checks that each event of a run of clock has the time when its line
// was printed, and that the run ended when the agent did. Own is the number of
// lines that have their own times; the others may have that of the last line.
func wantTimes(t *testing.T, canary *fixture.Canary, agent *script, data, run string, own int) {
	t.Helper()
	out, code := execute(t, "events", "--data-dir", data, "--run", run, "--follow", "--json")
	if code != 0 {
		t.Fatalf("events: exit %d", code)
	}
	var before time.Time
	var printed, stamped []time.Time
	for line := range strings.Lines(out) {
		var r struct {
			Time  time.Time
			Event struct{ Text string }
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Time.Before(before) {
			t.Errorf("an event of %v follows one of %v", r.Time, before)
		}
		before = r.Time
		ms, err := strconv.ParseInt(r.Event.Text, 10, 64)
		if err != nil {
			continue // begun, or the completion
		}
		printed, stamped = append(printed, time.UnixMilli(ms)), append(stamped, r.Time)
	}
	if len(printed) != 10 {
		t.Fatalf("%d lines", len(printed))
	}
	said := agent.times("said")
	if len(said) != 10 {
		t.Fatalf("%d times in the file said", len(said))
	}
	last := said[9]
	var late, early time.Duration
	for i, at := range stamped {
		early = max(early, printed[i].Sub(at))
		if i < own {
			late = max(late, at.Sub(said[i]))
		} else {
			late = max(late, at.Sub(last))
		}
	}
	b, record := operatorBus(t, data), &runs.Record{}
	fixture.Eventually(t, fixture.Patience, "the record has no end", func() bool {
		r, ok, err := b.Record(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			record = r
		}
		return record.EndedAt != 0
	})
	end := time.UnixMilli(record.EndedAt).Sub(last)
	// The clock of file times advances with the timer interrupts of the machine.
	canary.Within("a line was printed", max(early, printed[9].Sub(time.UnixMilli(record.EndedAt))), 20*time.Millisecond)
	canary.Within("the time of an event is", late, 300*time.Millisecond) // the index has one per 50 ms
	canary.Within("the run ended", end, time.Second)
	canary.Within("the time of the completion is", before.Sub(last), time.Second)
}

// times returns the times, in Unix milliseconds, in a file of the agent.
func (s *script) times(name string) (all []time.Time) {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	for word := range strings.FieldsSeq(string(b)) {
		ms, err := strconv.ParseInt(word, 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, time.UnixMilli(ms))
	}
	return all
}

// Nothing follows the agent: the command that started it was killed, and the
// server that took over was stopped. The next server says when all of it
// happened.
func TestRunThatIsTakenOverLateHasItsOwnTimes(t *testing.T) {
	for name, test := range map[string]struct {
		stop func(t *testing.T, data string, s *fixture.Server)
		harm func(t *testing.T, times string)
		own  int
	}{
		"down": {
			stop: func(t *testing.T, data string, _ *fixture.Server) {
				if _, code := execute(t, "down", "--data-dir", data); code != 0 {
					t.Errorf("down: exit %d", code)
				}
			},
			own: 10,
		},
		"kill -9": {own: 10},
		"torn index": {
			harm: func(t *testing.T, times string) {
				if err := os.Truncate(times, 6*20+3); err != nil {
					t.Error(err)
				}
			},
			own: 5, // and the one that says begun
		},
		"no index": {
			harm: func(t *testing.T, times string) {
				if err := os.Remove(times); err != nil {
					t.Error(err)
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, agent, canary := t.TempDir(), newScript(t, clock), fixture.StartCanary(t)
			first := up(t, data)
			run := begin(t, nil, "run", "--data-dir", data, "--run", "late", "--json", "--", agent.path)
			run.Await(run.Stdout, `"text":"begun"`)
			run.Kill()
			first.Await(first.Stderr, "adopted")
			if test.stop != nil {
				test.stop(t, data, first)
			} else {
				first.Kill()
			}
			agent.touch("go")
			dir := filepath.Join(data, "runs", "late")
			awaitShim(t, dir)
			if test.harm != nil {
				test.harm(t, filepath.Join(dir, "times"))
			}
			<-time.After(away)
			up(t, data)
			noDirectories(t, data)
			wantTimes(t, canary, agent, data, "late", test.own)
		})
	}
}

// The command follows the agent, but its server is away.
func TestRunWhoseServerWasAwayHasItsOwnTimes(t *testing.T) {
	t.Parallel()
	data, agent, canary := t.TempDir(), newScript(t, clock), fixture.StartCanary(t)
	first := up(t, data)
	run := begin(t, nil, "run", "--data-dir", data, "--run", "away", "--json", "--", agent.path)
	run.Await(run.Stdout, `"text":"begun"`)
	first.Kill()
	run.Await(run.Stderr, "connection lost")
	agent.touch("go")
	awaitShim(t, filepath.Join(data, "runs", "away"))
	<-time.After(away)
	up(t, data)
	if code := run.Code(); code != 0 {
		t.Errorf("exit %d\n%s", code, run.Stderr)
	}
	wantTimes(t, canary, agent, data, "away", 10)
}

// The shim is killed as well. The next one continues the index, and the end of
// the agent is that of its last output.
func TestRunWhoseShimWasKilledHasItsOwnTimes(t *testing.T) {
	t.Parallel()
	// It waits for the kill behind its sixth line.
	waits := strings.Replace(clock, "; sleep 0.1", "; test $i != 5 || await killed; sleep 0.1", 1)
	data, agent, canary := t.TempDir(), newScript(t, "echo $PPID > shim\n"+waits), fixture.StartCanary(t)
	first := up(t, data)
	run := begin(t, nil, "run", "--data-dir", data, "--run", "shimless", "--json", "--", agent.path)
	run.Await(run.Stdout, `"text":"begun"`)
	run.Kill()
	first.Await(first.Stderr, "adopted")
	first.Kill()
	b, err := os.ReadFile(filepath.Join(agent.dir, "shim"))
	if err != nil {
		t.Fatal(err)
	}
	shim, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	agent.touch("go")
	out := filepath.Join(data, "runs", "shimless", "out")
	lines := func(n int) func() bool {
		return func() bool {
			b, err := os.ReadFile(out)
			return err == nil && strings.Count(string(b), "\n") > n
		}
	}
	fixture.Eventually(t, fixture.Patience, "the agent is silent", lines(5))
	if err := unix.Kill(shim, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	agent.touch("killed")
	fixture.Eventually(t, fixture.Patience, "the agent has not said all", lines(10))
	<-time.After(away)
	up(t, data)
	wantTimes(t, canary, agent, data, "shimless", 4)
}
