// Package responder is the service behind every surface: all requests about runs,
// as Go types. It implements their meaning: defaults, checks, idempotency keys,
// webhooks, the continuation of threads, limits and errors. It neither reads nor
// writes the JSON of a protocol.
//
//	tools (MCP, NATS)   REST   A2A          surfaces: decode, call, encode
//	        └───────────┼───────┘
//	                 Service                api types in, api types out
//	      ┌─────────┬───┴────┬─────────┐
//	  runtable  idempotency  push    cloud
//	      └── streams: RAW, RUNS, EVENTS, WORK
//
// The one rule: every error that the service returns is an [*api.Error], and
// quotes nothing from a request.
package responder

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/known"

	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/codexcloud"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
)

// Streams is the part of the bus that a service needs.
type Streams interface {
	runtable.Streams

	// EachEvent calls each with the events of a selection, in the order of the stream; one that
	// follows ends with ctx.
	EachEvent(ctx context.Context, of runs.Selection, each func(runs.Event) error) error
	// EventsEnd returns where the stream ends, with the completion of a run unless run is empty.
	EventsEnd(ctx context.Context, agent, run string) (runs.EventsEnd, error)
	// EventsKnown returns the sequence up to which the run of each event has a record, or had one, if the stream was
	// created at that time, and the revision of the newest of all records. Zero: not known.
	EventsKnown(ctx context.Context, made int64) (events, revision uint64, err error)
	// OutputAt reads a run's output from an offset, or from the next stored byte,
	// and returns the offset of the data.
	OutputAt(ctx context.Context, agent, run string, kind runs.Kind, offset int64, most int) (
		at int64, data []byte, err error)

	// Entries calls each with the entries of the raw log of a run, from a sequence of RAW
	// on; with follow also with new ones, until the one that ends the run, or the end of
	// ctx, which is no error.
	Entries(ctx context.Context, agent, run string, from uint64, follow bool,
		each func(seq uint64, e runs.Entry) error) error
	// EntriesEnd returns the sequence of the newest entry of a run, 0 if there is none,
	// and the last sequence of the stream.
	EntriesEnd(ctx context.Context, agent, run string) (newest, last uint64, err error)
	// SavedFolds calls each with the saved folds of a run, the newest first, until it is done:
	// those whose last entry is stored, before a sequence of RAW. There may be none.
	SavedFolds(ctx context.Context, agent, run string, before uint64,
		each func(runs.SavedFold) (done bool, err error)) error
}

// cloud submits tasks to Codex Cloud. Their state is read from their runs.
type cloud interface {
	Submit(ctx context.Context, r codexcloud.Request) (codexcloud.Submitted, error)
}

// Config configures a [Service].
type Config struct {
	Streams Streams

	Queue      string        // where tasks are submitted
	LostAfter  time.Duration // a worker without a heartbeat for this long is lost
	StuckAfter time.Duration // a silent run of a lost worker is ended after this time; 0: only by Cleanup
	Idle, Hard time.Duration // default limits of a task; 0: unknown here
	MaxIdle    time.Duration // longest limits of a task; 0: none
	MaxHard    time.Duration
	Danger     bool // tasks without a sandbox may be submitted
	GitGate    bool // refuse prompts with a git command that may lose work, unless the caller allows it

	Agents agent.Table // that take tasks; default: [known.Agents]

	// Outside returns a [runs.FieldError] for a task in a directory that no worker
	// allows, as far as this process knows. Nil: only the workers decide.
	Outside func(queue string, t runs.Task, all []runtable.Worker) error

	// Details returns a fold with details for a run of an agent kind, from its beginning, or
	// from a saved one, which may be refused; nil: requests for details are [api.Unsupported].
	// Folds replaces the maximum of concurrent ones, 256, unless it is 0.
	Details func(agent, run string, from *runs.SavedFold) (DetailFold, error)
	Folds   int
	// PageTime is how long a page of details is read for at most, default 45 s, less than clients wait for the first one.
	PageTime time.Duration

	// Rings replaces the maximum of bytes that streams of events share, 64 MiB, unless it is 0.
	Rings int

	// Cloud drives Codex Cloud; nil: requests for it are [api.Unsupported].
	Cloud cloud
	// Environments is the path of the file that lists the environments of
	// Codex Cloud; a missing file lists none.
	Environments string

	// Requests stores requests with an idempotency key; nil: they are
	// [api.Unsupported].
	Requests *idempotency.Requests
	// Webhooks stores the webhooks of submissions; nil: they are
	// [api.Unsupported].
	Webhooks *webhook.Registry

	BrandJSON string        // URL of the operator's brand.json; "": notifications are not signed by a key
	GiveUp    time.Duration // for how long the delivery of a notification is retried

	// Eraser erases runs; nil: requests for it are [api.Unsupported].
	Eraser Eraser

	// Cause explains an error of the streams to a caller, in one line; nil, or "":
	// unknown.
	Cause func(error) string
	// Away reports whether there is no connection to NATS; nil: unknown.
	Away func() bool

	// Absent stores the answer to a question of a live run whose owner is away. Nil: it is refused.
	Absent func(ctx context.Context, agent, run string, c runs.Command) (runs.Ruling, error)

	Version string // of linesman; default: dev
	// Patience is how long requests wait for the run table after a start, default 10 s, and submissions and cancels
	// for NATS, default 5 s and 20 s.
	Patience time.Duration
	Log      *zap.Logger // default: none
}

// Service answers requests about runs. Its methods are safe for concurrent use
// while Run is active.
type Service struct {
	cfg   Config
	log   *zap.Logger
	table *runtable.Table
	cloud *cloudIndex
	epoch string // identifies this process in ids of streams of runs

	folds *Slots // a slot for each fold with details
	// reading has an element for each fold that reads stored entries
	reading chan struct{}
	paging  chan struct{} // has an element for each page of events that is being read
	pages   atomic.Int64  // pages that wait for one
	held    atomic.Int64  // bytes that they hold
	kept    keptDetails

	beginning chan struct{}     // has an element while a session begins; guards begun
	begun     map[string]string // sessions that the table may not have yet, with their profile

	followers followers
	turns     chan struct{} // has an element for each stream that reads stored events
}

// New returns a service. It reads nothing before Run.
func New(cfg Config) *Service {
	forNATS := cfg.Patience
	cfg.Log, cfg.Patience = cmp.Or(cfg.Log, zap.NewNop()), cmp.Or(cfg.Patience, 10*time.Second)
	cfg.PageTime = cmp.Or(cfg.PageTime, 45*time.Second)
	if cfg.Agents == nil {
		cfg.Agents = known.Agents
	}
	table := runtable.New(runtable.Config{
		Streams: cfg.Streams, Queue: cfg.Queue, LostAfter: cfg.LostAfter, StuckAfter: cfg.StuckAfter, Absent: cfg.Absent,
		MaxIdle: cfg.MaxIdle, MaxHard: cfg.MaxHard, Danger: cfg.Danger, Outside: cfg.Outside,
		Patience: forNATS, Log: cfg.Log,
	})
	return &Service{
		cfg: cfg, log: cfg.Log.Named("service"), table: table, cloud: newCloudIndex(), epoch: newEpoch(),
		folds: NewSlots(cmp.Or(cfg.Folds, maxFolds)), reading: make(chan struct{}, maxReading),
		paging: make(chan struct{}, maxPaging), turns: make(chan struct{}, maxCatching),
		beginning: make(chan struct{}, 1), begun: map[string]string{},
		followers: followers{max: cmp.Or(cfg.Rings, maxRings)},
	}
}

// Run maintains the table of runs until ctx ends; then it returns nil. The error
// reports that the run table cannot be read.
func (s *Service) Run(ctx context.Context) error {
	s.followers.begin(ctx)
	defer s.followers.end()
	return s.table.Run(ctx)
}

// Limits returns the default limits of a task; 0: unknown here.
func (s *Service) Limits() (idle, hard time.Duration) { return s.cfg.Idle, s.cfg.Hard }

// Ready waits until the table has read all runs, at most the configured
// patience. The error is [api.Unavailable].
func (s *Service) Ready(ctx context.Context) error {
	return s.explain("read the run table", s.table.Ready(ctx, s.cfg.Patience))
}

// Filled is Ready with no other limit than that of ctx.
func (s *Service) Filled(ctx context.Context) error {
	return s.explain("read the run table", s.table.Ready(ctx, math.MaxInt64))
}

// Connected returns the error [api.Unavailable] without a connection to NATS.
func (s *Service) Connected() error {
	if s.cfg.Away != nil && s.cfg.Away() {
		return unavailable("NATS is away", nil)
	}
	return nil
}

// Basis returns the state of RAW that the table reflects; nil before the first change.
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
func (s *Service) Get(run string) (runs.Header, bool) { return s.table.Get(run) }

// Look is Get for a run that may be very new: if its raw log exists, Look waits for
// its row. The error is [api.NotFound] for an unknown run.
func (s *Service) Look(ctx context.Context, run string) (runs.Header, error) {
	v, err := s.table.Look(ctx, run)
	return v, s.explainRun(run, "look up a run", err)
}

// Thread returns the newest run of a thread.
func (s *Service) Thread(thread string) (runs.Header, bool) { return s.table.Thread(thread) }

// Snapshot lists the runs that keep accepts, nil being all: all open ones, and the
// last ended ones, at most limit.
func (s *Service) Snapshot(limit int, keep func(runs.Header) bool) runtable.Snapshot {
	return s.table.Snapshot(limit, keep)
}

// Counts counts the runs, false until the run table is read.
func (s *Service) Counts() (c runtable.Counts, known bool) { return s.table.Counts() }

// Standing returns the rows of all runs as they change, and their records.
func (s *Service) Standing() webhook.Runs { return s.table }

// Signing returns the URL of the operator's brand.json, "" if notifications are not signed by a key, and for how long
// the delivery of a notification is retried.
func (s *Service) Signing() (brandJSON string, giveUp time.Duration) {
	return s.cfg.BrandJSON, s.cfg.GiveUp
}

// Record reads the complete record of a run. The error is [api.NotFound] if there
// is none.
func (s *Service) Record(ctx context.Context, run string) (*runs.Record, error) {
	r, err := s.table.Record(ctx, run)
	return r, s.explainRun(run, "read a record", err)
}

// Wait waits for the end of a run and returns its row. Each, unless it is nil, is
// called with the current row and after each change. If ctx ends first, Wait
// returns the last row and [api.Timeout], or the cause.
func (s *Service) Wait(ctx context.Context, run string, each func(runs.Header)) (runs.Header, error) {
	return s.WaitUntil(ctx, run, each, func(v runs.Header) bool { return v.State.Final() })
}

// WaitUntil is Wait for another condition than the end.
func (s *Service) WaitUntil(
	ctx context.Context, run string, each func(runs.Header), is func(runs.Header) bool,
) (runs.Header, error) {
	begun := time.Now()
	v, err := s.table.Until(ctx, run, each, is)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return v, s.WaitOver(run, v.State, begun)
	}
	return v, s.explainRun(run, "wait", err)
}

// WaitOver is the error of a wait that began at a time and ended before its run,
// with the last state of the run, "" being unknown.
func (*Service) WaitOver(run string, state runs.State, begun time.Time) *api.Error {
	return &api.Error{
		Code: api.Timeout, Message: "the task has not ended yet: it goes on", Retryable: true,
		Run: run, State: state, Limit: api.LimitWait, Elapsed: time.Since(begun),
	}
}

// Workers returns the workers that take tasks, by name, and the agents.
func (s *Service) Workers() (all api.Workers) {
	all.Workers = []api.Worker{}
	for _, w := range s.table.Workers() {
		all.Workers = append(all.Workers, api.Worker{
			ID: w.ID, Name: w.Name, Version: w.Version, Queue: w.Queue, Slots: w.Slots, Busy: w.Busy,
			Agents: list(w.Agents), LastSeen: api.TimeOf(w.At), AgentVersions: w.AgentVersions,
			Roots: w.Roots, Modes: w.Modes, Capabilities: w.Capabilities,
		})
	}
	for _, a := range s.cfg.Agents {
		all.Agents = append(all.Agents, api.Agent{
			Kind: a.Kind(), Short: a.Short, Name: a.Name, Live: a.Live.Program != "", Forks: a.Can(runs.CanFork),
		})
	}
	return all
}

// Cleanup ends stuck runs and removes old ones. The error is [api.Validation] if an
// age is missing: without it every run would be stuck, or old. With any other
// error the report says what was done before it.
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

// local is the name of a caller without a token. No token can have it.
const local = "(local)"

// WithCaller adds the caller to a context: the name of its token, or "" if it needs
// none. Idempotency keys and slots are counted per caller.
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

// Owns reports whether what a caller keeps for itself is for the caller of ctx: it is the same, or has no token of its
// own.
func Owns(ctx context.Context, name string) bool {
	caller := Caller(ctx)
	return caller == name || caller == local
}

// The surfaces, in [WithSurface].
const (
	OverPage = "page"
	OverREST = "rest"
	OverMCP  = "mcp"
	// OverStdio is MCP for a client of `linesman mcp`, which calls the tools over NATS.
	OverStdio = "mcp stdio"
	OverA2A   = "a2a"
	// overAgents is the Agent Protocol for NATS, see [Profile.In].
	overAgents = "agents"
	overNATS   = "nats" // if there is none
)

type surfaceKey struct{}

// WithSurface adds the surface of a request to a context.
func WithSurface(ctx context.Context, surface string) context.Context {
	return context.WithValue(ctx, surfaceKey{}, surface)
}

type answersKey struct{}

// WithAnswers adds to a context whether the caller, who asks over HTTP, has the scope answer.
func WithAnswers(ctx context.Context, may bool) context.Context {
	return context.WithValue(ctx, answersKey{}, may)
}

// MayAnswer reports whether the caller may read and answer questions: over NATS everyone who may ask, over HTTP by
// [WithAnswers].
func MayAnswer(ctx context.Context) bool {
	via, http := ctx.Value(surfaceKey{}).(string)
	return !http || via == OverStdio || ctx.Value(answersKey{}) == true
}

// decider returns who decides by a request, and over which surface: the name of the token; owner for that of the token
// file; operator over NATS.
func decider(ctx context.Context) (by, via string) {
	by = Caller(ctx)
	via, http := ctx.Value(surfaceKey{}).(string)
	switch {
	case !http && by == local:
		return "operator", overNATS
	case via == OverStdio:
		return "operator", OverMCP
	case by == local:
		return "owner", via
	case slices.Contains([]string{"owner", "operator", runs.ByPolicy, runs.ByTimeout, runs.ByLimit}, by):
		by = "token " + by
	}
	return by, cmp.Or(via, overNATS)
}

// Slots limits concurrent long requests: streams and waits. One caller has at most
// three quarters of the slots, so that it cannot lock out all others.
type Slots struct {
	mu    sync.Mutex
	most  int
	taken int
	by    map[string]int // slots by caller
}

// NewSlots returns most slots.
func NewSlots(most int) *Slots { return &Slots{most: most, by: map[string]int{}} }

// Take takes a slot until free is called, once. It reports false if none is left
// for this caller.
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

// Forget erases a run that has ended: its output, events and record, the requests
// that began it with a key, and its notifications. The error is [api.NotFound] for
// an unknown run, [api.Conflict] for one that has not ended or that its task needs,
// and [api.Unsupported] if this responder has no rights to erase.
func (s *Service) Forget(ctx context.Context, q api.RunRequest) (runs.Forgotten, error) {
	run := q.Run
	if s.cfg.Eraser == nil {
		return runs.Forgotten{}, notOffered(api.FieldRun, "runs are not erased from here: use the responder of `linesman up`")
	}
	if err := runs.CheckID(run); err != nil {
		return runs.Forgotten{}, notFound(run)
	}
	f, err := s.cfg.Eraser.Forget(ctx, run)
	s.followers.clear() // streams that begin now read what is left
	f.Run = run
	if errors.Is(err, runs.ErrOpen) || errors.Is(err, runs.ErrNeeded) {
		return f, &api.Error{Code: api.Conflict, Field: api.FieldRun, Message: err.Error(), Run: run, Err: err}
	}
	return f, s.explainRun(run, "forget", err)
}
