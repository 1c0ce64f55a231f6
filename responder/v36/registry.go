package v36

import (
	"fmt"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

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
	p.fact("Task", code(d.TaskID))
	p.fact("Before", d.Before)
	p.fact("Reason", plain(d.Reason))
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
	p.fact("Found", number(int64(d.Stuck.Found)))
	p.fact("Ended", number(int64(d.Stuck.Cleaned)))
	for _, id := range d.Stuck.IDs {
		p.item(code(id))
	}
	p.heading("Old tasks")
	p.fact("Found", number(int64(d.Old.Found)))
	p.fact("Removed", number(int64(d.Old.Deleted)))
	if d.Old.Found > 0 {
		p.fact("Age of the oldest", number(d.Old.Oldest)+" h")
	}
	d.Ext.markdown(p)
}
