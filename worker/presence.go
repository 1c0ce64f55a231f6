package worker

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/runs"
)

// Statuses is a directory with files, named .json, that say what the programs of sessions do.
type Statuses struct {
	Dir  string // absolute; it may be missing
	Read func(file []byte) (s agent.Status, ok bool)
	// All says that each program that runs has a file there, if the directory is there.
	All bool
}

// Limits of what is read in a directory of statuses.
const (
	maxStatuses = 4096     // files
	maxStatus   = 64 << 10 // bytes of a file; a longer one is not read
)

// presence tells which programs of the sessions of a place run, and what they say. Its methods
// may be called from several goroutines.
type presence struct {
	place  Place
	settle time.Duration

	mu       sync.Mutex
	statuses map[string][]statusFile // by session
	told     bool                    // programs that run have a file
	open     map[string]bool         // logs that a process has open, by path; nil: not known
	next     time.Time               // when open is read again
	wanted   bool                    // open, since it was read last
}

type statusFile struct {
	path string
	read func(file []byte) (s agent.Status, ok bool)
	size int64
	mod  time.Time
	agent.Status
}

// refresh reads what has changed.
func (p *presence) refresh(now time.Time) {
	p.mu.Lock()
	before := make(map[string]statusFile)
	for _, files := range p.statuses {
		for _, f := range files {
			before[f.path] = f
		}
	}
	list := p.place.Logs.Open && p.wanted && !now.Before(p.next)
	p.mu.Unlock()

	statuses, told := make(map[string][]statusFile), false
	for _, dir := range p.place.Statuses {
		entries, err := os.ReadDir(dir.Dir)
		told = told || err == nil && dir.All
		for _, e := range entries[:min(len(entries), maxStatuses)] {
			if !strings.HasSuffix(e.Name(), ".json") || !e.Type().IsRegular() {
				continue
			}
			f := statusFile{path: filepath.Join(dir.Dir, e.Name()), read: dir.Read}
			f.update(before[f.path])
			if f.Session != "" {
				statuses[f.Session] = append(statuses[f.Session], f)
			}
		}
	}
	var open map[string]bool
	if list {
		if root, err := filepath.EvalSymlinks(p.place.Dir); err == nil {
			open = openForWriting(root)
		}
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.statuses, p.told = statuses, told
	if list {
		const least = 2 * time.Second // it reads about all processes
		p.open, p.wanted, p.next = open, false, time.Now().Add(max(least, 50*time.Since(now)))
	}
}

// update reads the file, unless it is as before. One that is being written stays as before.
func (f *statusFile) update(before statusFile) {
	info, err := os.Stat(f.path)
	if err != nil || info.Size() > maxStatus {
		return
	}
	if before.size == info.Size() && before.mod.Equal(info.ModTime()) {
		*f = before
		return
	}
	f.size, f.mod = info.Size(), info.ModTime()
	text, err := readBounded(f.path, maxStatus) // it may have become a FIFO
	status, ok := f.read(text)
	if err != nil || !ok {
		f.Status, f.mod = before.Status, time.Time{}
		return
	}
	f.Status = status
}

// running is whether the program of a session runs.
type running uint8

const (
	perhaps running = iota
	does
	doesNot
)

// runs tells whether the program of a session runs, whose log is at path.
func (p *presence) runs(session, path string) running {
	p.mu.Lock()
	files, told, open := p.statuses[session], p.told, p.open
	p.wanted = p.wanted || p.place.Logs.Open
	p.mu.Unlock()
	answer := perhaps
	for _, f := range files {
		if f.PID == 0 {
			continue
		}
		if f.Namespace != "" && f.Namespace != pidNamespace() {
			return perhaps // it is in a container
		}
		if now, ok := lookup(f.PID); ok && !now.dead && (f.Start == 0 || f.Start == now.start) {
			return does
		}
		answer = doesNot
	}
	switch {
	case open != nil && open[path]:
		return does
	case told, open != nil:
		return doesNot
	}
	return answer
}

// says returns what the program of a session says that it does, the newest of several. A hook
// tells when something begins, and not when it ends: what it told before the time from, in Unix
// milliseconds, is over.
func (p *presence) says(session string, from int64) (newest runs.Presence, ok bool) {
	p.mu.Lock()
	files := p.statuses[session]
	p.mu.Unlock()
	for _, f := range files {
		f.update(f) // it may have changed just now
		if f.PID == 0 && f.Since < from {
			continue
		}
		if f.Does != "" && f.Since >= newest.Since {
			newest, ok = f.Presence, true
		}
	}
	return newest, ok
}

// attendance is about the program of the session of a followed log. A nil one knows nothing.
type attendance struct {
	log    *sessionLog
	origin agent.Origin
	noted  runs.Presence
	taker  thread // of the run that has taken it; the zero value: none has

	seen  bool      // the program ran
	since time.Time // when it was found that it does not
	size  int64     // of the log when rests was found
	rests bool      // no turn is in progress
}

// attendance returns that of the log, nil if the log does not tell its session.
func (t *sessionLog) attendance() *attendance {
	f, _, _, err := openRegular(t.f.where())
	if err != nil {
		return &attendance{log: t}
	}
	defer f.Close()
	o, _ := t.origin(f) // without one it is followed until it is silent
	return &attendance{log: t, origin: o}
}

// path returns where the log is now.
func (a *attendance) path() string {
	if a == nil {
		return ""
	}
	return a.log.f.where()
}

// runs tells whether the program runs, of a log at a path.
func (a *attendance) runs(path string) running {
	if a == nil || a.origin.Session == "" {
		return perhaps
	}
	return a.log.p.presence.runs(a.origin.Session, path)
}

// taken reports whether an open run has the session, or continues it, or did: what is added to the log is its work.
func (a *attendance) taken() bool {
	if a == nil {
		return false
	}
	if a.taker.run == "" {
		a.taker = holder(a.log.s.threads(), a.log.p.Agent, a.origin.Session, "")
	}
	return a.taker.run != ""
}

// busy reports whether the program runs, and is in the middle of a turn: it may wait for its
// person, or run a tool, for hours.
func (a *attendance) busy(out *stream) bool {
	return a.runs(out.path) == does && !a.resting(out.f, out.size)
}

// left reports whether the log will not grow, as far as that can be known: for a while its
// program has not run, or it is that of a sub-agent, or of a program that has no user and is
// perhaps gone, and has ended its turn.
func (a *attendance) left(now time.Time, out *stream) bool {
	if a == nil || a.origin.Session == "" {
		return false
	}
	runs := a.runs(out.path)
	switch {
	case runs == does:
		a.seen = true
		if !a.origin.Sub {
			a.since = time.Time{}
			return false
		}
	case runs == perhaps && !a.origin.Sub && !a.origin.Headless:
		a.since = time.Time{}
		return false
	}
	if a.since.IsZero() {
		a.since = now
	}
	settle := a.log.p.presence.settle
	if now.Sub(a.since) < settle || now.Sub(out.grown) < settle {
		return false
	}
	return runs == doesNot && a.seen || a.resting(out.f, out.size)
}

// resting reports whether no turn is in progress, as the end of the log says.
func (a *attendance) resting(f io.ReaderAt, size int64) bool {
	if a.size == size || a.log.p.Logs.Rests == nil {
		return a.rests
	}
	a.size, a.rests = size, false
	const tail = 256 << 10
	at := max(0, size-tail)
	text := make([]byte, size-at)
	n, _ := f.ReadAt(text, at) // what was read counts
	for text = text[:n]; len(text) > 0; {
		start := bytes.LastIndexByte(bytes.TrimSuffix(text, []byte("\n")), '\n') + 1
		if rests, known := a.log.p.Logs.Rests(text[start:]); known {
			a.rests = rests
			break
		}
		text = text[:start]
	}
	return a.rests
}

// notePresence stores a note when the program of a session says that it does something else.
// That of a sub-agent says nothing.
func (r *Run) notePresence(ctx context.Context) error {
	t, _ := r.source.(*tailed)
	if t == nil || t.attend == nil || t.attend.origin.Session == "" || t.attend.origin.Sub || r.stopped {
		return nil
	}
	a := t.attend
	a.seen = a.seen || r.progress.Seen
	r.progress.Seen = a.seen // stored with the next entry
	// A line that was written before the hook can reach the file after it.
	const late = 2 * time.Second
	from := r.out.mod.Add(-late).UnixMilli()
	if r.dir.Spec.Labels.Value(runs.LabelContinues) != "" {
		from = max(from, r.dir.Spec.Created)
	}
	says, ok := a.log.p.presence.says(a.origin.Session, from)
	again := says.Does == a.noted.Does && says.Does != runs.Waits // programs repeat what they say
	if !ok || again || says == a.noted {
		return nil
	}
	before := a.noted
	a.noted = says
	err := r.append(ctx, time.Now(), runs.Note, 0,
		runs.Encode(runs.Remark{Reason: runs.NotePresence, Presence: &says}))
	if err != nil {
		a.noted = before
	}
	return err
}
