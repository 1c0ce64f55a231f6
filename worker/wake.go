package worker

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linesman/linesman/runs"
)

// A run that goes on after a turn has one process after the other: it sleeps while there is none. An entry of the raw
// log starts each, and one ends it, so the next worker knows whose turn it is. Output and input of a process are
// files of its own, with the offset of the run at which they begin.

// begins is where the files of a process begin in the run.
type begins struct {
	out, in int64 // offsets of its stdout and its stdin
}

// maxOld and maxOldDirs bound what is kept of former processes for a raw log that is lost: bytes of output, and
// directories beside that of the first process, whose time is that of the run.
const (
	maxOld     = 256 << 20
	maxOldDirs = 1000
)

// process is the number of the newest process that has a directory; 1: there is none.
func (d *Dir) process() int {
	newest := 1
	entries, _ := os.ReadDir(d.path)
	for _, e := range entries {
		if digits, is := strings.CutPrefix(e.Name(), "p"); is {
			if n, err := strconv.Atoi(digits); err == nil {
				newest = max(newest, n)
			}
		}
	}
	return newest
}

// enterProcess makes process n that of the run, and its directory.
func (r *Run) enterProcess(n int) error {
	if err := r.dir.makeProcess(n); err != nil {
		return err
	}
	r.out.close()
	r.err.close()
	r.n.Store(int32(n))
	r.openFiles()
	r.progress.Noted, r.leftNoted, r.piece = 0, false, 0
	r.talk.asking, r.talk.over = nil, time.Time{}
	r.dropOld(n)
	return nil
}

// placeOutput sets where the output of the process begins, before anything is read of it. A mark that is older than
// the process has the place of the one before, whose first bytes may be the same.
func (r *Run) placeOutput() error {
	n, of, placed := r.process(), &r.progress.Of, r.out.segment.Base >= r.talk.place.out
	if *of == 0 && (n == 1 || placed) { // an older version did not note it
		*of = n
	}
	if r.out.live || *of == n && placed {
		return nil
	}
	*of = n
	*r.out.segment = segment{Base: r.talk.place.out}
	*r.err.segment = segment{Base: r.progress.Log.Err}
	return r.dir.mark.save()
}

// printed are the files of a former process that are read again.
var printed = []string{outFile, timesFile}

// dropOld removes the oldest files of processes before n, beyond the bounds, and of the last but one what is not read
// again: its shim may still work when the next process begins. What it cannot remove stays for longer.
func (r *Run) dropOld(n int) {
	old := r.dir.processDir(n - 2)
	if info, err := os.Lstat(old); n > 3 && err == nil && info.IsDir() {
		entries, _ := os.ReadDir(old)
		for _, e := range entries {
			if !slices.Contains(printed, e.Name()) {
				_ = os.Remove(filepath.Join(old, e.Name()))
			}
		}
	}
	for old := n - 1 - r.w.oldDirs; old > 0; old-- {
		path := r.dir.processDir(old)
		if old == 1 {
			path += "/" + outFile
		}
		if !exists(path) {
			break // and so were those before
		}
		_ = os.RemoveAll(path)
	}
	kept := int64(0)
	for old := n - 1; old > 0; old-- {
		path := r.dir.processDir(old) + "/" + outFile
		info, err := os.Lstat(path)
		if err != nil {
			return // it was removed, and so were those before
		}
		if kept += info.Size(); kept > maxOld {
			_ = os.Remove(path)
		}
	}
}

// folded returns the output of the process that the fold of the raw log has reached: of one before the newest only
// while a log that was lost is filled again.
func (r *Run) folded() *stream {
	t := r.talk
	if t == nil {
		return &r.out
	}
	n := t.conv.Status().Process
	if n == 0 || n >= r.process() {
		return &r.out
	}
	if path := r.dir.processDir(n) + "/" + outFile; t.former.path != path {
		t.former.close()
		t.former = stream{path: path, segment: &segment{Base: t.place.out}}
	}
	return &t.former
}

// goesOn stores what is left of a process that has ended, and its end. It reports whether the run goes on.
func (r *Run) goesOn(ctx context.Context, ex runs.Exit) (bool, error) {
	if r.talk == nil || !r.dir.Spec.Keep {
		return false, nil
	}
	for {
		_, err := r.pump(ctx, true)
		if err == nil {
			err = r.noteProcess(ctx, ex)
		}
		if err == nil {
			err = r.hear(ctx)
		}
		switch {
		case err == nil:
			return r.resting(), nil
		case !errors.Is(err, runs.ErrMoved):
			return false, err
		}
		if err := r.recheckOwnership(ctx); err != nil {
			return false, err
		}
	}
}

// asleep reports whether there is no process, and the run is between two.
func (r *Run) asleep() bool {
	return r.talk != nil && r.dir.Spec.Keep && r.talk.missing() == nil && r.gone()
}

// gone reports whether the raw log has the end of the newest process.
func (r *Run) gone() bool {
	s := r.talk.conv.Status()
	return s.Process == r.process() && !s.Alive
}

// resting reports whether a run without a process goes on.
func (r *Run) resting() bool {
	outcome, _ := r.talk.conv.Ended()
	return outcome == nil && !r.stopped && !r.talk.torn && r.gone()
}

// exitAsleep returns the exit of a run without a process that does not go on: that of its last process, which a worker
// before has stored without it, or of now if the run was to go on after that.
func (r *Run) exitAsleep(now time.Time) (*runs.Exit, error) {
	p := r.talk.last
	if p.Stays || p.Reason == "" { // or none has ended that is known
		return &runs.Exit{Reason: runs.ReasonEOF, At: now.UnixMilli()}, nil
	}
	ex, err := readExit(r.files(), r.dir.mark.Keys...) // has more
	if ex == nil || ex.Reason != p.Reason {
		ex = &runs.Exit{Reason: p.Reason, Code: p.Code, Signal: p.Signal, At: p.At}
	}
	return ex, err
}

// fed returns how many of the bytes for the process it may have taken. After a restart of the system nobody knows.
func (r *Run) fed() int64 {
	if id, _ := readIdentity(r.files()); id.Boot != bootID() && exists(r.file(startedFile)) {
		return math.MaxInt64
	}
	f, err := openOwn(r.file(fedFile), os.O_RDONLY)
	if err != nil {
		return math.MaxInt64
	}
	defer f.Close()
	at, err := readFed(f)
	if err != nil {
		return math.MaxInt64
	}
	if at.Phase == phaseEnd { // of the line that begins there
		in, err := openOwn(r.file(inFile), os.O_RDONLY)
		if err != nil {
			return math.MaxInt64
		}
		defer in.Close()
		line := &feeder{buf: make([]byte, feedBuffer), looked: at.At}
		end, err := line.lineEnd(in)
		if err != nil {
			return math.MaxInt64
		}
		at.At = end + 1
	}
	return r.talk.place.in + at.At
}

// doze is what other runs of the worker know of a run that goes on after a turn.
type doze struct {
	asleep bool      // there is no process
	wakes  bool      // one is to start
	idle   time.Time // since when it waits for a message and can sleep; zero: it does not
	sleep  bool      // it is to sleep, for another one
	queued int       // messages that wait
}

// awake reports whether a run that goes on after a turn has a process. The worker is locked.
func (r *Run) awake() bool { return r.dir.Spec.Keep && !r.doze.asleep }

// noteAwake tells the other runs of the worker. It reports whether the process is to sleep for one of them.
func (r *Run) noteAwake(now time.Time) (sleep bool) {
	if !r.dir.Spec.Keep {
		return false
	}
	s := r.talk.conv.Status()
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	d, before := &r.doze, r.doze
	d.asleep, d.wakes, d.queued = s.Asleep, s.Wakes, len(r.talk.conv.Queue().Messages)
	switch {
	case s.Sleeps:
		d.idle, d.sleep = time.Time{}, true
	case !s.Idle || !s.Lasts || !s.Ready:
		d.idle, d.sleep = time.Time{}, false
	case d.idle.IsZero():
		d.idle = now
	}
	if *d != before {
		r.w.makeRoom()
	}
	if d.asleep && !before.asleep {
		r.w.freeSlot()
	}
	return d.sleep && !s.Sleeps
}

// makeRoom lets those of too many processes sleep that have waited for longest. The worker is locked.
func (w *Worker) makeRoom() {
	n := -w.cfg.Awake
	for _, r := range w.driven {
		if (r.awake() || r.doze.wakes) && !r.doze.sleep {
			n++
		}
	}
	for ; n > 0; n-- {
		var longest *Run
		for _, r := range w.driven {
			if d := &r.doze; !d.idle.IsZero() && !d.sleep && (longest == nil || d.idle.Before(longest.doze.idle)) {
				longest = r
			}
		}
		if longest == nil {
			return
		}
		longest.doze.sleep = true
		select {
		case longest.nudge <- struct{}{}:
		default: // it looks soon
		}
	}
}

// mayWake reports whether another process may start.
func (r *Run) mayWake() bool {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	awake := 0
	for _, other := range r.w.driven {
		if other.awake() && other != r {
			awake++
		}
	}
	r.doze.asleep = awake >= r.w.cfg.Awake
	return !r.doze.asleep
}

// sleeps returns the command that lets a process sleep.
func (t *dialog) sleeps() runs.Command {
	return runs.Command{
		ID: "sleep-" + strconv.FormatUint(t.conv.Seen(), 10), Do: runs.DoSleep, By: runs.ByLimit, Rule: "live.sleep_after",
	}
}
