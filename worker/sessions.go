package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/runs"
)

// SessionsSpec configures Sessions.
type SessionsSpec struct {
	Places []Place
	Labels runs.Labels
	Idle   time.Duration // the run of a file ends when it has not changed for this time; must be positive
	Since  time.Duration // also files that changed in this time before the start; at least Idle

	// Own reports whether a session without a user interface is published already: it is
	// that of an agent whose stdout is a run. Nil: none is. It is asked a few seconds after
	// the log is found, because the run may know its session later, and after an error again:
	// until it is known, the session is not published.
	Own func(ctx context.Context, session string) (bool, error)

	// Began is called with each run that is started or resumed. It is called from
	// several goroutines, and may be nil.
	Began func(run, path string)
}

// Place is a directory where an agent keeps logs of its sessions.
type Place struct {
	Agent string // agent kind
	Dir   string // absolute; it may be missing
	// Logs are the files in it.
	Logs agent.Sessions
	// Statuses are the directories with files about its programs.
	Statuses []Statuses
}

// Sessions follows the logs of sessions that agents keep by themselves, and those to come.
// It only reads them. A file is followed once it changes, from its beginning, and its run
// ends when it is silent, or a few seconds after its program has ended, as far as that can be
// known. If it grows afterwards, the next run of it begins there; the ledger says where. The
// id of a run says which session and which of its runs it is, so the next call resumes the
// same runs. A log that the agent moves, or copies to go on in the copy, stays the same one.
//
// Symbolic links below a place are not followed. Sessions returns nil when ctx ends; the
// runs stay open.
func (w *Worker) Sessions(ctx context.Context, spec SessionsSpec) error {
	errs := []error{spec.Labels.With(runs.LabelContinues, "T").Check()}
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
		ledger := &ledgerIndex{ledger: &w.ledger, agent: p.Agent, stores: stores, files: make(map[wanted]*imported)}
		s.places = append(s.places, &sessionPlace{
			Place: p, ledger: ledger, files: make(map[string]*sessionFile), presence: presence{place: p, settle: w.settle},
		})
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
			p.presence.refresh(time.Now()) // first: a run that begins asks at once whether its program works
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

	looks  sync.Mutex
	held   map[string]thread // of the open runs, at the last look
	heldAt time.Time         // when that was
	rootAt time.Time         // when the last of their directories was made or removed, as known then

	full, shared sync.Once // what is logged once: files wait; another process follows some
}

// threads returns which threads open runs have. A run that has begun to write is among them: its directory was made
// before, which the time of the directory above shows.
func (s *sessionFollower) threads() map[string]thread {
	const coarse = 100 * time.Millisecond // the steps of the times of files are shorter
	s.looks.Lock()
	defer s.looks.Unlock()
	now := time.Now()
	info, err := os.Stat(s.w.cfg.Root)
	same := err == nil && s.rootAt.Equal(info.ModTime()) && s.heldAt.Sub(s.rootAt) > coarse
	if same && now.Sub(s.heldAt) < s.w.tailPause {
		return s.begun()
	}
	all, failed := s.w.threads(s.held)
	if failed != nil { // the next look reads what is missing
		for name, t := range s.held {
			if _, known := all[name]; !known {
				all[name] = t
			}
		}
	}
	if s.held, s.heldAt, s.rootAt = all, now, (time.Time{}); err == nil && failed == nil {
		s.rootAt = info.ModTime()
	}
	return s.held
}

// begun returns what is held, with the threads that live runs have begun since.
func (s *sessionFollower) begun() map[string]thread {
	changed := make(map[string]thread)
	for name, t := range s.held {
		if t.settled || t.id != "" {
			continue
		}
		if id := s.w.begun(name); id != "" {
			t.id = id
			changed[name] = t
		}
	}
	if len(changed) > 0 {
		s.held = maps.Clone(s.held) // others read the old one
		maps.Copy(s.held, changed)
	}
	return s.held
}

type sessionPlace struct {
	Place
	ledger   *ledgerIndex
	presence presence
	files    map[string]*sessionFile // of the last scan, by the name of the log
	logged   bool                    // the error of the last scans
}

// name returns the name of the log at a relative path, which it keeps when it is moved.
func (p *sessionPlace) name(file string) string {
	if p.Logs.Name != nil {
		return p.Logs.Name(file)
	}
	return file
}

// sessionFile is the log of a session.
type sessionFile struct {
	size    int64
	mod     time.Time
	changed bool // and not seen by a run yet

	mu      sync.Mutex
	path    string // of the newest file with its name
	busy    bool   // a goroutine follows it
	ignored bool   // it is published already, or its run was cancelled
}

// where returns the path of the newest file of the log.
func (f *sessionFile) where() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.path
}

// update sets what a scan has found, and reports whether that is new.
func (f *sessionFile) update(path string, info fs.FileInfo) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path == path && f.size == info.Size() && f.mod.Equal(info.ModTime()) {
		return false
	}
	f.path, f.size, f.mod = path, info.Size(), info.ModTime()
	return true
}

// foundFile is a file of a log.
type foundFile struct {
	path string
	info fs.FileInfo
}

// find returns the newest file of each log below root, by the log's name; of several the longest. Unread is the error
// of a directory below it, which may be readable later.
func (p *sessionPlace) find(ctx context.Context, root string) (found map[string]foundFile, unread, err error) {
	found = make(map[string]foundFile, len(p.files))
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil && path == root {
			return err
		}
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				unread = err
			}
			return nil
		}
		rel, _ := filepath.Rel(root, path)
		if rel = filepath.ToSlash(rel); e.IsDir() && path != root && !p.Logs.Below(rel) {
			return fs.SkipDir
		}
		if !e.Type().IsRegular() || !p.Logs.Has(rel) {
			return nil
		}
		info, err := e.Info()
		if err != nil || ctx.Err() != nil {
			return ctx.Err()
		}
		name := p.name(rel)
		if other, twice := found[name]; !twice || cmp.Or(other.info.ModTime().Compare(info.ModTime()),
			cmp.Compare(other.info.Size(), info.Size())) < 0 {
			found[name] = foundFile{path, info}
		}
		return nil
	})
	return found, unread, err
}

// scan finds changed files, and follows them.
func (s *sessionFollower) scan(ctx context.Context, p *sessionPlace) {
	var found map[string]foundFile
	var unread error
	root, err := filepath.EvalSymlinks(p.Dir)
	if err == nil {
		found, unread, err = p.find(ctx, root)
	}
	if ctx.Err() != nil {
		return
	}
	open := s.openBelow(root, p)
	seen := make(map[string]*sessionFile, len(found))
	var changed []*sessionLog
	for name, at := range found {
		f := p.files[name]
		if f == nil {
			f = new(sessionFile)
			f.changed = f.update(at.path, at.info) && (!at.info.ModTime().Before(s.from) || len(open[name]) > 0)
		} else if f.update(at.path, at.info) {
			f.changed = true
		}
		if seen[name] = f; f.changed {
			changed = append(changed, &sessionLog{s: s, p: p, f: f, name: name, open: open[name]})
			p.ledger.want(name, fileOf(at.path, at.info).inode)
		}
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
	problem := cmp.Or(err, unread)
	if failed := problem != nil && !errors.Is(problem, fs.ErrNotExist); failed != p.logged {
		if p.logged = failed; failed {
			s.w.log.Warn("read the logs of sessions", zap.String("dir", p.Dir), zap.Error(problem))
		}
	}
	if err != nil { // it is not known which files there are
		return
	}
	for name, f := range p.files {
		if unread != nil && seen[name] == nil {
			seen[name] = f
		}
	}
	p.files = seen
}

// openBelow returns the run directories to resume of the logs of a place, by their names.
func (s *sessionFollower) openBelow(root string, p *sessionPlace) map[string][]string {
	open := make(map[string][]string)
	for path, dirs := range s.open {
		if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) && p.Logs.Has(filepath.ToSlash(rel)) {
			name := p.name(filepath.ToSlash(rel))
			open[name] = append(open[name], dirs...)
		}
	}
	return open
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
	resumed := t.open
	f.busy = s.group.TryGo(func() error {
		ignore := t.tail(ctx)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.busy, f.ignored = false, ignore
		return nil
	})
	if f.busy {
		f.changed = false
		maps.DeleteFunc(s.open, func(_ string, dirs []string) bool { return slices.Contains(resumed, dirs[0]) })
	}
	return f.busy
}
