package delegator

import (
	"context"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// Limits of a snapshot.
const (
	maxListed   = 1000 // tasks of each list; the summary counts all
	maxVerbose  = 32   // tasks whose last lines are read
	maxLines    = 5    // of each of them
	maxLineText = 500  // characters
)

func checkDir(c *call) {
	dir := c.args.text("workingDir")
	if dir != "" && (dir[0] != '/' || strings.Contains(dir+"/", "/../")) {
		c.args.refuse("workingDir", "must be an absolute path without ..")
	}
}

func localStatus(c *call, ctx context.Context) (*reply, error) {
	a := c.args
	var s responder.Snapshot
	var of *subject
	if a.has("task_id") {
		v, err := c.local(ctx, "task_id")
		if err != nil {
			return nil, err
		}
		s = one(v)
		if a.adcp {
			of = ofView(v)
		}
	} else {
		dir, all, thread := a.text("workingDir"), a.flag("showAll"), a.text("context_id")
		if dir != "" {
			dir = path.Clean(dir)
		}
		s = c.Responder.Snapshot(int(a.number("limit")), func(r runs.Row) bool {
			return !ofCloud(r) && (all || r.Source == "queue") && (dir == "" || path.Clean(r.Dir) == dir) &&
				(thread == "" || strings.EqualFold(r.Thread, thread))
		})
	}
	m, d := c.snapshot(s)
	if a.flag("verbose") {
		c.lastLines(ctx, d.Tasks)
	}
	return &reply{meta: m, data: d, of: of}, nil
}

// one is the snapshot of a single run.
func one(v responder.View) responder.Snapshot {
	one := []responder.View{v}
	switch {
	case v.State.Final():
		return responder.Snapshot{Ended: one, Total: 1}
	case v.State == runs.StateQueued:
		return responder.Snapshot{Queued: one}
	}
	return responder.Snapshot{Working: one}
}

type snapshotMeta struct {
	TS    string `json:"snapshot_ts"`
	Total int    `json:"total"` // running and queued
}

// snapshotData is how tasks stand.
type snapshotData struct {
	Summary struct {
		Running int `json:"running"`
		Queued  int `json:"queued"`
		Recent  int `json:"recently_completed"` // all that are kept, however they ended
	} `json:"summary"`
	Tasks  []taskEntry   `json:"tasks,omitempty"`
	Queue  []queueEntry  `json:"queue,omitempty"`
	Recent []recentEntry `json:"recently_completed,omitempty"`
	Ext    snapshotExt   `json:"ext,omitzero"`

	title string
}

type snapshotExt struct {
	Stream     *basis      `json:"stream,omitempty"`
	Tasks      int         `json:"tasks_unlisted,omitempty"`
	Queue      int         `json:"queue_unlisted,omitempty"`
	Statistics *statistics `json:"statistics,omitempty"`
}

type taskEntry struct {
	TaskID   string        `json:"task_id"`
	State    string        `json:"state"`
	Started  string        `json:"started_ts"`
	Elapsed  int64         `json:"elapsed_seconds"`
	Progress *progressData `json:"progress"`
	Lines    []string      `json:"last_lines,omitempty"`
	Ext      entryExt      `json:"ext,omitzero"`
}

type progressData struct {
	Percent  int     `json:"percent"`
	Done     int     `json:"completed_steps"`
	Total    int     `json:"total_steps"`
	Activity *string `json:"current_activity"` // nil: not known
}

// planData counts the steps of the agent's own to-do list.
type planData struct {
	Done  int `json:"completed_steps"`
	Total int `json:"total_steps"`
}

type entryExt struct {
	Lost   bool   `json:"lost,omitempty"`           // its worker has not been heard of
	Input  bool   `json:"input_required,omitempty"` // nobody works: it waits for an answer from outside
	Worker string `json:"worker,omitempty"`
	Reason string `json:"reason,omitempty"`

	Plan *planData `json:"plan,omitempty"` // nil: the agent keeps none

	cloudExt
}

type queueEntry struct {
	TaskID   string `json:"task_id"`
	Position int    `json:"position"` // from 0
}

type recentEntry struct {
	TaskID    string   `json:"task_id"`
	State     string   `json:"state"`
	Duration  int64    `json:"duration_seconds"`
	Completed string   `json:"completed_ts"`
	Ext       entryExt `json:"ext,omitzero"`
}

func (c *call) snapshot(s responder.Snapshot) (snapshotMeta, *snapshotData) {
	now := time.Now()
	d := &snapshotData{title: "Codex tasks", Ext: snapshotExt{Stream: c.basis()}}
	d.Summary.Running, d.Summary.Queued, d.Summary.Recent = len(s.Working), len(s.Queued), s.Total
	d.Ext.Tasks, d.Ext.Queue = max(len(s.Working)-maxListed, 0), max(len(s.Queued)-maxListed, 0)
	for i := range s.Working[:min(len(s.Working), maxListed)] {
		v := &s.Working[i]
		e := taskEntry{TaskID: v.ID, State: "working", Started: moment(started(v.Row)),
			Elapsed: max(int64(now.Sub(time.UnixMilli(started(v.Row)))/time.Second), 0)}
		if v.Progress != nil {
			e.Progress = &progressData{Percent: v.Progress.Percent, Done: v.Progress.Done, Total: v.Progress.Total}
			if v.Activity != "" {
				e.Progress.Activity = &v.Activity
			}
		}
		if v.Lost {
			e.Ext = entryExt{Lost: true, Worker: v.Worker}
		}
		e.Ext.Input = v.State == runs.StateInputRequired
		if v.Plan.Total > 0 {
			e.Ext.Plan = &planData{v.Plan.Done, v.Plan.Total}
		}
		d.Tasks = append(d.Tasks, e)
	}
	for i := range s.Queued[:min(len(s.Queued), maxListed)] {
		v := &s.Queued[i]
		d.Queue = append(d.Queue, queueEntry{v.ID, v.Position})
	}
	for i := range s.Ended {
		v := &s.Ended[i]
		d.Recent = append(d.Recent, recentEntry{TaskID: v.ID, State: string(v.State), Duration: lasted(v.Row) / 1000,
			Completed: moment(v.EndedAt), Ext: entryExt{Reason: v.Reason}})
	}
	return snapshotMeta{stamp(now), len(s.Working) + len(s.Queued)}, d
}

// lastLines adds what running tasks printed last. What cannot be read is left out.
func (c *call) lastLines(ctx context.Context, tasks []taskEntry) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for i := range tasks[:min(len(tasks), maxVerbose)] {
		record, err := c.Responder.Record(ctx, tasks[i].TaskID)
		if err != nil {
			continue
		}
		const most = 64 << 10
		out, _, err := c.Responder.Output(ctx, record, most)
		if err != nil {
			continue
		}
		tasks[i].Lines = tailLines(last(out))
	}
}

// tailLines are the last lines of a text, each cut to its beginning.
func tailLines(s string) []string {
	var lines []string
	for len(lines) < maxLines {
		s = strings.TrimRight(s, "\r\n")
		if s == "" {
			break
		}
		at := strings.LastIndexByte(s, '\n') + 1
		line := s[at:]
		if utf8.RuneCountInString(line) > maxLineText {
			line = string([]rune(line)[:maxLineText-1]) + "…"
		}
		lines = append([]string{line}, lines...)
		s = s[:at]
	}
	return lines
}

func (d *snapshotData) markdown(p *page) {
	p.heading(d.title)
	p.fact("Running", number(int64(d.Summary.Running)))
	p.fact("Queued", number(int64(d.Summary.Queued)))
	p.fact("Ended", number(int64(d.Summary.Recent)))
	if st := d.Ext.Statistics; st != nil {
		p.fact("All", number(int64(st.Working))+" working, "+number(int64(st.Queued))+" queued, "+number(int64(st.Completed))+" completed, "+
			number(int64(st.Failed))+" failed, "+number(int64(st.Cancelled))+" cancelled")
	}
	if len(d.Tasks) > 0 {
		p.heading("Running")
	}
	for _, e := range d.Tasks {
		s := code(e.TaskID) + ": " + seconds(e.Elapsed) + ", since " + e.Started
		if e.Progress != nil {
			s += ", " + number(int64(e.Progress.Percent)) + " % (" + number(int64(e.Progress.Done)) + " of " + number(int64(e.Progress.Total)) + " steps)"
			if e.Progress.Activity != nil {
				s += ", " + plain(*e.Progress.Activity)
			}
		}
		if e.Ext.Input {
			s += ", waits for an answer from outside"
		}
		if e.Ext.Lost {
			s += ", lost: worker " + code(e.Ext.Worker) + " is silent"
		}
		p.item(s + e.Ext.where())
		for _, line := range e.Lines {
			p.line("  - " + code(line))
		}
	}
	if d.Ext.Tasks > 0 {
		p.item(number(int64(d.Ext.Tasks)) + " more")
	}
	if len(d.Queue) > 0 {
		p.heading("Queue")
	}
	for _, e := range d.Queue {
		p.item(number(int64(e.Position)) + ": " + code(e.TaskID))
	}
	if d.Ext.Queue > 0 {
		p.item(number(int64(d.Ext.Queue)) + " more")
	}
	if len(d.Recent) > 0 {
		p.heading("Ended, the last one first")
	}
	for _, e := range d.Recent {
		s := code(e.TaskID) + ": " + e.State
		if e.Ext.Reason != "" {
			s += " (" + plain(e.Ext.Reason) + ")"
		}
		p.item(s + " at " + e.Completed + " after " + seconds(e.Duration) + e.Ext.where())
	}
	p.stream(d.Ext.Stream)
}

// where says where a task of the cloud is.
func (x *entryExt) where() string {
	s := ""
	if x.CloudStatus != "" {
		s += ", " + x.CloudStatus + " in the cloud"
	}
	if x.Environment != "" {
		s += ", environment " + code(x.Environment)
	}
	if x.WebURL != "" {
		s += ", " + link(x.WebURL)
	}
	return s
}
