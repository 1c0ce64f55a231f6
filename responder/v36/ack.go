package v36

import (
	"fmt"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// ackData is the receipt of an accepted task.
type ackData struct {
	TaskID     string  `json:"task_id"`
	ThreadID   string  `json:"thread_id,omitempty"`
	Accepted   bool    `json:"accepted"`
	Capability string  `json:"capability"` // background or foreground
	StartedAt  string  `json:"started_at"`
	Ext        *ackExt `json:"ext,omitempty"`

	title  string
	wait   string // the tool that waits for it
	queue  *int
	result *resultData // of a foreground task
}

type ackExt struct {
	Stream *api.Basis `json:"stream,omitempty"`

	// Of a task that has ended.
	State   string `json:"state,omitempty"`
	Summary string `json:"summary,omitempty"`

	CloudID     string `json:"cloud_id,omitempty"`
	WebURL      string `json:"web_ui_url,omitempty"`
	Environment string `json:"environment,omitempty"`
}

type ackMeta struct {
	Position *int `json:"queue_position,omitempty"` // tasks before it in the queue
}

// Queued is the answer to a submission whose task runs in the background.
func Queued(done api.Submitted) *Reply {
	position := done.Position
	d := &ackData{
		TaskID: done.Run, ThreadID: done.Thread, Accepted: true, Capability: "background", StartedAt: moment(done.At),
		title: "Task queued", wait: "local", queue: &position,
	}
	if done.Basis != nil {
		d.Ext = &ackExt{Stream: done.Basis}
	}
	return &Reply{ackMeta{&position}, d}
}

// CloudQueued is the answer to a submission to an environment of Codex Cloud.
func CloudQueued(done api.Submitted, environment string) *Reply {
	return &Reply{ackMeta{}, &ackData{
		TaskID: done.Run, Accepted: true, Capability: "background", StartedAt: moment(done.At),
		title: "Cloud task submitted", wait: "cloud",
		Ext: &ackExt{Stream: done.Basis, CloudID: done.CloudID, WebURL: done.WebURL, Environment: environment},
	}}
}

// Ended is the answer to a submission that waited for its task. Preview means
// that only a plan was requested.
func Ended(done api.Submitted, r *responder.Result, preview bool) *Reply {
	result := result(r)
	d := &ackData{
		TaskID: r.Record.ID, ThreadID: r.Record.Thread, Accepted: true, Capability: "foreground",
		StartedAt: moment(done.At), title: "Task ended", result: result,
		Ext: &ackExt{Stream: r.Basis, State: string(r.Record.State), Summary: result.Summary},
	}
	if preview {
		d.title = "Plan (Preview)"
	}
	return &Reply{ackMeta{}, d}
}

func (d *ackData) message() string {
	if d.Ext != nil && d.Ext.Summary != "" {
		return d.Ext.Summary
	}
	return d.title
}

func (d *ackData) markdown(p *page) {
	thread := code(d.ThreadID)
	if d.result != nil { // which has it
		thread = ""
	}
	p.heading(d.title)
	p.facts("Task", code(d.TaskID), "Capability", d.Capability, "Thread", thread,
		"Tasks waiting before it", optional(d.queue), "Accepted at", d.StartedAt)
	if x := d.Ext; x != nil {
		p.facts("Cloud task", code(x.CloudID), "Environment", code(x.Environment), "Web page", link(x.WebURL))
	}
	if d.result != nil {
		d.result.body(p)
	}
	if d.wait != "" {
		p.heading("Next")
		p.item("Wait for its end: " + code("_codex_"+d.wait+"_wait"))
		p.item("See how it stands: " + code("_codex_"+d.wait+"_status"))
		p.item("What came of it: " + code("_codex_"+d.wait+"_results"))
	}
	if d.Ext != nil {
		p.stream(d.Ext.Stream)
	}
}

// cancelData is the outcome of a cancel.
type cancelData struct {
	Operation string      `json:"operation"`
	TaskID    string      `json:"task_id"`
	State     string      `json:"state"` // cancelled, or cancelling while the agent is being ended
	Before    string      `json:"previous_state,omitempty"`
	Reason    string      `json:"reason,omitempty"`
	Ext       *onlyStream `json:"ext,omitempty"`
}

type cancelMeta struct {
	AckTS string `json:"ack_ts"`
}

// Cancelled is the answer to a cancel that gave a reason, or none.
func Cancelled(c api.Cancelled, reason string) *Reply {
	d := &cancelData{
		Operation: "cancel", TaskID: c.Run, State: "cancelling", Before: string(c.Before), Reason: reason,
		Ext: extOf(c.Basis),
	}
	if c.State == runs.StateCancelled {
		d.State = "cancelled"
	}
	return &Reply{cancelMeta{moment(c.At)}, d}
}

func (d *cancelData) message() string { return "Task " + d.State }

func (d *cancelData) markdown(p *page) {
	p.heading("Task " + d.State)
	p.facts("Task", code(d.TaskID), "Before", d.Before, "Reason", plain(d.Reason))
	if d.State == "cancelling" {
		p.gap()
		p.line("Its agent is being ended: see " + code("_codex_local_status"))
	}
	d.Ext.markdown(p)
}

type cleanupMeta struct {
	DryRun bool  `json:"dry_run"`
	Stuck  int64 `json:"stuck_threshold_seconds"`
	Old    int64 `json:"old_threshold_hours"`
}

// cleanupData is the outcome of a cleanup.
type cleanupData struct {
	Stuck struct {
		Found   int      `json:"found"`
		Cleaned int      `json:"cleaned"`
		IDs     []string `json:"task_ids"` // of those found, at most maxStuckIDs
	} `json:"stuck_tasks"`
	Old struct {
		Found   int   `json:"found"`
		Deleted int   `json:"deleted"`
		Oldest  int64 `json:"oldest_age_hours"` // 0 where none was found
	} `json:"old_tasks"`
	Summary string      `json:"summary"`
	Ext     *onlyStream `json:"ext,omitempty"`
}

const maxStuckIDs = 50

// CleanedUp is the answer to a cleanup.
func CleanedUp(q api.Cleanup, done api.CleanedUp, basis *api.Basis) *Reply {
	d := &cleanupData{Ext: extOf(basis)}
	d.Stuck.Found, d.Stuck.Cleaned = len(done.Stuck), len(done.Ended)
	d.Stuck.IDs = append([]string{}, done.Stuck[:min(len(done.Stuck), maxStuckIDs)]...)
	d.Old.Found, d.Old.Deleted, d.Old.Oldest = done.Old, done.Removed, int64(done.Oldest/time.Hour)
	d.Summary = fmt.Sprintf("Cleaned %d stuck tasks, deleted %d old tasks", d.Stuck.Cleaned, d.Old.Deleted)
	if q.DryRun {
		d.Summary = fmt.Sprintf("Would clean %d stuck tasks, and delete %d old tasks", d.Stuck.Found, d.Old.Found)
	}
	return &Reply{cleanupMeta{q.DryRun, int64(q.Stuck / time.Second), int64(q.Old / time.Hour)}, d}
}

func (d *cleanupData) message() string { return "" }

func (d *cleanupData) markdown(p *page) {
	p.heading("Cleanup")
	p.line(d.Summary)
	p.heading("Stuck tasks")
	p.facts("Found", number(d.Stuck.Found), "Ended", number(d.Stuck.Cleaned))
	for _, id := range d.Stuck.IDs {
		p.item(code(id))
	}
	p.heading("Old tasks")
	p.facts("Found", number(d.Old.Found), "Removed", number(d.Old.Deleted))
	if d.Old.Found > 0 {
		p.facts("Age of the oldest", number(d.Old.Oldest)+" h")
	}
	d.Ext.markdown(p)
}
