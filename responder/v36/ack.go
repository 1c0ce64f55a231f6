package v36

import (
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
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
	p.heading(d.title)
	p.fact("Task", code(d.TaskID))
	p.fact("Capability", d.Capability)
	if d.result == nil { // which has it
		p.fact("Thread", code(d.ThreadID))
	}
	if d.queue != nil {
		p.fact("Tasks waiting before it", number(int64(*d.queue)))
	}
	p.fact("Accepted at", d.StartedAt)
	if d.Ext != nil {
		p.fact("Cloud task", code(d.Ext.CloudID))
		p.fact("Environment", code(d.Ext.Environment))
		p.fact("Web page", link(d.Ext.WebURL))
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
