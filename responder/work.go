package responder

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

// Work is what the agent of a run did, from the details of the run.
type Work struct {
	Commands []ranCommand      // the newest, at most 50
	Files    []runs.FileDetail // changed files without diffs, at most 50
	Plan     []runs.PlanStep   // the newest to-do list
	Unlisted struct{ Commands, Files int }
	Partial  bool // not all of the run was read: RAW has lost a part of it, or it is long
}

// ranCommand is a command that an agent ran.
type ranCommand struct {
	Text     string // its beginning, at most maxCommand bytes
	ExitCode *int   // nil: unknown, or not ended
	Took     *int64 // milliseconds between the lines of its start and its end; nil: unknown
}

// Limits of a [Work].
const (
	maxCommands    = 50
	maxCommand     = 1000 // bytes
	maxWorkFiles   = 50
	maxWorkChanges = 500 // changes of files that are counted
	maxOpenCalls   = 256
	workTime       = 5 * time.Second // for reading the run
)

// work reads what the agent of a run did, nil if nothing of its log is left or if it cannot
// be read now, which is logged.
func (s *Service) work(ctx context.Context, r *runs.Record) *Work {
	if s.cfg.Details == nil || IsCloud(r.Header()) {
		return nil
	}
	d, err := s.OpenDetail(ctx, cmp.Or(r.Link, r.ID), "", 0)
	if err != nil {
		return nil
	}
	defer d.Close()
	if d.end == 0 {
		return nil
	}
	c := workLog{open: map[string]*openCommand{}, changed: map[string]int{}}
	within, cancel := context.WithTimeout(ctx, workTime)
	defer cancel()
	err = d.inTurn(within, func() error {
		return d.Each(within, false, func(item api.DetailItem) error {
			c.add(item)
			return within.Err()
		})
	})
	if err != nil && within.Err() == nil {
		return nil
	}
	w := c.work()
	w.Partial = err != nil || d.torn
	return w
}

// workLog collects a [Work].
type workLog struct {
	commands []*ranCommand
	open     map[string]*openCommand // by the id of the call
	changes  []runs.FileDetail
	changed  map[string]int // indexes of changes, by call and path
	plan     []runs.PlanStep
	unlisted struct{ commands, changes int }
}

type openCommand struct {
	*ranCommand
	since runs.Time
}

func (c *workLog) add(item api.DetailItem) {
	d := item.Detail
	call := gjson.GetManyBytes(item.Event, "data.tool.phase", "data.tool.backend_item_id", "data.tool.tool_use_id",
		"data.tool.exit_code")
	phase, id := call[0].String(), cmp.Or(call[1].String(), call[2].String())
	if d != nil && d.Command != nil {
		c.command(id, d.Command.Head, item.At)
	}
	if d != nil && phase != "fail" {
		for _, f := range d.Files {
			c.change(id, f)
		}
		if d.Plan != nil {
			c.plan = d.Plan
		}
	}
	if open := c.open[id]; open != nil && (phase == "complete" || phase == "fail") {
		if call[3].Type == gjson.Number {
			open.ExitCode = new(int(call[3].Int()))
		} else if d != nil {
			open.ExitCode = d.ExitCode
		}
		if took := int64(item.At - open.since); took > 0 {
			open.Took = &took
		}
		delete(c.open, id)
	}
}

// command adds a command, unless its call is open already.
func (c *workLog) command(id, text string, at runs.Time) {
	if c.open[id] != nil && id != "" {
		return
	}
	one := &ranCommand{Text: text[:bounds.Cut(text, maxCommand)]}
	if c.commands = append(c.commands, one); len(c.commands) > maxCommands {
		c.commands = c.commands[1:]
		c.unlisted.commands++
	}
	if len(c.open) < maxOpenCalls {
		c.open[id] = &openCommand{one, at}
	}
}

// change adds a changed file. The lines of one call about a file tell the same change.
func (c *workLog) change(id string, f runs.FileDetail) {
	f.Diff = nil
	key := id + "\x00" + f.Path
	if i, known := c.changed[key]; known && id != "" {
		c.changes[i] = f
		return
	}
	if len(c.changes) == maxWorkChanges {
		c.unlisted.changes++
		return
	}
	c.changed[key] = len(c.changes)
	c.changes = append(c.changes, f)
}

// work returns what was collected, with one entry for each file.
func (c *workLog) work() *Work {
	w := &Work{Plan: c.plan}
	w.Unlisted.Commands, w.Unlisted.Files = c.unlisted.commands, c.unlisted.changes
	for _, one := range c.commands {
		w.Commands = append(w.Commands, *one)
	}
	for _, f := range c.changes {
		i := slices.IndexFunc(w.Files, func(g runs.FileDetail) bool { return g.Path == f.Path })
		switch {
		case i >= 0:
			w.Files[i] = merged(w.Files[i], f)
		case len(w.Files) == maxWorkFiles:
			w.Unlisted.Files++
		default:
			w.Files = append(w.Files, f)
		}
	}
	return w
}

// merged is two changes of a file as one.
func merged(a, b runs.FileDetail) runs.FileDetail {
	if a.Kind != "added" || b.Kind == "deleted" {
		a.Kind = b.Kind
	}
	a.Added, a.Removed = sum(a.Added, b.Added), sum(a.Removed, b.Removed)
	return a
}

// sum is nil if a part is unknown.
func sum(a, b *int) *int {
	if a == nil || b == nil {
		return nil
	}
	return new(*a + *b)
}
