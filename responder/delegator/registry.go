package delegator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/runs"
)

// cancelData says what became of a cancel.
type cancelData struct {
	Operation string  `json:"operation"`
	TaskID    string  `json:"task_id"`
	State     string  `json:"state"` // cancelled, or cancelling while the agent is being ended
	Before    string  `json:"previous_state,omitempty"`
	Reason    string  `json:"reason,omitempty"`
	Ext       *extAll `json:"ext,omitempty"`
}

type extAll struct {
	Stream *basis `json:"stream,omitempty"`
}

func (x *extAll) markdown(p *page) {
	if x != nil {
		p.stream(x.Stream)
	}
}

func (c *call) ext() *extAll {
	if b := c.basis(); b != nil {
		return &extAll{b}
	}
	return nil
}

type cancelMeta struct {
	AckTS string `json:"ack_ts"`
}

func localCancel(c *call, ctx context.Context) (*reply, error) {
	v, missing := c.local(ctx, "task_id")
	if f := (*failure)(nil); missing != nil && !(errors.As(missing, &f) && f.Code == codeNotFound) {
		return nil, missing
	} else if missing != nil { // it may have been there when the key came first
		v.ID = c.args.text("task_id")
	}
	reason := c.args.text("reason")
	done, err := c.once(ctx, v.ID, cancelLease, func(claim adcp.Claim) (outcome, error) {
		if missing != nil {
			return outcome{}, missing
		}
		done, err := c.Responder.Cancel(ctx, v.ID, reason)
		if ended := (*responder.EndedError)(nil); claim.Again && errors.As(err, &ended) && ended.State == runs.StateCancelled {
			c.again = true
			done.State, err = ended.State, nil // by whoever began this and did not come to tell
		}
		return outcome{Run: v.ID, At: time.Now().UnixMilli(), State: done.State, Before: done.Before, Stream: c.basis()}, err
	})
	var ended *responder.EndedError
	if errors.As(err, &ended) {
		return nil, invalid(c.args.spelled("task_id"), "the task has ended: it is "+string(ended.State),
			details{TaskID: v.ID, State: string(ended.State)})
	}
	if err != nil {
		return nil, err
	}
	d := &cancelData{Operation: "cancel", TaskID: v.ID, State: "cancelling", Before: string(done.Before), Reason: reason}
	if done.Stream != nil {
		d.Ext = &extAll{done.Stream}
	}
	if done.State == runs.StateCancelled {
		d.State = "cancelled"
	}
	of := ofView(v)
	of.status = adcp.StatusOf(done.State)
	return &reply{meta: cancelMeta{moment(done.At)}, data: d, of: of}, nil
}

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

// cleanupData says what a cleanup found and did.
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
	Summary string  `json:"summary"`
	Ext     *extAll `json:"ext,omitempty"`
}

const maxStuckIDs = 50

func cleanup(c *call, ctx context.Context) (*reply, error) {
	m := cleanupMeta{c.args.flag("dryRun"), c.args.number("stuckTaskMaxAgeSeconds"), c.args.number("oldTaskMaxAgeHours")}
	report, err := c.Responder.Cleanup(ctx, responder.CleanupSpec{
		Stuck: time.Duration(m.Stuck) * time.Second, Old: time.Duration(m.Old) * time.Hour, DryRun: m.DryRun,
	})
	if err != nil {
		f := c.explain(err)
		f.Message += fmt.Sprintf("; until then %d stuck tasks were ended, and %d old ones removed", len(report.Ended), report.Gone)
		return nil, f
	}
	d := &cleanupData{Ext: c.ext()}
	d.Stuck.Found, d.Stuck.Cleaned = len(report.Stuck), len(report.Ended)
	d.Stuck.IDs = append([]string{}, report.Stuck[:min(len(report.Stuck), maxStuckIDs)]...)
	d.Old.Found, d.Old.Deleted, d.Old.Oldest = report.Old, report.Gone, int64(report.Oldest/time.Hour)
	d.Summary = fmt.Sprintf("Cleaned %d stuck tasks, deleted %d old tasks", d.Stuck.Cleaned, d.Old.Deleted)
	if m.DryRun {
		d.Summary = fmt.Sprintf("Would clean %d stuck tasks, and delete %d old tasks", d.Stuck.Found, d.Old.Found)
	}
	return &reply{meta: m, data: d}, nil
}

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
