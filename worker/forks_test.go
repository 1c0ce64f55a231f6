package worker

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hops is a script that forks and exits all the time: its process ID changes
// every few milliseconds. At last it is a sleep. Its processes keep the FIFO
// alive open for writing.
const hops = `n=$(($1+1))
if [ $n -gt 1500 ]; then echo $$ > last; exec sleep 60; fi
if [ $n -eq 20 ]; then : > hopping; fi
sh ./hops $n &
`

// ended waits until no process has the FIFO open for writing any more.
func ended(t *testing.T, fifo *os.File) {
	t.Helper()
	if err := fifo.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := fifo.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a process of the run lives on: %v", err)
	}
}

// sessions is hops with another session and process group for each process.
var sessions = strings.ReplaceAll(hops, "sh ./hops", "setsid sh ./hops")

// A process that daemonises again and again during the cancel may be in no
// listing of the processes, and is ended all the same.
func TestCancelEndsAProcessThatForksAllTheTime(t *testing.T) {
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
			l := newLab(t)
			dir := t.TempDir()
			write(t, filepath.Join(dir, "hops"), test.script)
			alive := filepath.Join(dir, "alive")
			if err := unix.Mkfifo(alive, 0o600); err != nil {
				t.Fatal(err)
			}
			fifo, err := os.OpenFile(alive, os.O_RDONLY|unix.O_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer fifo.Close()
			spec := shell("r", tells+`exec 9>alive; setsid sh ./hops 0 </dev/null >/dev/null 2>&1 & exec 9>&-; while ! [ -e hopping ]; do sleep 0.01; done; echo ready; exec sleep 60`)
			spec.Dir, spec.Limits.Grace = dir, 200*time.Millisecond
			ends(t, filepath.Join(dir, "last"))
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
			waitFor(t, "the shim", func() bool { l.w.reap(); return len(l.w.orphans) == 0 })
			ended(t, fifo)
		})
	}
}

// A cancelled run has ended when nothing of it lives on: its agent ends at once,
// and a process beside it is killed when the grace period is over.
func TestCancelledRunHasEndedWithItsLastProcess(t *testing.T) {
	l := newLab(t)
	dir := t.TempDir()
	alive := filepath.Join(dir, "alive")
	if err := unix.Mkfifo(alive, 0o600); err != nil {
		t.Fatal(err)
	}
	fifo, err := os.OpenFile(alive, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	spec := shell("r", tells+`sh -c 'trap "" TERM; : > deaf; sleep 60' </dev/null >/dev/null 2>&1 9>alive & while ! [ -e deaf ]; do sleep 0.01; done; echo ready; exec sleep 60`)
	spec.Dir, spec.Limits.Grace = dir, 2*time.Second
	r, done := l.begun(spec, "ready")
	if err := r.Cancel(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	if res := <-done; res.err != nil {
		t.Error(res.err)
	}
	if err := fifo.SetReadDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := fifo.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a process of the run lives on: %v", err)
	}
}
