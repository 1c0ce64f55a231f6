package worker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

// queue delivers submitted tasks, the oldest first.
type queue interface {
	// Next waits for a task. It fails only when ctx ends.
	Next(ctx context.Context) (Delivery, error)
}

// Delivery is a task that was delivered to this worker. Unless Done or Later
// is called, the task is redelivered after a while.
type Delivery interface {
	Task() (runs.QueuedTask, error)  // fails for a task that cannot be read
	Work() uint64                    // position of the task in the queue
	Times() int                      // number of deliveries, including this one
	Done() error                     // acknowledges the task
	Later(after time.Duration) error // requests redelivery
}

// Tasks configures which tasks a worker takes and how it runs them.
type Tasks struct {
	Queue    queue
	Name     string                  // of the queue
	Slots    int                     // maximum of tasks that run at a time
	Agents   map[string]agent.Launch // by kind; each has a Command
	Rules    launch.Rules
	Environ  []string // environment of the worker
	Policy   []string // rules for what agents ask, see [acp.ParseRule]
	Always   bool     // see [runs.Start]
	Limits   Limits   // for values that a task does not set
	MaxLimit time.Duration
}

// Serve takes tasks and runs them until ctx ends, then it returns nil and
// leaves running tasks to the next owner of their directories. Adopt must run
// at the same time: adopted tasks use slots, too.
func (w *Worker) Serve(ctx context.Context, t Tasks) error {
	w.slots.Store(int64(t.Slots))
	var tasks sync.WaitGroup
	defer tasks.Wait()
	select {
	case <-w.adopted:
	case <-ctx.Done():
		return nil
	}
	for {
		for w.Tasks() >= t.Slots {
			select {
			case <-w.slotFreed:
			case <-ctx.Done():
				return nil
			}
		}
		if sleep(ctx, w.taskRetry.remaining()) != nil { // tasks that could not be driven still belong to this worker
			return nil
		}
		d, err := t.Queue.Next(ctx)
		if err != nil {
			return nil
		}
		r, err := w.take(ctx, t, d)
		switch {
		case err != nil:
			if w.taskRetry.failed() { // the error may be local and affect all tasks
				w.log.Error("take task", zap.Uint64("work", d.Work()), zap.Error(err))
			}
			_ = d.Later(retryTask)
		case r != nil:
			tasks.Go(func() { w.task(ctx, r, d) })
		}
	}
}

// Adopted reports whether Adopt has found the runs of the data directory: Serve takes no
// task before that.
func (w *Worker) Adopted() bool {
	select {
	case <-w.adopted:
		return true
	default:
		return false
	}
}

// retryTask is the redelivery delay of a task that could not be taken.
const retryTask = 5 * time.Second

// take creates the run of a task, or returns nil if there is nothing to run.
func (w *Worker) take(ctx context.Context, t Tasks, d Delivery) (*Run, error) {
	task, err := d.Task()
	if err != nil { // it was valid when it was submitted
		w.log.Error("dropped a task that cannot be read", zap.Uint64("work", d.Work()), zap.Error(err))
		return nil, d.Done()
	}
	if ok, err := w.runnable(ctx, task, d); !ok || err != nil {
		return nil, err
	}
	spec, err := t.spec(w.cfg.Root, task)
	if err != nil {
		w.log.Warn("task refused", zap.String("run", task.Run), zap.Error(err), zap.Strings("work.roots", t.Rules.Allowed()))
		return nil, w.refuse(ctx, task, d, err, t.Rules.Why(task.Task, err))
	}
	spec.Queue, spec.Work = t.Name, d.Work()
	dir, err := w.create(spec)
	if held, is := errors.AsType[*heldError](err); is {
		log, err := w.cfg.Logs.Open(ctx, spec.Agent, held.run, runs.Mark{})
		if err != nil {
			return nil, err
		}
		if log.Mark().Exited { // its directory is removed in a moment
			return nil, d.Later(unqueuedDelay(d.Times()))
		}
		w.log.Warn("task refused", zap.String("run", task.Run), zap.Error(err))
		return nil, w.refuse(ctx, task, d, held, held.Error())
	}
	if errors.Is(err, fs.ErrExist) { // redelivered while the run of the first delivery is starting
		return nil, d.Later(retryTask)
	}
	if err != nil {
		return nil, err
	}
	r := w.Run(dir)
	r.onStarted = func() { _ = d.Done() } // if the acknowledgement is lost, the redelivery finds the start entry
	w.register(r)
	return r, nil
}

// task drives the run of a task.
func (w *Worker) task(ctx context.Context, r *Run, d Delivery) {
	_, err := r.Drive(ctx)
	switch {
	case err == nil:
		w.taskRetry.succeeded()
	case ctx.Err() != nil:
	case errors.Is(err, ErrKnown), errors.Is(err, ErrEnded):
		_ = d.Done() // another worker has it, or it was cancelled
	default: // Adopt finds the directory and retries
		_ = w.taskRetry.failed()
		w.log.Error("drive task", zap.String("run", r.dir.Spec.Run), zap.Error(err))
	}
}

// maxUnqueuedTries is the number of deliveries, in 36 s, after which a task without
// a queued entry is dropped: its submission failed long ago.
const maxUnqueuedTries = 12

// unqueuedDelay is the redelivery delay of a task without a queued entry.
func unqueuedDelay(times int) time.Duration {
	const first, longest = 100 * time.Millisecond, 5 * time.Second
	return min(first<<min(times-1, 10), longest)
}

// runnable reports whether the raw log allows the task to be started: it is
// queued, and neither started nor cancelled. Otherwise the task is
// acknowledged, or redelivered later. It waits for the queued entry only at the
// first delivery: the tasks behind this one wait, too.
func (w *Worker) runnable(ctx context.Context, task runs.QueuedTask, d Delivery) (bool, error) {
	const soon, pause = 200 * time.Millisecond, 20 * time.Millisecond
	for began := time.Now(); ; {
		log, err := w.cfg.Logs.Open(ctx, task.Agent, task.Run, runs.Mark{})
		if err != nil {
			return false, err
		}
		switch m := log.Mark(); {
		case m.Started, m.Cancelled, m.Exited, m.Work > d.Work():
			return false, d.Done()
		case m.Seq != 0 && (m.Work == 0 || m.Work == d.Work()): // else it was queued again, and its entry follows
			return true, nil
		}
		if d.Times() > 1 || time.Since(began) > soon {
			break
		}
		if err := sleep(ctx, pause); err != nil { // the queued entry is stored right after the task
			return false, err
		}
	}
	if d.Times() > maxUnqueuedTries {
		w.log.Warn("dropped a task whose submission failed", zap.String("run", task.Run))
		return false, d.Done()
	}
	return false, d.Later(unqueuedDelay(d.Times()))
}

// refuse ends the run of a task that the rules of this worker do not allow. Text says why
// for people.
func (w *Worker) refuse(ctx context.Context, task runs.QueuedTask, d Delivery, why error, text string) error {
	log, err := w.cfg.Logs.Open(ctx, task.Agent, task.Run, runs.Mark{})
	if err != nil {
		return err
	}
	ex := runs.Exit{Reason: runs.ReasonSpawn, Spawn: runs.SpawnRefused, Why: text}
	var field *runs.FieldError
	switch {
	case errors.As(why, &field) && field.Field == "workingDir":
		ex.Spawn = runs.SpawnNoDir
	case errors.Is(why, errNoSession):
		ex.Spawn = runs.SpawnNoSession
	}
	for m := log.Mark(); !m.Started && !m.Cancelled && !m.Exited; m = log.Mark() {
		err := log.Append(ctx, runs.Entry{Kind: runs.Exited, Time: time.Now().UnixMilli(), Body: runs.Encode(ex)})
		if err != nil && !errors.Is(err, runs.ErrMoved) {
			return err
		}
	}
	return d.Done()
}

// errNoSession reports a thread to resume of which the agent has no session here.
var errNoSession = errors.New(runs.NoSession)

// hasSession reports whether an agent with an environment has a session of a thread, by the names of
// its files. It is true if that is not certain: the agent itself looks again.
func hasSession(s agent.Sessions, thread string, env []string) bool {
	if len(s.Files) == 0 || !agent.IsUUID(thread) {
		return true
	}
	root, err := s.Root(func(name string) string { return launch.Value(env, name) })
	if err != nil {
		return true
	}
	if _, err := os.ReadDir(root); err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return slices.ContainsFunc(s.Of(thread), func(pattern string) bool {
		found, err := filepath.Glob(filepath.Join(globbed.Replace(root), pattern))
		return err != nil || len(found) > 0
	})
}

// globbed quotes a path for patterns.
var globbed = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)

// spec returns the Spec of a task.
func (t Tasks) spec(root string, task runs.QueuedTask) (Spec, error) {
	how, known := t.Agents[task.Agent]
	if !known {
		return Spec{}, &runs.FieldError{Field: "agent", Problem: "is not a kind that this worker can start"}
	}
	if err := t.Rules.Allow(task.Task); err != nil {
		return Spec{}, err
	}
	dir, err := t.Rules.Directory(task.Task)
	if err != nil {
		return Spec{}, err
	}
	for _, id := range task.Needs() {
		if !slices.Contains(how.Capabilities(t.Rules.Allows()...), id) {
			return Spec{}, &runs.FieldError{Field: "agent", Problem: "does not have the capability " + id + " here"}
		}
	}
	if task.AddDirs, err = t.Rules.AddDirs(task.Task); err != nil {
		return Spec{}, err
	}
	task.Dir = dir
	limits := t.Limits
	for _, l := range []struct {
		asked int64
		to    *time.Duration
	}{{task.Idle, &limits.Idle}, {task.Hard, &limits.Hard}} {
		if l.asked > 0 {
			*l.to = min(time.Duration(min(l.asked, 1<<31))*time.Second, t.MaxLimit)
		}
	}
	spec := Spec{
		Run: task.Run, Source: runs.SourceQueue, Attributes: task.OfRun(), Limits: limits, Schema: task.Schema,
	}
	spec.Env = launch.Environ(task.Env, how.Env, t.Environ)
	spec.Withheld = how.Withheld(t.Environ, spec.Env)
	live := task.Live || how.Args == nil && len(how.ACP) > 0
	if task.ForkedFrom != "" && (live || !how.Can(runs.CanFork)) {
		return Spec{}, &runs.FieldError{Field: "fork", Problem: "is not for this agent, or not with live"}
	}
	if live {
		return t.live(spec, how, task)
	}
	schema := ""
	if len(task.Schema) > 0 {
		schema = schemaPath(root, task.Run)
	}
	if how.Check != nil {
		if err := how.Check(task.Task); err != nil {
			return Spec{}, err
		}
	}
	if !hasSession(how.Logs, task.Earlier(), spec.Env) {
		return Spec{}, errNoSession
	}
	spec.Argv = how.Argv(task.Task, schema)
	spec.Unboxed, spec.Flags = task.IsUnboxed(), how.FlagsOf(&task.Task)
	if how.OnStdin(task.Prompt) {
		spec.setInput(task.Prompt)
	}
	if how.Set != nil {
		spec.Env = launch.Override(spec.Env, how.Set(task.Task))
	}
	spec.Env = launch.Override(spec.Env, launch.Trace(task))
	return spec, nil
}

// live returns the Spec of a task for an agent that speaks the Agent Client Protocol. The prompt, which is a
// line of the conversation, is in a file until then.
func (t Tasks) live(spec Spec, how agent.Launch, task runs.QueuedTask) (Spec, error) {
	if !hasSession(how.Logs, task.Thread, spec.Env) {
		return Spec{}, errNoSession
	}
	if len(how.ACP) == 0 {
		return Spec{}, &runs.FieldError{Field: "live", Problem: "is not for this agent: it has no command for the protocol"}
	}
	for _, id := range task.Needs() {
		if !slices.Contains(how.AbleLive, id) {
			return Spec{}, &runs.FieldError{Field: "live", Problem: "does not have the capability " + id}
		}
	}
	spec.Live, spec.Ask, spec.Argv, spec.AddDirs = true, task.Asks(), how.ACP, task.AddDirs
	if err := acp.CheckTask(&task.Task); err != nil {
		return Spec{}, err
	}
	spec.Policy, spec.Narrows, spec.Always, spec.Keep = t.Policy, task.Policy, t.Always, task.Keep
	spec.setInput(task.Prompt)
	if how.SetLive != nil {
		spec.Env = launch.Override(spec.Env, how.SetLive(task.Task))
	}
	spec.Env = launch.Override(spec.Env, launch.Trace(task))
	return spec, nil
}

// setInput sets a prompt that the agent gets on stdin.
func (s *Spec) setInput(prompt string) {
	s.Input, s.PromptBytes = strings.NewReader(prompt), len(prompt)
	s.Prompt = prompt[:bounds.Cut(prompt, runs.DetailWindow)]
}
