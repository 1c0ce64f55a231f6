package request

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/codexcloud"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
)

// RequireKey adds an issue if the request is answered in the envelope of AdCP and
// has no idempotency key. It is for requests that change something.
func (a *Args) RequireKey() {
	switch {
	case !a.adcp || a.broken || a.Has(Key):
	case a.declares(Format):
		a.Refuse(Key, "is required with format adcp")
	default:
		a.Refuse(Key, "is required")
	}
}

// Echo returns the caller's context as it was written, nil if it was refused.
func (a *Args) Echo() json.RawMessage {
	if a.broken {
		return nil
	}
	return a.Raw(echoed)
}

// Submission reads a submission, and adds its mistakes to the arguments. Tool is
// the name of its request.
func Submission(s *responder.Service, tool string, a *Args) api.Submission {
	if a.broken {
		return api.Submission{}
	}
	q := api.Submission{
		Task: runs.Task{Attributes: runs.Attributes{Agent: api.DefaultAgent, Mode: runs.Mode(a.Text("mode")),
			Dir: a.Text("workingDir"), Model: a.Text("model"), Thread: a.Text("threadId"), Title: a.Text("title")},
			Prompt: a.Text("task"), Schema: a.Raw("outputSchema"), SkipGit: a.Flag("skipGitRepoCheck"),
			Env: runs.EnvPolicy{Policy: a.Text("envPolicy")}, Idle: a.Number("idleTimeoutSec"), Hard: a.Number("timeoutSec"),
			Governance: a.Text(governance), Type: tool},
		Confirm: a.Flag("confirm"), DestructiveGit: a.Flag("allow_destructive_git"),
	}
	if a.declares("prompt") {
		q.Prompt, q.Dir, q.Thread = a.Text("prompt"), a.Text("directory"), a.Text("thread")
		q.Hard = a.Number("timeout_seconds")
	}
	if a.declares("ask") { // without a parameter for it the run is live
		q.Live = !a.declares("live") || a.Flag("live")
		q.Keep = a.declares("keep") && a.Flag("keep")
		if a.declares("policy") {
			q.Policy = a.Names("policy")
		}
		if a.Has("ask") {
			q.Ask = new(a.Flag("ask"))
		}
	}
	q.Resume, q.Fork = a.threadRef(resumeParam.Name), a.threadRef(forkParam.Name)
	q.Force = a.declares("force") && a.Flag("force")
	a.readOptions(&q)
	a.readLabels(&q)
	if a.Has("envAllowList") {
		q.Env.Allow = append([]string{}, a.Names("envAllowList")...)
	}
	if a.declares("agent") {
		q.Agent = a.Text("agent")
	}
	a.readContext(s, &q)
	var problem error
	q.Webhook, problem = readWebhook(tool, a)
	a.adopt(s.CheckSubmit(q), "ask for a task that cannot be queued")
	adoptWebhook(a, problem)
	return q
}

// readOptions reads what only some agents can. An option that is wrong is there all the same: first it is refused to an
// agent without it.
func (a *Args) readOptions(q *api.Submission) {
	if a.Has("addDirs") {
		q.AddDirs = append([]string{}, a.Names("addDirs")...)
	}
	if a.Has("nonInteractive") {
		q.NonInteractive = new(a.Flag("nonInteractive"))
	}
	if a.Has("externalSandbox") {
		q.Unboxed = new(a.Flag("externalSandbox"))
	}
	if raw := a.Raw("extensions"); raw != nil {
		_ = json.Unmarshal(raw, &q.Extensions) // it is an object
	}
	if !a.Has("mode") {
		q.Mode = "" // it depends on them
	}
}

// threadRef returns the value of a parameter with an earlier thread, nil if there is none.
func (a *Args) threadRef(name string) *api.ThreadRef {
	var ref *api.ThreadRef
	if raw := a.Raw(name); raw != nil && json.Unmarshal(raw, &ref) != nil {
		a.Refuse(name, "must be an object with a selector")
	}
	return ref
}

// readContext reads the context of a submission: a thread to continue, or the caller's own name of a context.
func (a *Args) readContext(s *responder.Service, q *api.Submission) {
	name := a.Text(ContextID)
	if name == "" {
		return
	}
	thread, known, err := s.Continues(name)
	begins := !a.declares("threadId") // else that is the thread
	switch {
	case err != nil:
		a.Refuse(ContextID, "%s", api.Known(err).Message)
	case known && begins:
		q.Thread = thread
	case known && !strings.EqualFold(thread, q.Thread):
		a.Refuse(ContextID, "is another thread than threadId")
	case known, !begins && strings.EqualFold(name, q.Thread):
	case strings.ContainsFunc(name, func(c rune) bool { return c > '~' }):
		a.Refuse(ContextID, "must be printable ASCII")
	default:
		q.Labels = q.Labels.With(runs.LabelContext, name)
	}
}

// readLabels reads the labels of a submission.
func (a *Args) readLabels(q *api.Submission) {
	raw := a.Raw("labels")
	if raw == nil {
		return
	}
	var labels map[string]*string
	if json.Unmarshal(raw, &labels) != nil || slices.Contains(slices.Collect(maps.Values(labels)), nil) {
		a.Refuse("labels", "must be an object of strings")
		return
	}
	given := make(map[string]string, len(labels))
	for name, value := range labels {
		given[name] = *value
	}
	q.Labels = runs.LabelsOf(given)
	if err := responder.CheckLabels(q.Labels); err != nil {
		a.Refuse("labels", "%s", api.Known(err).Message)
		q.Labels = "" // that is said
	}
}

// CloudSubmission reads a submission to Codex Cloud, as [Submission] does.
func CloudSubmission(s *responder.Service, tool string, a *Args) api.CloudSubmission {
	if a.broken {
		return api.CloudSubmission{}
	}
	if a.Has(ContextID) {
		a.Refuse(ContextID, "is for tasks of this machine: Codex Cloud cannot resume a thread")
	}
	q := api.CloudSubmission{
		Prompt: a.Text("task"), Environment: a.Text("envId"), Attempts: int(a.Number("attempts")),
		DestructiveGit: a.Flag("allow_destructive_git"), Governance: a.Text(governance),
	}
	var problem error
	q.Webhook, problem = readWebhook(tool, a)
	a.adopt(s.CheckCloudSubmit(q), "ask for a task that cannot be submitted")
	adoptWebhook(a, problem)
	return q
}

// readWebhook reads the configuration of a webhook; nil if there is none.
func readWebhook(tool string, a *Args) (*api.Webhook, error) {
	raw := a.Raw(Webhook)
	if raw == nil {
		return nil, nil
	}
	r, err := webhook.ParseConfig(raw)
	if err != nil {
		return nil, err
	}
	return &api.Webhook{
		URL: r.URL, OperationID: r.OperationID, Token: r.Token, Scheme: r.Scheme, Credentials: r.Credentials,
		Operation: tool, Context: a.Raw(echoed),
	}, nil
}

func adoptWebhook(a *Args, err error) {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, e := range joined.Unwrap() {
			adoptWebhook(a, e)
		}
		return
	}
	var field *runs.FieldError
	switch {
	case err == nil:
	case errors.As(err, &field) && field.Field != "":
		a.Refuse(Webhook+"."+field.Field, "%s", field.Problem)
	case errors.As(err, &field):
		a.Refuse(Webhook, "%s", field.Problem)
	default:
		a.Refuse(Webhook, "is no configuration of a webhook")
	}
}

// Once reads the idempotency key of a request, and hashes the request. The hash
// does not depend on the spelling of names or the format of the answer.
func Once(tool string, a *Args) (api.Once, error) {
	key := a.Text(Key)
	if key == "" {
		return api.Once{}, nil
	}
	arguments := map[string]json.RawMessage{}
	for _, g := range a.given {
		switch raw := json.RawMessage(g.raw); g.param {
		case Key, echoed, governance, Format:
		case Webhook:
			arguments[g.param] = withoutSecret(raw)
		default:
			arguments[g.param] = raw
		}
	}
	if a.run != "" {
		delete(arguments, "threadId")
		arguments["run"] = encode(a.run)
	}
	request := map[string]any{"tool": tool, "arguments": arguments}
	if a.beside != nil {
		request["beside"] = a.beside
	}
	hash, err := idempotency.Hash(encode(request))
	if err != nil {
		return api.Once{}, api.Invalid(Whole,
			"have no canonical form: no name may stand twice in an object, nor a number be too large")
	}
	return api.Once{Key: key, Hash: hash}, nil
}

// withoutSecret returns the configuration of a webhook without its credentials,
// which may change between attempts of a request.
func withoutSecret(raw json.RawMessage) json.RawMessage {
	var top, auth map[string]json.RawMessage
	if json.Unmarshal(raw, &top) != nil || json.Unmarshal(top["authentication"], &auth) != nil || auth == nil {
		return raw
	}
	delete(auth, "credentials")
	top["authentication"] = encode(auth)
	return encode(top)
}

// Again reports whether a submission was carried out before with its key. Then [Submit] returns its outcome, even if
// the arguments are a mistake by now: their context may have changed, their agent may be gone.
func Again(ctx context.Context, s *responder.Service, tool string, a *Args) bool {
	_, _ = Begun(ctx, s, tool, a)
	return a.done != nil
}

// Begun is [Again], and also true of a submission that was begun with its key, and whose outcome is not stored, and of
// another one with its key.
func Begun(ctx context.Context, s *responder.Service, tool string, a *Args) (begun bool, err error) {
	if q, wrong := Once(tool, a); wrong == nil && q.Key != "" && a.done == nil {
		a.done, begun, err = s.Begun(ctx, q)
	}
	return begun || a.done != nil, err
}

// Submit carries out a submission without mistakes. The error has the names that
// the caller used.
func Submit(ctx context.Context, s *responder.Service, tool string, a *Args, q api.Submission) (api.Submitted,
	error) {
	if a.done != nil {
		return *a.done, nil
	}
	var err error
	if q.Once, err = Once(tool, a); err != nil {
		return api.Submitted{}, err
	}
	done, err := s.QueueWith(ctx, q, a.more)
	if a.run != "" && api.Is(err, api.KeyConflict) { // perhaps with the hash of the tool, and of earlier versions
		if a.run = ""; Again(ctx, s, tool, a) {
			return *a.done, nil
		}
	}
	return done, a.Name(err)
}

// Cancel cancels a task of this machine. The error has the names that the caller
// used.
func Cancel(ctx context.Context, s *responder.Service, a *Args) (api.Cancelled, runs.Header, error) {
	v, err := Local(ctx, s, a, ToolCancel, "task_id")
	if api.Is(err, api.NotFound) { // its outcome may be stored under the key
		v.ID = a.Text("task_id")
	} else if err != nil {
		return api.Cancelled{}, v, err
	}
	q := api.Cancel{Run: v.ID, Reason: a.Text("reason")}
	if q.Once, err = Once(ToolCancel, a); err != nil {
		return api.Cancelled{}, v, err
	}
	c, err := s.Cancel(ctx, q)
	return c, v, a.Name(err)
}

// CheckDir adds an issue if the working directory of a filter is invalid.
func (a *Args) CheckDir() {
	dir := a.Text("workingDir")
	if dir != "" && (dir[0] != '/' || strings.Contains(dir+"/", "/../")) {
		a.Refuse("workingDir", "must be an absolute path without ..")
	}
}

// Status returns the state of the requested tasks of this machine. One is the
// single task that the request names, or nil; also if the filters leave it out.
func Status(ctx context.Context, s *responder.Service, a *Args) (all runtable.Snapshot, one *runs.Header,
	err error) {
	q, err := a.list()
	if err != nil {
		return all, nil, err
	}
	if a.Has("task_id") {
		q.Context = "" // Local checks it
		keep, err := s.Filter(q)
		if err != nil {
			return all, nil, a.Name(err)
		}
		v, err := Local(ctx, s, a, ToolStatus, "task_id")
		if err != nil || !keep(v) || !a.Flag("showAll") && v.Source != runs.SourceQueue {
			return all, nil, err
		}
		single := []runs.Header{v}
		return snapshotOf(single), &single[0], nil
	}
	all, err = s.Overview(q, int(a.Number("limit")), !a.Flag("showAll"))
	return all, nil, a.Name(err)
}

// list reads the filters of a status.
func (a *Args) list() (q api.List, err error) {
	q = api.List{
		Agent: a.Text("agent"), Dir: a.Text("workingDir"), Context: a.Text(ContextID), Labels: a.Names("labels"),
		Unseen: a.Flag("unseen"),
	}
	if state := a.Text("state"); state != "" {
		q.States = []runs.State{runs.State(state)}
	}
	for name, at := range map[string]*runs.Time{"since": &q.Since, "until": &q.Until} {
		if !a.Has(name) {
			continue
		}
		moment, err := time.Parse(time.RFC3339Nano, a.Text(name))
		if err != nil || moment.UnixMilli() <= 0 {
			return q, api.Invalid(a.Spelled(name), "must be a time of RFC 3339, after 1970")
		}
		*at = api.TimeOf(moment)
	}
	return q, nil
}

// Single returns the snapshot of one run.
func Single(v runs.Header) runtable.Snapshot { return snapshotOf([]runs.Header{v}) }

func snapshotOf(one []runs.Header) runtable.Snapshot {
	switch state := one[0].State; {
	case state.Final():
		return runtable.Snapshot{Ended: one, Total: 1}
	case state == runs.StateQueued:
		return runtable.Snapshot{Queued: one}
	}
	return runtable.Snapshot{Working: one}
}

// Local returns the run of this machine that a request names. For a task of Codex
// Cloud, the error names the tool to use.
func Local(ctx context.Context, s *responder.Service, a *Args, tool, param string) (runs.Header, error) {
	id, field := a.Text(param), a.Spelled(param)
	inCloud := func() error {
		return api.Invalid(field, "is a task of Codex Cloud: use "+strings.Replace(tool, "_local_", "_cloud_", 1))
	}
	if strings.HasPrefix(id, "T-cloud-") {
		return runs.Header{}, inCloud()
	}
	if runs.CheckID(id) != nil {
		if _, isRef := codexcloud.Ref(id); isRef {
			return runs.Header{}, inCloud()
		}
		return runs.Header{}, api.Invalid(field, "must be the id of a task: 1 to 64 letters, digits, '-' and '_'")
	}
	v, err := s.Look(ctx, id)
	switch {
	case api.Is(err, api.NotFound) && strings.HasPrefix(id, "task_"):
		return v, inCloud()
	case err != nil:
		return v, err
	case responder.IsCloud(v):
		return v, inCloud()
	}
	if a.Has(ContextID) && !s.InContext(v, a.Text(ContextID)) {
		return v, api.Invalid(a.Spelled(ContextID), "the task belongs to another thread")
	}
	return v, nil
}

func encode(v any) []byte {
	b, err := bounds.Encode(v)
	if err != nil { // strings, and JSON that was read before
		panic("request: " + err.Error())
	}
	return b
}
