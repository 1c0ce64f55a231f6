package codexcloud

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
)

// Open is a run whose task is open, as far as the run table shows. The log has
// everything but the name; ID and Bytes, from the record, are needed if the run
// is older than the contents of RAW.
type Open struct {
	Run   string
	ID    string // the task's id
	Bytes int64  // of stdout in the record: where to resume
}

// Limits of Follow.
const (
	maxFollowed = 4096 // runs; others wait until some have ended
	manyDue     = 3    // due tasks; more are looked up in the list
	maxPages    = 10   // pages of the list per round, with 20 tasks each
	maxSingle   = 5    // tasks per round that are polled individually
	orphanAfter = 2 * time.Minute
)

// Follow polls the tasks of the open runs until ctx ends, then it returns nil.
// Each task is polled at intervals that grow from Min to Max while it does not
// change. Failed polls are repeated in the same way.
//
// A run whose log names no task within two minutes was interrupted by a kill:
// it ends as lost.
func (d *Driver) Follow(ctx context.Context, open func(context.Context) ([]Open, error)) error {
	f := &follower{Driver: d, tasks: make(map[string]*followed)}
	for {
		now := time.Now()
		list, err := open(ctx)
		if ctx.Err() != nil {
			return nil
		}
		f.table.report(f.log, "the open runs cannot be listed", err)
		if err == nil {
			f.sync(list, now)
		}
		f.round(ctx, now)
		timer := time.NewTimer(f.pause(time.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// follower is the state of one Follow. One goroutine uses it.
type follower struct {
	*Driver
	tasks   map[string]*followed // by run
	table   problem              // about the list of open runs
	program problem              // about the program, or the whole service
	list    problem              // about the list of tasks
}

type followed struct {
	task
	since  time.Time     // when it was first seen
	polled time.Time     // when it was polled last
	next   time.Time     // when to poll next
	wait   time.Duration // current interval
	wrong  problem       // about this task
}

// sync adds new runs, and drops those that are no longer open.
func (f *follower) sync(list []Open, now time.Time) {
	listed := make(map[string]bool, min(len(list), maxFollowed))
	for _, o := range list[:min(len(list), maxFollowed)] {
		listed[o.Run] = true
		t := f.tasks[o.Run]
		if t == nil {
			t = &followed{task: task{Open: o}, since: now, next: now, wait: f.minInterval}
			f.tasks[o.Run] = t
		}
		t.Bytes = max(t.Bytes, o.Bytes)
		if t.ID == "" {
			t.ID = o.ID
		}
	}
	maps.DeleteFunc(f.tasks, func(run string, _ *followed) bool { return !listed[run] })
}

// round polls the due tasks.
func (f *follower) round(ctx context.Context, now time.Time) {
	var due []*followed
	for _, t := range f.tasks {
		if !t.over() && !t.next.After(now) && f.ready(ctx, t, now) {
			due = append(due, t)
		}
	}
	// What is postponed below was not polled, and comes first the next time.
	slices.SortFunc(due, func(a, b *followed) int { return a.polled.Compare(b.polled) })
	if len(due) > manyDue {
		rest, ok := f.fromList(ctx, due)
		if !ok {
			return
		}
		due = rest[:min(len(rest), maxSingle)]
		for _, t := range rest[len(due):] {
			t.next = now.Add(f.minInterval)
		}
	}
	for i, t := range due {
		a, err := f.status(ctx, t.ID)
		f.outcome(ctx, t, a, err)
		if general(err) { // the others would fail, too, for all that is known
			f.backOff(due[i+1:])
			return
		}
	}
}

func general(err error) bool {
	failure, ok := errors.AsType[*Failure](err)
	return ok && failure.general()
}

// ready reads the log of t, and reports whether to poll the service.
func (f *follower) ready(ctx context.Context, t *followed, now time.Time) bool {
	if err := f.load(ctx, &t.task); err != nil {
		f.trouble(ctx, t, err)
		return false
	}
	if t.over() {
		return false
	}
	if runs.CheckCloudTask(t.ID) == nil {
		return true
	}
	if now.Sub(t.since) >= orphanAfter && t.log.Mark().Started {
		f.log.Warn("a run without a task", zap.String("run", t.Run))
		if err := f.end(ctx, &t.task, runs.ReasonLost); err != nil {
			f.trouble(ctx, t, err)
		}
		return false
	}
	t.log = nil // read it again
	f.backOff([]*followed{t})
	return false
}

// fromList looks the tasks up in the list, which is cheaper than polling each.
// It returns those that are not on its first pages; ok is false if the program
// fails.
func (f *follower) fromList(ctx context.Context, due []*followed) (rest []*followed, ok bool) {
	found := make(map[string]answer, len(due))
	cursor := ""
pages:
	for range maxPages {
		c := call{args: []string{"list", "--json", "--limit=20"}, timeout: lookTimeout}
		if cursor != "" {
			c.args = append(c.args, "--cursor="+cursor)
		}
		p, err := ask(ctx, f.Driver, c, readPage)
		switch {
		case ctx.Err() != nil:
			return nil, false
		case general(err):
			f.program.report(f.log, "tasks cannot be polled", err)
			f.backOff(due)
			return nil, false
		case err != nil: // poll each task
			f.list.report(f.log, "the list of tasks cannot be read", err)
			break pages
		}
		f.list.report(f.log, "", nil)
		for _, t := range due {
			if a, ok := p.tasks[t.ID]; ok {
				found[t.ID] = a
			}
		}
		if cursor = p.cursor; cursor == "" || len(found) == len(due) {
			break
		}
	}
	for _, t := range due {
		if a, ok := found[t.ID]; ok {
			f.outcome(ctx, t, a, nil)
		} else {
			rest = append(rest, t)
		}
	}
	return rest, true
}

// outcome writes the result of a poll to the run of t.
func (f *follower) outcome(ctx context.Context, t *followed, a answer, err error) {
	t.polled = time.Now()
	news := false
	if err == nil {
		news, err = f.advance(ctx, &t.task, a)
	}
	if err != nil {
		f.trouble(ctx, t, err)
		return
	}
	f.program.report(f.log, "", nil)
	t.wrong.report(f.log, "", nil)
	if news {
		t.wait = f.minInterval
		t.next = time.Now().Add(t.wait)
		return
	}
	f.backOff([]*followed{t})
}

// trouble logs a failed poll of t, and polls it later.
func (f *follower) trouble(ctx context.Context, t *followed, err error) {
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, runs.ErrMoved) { // another driver wrote: the log has the news
		t.next = time.Now().Add(f.minInterval)
		return
	}
	if general(err) {
		f.program.report(f.log, "tasks cannot be polled", err)
	} else {
		t.wrong.report(f.log.With(zap.String("run", t.Run)), "a task cannot be polled", err)
	}
	f.backOff([]*followed{t})
}

// backOff postpones tasks, with growing intervals.
func (f *follower) backOff(tasks []*followed) {
	now := time.Now()
	for _, t := range tasks {
		t.next = now.Add(t.wait)
		t.wait = min(2*t.wait, f.maxInterval)
	}
}

// problem is an ongoing problem. It is logged when it begins, when it changes,
// and when it is over.
type problem struct{ text string }

func (c *problem) report(log *zap.Logger, what string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == c.text {
		return
	}
	if err != nil {
		log.Warn(what, zap.Error(err))
	} else {
		log.Info("it works again")
	}
	c.text = text
}

// pause returns how long nothing is due. New runs are noticed within Min.
func (f *follower) pause(now time.Time) time.Duration {
	wait := f.minInterval
	for _, t := range f.tasks {
		if !t.over() {
			wait = min(wait, t.next.Sub(now))
		}
	}
	return max(wait, time.Millisecond)
}
