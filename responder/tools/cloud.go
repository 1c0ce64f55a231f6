package tools

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/internal/lazy"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/codexcloud"
	"github.com/linesman/linesman/responder/request"
	"github.com/linesman/linesman/responder/runtable"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
)

// readCloudTask reads a submission to Codex Cloud.
func (c *call) readCloudTask() {
	c.cloudTask = request.CloudSubmission(c.service, c.tool.Name, c.args)
}

func (c *call) cloudSubmit(ctx context.Context) (outcome, error) {
	if c.args.Has("model") {
		return outcome{}, &api.Error{
			Code: api.Unsupported, Field: c.args.Spelled("model"),
			Message: "Codex Cloud chooses the model: leave it out",
		}
	}
	var err error
	if c.cloudTask.Once, err = request.Once(c.tool.Name, c.args); err != nil {
		return outcome{}, err
	}
	done, err := c.service.SubmitCloud(ctx, c.cloudTask)
	c.replayed = done.Replayed
	if err != nil {
		return outcome{}, c.args.Name(err)
	}
	return outcome{reply: v36.CloudQueued(done, c.cloudTask.Environment), of: adcp.OfSubmission(done, "")}, nil
}

func (c *call) checkCloudStatus() {
	a := c.args
	a.CheckDir()
	if a.Has("taskId") && a.Flag("list") {
		a.Refuse("taskId", "is for one task: leave list out")
	}
	if a.Has(request.ContextID) && !a.Has("taskId") {
		a.Refuse(request.ContextID, "is for tasks of this machine: those of Codex Cloud have no thread here")
	}
}

func (c *call) cloudStatus(ctx context.Context) (outcome, error) {
	if c.args.Has("taskId") {
		v, err := c.find(ctx)
		if err != nil {
			return outcome{}, err
		}
		r, err := c.cloudSnapshot(ctx, request.Single(v))
		return outcome{reply: r, of: adcp.OfView(v)}, err
	}
	all, err := c.cloudList(ctx)
	if err != nil {
		return outcome{}, err
	}
	r, err := c.cloudSnapshot(ctx, all)
	return outcome{reply: r}, err
}

// cloudList returns the tasks that a status requests: the pending ones and a few
// that have ended, or all that fit the filters.
func (c *call) cloudList(ctx context.Context) (runtable.Snapshot, error) {
	const few = 5
	a, limit := c.args, int(c.args.Number("limit"))
	if !a.Flag("list") {
		return c.service.Snapshot(min(few, limit), responder.IsCloud), nil
	}
	dir, status, env := a.Text("workingDir"), a.Text("status"), a.Text("envId")
	keep := func(r runs.Header) bool {
		if !responder.IsCloud(r) || dir != "" && r.Dir != dir {
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
		return c.service.Snapshot(limit, keep), nil
	}
	// Only the records have environments, not the table.
	const most = 1000 // records that one status reads
	all, left := c.service.Snapshot(most, keep), most
	for _, views := range []*[]runs.Header{&all.Working, &all.Queued, &all.Ended} {
		var fit []runs.Header
		for _, v := range *views {
			if left--; left < 0 {
				break
			}
			x, err := c.cloudRecord(ctx, v.ID)
			if err != nil {
				return all, err
			}
			if x != nil && x.Environment == env {
				fit = append(fit, v)
			}
		}
		*views = fit
	}
	all.Total = len(all.Ended)
	all.Ended = all.Ended[:min(len(all.Ended), limit)]
	return all, nil
}

// cloudRecord returns the cloud state of a run, nil if its record has none.
func (c *call) cloudRecord(ctx context.Context, run string) (*runs.Cloud, error) {
	record, err := c.service.Record(ctx, run)
	switch {
	case api.Is(err, api.NotFound): // removed meanwhile
		return nil, nil
	case err != nil:
		return nil, err
	}
	return record.Cloud, nil
}

func (c *call) cloudSnapshot(ctx context.Context, all runtable.Snapshot) (*v36.Reply, error) {
	var stats *v36.Statistics
	if c.args.Flag("showStats") {
		every := c.service.Snapshot(1<<20, responder.IsCloud)
		stats = &v36.Statistics{Working: len(every.Working), Queued: len(every.Queued)}
		for _, v := range every.Ended {
			switch v.State {
			case runs.StateCompleted:
				stats.Completed++
			case runs.StateCancelled:
				stats.Cancelled++
			default:
				stats.Failed++
			}
		}
	}
	return v36.CloudSnapshot(all, c.service.Basis(), stats, func(run string) (*runs.Cloud, error) {
		return c.cloudRecord(ctx, run)
	})
}

func (c *call) cloudCancel(ctx context.Context) (outcome, error) {
	v, err := c.find(ctx)
	if err != nil {
		return outcome{}, err
	}
	reason := c.args.Text("reason")
	done, err := c.service.Cancel(ctx, api.Cancel{Run: v.ID, Reason: reason})
	if err != nil {
		return outcome{}, c.args.Name(err)
	}
	return outcome{reply: v36.Cancelled(done, reason), of: adcp.OfCancel(v, done)}, nil
}

// cloudRun finds the run of a task of Codex Cloud by its run id, the id that
// Codex Cloud gave it, or the address of its page. The error names the tool to
// use for a task of this machine.
func (c *call) cloudRun(ctx context.Context) (runs.Header, error) {
	id, field := c.args.Text(c.tool.id), c.args.Spelled(c.tool.id)
	local := func() error {
		instead := strings.Replace(c.tool.Name, "_cloud_", "_local_", 1)
		return api.Invalid(field, "is a task of this machine: use "+instead)
	}
	if strings.HasPrefix(id, "T-local-") {
		return runs.Header{}, local()
	}
	run := id
	if !strings.HasPrefix(id, "T-cloud-") {
		ref, ok := codexcloud.Ref(id)
		if !ok {
			return runs.Header{}, api.Invalid(field, "must be the id of a task in Codex Cloud, or the address of its page")
		}
		if v, ok := c.service.Get(ref); ok && !responder.IsCloud(v) {
			return v, local()
		}
		var err error
		if run, err = c.service.CloudRun(ctx, ref); err != nil {
			return runs.Header{}, err
		}
	}
	v, err := c.service.Look(ctx, run)
	if err == nil && !responder.IsCloud(v) {
		return v, local()
	}
	return v, err
}

func (c *call) cleanup(ctx context.Context) (outcome, error) {
	q := api.Cleanup{
		Stuck:  time.Duration(c.args.Number("stuckTaskMaxAgeSeconds")) * time.Second,
		Old:    time.Duration(c.args.Number("oldTaskMaxAgeHours")) * time.Hour,
		DryRun: c.args.Flag("dryRun"),
	}
	done, err := c.service.Cleanup(ctx, q)
	if err != nil {
		e := *api.Known(err)
		e.Message += fmt.Sprintf("; until then %d stuck tasks were ended, and %d old ones removed",
			len(done.Ended), done.Removed)
		return outcome{}, &e
	}
	return outcome{reply: v36.CleanedUp(q, done, c.service.Basis())}, nil
}

func (c *call) listEnvironments(ctx context.Context) (outcome, error) {
	list, err := c.service.Environments(ctx, api.Nothing{})
	if err != nil {
		return outcome{}, err
	}
	return outcome{reply: v36.Environments(list)}, nil
}

// Matching text cannot end a word of a shell or a mark of markdown.
var (
	gitHubURL = lazy.Regexp(`^https://github\.com/([A-Za-z0-9](?:[A-Za-z0-9-]{0,38}))/([A-Za-z0-9._-]{1,100})$`)
	address   = lazy.Regexp(`^[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,180})$`)
)

func (c *call) checkSetup() {
	c.setup = v36.Setup{Stack: c.args.Text("stack"), Name: c.args.Text("gitUserName"), Email: c.args.Text("gitUserEmail")}
	url := c.args.Text("repoUrl")
	var ok bool
	if c.setup.Repository, ok = repository(url); url != "" && !ok {
		c.args.Refuse("repoUrl", "must be https://github.com/OWNER/REPOSITORY")
	}
	if strings.HasPrefix(c.setup.Name, "-") {
		c.args.Refuse("gitUserName", "must not begin with '-': git would take it for an option")
	}
	if !address().MatchString(c.setup.Email) {
		c.args.Refuse("gitUserEmail", "must be an address of mail")
	}
}

func (c *call) gitHubSetup(context.Context) (outcome, error) {
	return outcome{reply: v36.Guide(c.setup)}, nil
}

// repository returns the address of a repository, up to its name.
func repository(url string) (string, bool) {
	url = strings.TrimSuffix(strings.TrimSuffix(url, "/"), ".git")
	m := gitHubURL().FindStringSubmatch(url)
	return url, m != nil && m[2] != "." && m[2] != ".."
}
