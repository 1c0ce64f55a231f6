package worker

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

// Queue gives out the tasks that were submitted, the oldest first.
type Queue interface {
	// Next waits for a task. The error is ctx's.
	Next(ctx context.Context) (Delivery, error)
}

// Delivery is a task in our hands. Without Done or Later it is given to
// somebody else after a while.
type Delivery interface {
	Task() (runs.Task, error) // the error says that it cannot be read
	Work() uint64             // its place in the queue
	Times() int               // how often it was given out, this time counted
	Done() error              // it need not be given out again
	Later(after time.Duration) error
}

// Tasks says which tasks a worker takes, and how it runs them.
type Tasks struct {
	Queue    Queue
	Name     string              // of the queue
	Slots    int                 // how many run at a time
	Commands map[string][]string // what starts an agent, by its kind: at least a program
	Rules    launch.Rules
	Pass     []string // environment variables that every agent gets
	Environ  []string // the worker's own
	Limits   Limits   // where a task says nothing
	MaxLimit time.Duration
}

// Serve takes tasks and runs them until ctx ends; then it returns nil, and
// leaves what runs to the next owner of the directories. Adopt must be at work
// beside it: what it finds counts, too.
func (w *Worker) Serve(ctx context.Context, t Tasks) error {
	var going sync.WaitGroup
	defer going.Wait()
	select {
	case <-w.adopted:
	case <-ctx.Done():
		return nil
	}
	for {
		for w.Tasks() >= t.Slots {
			select {
			case <-w.freed:
			case <-ctx.Done():
				return nil
			}
		}
		if sleep(ctx, w.trouble.rest()) != nil { // what could not be driven is ours all the same
			return nil
		}
		d, err := t.Queue.Next(ctx)
		if err != nil {
			return nil
		}
		r, err := w.take(ctx, t, d)
		switch {
		case err != nil:
			w.trouble.had() // what is in the way may be ours
			if w.trouble.new() {
				w.log.Error("take a task", zap.Uint64("work", d.Work()), zap.Error(err))
			}
			_ = d.Later(retryTask)
		case r != nil:
			going.Go(func() { w.task(ctx, r, d) })
		}
	}
}

// retryTask is when a task that could not be taken comes again.
const retryTask = 5 * time.Second

// take makes the run of a task, not yet begun; nil where there is nothing to run.
func (w *Worker) take(ctx context.Context, t Tasks, d Delivery) (*Run, error) {
	task, err := d.Task()
	if err != nil { // it was checked before it was queued
		w.log.Error("a task that nobody can run", zap.Uint64("work", d.Work()), zap.Error(err))
		return nil, d.Done()
	}
	if wanted, err := w.wanted(ctx, task, d); !wanted || err != nil {
		return nil, err
	}
	spec, err := t.spec(w.cfg.Root, task)
	if err != nil {
		w.log.Warn("task refused", zap.String("run", task.Run), zap.Error(err), zap.Strings("work.roots", t.Rules.Allowed()))
		return nil, w.refuse(ctx, task, d, err)
	}
	spec.Queue, spec.Work = t.Name, d.Work()
	dir, err := Create(w.cfg.Root, spec)
	if errors.Is(err, fs.ErrExist) { // it came before, and somebody here is about to begin it
		return nil, d.Later(retryTask)
	}
	if err != nil {
		return nil, err
	}
	r := w.Run(dir)
	r.begun = func() { _ = d.Done() } // if that is lost it comes again, and is known
	w.enter(r)
	return r, nil
}

// task drives the run of a task.
func (w *Worker) task(ctx context.Context, r *Run, d Delivery) {
	_, err := r.Drive(ctx)
	switch {
	case err == nil:
		w.trouble.over()
	case ctx.Err() != nil:
	case errors.Is(err, ErrKnown), errors.Is(err, ErrEnded):
		_ = d.Done() // somebody else has it, or nobody wants it any more
	default: // Adopt finds the directory
		w.trouble.had()
		w.log.Error("drive task", zap.String("run", r.dir.Spec.Run), zap.Error(err))
	}
}

// mostTries is how often a task is looked at that has no queued entry: for
// about as many seconds. Who submitted it has been told long ago that it failed.
const mostTries = 30

// wanted reports whether a task is to be begun, as far as its log says: it was
// submitted, and nobody has begun it, or wants it no more. Otherwise it sees
// to it that it comes no more, or later.
func (w *Worker) wanted(ctx context.Context, task runs.Task, d Delivery) (bool, error) {
	const looks, pause = 10, 20 * time.Millisecond
	for range looks {
		log, err := w.cfg.Logs.Open(ctx, task.Agent, task.Run, runs.Mark{})
		if err != nil {
			return false, err
		}
		switch m := log.Mark(); {
		case m.Started, m.Cancelled, m.Exited, m.Work != 0 && m.Work != d.Work():
			return false, d.Done()
		case m.Seq != 0:
			return true, nil
		}
		if err := sleep(ctx, pause); err != nil { // its entry is stored right after the task
			return false, err
		}
	}
	if d.Times() > mostTries {
		w.log.Warn("a task whose submission failed is dropped", zap.String("run", task.Run))
		return false, d.Done()
	}
	return false, d.Later(time.Second)
}

// refuse ends a run that the rules of this worker do not allow.
func (w *Worker) refuse(ctx context.Context, task runs.Task, d Delivery, why error) error {
	log, err := w.cfg.Logs.Open(ctx, task.Agent, task.Run, runs.Mark{})
	if err != nil {
		return err
	}
	ex := runs.Exit{Reason: runs.ReasonSpawn, Spawn: runs.SpawnRefused}
	var field *runs.FieldError
	if errors.As(why, &field) && field.Field == "workingDir" {
		ex.Spawn = runs.SpawnNoDir
	}
	for m := log.Mark(); !m.Started && !m.Cancelled && !m.Exited; m = log.Mark() {
		err := log.Append(ctx, runs.Entry{Kind: runs.Exited, Time: time.Now().UnixMilli(), Body: runs.Encode(ex)})
		if err != nil && !errors.Is(err, runs.ErrMoved) {
			return err
		}
	}
	return d.Done()
}

// spec is the run directory of a task.
func (t Tasks) spec(root string, task runs.Task) (Spec, error) {
	command := t.Commands[task.Agent]
	if len(command) == 0 {
		return Spec{}, &runs.FieldError{Field: "agent", Problem: "this worker has no command for it"}
	}
	if err := t.Rules.Allow(task); err != nil {
		return Spec{}, err
	}
	dir, err := t.Rules.Directory(task)
	if err != nil {
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
		Run: task.Run, Agent: task.Agent, Source: SourceQueue, Labels: task.Labels, Dir: dir,
		Env: launch.Environ(task.Env, t.Pass, t.Environ), Limits: limits, Schema: task.Schema,
	}
	schema := ""
	if len(task.Schema) > 0 {
		schema = SchemaFile(root, task.Run)
	}
	switch task.Agent {
	case "codex":
		if err := launch.CheckCodex(task); err != nil {
			return Spec{}, err
		}
		spec.Argv = launch.Codex(command, task, schema)
	default:
		return Spec{}, &runs.FieldError{Field: "agent", Problem: "nobody knows how to start it"}
	}
	return spec, nil
}
