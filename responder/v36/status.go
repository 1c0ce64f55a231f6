package v36

import (
	"cmp"
	"fmt"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/runs"
)

// Limits of a snapshot.
const (
	maxListed  = 1000 // tasks of each list; the summary counts all
	maxVerbose = 32   // tasks whose last lines are read
	maxCloud   = 200  // tasks whose cloud state is read
)

// Snapshot is the answer to a status of tasks of this machine. Lines returns the
// last lines of a running task; it is called for 32 tasks at most. Nil: none.
func Snapshot(all runtable.Snapshot, basis *api.Basis, lines func(run string) []string) *Reply {
	m, d := snapshot(all, basis)
	if lines != nil {
		for i := range d.Tasks[:min(len(d.Tasks), maxVerbose)] {
			d.Tasks[i].Lines = lines(d.Tasks[i].TaskID)
		}
	}
	return &Reply{m, d}
}

// Statistics counts the tasks of Codex Cloud by state.
type Statistics struct {
	Working   int `json:"working"`
	Queued    int `json:"queued"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	Cancelled int `json:"cancelled"`
}

// CloudSnapshot is the answer to a status of tasks of Codex Cloud. Find returns
// the cloud state of a run, nil if it is not recorded; it is called for 200 tasks
// at most. Nil statistics are omitted.
func CloudSnapshot(
	all runtable.Snapshot, basis *api.Basis, stats *Statistics, find func(run string) (*runs.Cloud, error),
) (*Reply, error) {
	m, d := snapshot(all, basis)
	d.title, d.Ext.Statistics = "Codex Cloud tasks", stats
	left := maxCloud
	add := func(id string, to *entryExt) error {
		if left--; left < 0 {
			return nil
		}
		c, err := find(id)
		to.cloudExt = cloudOf(c)
		return err
	}
	for i := range d.Tasks {
		if err := add(d.Tasks[i].TaskID, &d.Tasks[i].Ext); err != nil {
			return nil, err
		}
	}
	for i := range d.Recent {
		if err := add(d.Recent[i].TaskID, &d.Recent[i].Ext); err != nil {
			return nil, err
		}
	}
	return &Reply{m, d}, nil
}

type snapshotMeta struct {
	TS    string `json:"snapshot_ts"`
	Total int    `json:"total"` // running and queued
}

// snapshotData is the state of tasks.
type snapshotData struct {
	Summary struct {
		Running int `json:"running"`
		Queued  int `json:"queued"`
		Recent  int `json:"recently_completed"` // all ended runs that are kept
	} `json:"summary"`
	Tasks  []taskEntry   `json:"tasks,omitempty"`
	Queue  []queueEntry  `json:"queue,omitempty"`
	Recent []recentEntry `json:"recently_completed,omitempty"`
	Ext    snapshotExt   `json:"ext,omitzero"`

	title string
}

type snapshotExt struct {
	Stream     *api.Basis  `json:"stream,omitempty"`
	Tasks      int         `json:"tasks_unlisted,omitempty"`
	Queue      int         `json:"queue_unlisted,omitempty"`
	Statistics *Statistics `json:"statistics,omitempty"`
}

type taskEntry struct {
	TaskID   string        `json:"task_id"`
	State    string        `json:"state"`
	Started  string        `json:"started_ts"`
	Elapsed  int64         `json:"elapsed_seconds"`
	Progress *progressData `json:"progress"`
	Lines    []string      `json:"last_lines,omitempty"`
	Ext      entryExt      `json:"ext,omitzero"`

	asks bool // people, as its activity says; else it waits for an answer from outside
}

type progressData struct {
	Percent  int     `json:"percent"`
	Done     int     `json:"completed_steps"`
	Total    int     `json:"total_steps"`
	Activity *string `json:"current_activity"` // nil: unknown
}

// planData counts the steps of the agent's own to-do list.
type planData struct {
	Done  int `json:"completed_steps"`
	Total int `json:"total_steps"`
}

type entryExt struct {
	Lost   bool   `json:"lost,omitempty"`           // its worker is silent
	Input  bool   `json:"input_required,omitempty"` // it waits for an answer
	Worker string `json:"worker,omitempty"`
	Reason string `json:"reason,omitempty"`

	Plan *planData `json:"plan,omitempty"` // nil: the agent keeps none

	runExt

	cloudExt
}

// runExt says what a task is for, and what works on it. Of a task of Codex Cloud it has the first three.
type runExt struct {
	Title  string            `json:"title,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Unseen bool              `json:"unseen,omitempty"` // it has ended, and its owner has not opened it

	Agent   string      `json:"agent,omitempty"` // its kind
	Version string      `json:"agent_version,omitempty"`
	Model   string      `json:"model,omitempty"`
	Dir     string      `json:"working_dir,omitempty"`
	Tokens  *runs.Spend `json:"tokens,omitempty"` // so far; nil: unknown
	Doing   *runs.Doing `json:"doing,omitempty"`  // nil: unknown, or not working
}

func runExtOf(v runs.Header) runExt {
	x := runExt{Title: v.Title, Labels: v.Labels.Map(), Unseen: v.Unseen}
	if responder.IsCloud(v) {
		return x
	}
	x.Agent, x.Version, x.Model, x.Dir = v.Agent, v.Version, v.Model, v.Dir
	x.Tokens, x.Doing = v.Tokens, v.Doing
	return x
}

type queueEntry struct {
	TaskID   string `json:"task_id"`
	Position int    `json:"position"` // from 0
	Ext      runExt `json:"ext,omitzero"`
}

type recentEntry struct {
	TaskID    string   `json:"task_id"`
	State     string   `json:"state"`
	Duration  int64    `json:"duration_seconds"`
	Completed string   `json:"completed_ts"`
	Ext       entryExt `json:"ext,omitzero"`
}

func snapshot(s runtable.Snapshot, basis *api.Basis) (snapshotMeta, *snapshotData) {
	now := time.Now()
	d := &snapshotData{title: "Codex tasks", Ext: snapshotExt{Stream: basis}}
	d.Summary.Running, d.Summary.Queued, d.Summary.Recent = len(s.Working), len(s.Queued), s.Total
	d.Ext.Tasks, d.Ext.Queue = max(len(s.Working)-maxListed, 0), max(len(s.Queued)-maxListed, 0)
	for i := range s.Working[:min(len(s.Working), maxListed)] {
		d.Tasks = append(d.Tasks, entryOf(s.Working[i], now))
	}
	for i := range s.Queued[:min(len(s.Queued), maxListed)] {
		v := s.Queued[i]
		d.Queue = append(d.Queue, queueEntry{v.ID, v.Before(), runExtOf(v)})
	}
	for i := range s.Ended {
		v := s.Ended[i]
		d.Recent = append(d.Recent, recentEntry{
			TaskID: v.ID, State: string(v.State), Duration: v.Lasted() / 1000, Completed: moment(int64(v.EndedAt)),
			Ext: entryExt{Reason: v.Reason, runExt: runExtOf(v)},
		})
	}
	return snapshotMeta{moment(now.UnixMilli()), len(s.Working) + len(s.Queued)}, d
}

func entryOf(v runs.Header, now time.Time) taskEntry {
	begun := v.Begun()
	e := taskEntry{
		TaskID: v.ID, State: "working", Started: moment(begun),
		Elapsed: max(int64(now.Sub(time.UnixMilli(begun))/time.Second), 0),
	}
	if v.Steps != nil {
		e.Progress = &progressData{Percent: v.Steps.Percent, Done: v.Steps.Done, Total: v.Steps.Total}
		if v.Activity != "" {
			e.Progress.Activity = &v.Activity
		}
	}
	if len(v.Questions) > 0 { // its activity is what it asks
		e.Progress = cmp.Or(e.Progress, &progressData{})
		e.Progress.Activity = new("waiting for an answer")
	}
	if v.WorkerLost {
		e.Ext = entryExt{Lost: true, Worker: v.Worker}
	}
	e.Ext.runExt = runExtOf(v)
	e.Ext.Input, e.asks = v.State == runs.StateInputRequired, len(v.Questions) > 0
	if v.Progress != nil {
		e.Ext.Plan = &planData{v.Progress.Done, v.Progress.Total}
	}
	return e
}

func (d *snapshotData) message() string {
	return number(d.Summary.Running) + " running, " + number(d.Summary.Queued) + " queued, " +
		number(d.Summary.Recent) + " ended"
}

func (d *snapshotData) markdown(p *page) {
	p.heading(d.title)
	p.facts("Running", number(d.Summary.Running), "Queued", number(d.Summary.Queued), "Ended", number(d.Summary.Recent))
	if st := d.Ext.Statistics; st != nil {
		p.facts("All", fmt.Sprintf("%d working, %d queued, %d completed, %d failed, %d cancelled",
			st.Working, st.Queued, st.Completed, st.Failed, st.Cancelled))
	}
	if len(d.Tasks) > 0 {
		p.heading("Running")
	}
	for _, e := range d.Tasks {
		s := code(e.TaskID) + e.Ext.named() + ": " + seconds(e.Elapsed) + ", since " + e.Started
		if e.Progress != nil {
			s += fmt.Sprintf(", %d %% (%d of %d steps)", e.Progress.Percent, e.Progress.Done, e.Progress.Total)
			if e.Progress.Activity != nil {
				s += ", " + plain(*e.Progress.Activity)
			}
		}
		if e.Ext.Input && !e.asks {
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
		p.item(number(d.Ext.Tasks) + " more")
	}
	if len(d.Queue) > 0 {
		p.heading("Queue")
	}
	for _, e := range d.Queue {
		p.item(number(e.Position) + ": " + code(e.TaskID) + e.Ext.named())
	}
	if d.Ext.Queue > 0 {
		p.item(number(d.Ext.Queue) + " more")
	}
	if len(d.Recent) > 0 {
		p.heading("Ended, the last one first")
	}
	for _, e := range d.Recent {
		s := code(e.TaskID) + e.Ext.named() + ": " + e.State
		if e.Ext.Reason != "" {
			s += " (" + plain(e.Ext.Reason) + ")"
		}
		p.item(s + " at " + e.Completed + " after " + seconds(e.Duration) + e.Ext.where())
	}
	p.stream(d.Ext.Stream)
}

// named is the title of a task in a list.
func (x *runExt) named() string {
	if x.Title == "" {
		return ""
	}
	return " (" + plain(x.Title) + ")"
}

// where is the place of a task of Codex Cloud.
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
