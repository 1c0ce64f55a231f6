package worker

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// What an agent has used is not always in its output: sub-agents, compactions, and what a thread
// had used before. The logs of its sessions beside the run tell it. Only numbers leave them.

// Limits of reading the logs of a run's session. What is not read makes the numbers partial.
const (
	usageTime  = 2 * time.Second
	maxLogs    = 64 << 20 // bytes of the logs at the end of a run
	maxLogTail = 8 << 20  // bytes of a log that tell what a thread has used
	maxOutHead = 64 << 10 // bytes of output that tell the session
	maxLogLine = 16 << 20 // bytes of a line
)

// sessionLogs are the logs of an agent's sessions.
type sessionLogs struct {
	agent agent.Agent
	root  string // absolute
}

// logs returns the logs of the run's agent; false: it keeps none, or they are not read.
func (r *Run) logs() (l sessionLogs, ok bool) {
	spec := &r.dir.Spec
	a, known := r.w.cfg.Agents.Find(spec.Agent)
	if !known || !spec.process() || len(a.Sessions.Files) == 0 {
		return l, false
	}
	root, err := a.Sessions.Root(func(name string) string {
		if spec.Env == nil {
			return os.Getenv(name)
		}
		value := ""
		for _, entry := range spec.Env {
			if v, is := strings.CutPrefix(entry, name+"="); is {
				value = v // the last one counts
			}
		}
		return value
	})
	return sessionLogs{agent: a, root: root}, err == nil
}

// continues returns the thread that the run is started to resume or to fork, and what it had used
// before; nil: not known.
func (r *Run) continues() (thread string, before *runs.Account) {
	a, known := r.w.cfg.Agents.Find(r.dir.Spec.Agent)
	if !known || !r.dir.Spec.process() {
		return "", nil
	}
	thread = a.Continues(r.dir.Spec.Argv)
	if l, ok := r.logs(); ok && thread != "" && len(thread) <= runs.MaxThread {
		var err error
		if before, err = l.account(thread); err != nil {
			r.log.Warn("what the thread has used before is not known", zap.Error(pathless(err)))
		}
	}
	return thread, before
}

// noteUsage adds a note with what the logs of the run's session tell.
func (r *Run) noteUsage(ctx context.Context, ex runs.Exit) error {
	l, ok := r.logs()
	if !ok {
		return nil
	}
	session := l.printed(r.out.path)
	if session == "" {
		return nil
	}
	var logged runs.Logged
	found := false
	err := r.w.limited(ctx, usageTime, func(ctx context.Context) (err error) {
		logged, found, err = l.logged(ctx, session, time.UnixMilli(r.dir.Spec.Created))
		return err
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		r.log.Warn("the logs of the session are not read to their end", zap.Error(pathless(err)))
		logged.Partial = true
	}
	if !found {
		return nil
	}
	return r.noteEnd(ctx, ex, runs.Encode(runs.Remark{Reason: runs.NoteUsage, Logged: &logged}))
}

// printed returns the session that an agent has printed among its first lines, or "".
func (l sessionLogs) printed(out string) string {
	f, _, _, err := openRegular(out)
	if err != nil {
		return ""
	}
	defer f.Close()
	head, _ := io.ReadAll(io.LimitReader(f, maxOutHead)) // what was read counts
	d := l.agent.Backend.Dialect()
	for line := range bytes.Lines(head) {
		var told normalizer.Out
		if d.Line(bytes.TrimRight(line, "\r\n"), &told); told.Session != "" {
			return strings.Clone(told.Session)
		}
	}
	return ""
}

// each calls f with each log that changed since a time, until it returns an error.
func (l sessionLogs) each(ctx context.Context, since time.Time, f func(path string) error) error {
	return filepath.WalkDir(l.root, func(path string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rel, relErr := filepath.Rel(l.root, path)
		rel = filepath.ToSlash(rel)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
			return nil
		case err != nil || relErr != nil:
			return errors.Join(err, relErr)
		case entry.IsDir():
			if rel != "." && !l.agent.Sessions.Below(rel) {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular() || !l.agent.Sessions.Has(rel):
			return nil
		}
		info, err := entry.Info()
		if err != nil || info.ModTime().Before(since) {
			return nil //nolint:nilerr // it has gone
		}
		return f(path)
	})
}

// account returns what a thread has used so far, as the end of its log tells it; nil: it does not.
func (l sessionLogs) account(thread string) (*runs.Account, error) {
	ctx, cancel := context.WithTimeout(context.Background(), usageTime)
	defer cancel()
	var account *runs.Account
	var newest time.Time
	err := l.each(ctx, time.Time{}, func(path string) error {
		if !strings.Contains(filepath.Base(path), thread) {
			return nil
		}
		f, _, size, err := openRegular(path)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil || info.ModTime().Before(newest) {
			return err
		}
		from := max(size-maxLogTail, 0)
		// The first line may be the end of one: then it is an error in a record that nobody sees.
		record, err := l.fold(ctx, io.NewSectionReader(f, from, size-from), time.Time{}, nil)
		if a := record.Account(); err == nil && a.Usage != (runs.Usage{}) {
			account, newest = &a, info.ModTime()
		}
		return err
	})
	return account, err
}

// logged returns the sum of what the logs of a session tell that was used since a time, and
// whether there is one. The sum is what was read before an error.
func (l sessionLogs) logged(ctx context.Context, session string, since time.Time) (sum runs.Logged, found bool, err error) {
	var own, subs []string
	err = l.each(ctx, since.Add(-time.Second), func(path string) error {
		f, _, _, err := openRegular(path)
		if err != nil {
			return err
		}
		defer f.Close()
		switch o, err := originOf(l.agent.Sessions, f); {
		case err != nil && !errors.Is(err, errSilent):
			return err
		case o.Session != session:
		case o.Sub:
			subs = append(subs, path)
		default:
			own = append(own, path)
		}
		return nil
	})
	left, counted := int64(maxLogs), make(map[string]bool)
	add := func(part **runs.Usage, path string) error {
		f, _, size, err := openRegular(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if left -= size; left < 0 {
			return errManyLogs
		}
		record, err := l.fold(ctx, f, since, counted)
		if used := record.Spent().Total; used != nil {
			*part = new(used.Plus(*part))
		}
		return err
	}
	for _, path := range own {
		if sum.Own == nil {
			sum.Own = new(runs.Usage)
		}
		err = errors.Join(err, add(&sum.Own, path))
	}
	for _, path := range subs { // they may repeat messages of the others
		err = errors.Join(err, add(&sum.Subagents, path))
	}
	found = len(own)+len(subs) > 0
	sum.All = l.agent.Sessions.Complete && sum.Own != nil && err == nil
	return sum, found, err
}

var errManyLogs = errors.New("the logs of the session are too long")

// fold returns the record of the lines of a log that were written since a time, without messages
// that were counted in another log.
func (l sessionLogs) fold(ctx context.Context, log io.Reader, since time.Time, counted map[string]bool) (
	*runs.Record, error) {
	here := make(map[string]bool)
	defer func() { maps.Copy(counted, here) }()
	fold := normalizer.NewFold(l.agent.Backend, "T-log", maxLogLine)
	lines := bufio.NewScanner(log)
	lines.Buffer(make([]byte, 64<<10), maxLogLine)
	offset := int64(0)
	for seq := uint64(1); lines.Scan() && ctx.Err() == nil; seq++ {
		line := lines.Bytes()
		at, err := time.Parse(time.RFC3339, gjson.GetBytes(line, "timestamp").Str)
		if err == nil && at.Before(since) {
			continue
		}
		if message := l.agent.Sessions.Message; message != nil && counted != nil {
			id, _ := message(line)
			if counted[id] {
				continue
			}
			here[id] = id != ""
		}
		line = append(line, '\n')
		fold.Apply(seq, runs.Entry{Kind: runs.Out, Offset: offset, Body: line}, func(normalizer.Message) {})
		offset += int64(len(line))
	}
	return fold.Record, errors.Join(lines.Err(), ctx.Err())
}
