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

// clock says ten times in a second what the time is, and ends.
const clock = `
say begun
await go
for i in 1 2 3 4 5 6 7 8 9 10; do say "$(date +%s%3N)"; sleep 0.1; done
`

// away is how long nothing follows an agent after its end.
const away = 3 * time.Second

// wantTimes checks that each event of a run of clock has the time when its line
// was printed, and that the run ended when the agent did. Own is the number of
// lines that have their own times; the others may be up to a second later.
func wantTimes(t *testing.T, data, run string, own int) {
	t.Helper()
	out, code := execute(t, "events", "--data-dir", data, "--run", run, "--follow", "--json")
	if code != 0 {
		t.Fatalf("events: exit %d", code)
	}
	var last, before time.Time
	lines := 0
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
		lines++
		last = time.UnixMilli(ms)
		limit := 300 * time.Millisecond // the index has one time per 50 ms, and the machine may be busy
		if lines > own {
			limit += time.Second
		}
		if late := r.Time.Sub(last); late < -20*time.Millisecond || late > limit {
			t.Errorf("line %d was printed at %v, and its event has %v", lines, last, r.Time)
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
	if late := time.UnixMilli(record.EndedAt).Sub(last); lines != 10 || late < -20*time.Millisecond || late > time.Second {
		t.Errorf("%d lines, the last one printed at %v; the run ended %v later", lines, last, late)
	}
	if before.Sub(last) > time.Second {
		t.Errorf("the completion has %v, and the agent ended at %v", before, last)
	}
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
			data, agent := t.TempDir(), newScript(t, clock)
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
			wantTimes(t, data, "late", test.own)
			noDirectories(t, data)
		})
	}
}

// The command follows the agent, but its server is away.
func TestRunWhoseServerWasAwayHasItsOwnTimes(t *testing.T) {
	t.Parallel()
	data, agent := t.TempDir(), newScript(t, clock)
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
	wantTimes(t, data, "away", 10)
}

// The shim is killed as well. The next one continues the index, and the end of
// the agent is that of its last output.
func TestRunWhoseShimWasKilledHasItsOwnTimes(t *testing.T) {
	t.Parallel()
	data, agent := t.TempDir(), newScript(t, "echo $PPID > shim\n"+clock)
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
	fixture.Eventually(t, fixture.Patience, "the agent has not said all", lines(10))
	<-time.After(away)
	up(t, data)
	wantTimes(t, data, "shimless", 4)
}
