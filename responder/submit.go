package responder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/internal/lazy"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
)

// maxLimit is the longest time limit of a task, in seconds.
const maxLimit = 86_400

// planOnly precedes the prompt in mode preview.
const planOnly = "Plan only: say which steps you would take and which files you would change. Change nothing.\n\n"

// risky are git commands that may lose work.
var risky = lazy.Regexp(riskyPattern)

const riskyPattern = `(?i)\bgit\s+(reset\s+--(hard|merge)|clean\s+-\w*f|push\s+([^\n]*\s)?(-f\b|--force|--delete|--mirror)|` +
	`rebase\b|filter-(branch|repo)\b|branch\s+-D\b|stash\s+(drop|clear)|reflog\s+(expire|delete)|update-ref\s+-d|checkout\s+(--|\.)|` +
	`restore\b|commit\s+[^\n]*--amend)`

// CheckSubmit reports all mistakes of a submission as one [api.Validation] error. An option that the agent does not
// have comes first: the error is [api.Unsupported].
func (s *Service) CheckSubmit(q api.Submission) error {
	if err := s.checkCapabilities(q); err != nil {
		return err
	}
	all, m := extended(q)
	return fixed(q, s.checkSubmit(all, m))
}

func (s *Service) checkSubmit(q api.Submission, m mistakes) error {
	checkOptions(&m, &q)
	limit := runs.MaxPrompt - len(planOnly)
	n := len(q.Prompt)
	m.when(q.Mode == api.Preview && n > limit, api.FieldPrompt,
		fmt.Sprintf("at most %d bytes in mode preview, got %d", limit, n))
	seconds := fmt.Sprintf("must be 1 to %d seconds", maxLimit)
	m.when(q.Idle < 0 || q.Idle > maxLimit, "idleTimeoutSec", seconds)
	m.when(q.Hard < 0 || q.Hard > maxLimit, "timeoutSec", seconds)
	m.when(q.Title != "" && strings.ContainsFunc(q.Title, unicode.IsControl), fieldTitle,
		"must be one line without control characters")
	m.when(q.Title != "" && strings.TrimSpace(q.Title) == "", fieldTitle, "must not be blank")
	n = utf8.RuneCountInString(q.Title)
	m.when(n > runs.MaxTitle, fieldTitle, fmt.Sprintf("at most %d characters, got %d", runs.MaxTitle, n))
	t := runs.QueuedTask{Run: cmp.Or(q.Run, "T-local-unnamed"), Task: s.task(q)} // else it gets its own id later
	a, known := s.cfg.Agents.Find(t.Agent)
	if !known {
		m.when(true, "agent", "must be one of "+strings.Join(s.cfg.Agents.Names(), ", "))
		t.Agent = api.DefaultAgent // that is said
	}
	m.when(m.fields(t.Check()) != nil, "request", "asks for a task that cannot be queued")
	m.when(m.fields(acp.CheckTask(&t.Task)) != nil, "request", "asks for a task that cannot be queued")
	m.when(t.Mode.Writes() && !q.Confirm && !t.IsUnboxed(), "confirm",
		fmt.Sprintf("must be true for mode %s: the agent may change files", t.Mode))
	m.when(q.Env.Allow != nil && q.Env.Policy != runs.InheritList, "env.allow", "is for the policy allow-list only")
	s.checkEarlier(&m, q, t.Task)
	m.when(t.Live && q.Fork != nil, api.FieldFork, "not with live")
	m.when(known && t.Live && t.Thread != "" && a.Live.Forgets, api.FieldThread,
		"not with live: "+a.Name+" continues no session so")
	if a.Check != nil {
		m.when(m.fields(a.Check(t.Task)) != nil, "request", "asks for a task that the agent cannot run")
	}
	// The run may be another program's, and have its own webhook.
	m.when(q.Run != "" && q.Webhook != nil, api.FieldWebhook,
		"is not allowed with a run id that the caller chose: use an idempotency key instead")
	s.checkBoth(&m, q.Prompt, q.DestructiveGit, q.Webhook)
	return m.err()
}

// checkEarlier checks which thread a submission continues or copies.
func (s *Service) checkEarlier(m *mistakes, q api.Submission, t runs.Task) {
	for field, ref := range map[string]*api.ThreadRef{api.FieldResume: q.Resume, api.FieldFork: q.Fork} {
		if ref == nil {
			continue
		}
		m.when(ref.Selector != api.SelectLast && ref.Selector != api.SelectID, field, "selector must be last or id")
		m.when(ref.Selector == api.SelectLast && ref.ID != "", field, "id is for the selector id")
		m.when(ref.Selector == api.SelectID && ref.ID == "", field, "id is required with the selector id")
	}
	m.when(q.Fork != nil && (q.Resume != nil || q.Thread != ""), api.FieldFork, "not with a thread to resume")
	m.when(q.Resume != nil && q.Thread != "" && (q.Resume.Last() || !strings.EqualFold(q.Resume.ID, q.Thread)),
		api.FieldResume, "is another thread than "+api.FieldThread)
	m.when(q.ForkedFrom != "", "forkedFrom", "is not for requests: use "+api.FieldFork)
	m.when(q.Within != "", "within", "is not for requests")
	field := api.FieldThread
	if t.ForkedFrom != "" {
		field = api.FieldFork
	}
	if why := s.foreign(t.Earlier(), t.Agent); why != "" {
		if _, known := s.cfg.Agents.Find(t.Agent); known {
			m.when(true, field, why)
		}
	}
}

// CheckLabels refuses labels of a caller that are not valid, or reserved for linesman. The
// error is [api.Validation], and quotes none.
func CheckLabels(labels runs.Labels) error {
	for name := range labels.Map() {
		if strings.HasPrefix(name, "linesman.") {
			return api.Invalid(api.FieldLabels, "names that begin with linesman. are reserved")
		}
	}
	if labels.Check() != nil {
		return api.Invalid(api.FieldLabels, "must be few and short: see the limits of labels")
	}
	return nil
}

// checkBoth checks what submissions to a worker and to Codex Cloud have in common.
func (s *Service) checkBoth(m *mistakes, prompt string, destructive bool, w *api.Webhook) {
	m.when(s.cfg.GitGate && !destructive && risky().MatchString(prompt), "allowDestructiveGit",
		"must be true: the task names a git command that may lose work")
	if w != nil && s.cfg.Webhooks != nil {
		var wrong mistakes
		rest := wrong.fields(s.cfg.Webhooks.Check(registration(w, "")))
		m.add(wrong, webhookField)
		m.when(rest != nil, api.FieldWebhook, "is no configuration of a webhook")
	}
}

// agentKind returns the kind of an agent that is named by its kind or its short name, and
// any other name as it is.
func (s *Service) agentKind(name string) string {
	if a, known := s.cfg.Agents.Find(name); known {
		return a.Kind()
	}
	return name
}

// task is the task of a submission.
func (s *Service) task(q api.Submission) runs.Task {
	q, _ = extended(q)
	t := q.Task
	t.Title, t.Within = runs.Title(q.Title), q.Below
	if t.Unboxed = nil; q.IsUnboxed() {
		t.Unboxed, t.Mode = q.Unboxed, cmp.Or(t.Mode, runs.DangerFull)
	}
	switch {
	case t.Thread != "":
	case q.Resume != nil:
		t.Thread = q.Resume.ID
	case q.Fork != nil:
		t.ForkedFrom = q.Fork.ID
	}
	if t.Agent == "" {
		t.Agent = s.agentOf(t.Earlier())
	}
	if a, known := s.cfg.Agents.Find(t.Agent); known {
		if ask := q.NonInteractive; ask != nil && (t.Live || a.LiveOnly()) {
			t.Ask = cmp.Or(t.Ask, new(!*ask))
		}
		if t.Agent = a.Kind(); a.LiveOnly() && !t.Live {
			t.Live, t.Ask = true, cmp.Or(t.Ask, new(false)) // whoever did not ask for it does not answer
		}
	}
	switch t.Mode {
	case "":
		t.Mode = runs.ReadOnly
	case api.Preview:
		t.Mode, t.Prompt, t.Title = runs.ReadOnly, planOnly+t.Prompt, cmp.Or(t.Title, runs.Title(q.Prompt))
	}
	return t
}

// Submit checks a submission, and queues its task: see [Service.Queue].
func (s *Service) Submit(ctx context.Context, q api.Submission) (api.Submitted, error) {
	if err := s.CheckSubmit(q); err != nil {
		return s.before(ctx, q, err)
	}
	return s.Queue(ctx, q)
}

// before returns the outcome that a submission had with its key before it could not be taken any more, else why not.
func (s *Service) before(ctx context.Context, q api.Submission, why error) (api.Submitted, error) {
	if hash, err := hashOf(hashed(q)); err == nil {
		if done, again := s.Again(ctx, api.Once{Key: q.Once.Key, Hash: cmp.Or(q.Once.Hash, hash)}); again {
			return done, nil
		}
	}
	return api.Submitted{}, why
}

// hashed is what the hash of a submission is made of: what does not differ at each attempt.
func hashed(q api.Submission) api.Submission {
	q.Once, q.Webhook, q.Traceparent = api.Once{}, withoutSecret(q.Webhook), ""
	return q
}

// Queue queues the task of a submission in which [Service.CheckSubmit] found no mistake; with a key, once.
// Its webhook is registered before the run exists, so that no change of the run is missed.
func (s *Service) Queue(ctx context.Context, q api.Submission) (api.Submitted, error) {
	return s.QueueWith(ctx, q, nil)
}

// Subscription is what a submission registers beside its webhook: before its run exists, so that no change of the run
// is missed.
type Subscription interface {
	// Register registers it for a run.
	Register(ctx context.Context, run string) error
	// Unregister removes it again, of a run that was not submitted.
	Unregister(ctx context.Context, run string)
}

// QueueWith is [Service.Queue] with a subscription, unless that is nil.
func (s *Service) QueueWith(ctx context.Context, q api.Submission, more Subscription) (api.Submitted, error) {
	if err := s.CanNotify(q.Webhook); err != nil {
		return s.before(ctx, q, err)
	}
	task := s.task(q)
	t := s.placed(ctx, task)
	t.PlaceAddDirs()
	t.Labels = traced(ctx, q, t.Labels)
	if caller := Caller(ctx); caller != local {
		t.Labels = t.Labels.With(runs.LabelCaller, caller)
	}
	if err := t.Check(); err != nil { // with a directory and labels that are not the caller's words
		return api.Submitted{}, fixed(q, s.explain("submit", validation(err)))
	}
	id := cmp.Or(q.Run, runs.NewID(time.Now().UnixMilli(), rand.Uint64()))
	done, err := s.once(ctx, q.Once, hashed(q), id, submitLease, func(run string, again bool) (outcome, error) {
		return s.enqueue(ctx, runs.QueuedTask{Run: run, Task: t}, q, more, again || q.Run != "")
	})
	return done.submitted(), fixed(q, s.explain("submit", err))
}

// enqueue queues a task with a run id. Again means that an earlier attempt with this
// id may have queued it already, which is then no error.
func (s *Service) enqueue(ctx context.Context, t runs.QueuedTask, q api.Submission, more Subscription, again bool,
) (outcome, error) {
	if again && (q.Resume.Last() || q.Fork.Last()) { // the last thread is perhaps that of this run now
		switch v, err := s.table.Look(ctx, t.Run); {
		case err == nil && v.State == runs.StateQueued: // perhaps in no queue
			t.Thread, t.ForkedFrom, t.Dir, q.Resume, q.Fork = v.Thread, v.ForkedFrom, v.Dir, nil, nil
		case !errors.Is(err, runs.ErrNoRun):
			return s.queued(ctx, t)
		}
	}
	t, err := s.earlier(ctx, t, q)
	if err == nil {
		err = s.taken(ctx, t, q.Force)
	}
	if err != nil {
		return outcome{}, err
	}
	w := q.Webhook
	if err := s.Register(ctx, t.Run, w); err != nil {
		return outcome{}, err
	}
	if more != nil {
		if err := more.Register(ctx, t.Run); err != nil {
			return outcome{}, err
		}
	}
	ticket, err := s.table.Submit(ctx, q.Queue, t)
	if err == nil {
		return outcome{
			Run: ticket.Run, At: ticket.At, Position: ticket.Position, Thread: t.Thread, Basis: s.Basis(),
			Governance: t.Governance, Context: t.Labels.Value(runs.LabelContext),
		}, nil
	}
	if again && errors.Is(err, runs.ErrKnownRun) { // the earlier attempt failed after it had queued the task
		done, err := s.queued(ctx, t)
		if errors.Is(err, runs.ErrNoRun) { // its entry is being written, or never will be
			err = unavailable("a task with this run id is being submitted", err)
		}
		return done, err
	}
	err = validation(err)
	if !again && nothingDone(err) { // else an earlier attempt may have submitted it
		s.unregister(ctx, t.Run, w)
		if more != nil {
			more.Unregister(context.WithoutCancel(ctx), t.Run)
		}
	}
	return outcome{}, err
}

// queued is the outcome of a task that an earlier attempt has queued. The error is [runs.ErrNoRun] if there is none.
func (s *Service) queued(ctx context.Context, t runs.QueuedTask) (outcome, error) {
	v, err := s.table.Look(ctx, t.Run)
	return outcome{
		Run: t.Run, At: v.Begun(), Position: v.Before(), Thread: cmp.Or(t.Thread, v.Thread), Basis: s.Basis(),
		Governance: t.Governance, Context: cmp.Or(v.Labels, t.Labels).Value(runs.LabelContext), replayed: true,
	}, err
}

// placed returns the task with its directory: its own, that of the thread it
// resumes, or that of the caller; "": the worker decides.
func (s *Service) placed(ctx context.Context, t runs.Task) runs.Task {
	if earlier := t.Earlier(); t.Dir == "" && earlier != "" {
		v, _ := s.table.Thread(earlier)
		t.Dir = v.Dir
	}
	if t.Dir == "" {
		t.Dir, _ = ctx.Value(dirKey{}).(string)
	}
	return t
}

// CanNotify returns [api.Unsupported] for a webhook if this process sends none, or cannot sign its notifications.
func (s *Service) CanNotify(w *api.Webhook) error {
	switch {
	case w == nil:
		return nil
	case s.cfg.Webhooks == nil:
		return notOffered(api.FieldWebhook, "notifications are not sent from here")
	case s.cfg.Webhooks.CanSign(registration(w, "")) != nil:
		return NoKey(api.FieldWebhook + ".authentication")
	}
	return nil
}

// NoKey is the error of a webhook whose notifications would need a key. The field is that of its authentication.
func NoKey(field string) *api.Error {
	e := notOffered(field, webhook.ErrNoKey.Error())
	e.Suggestion = "name a scheme, Bearer or HMAC-SHA256, and its credentials"
	return e
}

// Register stores the webhook of a run, which need not exist yet; nil: none.
func (s *Service) Register(ctx context.Context, run string, w *api.Webhook) error {
	if w == nil {
		return nil
	}
	if err := s.CanNotify(w); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return s.explain("register a webhook", s.cfg.Webhooks.Put(ctx, registration(w, run)))
}

// unregister removes the webhook of a run that was not submitted. If that fails,
// the webhook expires later.
func (s *Service) unregister(ctx context.Context, run string, w *api.Webhook) {
	if w == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := s.cfg.Webhooks.Delete(ctx, run, webhook.AdCP); err != nil && !errors.Is(err, webhook.ErrUnknown) {
		s.log.Warn("the webhook of a task that was not submitted stays until it expires", zap.String("run", run),
			zap.Error(err))
	}
}

// Cancel cancels a run; with a key, once. The error is [api.Ended] for a run that has
// ended, and [api.NotFound] for an unknown run; with a key the outcome for a removed
// run may still be stored. For a task of Codex Cloud, and for a session that linesman
// did not start, it is [api.Unsupported].
func (s *Service) Cancel(ctx context.Context, q api.Cancel) (api.Cancelled, error) {
	v, missing := s.Look(ctx, q.Run)
	if e, ok := errors.AsType[*api.Error](missing); ok && (e.Code != api.NotFound || q.Once.Key == "") {
		return api.Cancelled{}, missing
	}
	if missing == nil && IsCloud(v) {
		return api.Cancelled{}, s.cloudCancel(ctx, v)
	}
	if missing == nil && v.Source == runs.SourceSession && !v.State.Final() {
		return api.Cancelled{}, &api.Error{
			Code: api.Unsupported, Run: q.Run, State: v.State,
			Message:    "linesman did not start this agent, and cannot end it: end it where it runs",
			Suggestion: "`linesman unfollow " + q.Run + "` ends its run",
		}
	}
	hashed := q
	hashed.Once = api.Once{}
	done, err := s.once(ctx, q.Once, hashed, q.Run, cancelLease, func(_ string, again bool) (outcome, error) {
		if missing != nil {
			return outcome{}, missing
		}
		c, err := s.table.Cancel(ctx, q.Run, q.Reason)
		done := outcome{Run: q.Run, At: time.Now().UnixMilli(), State: c.State, Before: c.Before, Basis: s.Basis()}
		over, ok := errors.AsType[*runtable.EndedError](err)
		if again && ok && over.State == runs.StateCancelled { // by the attempt that failed
			done.State, done.replayed = over.State, true
			return done, nil
		}
		return done, s.explainRun(q.Run, "cancel", err)
	})
	return done.cancelled(), s.explainRun(q.Run, "cancel", err)
}
