// Package responder is the service behind every surface: all that can be asked
// of linesman about runs, in types. It owns what a request means: defaults,
// checks, idempotency keys, webhooks, the continuation of threads, limits, and
// which error is given. It reads no JSON of a protocol and writes none.
//
//	tools (MCP, NATS)   REST   A2A          surfaces: decode, call, encode
//	        └───────────┼───────┘
//	                 Service                api types in, api types out
//	      ┌─────────┬───┴────┬─────────┐
//	  runtable  idempotency  push    cloud
//	      └── streams: RAW, RUNS, EVENTS, WORK
//
// The one rule: every error that leaves the service is an [*api.Error], and
// quotes nothing of a request.
package responder

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/codexcloud"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
)

// Streams is what a service needs of the bus.
type Streams interface {
	runtable.Streams

	// EventsAfter calls each with the events of a run behind a sequence, the
	// completion being one; with follow also with those that come, until ctx ends.
	EventsAfter(ctx context.Context, agent, run string, after uint64, follow bool,
		each func(seq uint64, token string, body []byte) error) error
	// EventsEnd returns the sequence of a run's completion, 0 without one, and
	// the last one that the stream has given.
	EventsEnd(ctx context.Context, agent, run string) (completion, last uint64, err error)
	// OutputAt reads a run's output from an offset on, or from the next byte
	// that is there, at, on.
	OutputAt(ctx context.Context, agent, run string, kind runs.Kind, offset int64, most int) (
		at int64, data []byte, err error)
}

// Cloud submits tasks to Codex Cloud. Their state is read from their runs.
type Cloud interface {
	Submit(ctx context.Context, r codexcloud.Request) (codexcloud.Submitted, error)
}

// Config is what a [Service] needs.
type Config struct {
	Streams Streams

	Queue      string        // where tasks are submitted
	LostAfter  time.Duration // a worker that is silent for so long is gone
	StuckAfter time.Duration // a run whose worker is gone, and that gave no sign for so long, is ended; 0: only on request
	Idle, Hard time.Duration // limits of a task that asks for none; 0: unknown here
	MaxIdle    time.Duration // most that a task may ask for; 0: no limit
	MaxHard    time.Duration
	Danger     bool     // tasks without a sandbox may be submitted
	GitGate    bool     // refuse prompts with a git command that may lose work, unless the caller allows it
	Agents     []string // kinds of agents that take tasks; none: [api.DefaultAgent]

	// Outside returns a [runs.FieldError] for a task in a directory where no
	// worker lets tasks work, as far as that is known here. Nil: workers decide.
	Outside func(runs.Task, []runtable.Worker) error
	// Dir returns the directory of a task that names none, and is called at each
	// submission; nil, or "", leaves the choice to the worker.
	Dir func() (string, error)

	// Cloud is nil where Codex Cloud is not driven: its requests are then
	// [api.Unsupported].
	Cloud Cloud
	// Environments is the path of the file that lists the environments of
	// Codex Cloud; a missing file lists none.
	Environments string

	// Requests remembers requests with an idempotency key; nil: they are
	// [api.Unsupported].
	Requests *idempotency.Requests
	// Webhooks keeps the webhooks of submissions; nil: they are
	// [api.Unsupported].
	Webhooks *webhook.Registry

	// Eraser erases runs; nil: requests for it are [api.Unsupported].
	Eraser Eraser

	// LastMessage finds an agent's last message in its output, by the kind of
	// the agent: for texts that are longer than records and events are.
	LastMessage map[string]func(output []byte) (text string, ok bool)

	// Cause says in one line for a caller why the streams did not do what was
	// asked of them, as far as an error tells; nil, or "": unknown.
	Cause func(error) string
	// Away reports whether there is no connection to NATS; nil: unknown.
	Away func() bool

	Patience time.Duration // to wait for the first reading of the run table; default 10 s
	Log      *zap.Logger   // default: none
}

// Service answers requests about runs. Its methods may be called from several
// goroutines once Run is at work.
type Service struct {
	cfg   Config
	log   *zap.Logger
	table *runtable.Table
	cloud *cloudIndex
}

// View is the row of a run; see [runtable.View].
type View = runtable.View

// New returns a service. It reads nothing before Run.
func New(cfg Config) *Service {
	cfg.Log, cfg.Patience = cmp.Or(cfg.Log, zap.NewNop()), cmp.Or(cfg.Patience, 10*time.Second)
	if len(cfg.Agents) == 0 {
		cfg.Agents = []string{api.DefaultAgent}
	}
	table := runtable.New(runtable.Config{
		Streams: cfg.Streams, Queue: cfg.Queue, LostAfter: cfg.LostAfter, StuckAfter: cfg.StuckAfter,
		MaxIdle: cfg.MaxIdle, MaxHard: cfg.MaxHard, Danger: cfg.Danger, Outside: cfg.Outside, Log: cfg.Log,
	})
	return &Service{cfg: cfg, log: cfg.Log.Named("service"), table: table, cloud: newCloudIndex()}
}

// Run keeps the table of runs until ctx ends; then it returns nil. The error
// says that there is no run table.
func (s *Service) Run(ctx context.Context) error { return s.table.Run(ctx) }

// Limits returns the limits of a task that asks for none; 0: unknown here.
func (s *Service) Limits() (idle, hard time.Duration) { return s.cfg.Idle, s.cfg.Hard }

// Ready waits until the table has read all runs, at most the configured
// patience. The error is [api.Unavailable].
func (s *Service) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Patience)
	defer cancel()
	return s.Filled(ctx)
}

// Filled is Ready without a limit but that of ctx.
func (s *Service) Filled(ctx context.Context) error {
	return s.explain("ready", s.table.Ready(ctx))
}

// Connected is the error [api.Unavailable] where there is no connection to NATS.
func (s *Service) Connected() error {
	if s.cfg.Away != nil && s.cfg.Away() {
		return unavailable("NATS is away", nil)
	}
	return nil
}

// Basis returns the state of RAW that the table knows; nil before the first news.
func (s *Service) Basis() *api.Basis {
	seq, at := s.table.Basis()
	if seq == 0 {
		return nil
	}
	if at.IsZero() {
		at = time.Now()
	}
	return &api.Basis{Seq: seq, At: api.TimeOf(at)}
}

// Get returns the row of a run without reading anything.
func (s *Service) Get(run string) (View, bool) { return s.table.Get(run) }

// Look is Get for a run that may have begun a moment ago: where its raw log
// exists, its row is waited for. The error is [api.NotFound] for others.
func (s *Service) Look(ctx context.Context, run string) (View, error) {
	v, err := s.table.Look(ctx, run)
	return v, s.about(run, "look up a run", err)
}

// Thread returns the newest run of a thread.
func (s *Service) Thread(thread string) (View, bool) { return s.table.Thread(thread) }

// Snapshot lists the runs that keep lets through, nil being all: those that
// have not ended, and the last ended ones up to limit.
func (s *Service) Snapshot(limit int, keep func(runs.Row) bool) runtable.Snapshot {
	return s.table.Snapshot(limit, keep)
}

// Standing returns the rows of all runs as they change, and their records.
func (s *Service) Standing() webhook.Runs { return s.table }

// Record reads the whole record of a run. The error is [api.NotFound] where
// there is none.
func (s *Service) Record(ctx context.Context, run string) (*runs.Record, error) {
	r, err := s.table.Record(ctx, run)
	return r, s.about(run, "read a record", err)
}

// Wait returns the row of a run once it has ended. Each, unless it is nil, is
// called with the row at the beginning and whenever it changes. Where ctx ends
// first, the row is the last one, and the error is [api.Timeout] or the cause.
func (s *Service) Wait(ctx context.Context, run string, each func(View)) (View, error) {
	begun := time.Now()
	v, err := s.table.Wait(ctx, run, each)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return v, WaitOver(run, v.State, begun)
	}
	return v, s.about(run, "wait", err)
}

// WaitOver is the error of a wait, begun at a time, that ended before its run:
// the run was last in a state, "" being unknown.
func WaitOver(run string, state runs.State, begun time.Time) *api.Error {
	return &api.Error{
		Code: api.Timeout, Message: "the task has not ended yet: it goes on", Retryable: true,
		Run: run, State: state, Limit: api.LimitWait, Elapsed: time.Since(begun),
	}
}

// Workers returns the workers that take tasks, by name.
func (s *Service) Workers() []api.Worker {
	all := []api.Worker{}
	for _, w := range s.table.Workers() {
		all = append(all, api.Worker{
			ID: w.ID, Name: w.Name, Version: w.Version, Queue: w.Queue, Slots: w.Slots, Busy: w.Busy,
			Agents: list(w.Agents), LastSeen: api.TimeOf(w.At),
		})
	}
	return all
}

// Cleanup ends stuck runs and removes old ones. The error is [api.Validation]
// where an age is missing: without one every run would be stuck, or old. Beside
// any other error the report says what was done until then.
func (s *Service) Cleanup(ctx context.Context, c api.Cleanup) (api.CleanedUp, error) {
	switch {
	case c.Stuck <= 0:
		return api.CleanedUp{}, api.Invalid("stuck", "must be more than 0")
	case c.Old <= 0:
		return api.CleanedUp{}, api.Invalid("old", "must be more than 0")
	}
	r, err := s.table.Cleanup(ctx, c)
	r.Stuck, r.Ended = list(r.Stuck), list(r.Ended)
	return r, s.explain("clean up", err)
}

type callerKey struct{}

// local is the caller without a name. No token can have this one.
const local = "(local)"

// WithCaller adds the caller to a context: the name of a token, or "" for a
// caller that needs none. Idempotency keys and slots are counted by caller.
func WithCaller(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, callerKey{}, name)
}

// Caller returns the caller that [WithCaller] added.
func Caller(ctx context.Context) string {
	if name, _ := ctx.Value(callerKey{}).(string); name != "" {
		return name
	}
	return local
}

// Slots bounds what is held for long at a time: streams and waits. One caller
// gets three quarters of them at most, so that it cannot keep all others out.
type Slots struct {
	mu    sync.Mutex
	most  int
	taken int
	by    map[string]int // callers that hold some
}

// NewSlots returns slots, most in all.
func NewSlots(most int) *Slots { return &Slots{most: most, by: map[string]int{}} }

// Take takes a slot until free is called, once. It reports false where there
// is none for this caller.
func (s *Slots) Take(caller string) (free func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.most || s.by[caller] >= s.most-s.most/4 {
		return nil, false
	}
	s.taken++
	s.by[caller]++
	return func() { s.give(caller) }, true
}

func (s *Slots) give(caller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.by[caller]--; s.by[caller] == 0 {
		delete(s.by, caller)
	}
}

// Eraser erases runs. It needs the rights of an operator.
type Eraser interface {
	// Forget erases a run that has ended. The error is [runs.ErrNoRun],
	// [runs.ErrOpen] or [runs.ErrNeeded], or says what is wrong with the streams.
	Forget(ctx context.Context, run string) (runs.Forgotten, error)
}

// Forget erases a run that has ended: what its agent wrote, its events, its
// record, the requests that began it with a key, and its notifications. The
// error is [api.NotFound] for no run, [api.Conflict] for one that has not ended
// or whose task needs it, and [api.Unsupported] where this responder has no
// rights to erase.
func (s *Service) Forget(ctx context.Context, run string) (runs.Forgotten, error) {
	if s.cfg.Eraser == nil {
		return runs.Forgotten{}, notOffered(api.FieldRun, "runs are not erased from here: use the responder of `linesman up`")
	}
	if err := runs.CheckID(run); err != nil {
		return runs.Forgotten{}, notFound(run)
	}
	f, err := s.cfg.Eraser.Forget(ctx, run)
	if errors.Is(err, runs.ErrOpen) || errors.Is(err, runs.ErrNeeded) {
		return f, &api.Error{Code: api.Conflict, Field: api.FieldRun, Message: err.Error(), Run: run, Err: err}
	}
	return f, s.about(run, "forget", err)
}
