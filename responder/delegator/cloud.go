package delegator

import (
	"context"
	"errors"
	"math/rand/v2"

	"go.uber.org/zap"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/cloud"
	"github.com/linesman/linesman/runs"
)

// noCloud is the error of a tool that needs what is not configured.
func noCloud() error {
	return &failure{wireError{
		Code: codeUnsupported, Message: "Codex Cloud is not driven here",
		Details: details{Reason: "not_configured", Suggestion: "Configure the responder to drive Codex Cloud: install the Codex CLI, run `codex login`, and turn its cloud settings on"},
	}}
}

// checkCloudTask adds what is wrong with a task for the cloud as a whole.
func checkCloudTask(c *call) {
	a := c.args
	if a.has("context_id") {
		a.refuse("context_id", "is for tasks of this machine: Codex Cloud goes on with no thread")
	}
	r := c.request()
	if err := a.fields(r.Check(), requestFields); err != nil {
		a.wrong("arguments", "ask for a task that cannot be submitted")
	}
	c.checkGit()
	c.checkPush()
}

// requestFields are the fields of a [cloud.Request] by the parameters they come from.
var requestFields = map[string]string{"prompt": "task", "environment": "envId", "attempts": "attempts",
	"governance_context": "governance_context"}

func (c *call) request() cloud.Request {
	return cloud.Request{Prompt: c.args.text("task"), Environment: c.args.text("envId"), Attempts: int(c.args.number("attempts")),
		Governance: c.args.text("governance_context")}
}

func cloudSubmit(c *call, ctx context.Context) (*reply, error) {
	if c.args.has("model") {
		return nil, &failure{wireError{
			Code: codeUnsupported, Message: "Codex Cloud lets nobody choose a model: leave it out", Details: details{Field: c.args.spelled("model")},
		}}
	}
	if c.Cloud == nil {
		return nil, noCloud()
	}
	if err := c.canPush(); err != nil {
		return nil, err
	}
	done, err := c.once(ctx, runs.CloudID(c.begun.UnixMilli(), rand.Uint64()), cloudLease, func(claim adcp.Claim) (outcome, error) {
		if claim.Again {
			return outcome{}, outcomeUnknown()
		}
		return c.handOver(ctx, claim.Run)
	})
	if err != nil {
		return nil, err
	}
	return &reply{meta: ackMeta{}, of: ofSubmission(done), data: &ackData{
		TaskID: done.Run, Accepted: true, Capability: "background", StartedAt: moment(done.At), title: "Cloud task submitted", wait: "cloud",
		Ext: &ackExt{Stream: done.Stream, CloudID: done.CloudID, WebURL: done.WebURL, Environment: c.args.text("envId")},
	}}, nil
}

// handOver submits a task to the cloud, as a run. Who is to be notified is
// written before: killed in between, nobody is notified of a run that is none.
func (c *call) handOver(ctx context.Context, run string) (outcome, error) {
	if err := c.register(ctx, run); err != nil {
		return outcome{}, err
	}
	r := c.request()
	r.Run = run
	s, err := c.Cloud.Submit(ctx, r)
	if s.Run == "" {
		c.unregister(ctx, run)
	}
	if err != nil && s.ID != "" {
		c.log.Error("a task of the cloud has no run", zap.String("task", s.ID), zap.Error(err))
		return outcome{}, &failure{wireError{
			Code: codeTool, Message: "Codex Cloud took the task, but it cannot be followed here: do not submit it again",
			Details: details{Reason: "not_recorded", CloudID: s.ID, WebURL: s.URL},
		}}
	}
	if err != nil {
		if rest := c.args.fields(err, requestFields); rest != nil {
			return outcome{}, rest
		}
		return outcome{}, c.args.err()
	}
	c.cloud.add(s.ID, s.Run)
	return outcome{
		Run: s.Run, At: s.At, CloudID: s.ID, WebURL: s.URL, Stream: c.basis(), Governance: c.args.text("governance_context"),
	}, nil
}

// cloudExt is what only a task in the cloud has.
type cloudExt struct {
	CloudID      string `json:"cloud_id,omitempty"`
	WebURL       string `json:"web_ui_url,omitempty"`
	Environment  string `json:"environment,omitempty"`
	CloudStatus  string `json:"cloud_status,omitempty"` // pending, ready, applied or error
	Attempts     int    `json:"attempts,omitempty"`
	Applied      bool   `json:"applied,omitempty"`
	FilesChanged int    `json:"files_changed,omitempty"`
	Added        int    `json:"lines_added,omitempty"`
	Removed      int    `json:"lines_removed,omitempty"`
}

func cloudOf(r *runs.Record) cloudExt {
	x := r.Cloud
	if x == nil {
		return cloudExt{}
	}
	return cloudExt{x.ID, x.URL, x.Environment, x.Status, x.Attempts, x.Applied, x.FilesChanged, x.Added, x.Removed}
}

func (x *cloudExt) facts(p *page) {
	p.fact("Cloud task", code(x.CloudID))
	p.fact("Cloud status", code(x.CloudStatus))
	p.fact("Environment", code(x.Environment))
	if x.Attempts > 1 {
		p.fact("Attempts", number(int64(x.Attempts)))
	}
	if x.FilesChanged > 0 {
		p.fact("Changes", files(x.FilesChanged)+", +"+number(int64(x.Added))+" -"+number(int64(x.Removed))+" lines")
	}
	if x.Applied {
		p.fact("Applied", "yes")
	}
	p.fact("Web page", link(x.WebURL))
}

func cloudCancel(c *call, ctx context.Context) (*reply, error) {
	v, err := c.ofTheCloud(ctx, "task_id")
	if err != nil {
		return nil, err
	}
	record, err := c.Responder.Record(ctx, v.ID)
	if err != nil {
		return nil, err
	}
	x := cloudOf(record)
	return nil, &failure{wireError{
		Code: codeUnsupported, Message: "Codex Cloud can be asked to end a task on its web page only",
		Details: details{TaskID: v.ID, State: string(v.State), CloudID: x.CloudID, WebURL: x.WebURL},
	}}
}

func checkCloudStatus(c *call) {
	checkDir(c)
	if c.args.has("taskId") && c.args.flag("list") {
		c.args.refuse("taskId", "is for one task: leave list out")
	}
	if c.args.has("context_id") && !c.args.has("taskId") {
		c.args.refuse("context_id", "is for tasks of this machine: those of Codex Cloud have no thread here")
	}
}

// mostRead bounds how many records one status reads.
const mostRead = 1000

func cloudStatus(c *call, ctx context.Context) (*reply, error) {
	if c.Cloud == nil {
		return nil, noCloud()
	}
	a := c.args
	limit := int(a.number("limit"))
	if a.has("taskId") {
		v, err := c.ofTheCloud(ctx, "taskId")
		if err != nil {
			return nil, err
		}
		r, err := c.cloudSnapshot(ctx, one(v), map[string]cloudExt{})
		if err == nil {
			r.of = ofView(v)
		}
		return r, err
	}
	const few = 5
	if !a.flag("list") {
		s := c.Responder.Snapshot(min(few, limit), ofCloud)
		return c.cloudSnapshot(ctx, s, map[string]cloudExt{})
	}
	read := map[string]cloudExt{}
	dir, status, env := a.text("workingDir"), a.text("status"), a.text("envId")
	keep := func(r runs.Row) bool {
		if !ofCloud(r) || dir != "" && r.Dir != dir {
			return false
		}
		switch status {
		case "":
			return true
		case "submitted":
			return !r.State.Final()
		case "failed":
			return r.State == runs.StateFailed || r.State == runs.StateTimeout
		}
		return string(r.State) == status
	}
	if env == "" {
		return c.cloudSnapshot(ctx, c.Responder.Snapshot(limit, keep), read)
	}
	// The table does not know environments: the records do.
	s := c.Responder.Snapshot(mostRead, keep)
	budget := mostRead
	pick := func(views []responder.View) (fit []responder.View, err error) {
		for _, v := range views {
			if budget--; budget < 0 {
				break
			}
			x, err := c.readCloud(ctx, v.ID, read)
			if err != nil {
				return nil, err
			}
			if x.Environment == env {
				fit = append(fit, v)
			}
		}
		return fit, nil
	}
	for _, views := range []*[]responder.View{&s.Working, &s.Queued, &s.Ended} {
		var err error
		if *views, err = pick(*views); err != nil {
			return nil, err
		}
	}
	s.Total = len(s.Ended)
	s.Ended = s.Ended[:min(len(s.Ended), limit)]
	return c.cloudSnapshot(ctx, s, read)
}

// readCloud is what the record of a run tells of the cloud, read once.
func (c *call) readCloud(ctx context.Context, run string, read map[string]cloudExt) (cloudExt, error) {
	if x, ok := read[run]; ok {
		return x, nil
	}
	record, err := c.Responder.Record(ctx, run)
	if err != nil {
		if errors.Is(err, runs.ErrNoRun) { // removed meanwhile
			err = nil
		}
		return cloudExt{}, err
	}
	read[run] = cloudOf(record)
	return read[run], nil
}

// cloudSnapshot tells how tasks in the cloud stand, with what their records say.
func (c *call) cloudSnapshot(ctx context.Context, s responder.Snapshot, read map[string]cloudExt) (*reply, error) {
	m, d := c.snapshot(s)
	budget := 200
	add := func(id string, to *entryExt) error {
		if budget--; budget < 0 {
			return nil
		}
		x, err := c.readCloud(ctx, id, read)
		to.cloudExt = x
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
	if c.args.flag("showStats") {
		all := c.Responder.Snapshot(1<<20, ofCloud)
		st := &statistics{Working: len(all.Working), Queued: len(all.Queued)}
		for _, v := range all.Ended {
			switch v.State {
			case runs.StateCompleted:
				st.Completed++
			case runs.StateCancelled:
				st.Cancelled++
			default:
				st.Failed++
			}
		}
		d.Ext.Statistics = st
	}
	d.title = "Codex Cloud tasks"
	return &reply{meta: m, data: d}, nil
}

// statistics is how many tasks of Codex Cloud are in each state.
type statistics struct {
	Working   int `json:"working"`
	Queued    int `json:"queued"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	Cancelled int `json:"cancelled"`
}

func files(n int) string {
	if n == 1 {
		return "1 file"
	}
	return number(int64(n)) + " files"
}
