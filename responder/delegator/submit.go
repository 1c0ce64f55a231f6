package delegator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/runs"
)

// agent is whom the local tools give their tasks.
const agent = "codex"

// preview is what a prompt begins with in mode preview.
const preview = "Plan only: say which steps you would take and which files you would change. Change nothing.\n\n"

// taskFields are the fields of a [runs.Task] by the parameters they come from.
var taskFields = map[string]string{
	"prompt": "task", "mode": "mode", "dir": "workingDir", "model": "model", "thread": "threadId", "output_schema": "outputSchema",
	"governance_context": "governance_context",
	"env.policy":         "envPolicy", "env.allow": "envAllowList", "idle_s": "idleTimeoutSec", "hard_s": "timeoutSec",
}

// checkTask adds what is wrong with a task as a whole.
func checkTask(c *call) {
	a := c.args
	if a.text("mode") == "preview" {
		most := runs.MaxPrompt - utf8.RuneCountInString(preview)
		if n := utf8.RuneCountInString(a.text("task")); n > most {
			a.refuse("task", "at most %d characters in mode preview, got %d", most, n)
		}
	}
	t := c.task()
	t.Run = "T-local-unnamed" // it gets an id of its own
	if err := a.fields(t.Check(), taskFields); err != nil {
		a.wrong("arguments", "ask for a task that cannot be queued")
	}
	if t.Mode.Writes() && !a.flag("confirm") {
		a.refuse("confirm", "must be true for mode %s: the agent may change files", t.Mode)
	}
	if a.param("envAllowList") != nil && a.has("envAllowList") && a.text("envPolicy") != runs.InheritList {
		a.refuse("envAllowList", "is for envPolicy allow-list only")
	}
	if a.param("threadId") != nil && a.text("threadId") != "" && !uuid.MatchString(a.text("threadId")) {
		// Codex takes any other text for a name, and begins a new thread where none has it.
		a.refuse("threadId", "must be the id of a thread, a UUID")
	}
	if thread := a.text("context_id"); thread != "" {
		switch {
		case !uuid.MatchString(thread):
			a.refuse("context_id", "must be the id of a thread, a UUID")
		case a.param("threadId") != nil && !strings.EqualFold(thread, a.text("threadId")):
			a.refuse("context_id", "is another thread than threadId")
		}
	}
	c.checkGit()
	c.checkPush()
}

var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// risky are git commands that may lose work.
var risky = regexp.MustCompile(`(?i)\bgit\s+(reset\s+--(hard|merge)|clean\s+-\w*f|push\s+([^\n]*\s)?(-f\b|--force|--delete|--mirror)|rebase\b|filter-(branch|repo)\b|` +
	`branch\s+-D\b|stash\s+(drop|clear)|reflog\s+(expire|delete)|update-ref\s+-d|checkout\s+(--|\.)|restore\b|commit\s+[^\n]*--amend)`)

func (c *call) checkGit() {
	if c.GitGate && !c.args.flag("allow_destructive_git") && risky.MatchString(c.args.text("task")) {
		c.args.refuse("allow_destructive_git", "must be true: the task names a git command that may lose work")
	}
}

// task is what the arguments ask for.
func (c *call) task() runs.Task {
	a := c.args
	t := runs.Task{
		Agent: agent, Prompt: a.text("task"), Mode: runs.Mode(a.text("mode")), Model: a.text("model"),
		Schema: a.raw("outputSchema"), Idle: a.number("idleTimeoutSec"), Hard: a.number("timeoutSec"),
	}
	if t.Mode == "preview" {
		t.Mode, t.Prompt = runs.ReadOnly, preview+t.Prompt
	}
	if a.param("workingDir") != nil {
		t.Dir, t.SkipGit = a.text("workingDir"), a.flag("skipGitRepoCheck")
	}
	if a.param("envPolicy") != nil {
		t.Env = runs.EnvPolicy{Policy: a.text("envPolicy"), Allow: a.list("envAllowList")}
	}
	if a.param("threadId") != nil {
		t.Thread = a.text("threadId")
	} else if thread := a.text("context_id"); uuid.MatchString(thread) {
		t.Thread = thread
	}
	t.Governance = a.text("governance_context")
	return t
}

// submit puts the task of the arguments on the queue, once where the caller has
// a key for it.
func (c *call) submit(ctx context.Context) (outcome, error) {
	if err := c.canPush(); err != nil {
		return outcome{}, err
	}
	t, err := c.onThread(c.task())
	if err != nil {
		return outcome{}, err
	}
	return c.once(ctx, runs.LocalID(c.begun.UnixMilli(), rand.Uint64()), submitLease, func(claim adcp.Claim) (outcome, error) {
		t.Run = claim.Run
		if !c.foreground() { // before the run: nothing that becomes of it is missed, whatever is killed when
			if err := c.register(ctx, t.Run); err != nil {
				return outcome{}, err
			}
		}
		ticket, err := c.Responder.Submit(ctx, t)
		done := outcome{Run: ticket.Run, At: ticket.At, Position: ticket.Position, Thread: t.Thread, Stream: c.basis(), Governance: t.Governance}
		if err == nil {
			return done, nil
		}
		if claim.Again && errors.Is(err, runs.ErrKnownRun) { // whoever began it was killed, or cut off, once it was there
			c.again = true
			v, err := c.Responder.Look(ctx, claim.Run)
			done.Run, done.At, done.Position = claim.Run, started(v.Row), v.Position
			return done, err
		}
		rest := c.args.fields(err, taskFields)
		if !claim.Again && (rest == nil || errors.Is(rest, runs.ErrQueueFull)) { // else an earlier attempt may have submitted it
			c.unregister(ctx, t.Run)
		}
		if rest != nil {
			return outcome{}, rest
		}
		return outcome{}, c.args.err()
	})
}

// foreground reports whether the answer to the call tells how the task ended.
func (c *call) foreground() bool { return c.args.param("async") != nil && !c.args.flag("async") }

// ackData says that a task was taken.
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
	Stream *basis `json:"stream,omitempty"`

	// Of a task that has ended.
	State   string `json:"state,omitempty"`
	Summary string `json:"summary,omitempty"`

	CloudID     string `json:"cloud_id,omitempty"`
	WebURL      string `json:"web_ui_url,omitempty"`
	Environment string `json:"environment,omitempty"`
}

type ackMeta struct {
	Position *int `json:"queue_position,omitempty"` // how many wait before it
}

func exec(c *call, ctx context.Context) (*reply, error) {
	done, err := c.submit(ctx)
	if err != nil {
		return nil, err
	}
	return c.queued(done), nil
}

// onThread is a task in the directory of the thread that it goes on with, or
// else in that of the configuration, unless it names one.
func (c *call) onThread(t runs.Task) (runs.Task, error) {
	if t.Dir == "" && t.Thread != "" {
		v, _ := c.Responder.Thread(strings.ToLower(t.Thread))
		t.Dir = v.Dir
	}
	if t.Dir != "" || c.Dir == nil {
		return t, nil
	}
	var err error
	if t.Dir, err = c.Dir(); err != nil {
		return t, invalid("workingDir", "none given, and the working directory of this server is gone", details{})
	}
	return t, nil
}

func resume(c *call, ctx context.Context) (*reply, error) {
	done, err := c.submit(ctx)
	if err != nil {
		return nil, err
	}
	return c.queued(done), nil
}

func run(c *call, ctx context.Context) (*reply, error) {
	ticket, err := c.submit(ctx)
	if err != nil {
		return nil, err
	}
	if !c.foreground() {
		return c.queued(ticket), nil
	}
	v, err := c.follow(ctx, ticket.Run)
	if v.State == "" {
		v.ID, v.State = ticket.Run, runs.StateQueued // it was taken, whatever the table says of it
	}
	if ctx.Err() != nil {
		if err := c.register(context.WithoutCancel(ctx), v.ID); err != nil {
			c.log.Warn("nobody is told how a task ends", zap.String("run", v.ID), zap.Error(err))
		}
		return nil, c.late(v)
	}
	if err != nil {
		return nil, err
	}
	record, err := c.Responder.Record(ctx, v.ID)
	if err != nil {
		return nil, err
	}
	if record.State == runs.StateTimeout {
		return nil, c.timedOut(ctx, record)
	}
	const most = 20_000 // bytes of output on the page
	result, err := c.result(ctx, record, resultOptions{output: true, most: most})
	if err != nil {
		return nil, err
	}
	d := &ackData{
		TaskID: record.ID, ThreadID: record.Thread, Accepted: true, Capability: "foreground", StartedAt: moment(ticket.At),
		title: "Task ended", result: result, Ext: &ackExt{Stream: c.basis(), State: string(record.State), Summary: result.Summary},
	}
	if c.args.text("mode") == "preview" {
		d.title = "Plan (Preview)"
	}
	return &reply{meta: ackMeta{}, data: d, of: ofRecord(record)}, nil
}

// queued is the answer to a task that goes on in the background.
func (c *call) queued(done outcome) *reply {
	position := done.Position
	return &reply{meta: ackMeta{&position}, of: ofSubmission(done), data: &ackData{
		TaskID: done.Run, ThreadID: done.Thread, Accepted: true, Capability: "background", StartedAt: moment(done.At),
		title: "Task queued", wait: "local", queue: &position, Ext: extOf(done.Stream),
	}}
}

func extOf(b *basis) *ackExt {
	if b == nil {
		return nil
	}
	return &ackExt{Stream: b}
}

// timedOut is the error of a foreground task whose time was over.
func (c *call) timedOut(ctx context.Context, r *runs.Record) error {
	elapsed := lasted(r.Row()) / 1000
	f := &failure{wireError{
		Code: codeTimeout, Message: fmt.Sprintf("the task exceeded its %s limit", r.Reason), Duration: lasted(r.Row()),
		Details: details{TaskID: r.ID, State: string(r.State), TimeoutType: r.Reason, Elapsed: &elapsed},
	}}
	p, err := c.partial(ctx, r, 64<<10)
	if err != nil { // that its time was over is what counts
		c.log.Warn("the output of a timeout cannot be read", zap.String("run", r.ID), zap.Error(err))
		return f
	}
	f.Details.Partial = p
	return f
}

func (d *ackData) markdown(p *page) {
	p.heading(d.title)
	p.fact("Task", code(d.TaskID))
	p.fact("Capability", d.Capability)
	if d.result == nil { // it tells that itself
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
