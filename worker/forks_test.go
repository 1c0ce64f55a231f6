package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

// hops is a script that forks and exits continuously: its process ID changes
// every few milliseconds. In the end it is a sleep. Its processes keep the
// FIFO alive open for writing.
const hops = `n=$(($1+1))
if [ $n -gt 1500 ]; then echo $$ > last; exec sleep 60; fi
if [ $n -eq 20 ]; then : > hopping; fi
sh ./hops $n &
`

// alive creates a FIFO that the processes of a run keep open.
func alive(t *testing.T, dir string) *os.File {
	t.Helper()
	path := filepath.Join(dir, "alive")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	fifo, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fifo.Close() })
	return fifo
}

// ended waits until no process has the FIFO open for writing.
func ended(t *testing.T, fifo *os.File, within time.Duration) {
	t.Helper()
	conn, err := fifo.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	over := func() (over bool) {
		t.Helper()
		if err := conn.Read(func(fd uintptr) bool {
			n, err := unix.Read(int(fd), make([]byte, 1))
			over = n == 0 && err == nil
			return true
		}); err != nil {
			t.Fatal(err)
		}
		return over
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(within); !over(); {
		select {
		case <-tick.C:
		case <-late:
			if !over() { // this goroutine may have been late itself
				t.Error("a process of the run is still alive")
			}
			return
		}
	}
}

// sessions is hops with a new session and process group for each process.
var sessions = strings.ReplaceAll(hops, "sh ./hops", "setsid sh ./hops")

// sweepVariable is set for shims that may take long for a sweep.
const sweepVariable = "TEST_SWEEP"

// A process that daemonises repeatedly during the cancel may be missing in
// every listing of the processes, and is ended nevertheless.
func TestCancelEndsAProcessThatForksAllTheTime(t *testing.T) {
	t.Setenv(sweepVariable, "1") // a busy machine seldom lists the processes
	for name, test := range map[string]struct {
		script   string
		shimDies bool
	}{
		"in one session":                        {hops, false},
		"in one session, its shim was killed":   {hops, true},
		"in a new session each":                 {sessions, false},
		"in a new session, its shim was killed": {sessions, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newFixture(t)
			dir := t.TempDir()
			write(t, filepath.Join(dir, "hops"), test.script)
			fifo := alive(t, dir)
			spec := shell("r", recordPIDs+`exec 9>alive; setsid sh ./hops 0 </dev/null >/dev/null 2>&1 & exec 9>&-; `+
				`while ! [ -e hopping ]; do sleep 0.01; done; echo ready; exec sleep 60`)
			spec.Dir, spec.Limits.Grace = dir, 200*time.Millisecond
			killAtEnd(t, filepath.Join(dir, "last"))
			r, done := l.begun(spec, "ready")
			if test.shimDies {
				killShim(t, dir)
				l.takenOver("r")
			}
			if err := r.Cancel(t.Context(), "enough"); err != nil {
				t.Fatal(err)
			}
			if res := <-done; res.err != nil {
				t.Error(res.err)
			}
			waitFor(t, "the shim", func() bool { l.w.reap(); return len(l.w.exitingShims) == 0 })
			ended(t, fifo, 30*time.Second) // less than what the last process sleeps
		})
	}
}

// A run that linesman stops has ended when none of its processes is running:
// here the agent ends at once, and another process is killed after the grace
// period.
func TestStoppedRunHasEndedWithItsLastProcess(t *testing.T) {
	for _, test := range []struct {
		name   string
		limits Limits
		want   runs.Reason
	}{
		{"cancelled", Limits{}, runs.ReasonCancelled},
		{"hard limit", Limits{Hard: time.Second}, runs.ReasonHard},
		{"idle limit", Limits{Idle: time.Second}, runs.ReasonIdle},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, dir := newFixture(t), t.TempDir()
			fifo := alive(t, dir)
			spec := shell("r", recordPIDs+`sh -c 'trap "" TERM; : > deaf; sleep 60' </dev/null >/dev/null 2>&1 9>alive & `+
				`while ! [ -e deaf ]; do sleep 0.01; done; echo ready; exec sleep 60`)
			spec.Dir, spec.Limits = dir, test.limits
			spec.Limits.Grace = time.Second
			r, done := l.driven(t.Context(), l.create(spec))
			for !l.prints("r", "ready") && longer(&spec.Limits.Hard, &spec.Limits.Idle) { // they count from the start
				l, spec.Dir = newFixture(t), t.TempDir()
				fifo = alive(t, spec.Dir)
				r, done = l.driven(t.Context(), l.create(spec))
			}
			if test.want == runs.ReasonCancelled {
				if err := r.Cancel(t.Context(), "enough"); err != nil {
					t.Fatal(err)
				}
			}
			if res := <-done; res.err != nil || res.Reason != test.want {
				t.Errorf("exit %s, error %v, want %s", runs.Encode(res.Exit), res.err, test.want)
			}
			ended(t, fifo, 200*time.Millisecond)
		})
	}
}
