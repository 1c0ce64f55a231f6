package worker

import (
	"context"
	"io"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/sessionlog"
)

// What an agent has used is not always in its output: sub-agents, compactions, and what a thread
// had used before. The logs of its sessions beside the run tell it.

const (
	usageTime  = 2 * time.Second // for reading them, see Worker.usageTime
	maxOutHead = 64 << 10        // bytes of output that tell the session
)

// logs returns the logs of the run's agent; false: it keeps none, or they are not read.
func (r *Run) logs() (l sessionlog.Logs, ok bool) {
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
	return sessionlog.Logs{Agent: a, Root: root}, err == nil
}

// continues returns the attributes of the run with the thread that it is started to resume or to fork, and what that
// had used before; nil: not known.
func (r *Run) continues() (of runs.Attributes, before *runs.Account) {
	of = r.dir.Spec.Attributes
	a, known := r.w.cfg.Agents.Find(of.Agent)
	if !known || !r.dir.Spec.process() {
		return of, nil
	}
	thread, forks := a.Continues(r.dir.Spec.Argv)
	switch {
	case thread == "":
	case forks:
		of.ForkedFrom = thread
	default:
		of.Thread = thread
	}
	if l, ok := r.logs(); ok && thread != "" && len(thread) <= runs.MaxThread {
		ctx, cancel := context.WithTimeout(context.Background(), r.w.usageTime)
		defer cancel()
		var err error
		if before, err = l.Account(ctx, thread); err != nil {
			r.log.Warn("what the thread has used before is not known", zap.Error(pathless(err)))
		}
	}
	return of, before
}

// noteUsage adds a note with what the logs of the run's session tell.
func (r *Run) noteUsage(ctx context.Context, ex runs.Exit) error {
	l, ok := r.logs()
	if !ok {
		return nil
	}
	session := l.Printed(r.head())
	if session == "" {
		return nil
	}
	var logged runs.Logged
	found := false
	err := r.w.limited(ctx, r.w.usageTime, func(ctx context.Context) (err error) {
		logged, found, err = l.Used(ctx, session, time.UnixMilli(r.dir.Spec.Created))
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

// head returns the beginning of the run's output, as much as could be read.
func (r *Run) head() []byte {
	f, _, err := sessionlog.Open(r.out.path)
	if err != nil {
		return nil
	}
	defer f.Close()
	head, _ := io.ReadAll(io.LimitReader(f, maxOutHead))
	return head
}
