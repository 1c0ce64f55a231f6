package worker

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/sessionlog"
)

// Two processes that continue one thread would mix up its session. So a task whose thread an open run of the same data
// directory has is not started. The run directories say which threads those are: one is there from before its agent
// starts until the run has ended, also while the run sleeps and after its worker was killed. A lock could not say it:
// it ends with its worker, and the agent does not.

// threadsLock, next to the run directories, is locked while a task that resumes a thread is taken: several workers may
// share them.
const threadsLock = "threads.lock"

// thread is that of an open run.
type thread struct {
	run, agent string
	id         string // "": it has none, or not yet
	settled    bool   // it stays as it is
	began      bool   // the run has begun it, and does not continue it
	created    int64  // when the run was, Unix milliseconds
}

// before returns where the lines of a log, last written at mod, end that are none of the run; they are between two
// offsets. If no line tells when it was written, all are of the run if that is sure, else none: sent twice is better
// than lost.
func (t *thread) before(log io.ReaderAt, from, to int64, mod time.Time, sure bool) (int64, error) {
	if mod.UnixMilli() <= t.created {
		return to, nil
	}
	begin, tells, err := sessionlog.Before(log, from, to, time.UnixMilli(t.created))
	if !tells && !sure && !t.began {
		return to, err
	}
	return begin, err
}

// threads returns those of all run directories; known are those of an earlier call, or nil.
func (w *Worker) threads(known map[string]thread) (map[string]thread, error) {
	names, _, err := runDirs(w.cfg.Root)
	found := make(map[string]thread, len(names))
	for _, name := range names {
		t := known[name]
		if !t.settled {
			spec, serr := readSpec(w.runDir(name))
			// Else it is being removed, is no run, or its agent hides it, which is to stop no other run.
			if serr != nil && !errors.Is(serr, errBad) && !errors.Is(serr, fs.ErrPermission) {
				err = errors.Join(err, serr)
			}
			if serr != nil {
				continue
			}
			id := w.resumes(&spec)
			t = thread{run: name, agent: spec.Agent, id: id, settled: !spec.Live || id != "", created: spec.Created}
			if !t.settled {
				t.id, t.began = w.begun(name), true
			}
		}
		found[name] = t
	}
	return found, err
}

// begun returns the thread that a live run has noted; "": none.
func (w *Worker) begun(run string) string {
	id, _ := readBounded(filepath.Join(w.runDir(run), threadFile), runs.MaxThread) // what cannot be read tells none
	return string(id)
}

// resumes returns the thread that a run is started to continue, as its task says or its command line; "": none.
func (w *Worker) resumes(spec *Spec) string {
	a, known := w.cfg.Agents.Find(spec.Agent)
	if spec.Thread != "" || !known || !spec.process() {
		return spec.Thread
	}
	id, forks := a.Continues(spec.Argv)
	if forks {
		return ""
	}
	return id
}

// holder returns the thread of the open run of an agent that has it, other than one, of several the oldest; the zero
// value: there is none.
func holder(all map[string]thread, kind, id, but string) (oldest thread) {
	for _, t := range all {
		if t.run != but && t.agent == kind && id != "" && strings.EqualFold(t.id, id) &&
			(oldest.run == "" || t.created < oldest.created) {
			oldest = t
		}
	}
	return oldest
}

// heldError reports a thread that another run has.
type heldError struct{ run string }

func (e *heldError) Error() string {
	return "its thread is that of run " + e.run + ", which has not ended"
}

// create makes the directory of a task's run. The error is a [heldError] if an open run has its thread.
func (w *Worker) create(spec Spec) (*Dir, error) {
	if spec.Thread == "" {
		return Create(w.cfg.Root, spec)
	}
	if err := MakeDir(w.cfg.Root); err != nil {
		return nil, err
	}
	lock, err := openLocked(filepath.Join(filepath.Dir(w.cfg.Root), threadsLock), 0, files.Lock)
	if err != nil {
		return nil, err
	}
	defer func() { _ = files.Close(lock) }()
	all, err := w.threads(nil)
	if err != nil {
		return nil, err
	}
	if other := holder(all, spec.Agent, spec.Thread, spec.Run); other.run != "" {
		return nil, &heldError{other.run}
	}
	return Create(w.cfg.Root, spec)
}

// noteThread tells other workers the thread that a live run has begun, before its agent gets a prompt.
func (r *Run) noteThread() error {
	t, id := r.talk, r.talk.conv.Status().Session
	if id == "" || id == t.thread || r.dir.Spec.Thread != "" {
		return nil
	}
	err := files.Replace(r.dir.file(threadFile), threadFile+".*", []byte(id)) // others read it at any time
	if err == nil {
		t.thread = id
	}
	return err
}
