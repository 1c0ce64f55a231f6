package codexcloud

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
)

// Open is a run whose task has not ended, as far as the run table knows. Its
// log tells all but the name; ID and Bytes, from its record, are needed for a
// run that is older than what RAW still holds.
type Open struct {
	Run   string
	ID    string // the task's id
	Bytes int64  // of stdout that the record knows of: where to go on
}

// Limits of Follow.
const (
	maxFollowed = 4096 // runs; more wait until some have ended
	manyDue     = 3    // tasks; more are looked up in the list
	maxPages    = 10   // of the list, with 20 tasks each, in one round
	maxSingle   = 5    // tasks of a round that are asked for one by one
	orphanAfter = 2 * time.Minute
)

// Follow looks at the tasks of the open runs until ctx ends, then it returns
// nil. Each is looked at again after Min, and later and later up to Max while
// it does not change. What fails is tried again in the same way.
//
// A run whose log names no task within two minutes is one that a kill kept
// from being told: it ends as lost.
func (d *Driver) Follow(ctx context.Context, open func(context.Context) ([]Open, error)) error {
	f := &follower{Driver: d, tasks: make(map[string]*followed)}
	for {
		now := time.Now()
		list, err := open(ctx)
		if ctx.Err() != nil {
			return nil
		}
		f.table.say(f.log, "the open runs cannot be listed", err)
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
	table   complaint            // of the table of open runs
	program complaint            // of the program, or the service as a whole
	list    complaint            // of the list
}

type followed struct {
	task
	since time.Time     // when it was met
	next  time.Time     // when to look again
	wait  time.Duration // how long after that
	wrong complaint     // of this task alone
}

// sync takes in the runs that are new, and forgets those that are open no more.
func (f *follower) sync(list []Open, now time.Time) {
	listed := make(map[string]bool, min(len(list), maxFollowed))
	for _, o := range list[:min(len(list), maxFollowed)] {
		listed[o.Run] = true
		t := f.tasks[o.Run]
		if t == nil {
			t = &followed{task: task{Open: o}, since: now, next: now, wait: f.min}
			f.tasks[o.Run] = t
		}
		t.Bytes = max(t.Bytes, o.Bytes)
		if t.ID == "" {
			t.ID = o.ID
		}
	}
	for run := range f.tasks {
		if !listed[run] {
			delete(f.tasks, run)
		}
	}
}

// round looks at the tasks whose time has come.
func (f *follower) round(ctx context.Context, now time.Time) {
	var due []*followed
	for _, t := range f.tasks {
		if !t.over() && !t.next.After(now) && f.ready(ctx, t, now) {
			due = append(due, t)
		}
	}
	slices.SortFunc(due, func(a, b *followed) int { return a.next.Compare(b.next) })
	if len(due) > manyDue {
		rest, ok := f.fromList(ctx, due)
		if !ok {
			return
		}
		due = rest[:min(len(rest), maxSingle)]
		for _, t := range rest[len(due):] {
			t.next = now.Add(f.min)
		}
	}
	for i, t := range due {
		a, err := f.status(ctx, t.ID)
		f.outcome(ctx, t, a, err)
		if general(err) { // the others would fare no better
			f.retreat(due[i+1:])
			return
		}
	}
}

func general(err error) bool {
	var failure *Failure
	return errors.As(err, &failure) && failure.general()
}

// ready reads the log of t, and reports whether the service is to be asked.
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
	t.log = nil // to be read again
	f.retreat([]*followed{t})
	return false
}

// fromList looks the tasks up in the list, which is cheaper than asking for
// each. It returns those that are not on its first pages; it is not ok where
// the program fails.
func (f *follower) fromList(ctx context.Context, due []*followed) (rest []*followed, ok bool) {
	found := make(map[string]answer, len(due))
	cursor := ""
	for range maxPages {
		c := call{args: []string{"list", "--json", "--limit=20"}, timeout: lookTimeout}
		if cursor != "" {
			c.args = append(c.args, "--cursor="+cursor)
		}
		o, err := f.call(ctx, c)
		var p page
		if err == nil {
			if p, ok = readPage(o); !ok {
				err = c.failed(o)
			}
		}
		if err != nil {
			if ctx.Err() != nil {
				return nil, false
			}
			if !general(err) { // ask for each
				f.list.say(f.log, "the list of tasks cannot be read", err)
				break
			}
			f.program.say(f.log, "tasks cannot be looked at", err)
			f.retreat(due)
			return nil, false
		}
		f.list.say(f.log, "", nil)
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

// outcome tells the run of t what the service said, or why it did not.
func (f *follower) outcome(ctx context.Context, t *followed, a answer, err error) {
	news := false
	if err == nil {
		news, err = f.advance(ctx, &t.task, a)
	}
	if err != nil {
		f.trouble(ctx, t, err)
		return
	}
	f.program.say(f.log, "", nil)
	t.wrong.say(f.log, "", nil)
	if news {
		t.wait = f.min
		t.next = time.Now().Add(t.wait)
		return
	}
	f.retreat([]*followed{t})
}

// trouble says what went wrong with t, and looks at it later.
func (f *follower) trouble(ctx context.Context, t *followed, err error) {
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, runs.ErrMoved) { // somebody else is at it, or was: what is new is in the log
		t.next = time.Now().Add(f.min)
		return
	}
	if general(err) {
		f.program.say(f.log, "tasks cannot be looked at", err)
	} else {
		t.wrong.say(f.log.With(zap.String("run", t.Run)), "a task cannot be looked at", err)
	}
	f.retreat([]*followed{t})
}

// retreat looks at tasks later, and still later the next time.
func (f *follower) retreat(tasks []*followed) {
	now := time.Now()
	for _, t := range tasks {
		t.next = now.Add(t.wait)
		t.wait = min(2*t.wait, f.max)
	}
}

// complaint is what is wrong at the moment. It is logged when it begins, when
// it becomes another one, and when it is over.
type complaint struct{ text string }

func (c *complaint) say(log *zap.Logger, what string, err error) {
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

// pause is how long nothing needs to be done. Runs that are new are met within Min.
func (f *follower) pause(now time.Time) time.Duration {
	wait := f.min
	for _, t := range f.tasks {
		if !t.over() {
			wait = min(wait, t.next.Sub(now))
		}
	}
	return max(wait, time.Millisecond)
}
