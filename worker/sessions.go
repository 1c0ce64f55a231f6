package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

// SessionsSpec configures Sessions.
type SessionsSpec struct {
	Places []Place
	Labels map[string]string
	Idle   time.Duration // the run of a file ends when it has not changed for this time; must be positive
	Since  time.Duration // also files that changed in this time before the start; at least Idle

	// Own reports whether a session without a user interface is published already: it is
	// that of an agent whose stdout is a run. Nil: none is. It is asked a few seconds after
	// the log is found, because the run may know its session later.
	Own func(ctx context.Context, session string) bool

	// Began is called with each run that is started or resumed. It is called from
	// several goroutines, and may be nil.
	Began func(run, path string)
}

// Place is a directory where an agent keeps logs of its sessions.
type Place struct {
	Agent string // agent kind
	Dir   string // absolute; it may be missing
	// Has and Origin are those of [agent.Sessions].
	Has    func(file string) bool
	Origin func(line []byte) (session string, headless, known bool)
}

// maxSessionHead is how much of a log is read to see which session it is of, in bytes.
const maxSessionHead = 4 << 20

// Sessions follows the logs of sessions that agents keep by themselves, and those to come.
// It only reads them. A file is followed once it changes, from its beginning, and its run
// ends when it is silent. If it grows afterwards, the next run of it begins there; the
// ledger says where. The id of a run says which session and which of its runs it is, so the
// next call resumes the same runs.
//
// Symbolic links below a place are not followed. Sessions returns nil when ctx ends; the
// runs stay open.
func (w *Worker) Sessions(ctx context.Context, spec SessionsSpec) error {
	errs := []error{runs.CheckLabels(continuing(spec.Labels, "T"))}
	for _, p := range spec.Places {
		errs = append(errs, runs.CheckAgent(p.Agent))
	}
	if spec.Idle <= 0 {
		errs = append(errs, fmt.Errorf("idle: must be positive, got %v", spec.Idle))
	}
	var limit unix.Rlimit
	errs = append(errs, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	stores, err := w.cfg.Stores(ctx)
	if err := errors.Join(append(errs, err)...); err != nil {
		return fmt.Errorf("sessions: %w", err)
	}
	s := &sessionFollower{w: w, spec: spec, open: w.tailedBefore(), from: time.Now().Add(-max(spec.Since, spec.Idle))}
	slots := (int64(min(uint64(limit.Cur), 1<<20)) - spare) / perFile
	s.limit = int(max(1, min(slots, int64(w.maxSessions))))
	s.group.SetLimit(s.limit)
	for _, p := range spec.Places {
		ledger := &ledgerIndex{ledger: &w.ledger, agent: p.Agent, stores: stores, files: make(map[inode]*imported)}
		s.places = append(s.places, &sessionPlace{Place: p, ledger: ledger, files: make(map[string]*sessionFile)})
		w.log.Info("watching for sessions", zap.String("agent", p.Agent), zap.String("dir", p.Dir))
	}
	defer func() {
		for _, p := range s.places {
			p.ledger.close()
		}
	}()
	for {
		began := time.Now()
		for _, p := range s.places {
			s.scan(ctx, p)
		}
		// A scan takes little of the time, also with many files.
		if sleep(ctx, max(w.tailPause, 50*time.Since(began))) != nil {
			return s.group.Wait()
		}
	}
}

// sessionFollower is a call of Sessions.
type sessionFollower struct {
	w      *Worker
	spec   SessionsSpec
	places []*sessionPlace
	open   map[string][]string // run directories to resume, by path
	from   time.Time           // files that changed since are followed
	group  errgroup.Group
	limit  int // of files that are followed at once

	full, shared sync.Once // what is logged once: files wait; another process follows some
}

type sessionPlace struct {
	Place
	ledger *ledgerIndex
	files  map[string]*sessionFile // of the last scan, by path
	logged bool                    // the error of the last scans
}

// sessionFile is a file of a place.
type sessionFile struct {
	size    int64
	mod     time.Time
	changed bool // and not seen by a run yet

	mu      sync.Mutex
	busy    bool // a goroutine follows it
	ignored bool // it is published already, or its run was cancelled
}

// scan finds changed files, and follows them.
func (s *sessionFollower) scan(ctx context.Context, p *sessionPlace) {
	root, err := filepath.EvalSymlinks(p.Dir)
	seen := make(map[string]*sessionFile, len(p.files))
	var changed []*sessionLog
	var unread error // of a directory below it
	if err == nil {
		err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil && path == root {
				return err
			}
			file, _ := filepath.Rel(root, path)
			if err != nil {
				if !errors.Is(err, fs.ErrNotExist) {
					unread = err // it may be readable later
				}
				return nil
			}
			if !e.Type().IsRegular() || !p.Has(filepath.ToSlash(file)) {
				return nil
			}
			info, err := e.Info()
			if err != nil || ctx.Err() != nil {
				return ctx.Err()
			}
			f := p.files[path]
			if f == nil {
				f = &sessionFile{changed: !info.ModTime().Before(s.from) || len(s.open[path]) > 0}
			} else if f.size != info.Size() || !f.mod.Equal(info.ModTime()) {
				f.changed = true
			}
			f.size, f.mod, seen[path] = info.Size(), info.ModTime(), f
			if f.changed {
				changed = append(changed, &sessionLog{s: s, p: p, f: f, path: path, file: filepath.ToSlash(file)})
				p.ledger.want(fileOf(path, info).inode)
			}
			return nil
		})
	}
	if ctx.Err() != nil {
		return
	}
	slices.SortStableFunc(changed, func(a, b *sessionLog) int { return b.f.mod.Compare(a.f.mod) })
	waiting := 0
	for _, t := range changed {
		if !s.follow(ctx, t) {
			waiting++
		}
	}
	if waiting > 0 {
		s.full.Do(func() {
			s.w.log.Warn("more logs of sessions have changed than are followed at once: the others wait until some are silent",
				zap.String("dir", p.Dir), zap.Int("followed", s.limit), zap.Int("waiting", waiting))
		})
	}
	problem := err
	if err == nil {
		problem = unread
	}
	if failed := problem != nil && !errors.Is(problem, fs.ErrNotExist); failed != p.logged {
		if p.logged = failed; failed {
			s.w.log.Warn("read the logs of sessions", zap.String("dir", p.Dir), zap.Error(problem))
		}
	}
	if err == nil { // else it is not known which files there are
		p.files = seen
	}
}

// follow follows a changed file, unless too many are followed already: then it returns false,
// and the next scan tries again.
func (s *sessionFollower) follow(ctx context.Context, t *sessionLog) bool {
	f := t.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy || f.ignored {
		return true
	}
	t.open = s.open[t.path]
	f.busy = s.group.TryGo(func() error {
		ignore := t.tail(ctx)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.busy, f.ignored = false, ignore
		return nil
	})
	if f.busy {
		f.changed = false
		delete(s.open, t.path)
	}
	return f.busy
}

// sessionLog is the log of a session, and its runs, one after the other.
type sessionLog struct {
	s          *sessionFollower
	p          *sessionPlace
	f          *sessionFile
	path, file string   // file is relative to the place
	open       []string // run directories to resume, oldest first
	found      time.Time
}

// errSilent reports that the whole log is already published.
var errSilent = errors.New("nothing new in the log of a session")

// tail drives the runs of the log until it is silent. It reports whether the file must not
// be followed again.
func (t *sessionLog) tail(ctx context.Context) (ignore bool) {
	log := t.s.w.log.With(zap.String("path", t.path))
	t.found = time.Now()
	for pause := time.Duration(0); ; {
		ignore, err := t.one(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, errSilent), errors.Is(err, fs.ErrNotExist):
			return false
		case ignore:
			if err != nil {
				log.Error("the log of a session is not followed any more", zap.Error(err))
			}
			return true
		case err == nil:
			pause = 0
			continue
		}
		pause = longerDelay(pause)
		if errors.Is(err, errOwned) {
			t.s.shared.Do(func() {
				log.Warn("another process follows logs of sessions; when it ends, this one follows them")
			})
		} else {
			log.Error("follow the log of a session", zap.Error(err), zap.Duration("retry", pause))
		}
		if sleep(ctx, pause) != nil {
			return false
		}
	}
}

// one drives one run of the log to its end.
func (t *sessionLog) one(ctx context.Context) (ignore bool, err error) {
	d, ignore, err := t.next(ctx)
	if d == nil || err != nil {
		return ignore, err
	}
	r := t.s.w.Run(d)
	if t.s.spec.Began != nil {
		r.onStarted = func() { t.s.spec.Began(d.Spec.Run, t.path) }
	}
	ex, err := r.Drive(ctx)
	known := errors.Is(err, ErrKnown) || errors.Is(err, ErrEnded)
	if err != nil && (!known || !r.recorded && !r.out.replaced) { // the ledger was not written
		t.open = append(t.open, d.Path())
		return false, err
	}
	return err == nil && ex.Reason == runs.ReasonCancelled, nil
}

// next returns the directory of a run to resume, or of a new run. The file is ignored if its
// session is published already.
func (t *sessionLog) next(ctx context.Context) (d *Dir, ignore bool, err error) {
	for len(t.open) > 0 {
		d, err := openRetrying(ctx, t.open[0])
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, false, err
		}
		t.open = t.open[1:]
		if err == nil {
			return d, false, nil
		}
	}
	info, err := os.Lstat(t.path)
	if err != nil {
		return nil, false, err
	}
	f, file, size, err := openRegular(t.path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if fileOf(t.path, info) != file { // a symbolic link has taken its place
		return nil, false, errSilent
	}
	spec, err := t.plan(f, file, size)
	if err != nil {
		return nil, errors.Is(err, runs.ErrManyRuns), err
	}
	if first := spec.Session.From == 0 && spec.Labels[runs.LabelContinues] == ""; first {
		if own, err := t.own(ctx, f); own || err != nil {
			return nil, own, err
		}
	}
	d, err = Create(t.s.w.cfg.Root, *spec)
	if errors.Is(err, fs.ErrExist) { // another process follows the file, or did
		t.open = append(t.open, t.s.w.runDir(spec.Run))
		return t.next(ctx)
	}
	return d, false, err
}

// own reports whether the session of a log is published already.
func (t *sessionLog) own(ctx context.Context, f *os.File) (bool, error) {
	if t.s.spec.Own == nil {
		return false, nil
	}
	session, headless, err := t.origin(f)
	if err != nil || !headless || session == "" {
		return false, err
	}
	if err := sleep(ctx, time.Until(t.found.Add(t.s.w.settle))); err != nil {
		return false, err
	}
	return t.s.spec.Own(ctx, session), nil
}

// origin returns the session of a log, and whether it is headless. The error is errSilent if
// the log does not tell it yet. A long log that does not tell it is not headless.
func (t *sessionLog) origin(f *os.File) (session string, headless bool, err error) {
	lines := bufio.NewReader(io.NewSectionReader(f, 0, maxSessionHead))
	for read := 0; ; {
		line, err := lines.ReadBytes('\n')
		if read += len(line); errors.Is(err, io.EOF) {
			if read < maxSessionHead {
				return "", false, errSilent // its next lines will tell
			}
			return "", false, nil
		}
		if err != nil {
			return "", false, err
		}
		if session, headless, known := t.p.Origin(line); known {
			return session, headless, nil
		}
	}
}

// plan returns the next run of the log.
func (t *sessionLog) plan(f *os.File, file File, size int64) (*Spec, error) {
	w := t.s.w
	last, err := t.p.ledger.last(file.inode)
	if err != nil {
		return nil, err
	}
	session := &Session{Idle: t.s.spec.Idle}
	which := content{Worker: w.cfg.Name, Agent: t.p.Agent, File: file.inode, Sum: t.file}
	task := importID(which)
	spec := &Spec{
		Run: task, Agent: t.p.Agent, Source: SourceTail, Labels: t.s.spec.Labels, File: &file, Session: session,
	}
	before := ""
	if last != nil {
		before = last.Run
		sum, err := sumOf(f, last.Size)
		switch {
		case err == nil && sum == last.Sum && last.Size == size:
			return nil, errSilent
		case err == nil && sum == last.Sum:
			if session.From, err = lineBefore(f, last.Size); err != nil {
				return nil, err
			}
		case err == nil, errors.Is(err, io.ErrUnexpectedEOF): // other content
		default:
			return nil, err
		}
	}
	if size == 0 {
		return nil, errSilent
	}
	number := 1
	if after, link := strings.CutPrefix(before, task+"-"); link {
		number, _ = strconv.Atoi(after) // the id is one of ours
	} else if before != task { // none, or the file was imported: no other run has this id
		which.From, which.Before = session.From, before
		spec.Run = importID(which)
		return spec, nil
	}
	if spec.Run, err = runs.LinkID(task, number+1); err != nil {
		return nil, err
	}
	spec.Labels = continuing(spec.Labels, task)
	return spec, nil
}

// continuing returns the labels of a later run of a task.
func continuing(labels map[string]string, task string) map[string]string {
	all := make(map[string]string, len(labels)+1)
	maps.Copy(all, labels)
	all[runs.LabelContinues] = task
	return all
}
