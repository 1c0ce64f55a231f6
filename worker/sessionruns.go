package worker

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/sessionlog"
)

// sessionLog is the log of a session, and its runs, one after the other.
type sessionLog struct {
	s     *sessionFollower
	p     *sessionPlace
	f     *sessionFile
	name  string   // which log it is, wherever its file is
	open  []string // run directories to resume, oldest first
	found time.Time
}

// errSilent reports that the whole log is already published.
var errSilent = errors.New("nothing new in the log of a session")

// tail drives the runs of the log until it is silent. It reports whether the file must not
// be followed again.
func (t *sessionLog) tail(ctx context.Context) (ignore bool) {
	log := t.s.w.log.With(zap.String("path", t.f.where()))
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
	r.out.path = t.f.where() // it may have been moved since the run began
	r.source.(*tailed).attend = t.attendance()
	if t.s.spec.Began != nil {
		r.onStarted = func() { t.s.spec.Began(d.Spec.Run, r.out.path) }
	}
	ex, err := r.Drive(ctx)
	known := errors.Is(err, ErrKnown) || errors.Is(err, ErrEnded)
	if err != nil && (!known || !r.recorded && !r.out.replaced) { // the ledger was not written
		t.open = append(t.open, d.Path())
		return false, err
	}
	attend := r.source.(*tailed).attend
	if taken := attend.taken(); err == nil && (r.unfollowed || taken) {
		return false, t.skipTurn(ctx, d.Spec.Run, attend.taker.run)
	}
	return err == nil && ex.Reason == runs.ReasonCancelled, nil
}

// skipTurn waits for the end of the run that has taken the session, taker, or else of the turn in progress, or of the
// program, and then puts what is in the log into the ledger: the next prompt begins the next run.
func (t *sessionLog) skipTurn(ctx context.Context, run, taker string) error {
	a := t.attendance()
	for {
		held, err := t.holder(a.origin.Session)
		if err == nil && held.run != "" && taker != "" && held.run != taker {
			err = t.over(&held, run)
		}
		if err != nil {
			return err
		}
		if taker = cmp.Or(held.run, taker); held.run == "" {
			if over, err := t.skipped(a, run, taker != ""); over || err != nil {
				return err
			}
		}
		if err := sleep(ctx, t.s.w.tailPause); err != nil {
			return err
		}
	}
}

// skipped puts what is in the log into the ledger, if all of it is over, or the turn in progress, or the program.
func (t *sessionLog) skipped(a *attendance, run string, over bool) (bool, error) {
	f, file, size, err := openRegular(t.f.where())
	if err != nil {
		return false, err
	}
	defer f.Close()
	if !over && !a.resting(f, size) && a.runs(t.f.where()) != doesNot && t.p.Logs.Rests != nil {
		return false, nil
	}
	return true, t.note(f, file, size, run)
}

// over puts what is in the log of the time before a run into the ledger: it is of runs that had the session before.
func (t *sessionLog) over(next *thread, run string) error {
	f, file, size, err := openRegular(t.f.where())
	if err != nil {
		return err
	}
	defer f.Close()
	now, err := f.Stat()
	if err != nil {
		return err
	}
	if size, err = next.before(f, 0, size, now.ModTime(), true); size == 0 || err != nil {
		return err
	}
	return t.note(f, file, size, run)
}

// note adds a line to the ledger: so much of the log is published, or is to be skipped.
func (t *sessionLog) note(f *os.File, at file, size int64, run string) error {
	sum, err := sumOf(f, size)
	if err != nil {
		return err
	}
	return t.s.w.ledger.add(imported{
		Agent: t.p.Agent, Stores: t.p.ledger.stores, inode: at.inode, Size: size, Sum: sum, Run: run, Log: t.name,
	})
}

// holder returns the thread of the open run that has a session, or continues it; the zero value: there is none.
func (t *sessionLog) holder(session string) (thread, error) {
	all, err := t.s.w.threads(nil)
	return holder(all, t.p.Agent, session, ""), err
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
	path := t.f.where()
	info, err := os.Lstat(path)
	if err != nil {
		return nil, false, err
	}
	f, file, _, err := openRegular(path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if fileOf(path, info) != file { // a symbolic link has taken its place
		return nil, false, errSilent
	}
	now, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	size, written := now.Size(), now.ModTime()
	spec, err := t.plan(f, file, size)
	if err != nil {
		return nil, errors.Is(err, runs.ErrManyRuns), err
	}
	if first := spec.Session.From == 0 && spec.Labels.Value(runs.LabelContinues) == ""; first {
		if own, err := t.own(ctx, f); own || err != nil {
			return nil, own, err
		}
		if spec.Session.From, err = t.copied(ctx, f, path); err != nil {
			return nil, false, err
		}
	}
	o, err := t.origin(f)
	if err != nil && !errors.Is(err, errSilent) {
		return nil, false, err
	}
	held, err := t.holder(o.Session)
	if err != nil {
		return nil, false, err
	}
	if held.run != "" {
		until, err := held.before(f, spec.Session.From, size, written, false)
		if err != nil {
			return nil, false, err
		}
		if until <= spec.Session.From {
			return nil, false, t.skipTurn(ctx, held.run, held.run)
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
	o, err := t.origin(f)
	if err != nil || !o.Headless || o.Session == "" {
		return false, err
	}
	if err := sleep(ctx, time.Until(t.found.Add(t.s.w.settle))); err != nil {
		return false, err
	}
	if t.s.w.prints(t.p.Agent, o.Session) {
		return true, nil
	}
	own, err := t.s.spec.Own(ctx, o.Session)
	if err != nil { // whoever was away may have its own backlog
		t.found = time.Now()
		return false, fmt.Errorf("it is not known yet whether the session is that of a run: %w", err)
	}
	return own, nil
}

// prints reports whether output that a worker of this directory reads, of an agent or of another program, has the id
// of a session among its first lines.
func (w *Worker) prints(kind, session string) bool {
	names, _, _ := runDirs(w.cfg.Root)
	return slices.ContainsFunc(names, func(name string) bool {
		dir := filepath.Join(w.cfg.Root, name)
		spec, err := readSpec(dir)
		if err != nil || spec.Agent != kind || spec.Session != nil {
			return false
		}
		var f *os.File
		if spec.Source == runs.SourceTail {
			f, _, _, err = openRegular(spec.File.Path)
		} else {
			f, err = openOwn(filepath.Join(dir, outFile), os.O_RDONLY)
		}
		if err != nil {
			return false
		}
		defer f.Close()
		text, _ := io.ReadAll(io.LimitReader(f, maxOutHead)) // what was read counts
		return bytes.Contains(text, []byte(session))
	})
}

// origin returns what the log tells about its session.
func (t *sessionLog) origin(f *os.File) (agent.Origin, error) {
	o, err := sessionlog.Origin(t.p.Logs, f)
	if errors.Is(err, sessionlog.ErrUntold) {
		err = errSilent
	}
	return o, err
}

// copied returns where the log begins that follows the messages that other logs have, too: the log
// of a fork begins with those of the other session, and that of a sub-agent can begin with its
// parent's. The error is errSilent if there is nothing else.
func (t *sessionLog) copied(ctx context.Context, f *os.File, path string) (end int64, err error) {
	if t.p.Logs.Message == nil {
		return 0, nil
	}
	var known map[string]bool
	if parent := t.p.parent(path); parent != "" {
		if known, err = sessionlog.Messages(t.p.Logs, parent); err != nil {
			return 0, err
		}
	}
	for {
		end, read, err := sessionlog.Copied(t.p.Logs, f, known)
		if err != nil {
			return 0, err
		}
		switch settled := time.Since(t.found) >= t.s.w.settle; {
		case end == 0, settled && end < read:
			return end, nil
		case settled:
			return 0, errSilent
		}
		// The copy may not be complete.
		if err := sleep(ctx, time.Until(t.found.Add(t.s.w.settle))); err != nil {
			return 0, err
		}
	}
}

// parent returns the path of the log whose messages that of a sub-agent may repeat, or "".
func (p *sessionPlace) parent(path string) string {
	root, err := filepath.EvalSymlinks(p.Dir)
	rel, relErr := filepath.Rel(root, path)
	if p.Logs.Parent == nil || err != nil || relErr != nil {
		return ""
	}
	if rel = p.Logs.Parent(filepath.ToSlash(rel)); rel == "" {
		return ""
	}
	return filepath.Join(root, filepath.FromSlash(rel))
}

// plan returns the next run of the log.
func (t *sessionLog) plan(f *os.File, file file, size int64) (*Spec, error) {
	w := t.s.w
	known, err := t.p.ledger.lastOfLog(t.name, file.inode)
	if err != nil {
		return nil, err
	}
	o, err := t.origin(f)
	if err != nil && !errors.Is(err, errSilent) {
		return nil, err
	}
	session := &session{Idle: t.s.spec.Idle, Log: t.name, Person: o.Person()}
	which := content{Worker: w.cfg.Name, Agent: t.p.Agent, Sum: t.name}
	task := importID(which)
	spec := &Spec{
		Run: task, Attributes: runs.Attributes{Agent: t.p.Agent, Labels: t.s.spec.Labels}, Source: runs.SourceTail,
		File: &file, Session: session,
	}
	before := ""
	if len(known) > 0 {
		before = known[0].Run
	}
	for _, last := range known { // a log can have two files with different content
		sum, err := sumOf(f, last.Size)
		switch {
		case err == nil && sum == last.Sum && last.Size == size:
			return nil, errSilent
		case err == nil && sum == last.Sum:
			session.From, err = lineBefore(f, last.Size)
		case errors.Is(err, io.ErrUnexpectedEOF):
			err = nil
		}
		if err != nil {
			return nil, err
		}
		if session.From > 0 {
			break
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
	spec.Labels = spec.Labels.With(runs.LabelContinues, task)
	return spec, nil
}
