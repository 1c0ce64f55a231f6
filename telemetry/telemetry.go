// Package telemetry exports the runs as OpenTelemetry traces and metrics, over OTLP, if the
// standard environment configures a receiver.
//
//	EVENTS ──▶ spans (pure) ──▶ batch ──▶ receiver
//	   ▲          │ record of the run        │
//	   │          ▼ traceparent, model       ▼
//	   └──────── position ◀──── acknowledged by the receiver
//
// The spans and their ids follow from the events, so the only state is the position: up to
// which sequence of EVENTS all spans that ended were acknowledged, and some runs that had events
// by then, but no line. A process that takes over
// reads on from there. Of a run that began earlier it first reads the events again, and
// exports nothing that ended before the position. So a receiver gets every span; it gets one
// again, with the same id and the same content, only if the exporter ended between the
// acknowledgement and the storage of the position.
//
// The one rule: nothing waits for the exporter. It reads EVENTS when the receiver has taken
// what was read before, and stores nothing but the position.
package telemetry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"go.uber.org/zap"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/spans"
)

// Limits of the exporter.
const (
	maxKnown  = 32 << 20 // bytes of open runs
	maxSpans  = 512      // of a batch, unless OTEL_BSP_MAX_EXPORT_BATCH_SIZE is less
	maxEvents = 20_000   // read for a batch
	maxBegun  = 256      // runs of a position

	interval  = time.Second     // between two looks at EVENTS
	saveEvery = 5 * time.Second // while no spans end
)

// events are the stored events.
type events interface {
	// EachEvent calls each with the events of a selection, in the order of the stream.
	EachEvent(ctx context.Context, of runs.Selection, each func(runs.Event) error) error
}

// store stores the position of the exporter, and selects the one that works.
type store interface {
	Lead(ctx context.Context, f func(context.Context) error) error
	Position(ctx context.Context) (value []byte, revision uint64, err error)
	// SetPosition fails if the position has another revision.
	SetPosition(ctx context.Context, value []byte, revision uint64) (uint64, error)
	// Stored returns the identity of EVENTS, and its first and last sequences.
	Stored(ctx context.Context) (id string, first, last uint64, err error)
}

// runReader are the records and details of runs.
type runReader interface {
	// Record returns the record of a run; nil if it has none.
	Record(ctx context.Context, run string) (*runs.Record, error)
	// Detail returns a page of the details of a run after a position, "" being the beginning.
	Detail(ctx context.Context, run, after string) (api.DetailPage, error)
}

// Config configures an [Exporter].
type Config struct {
	Events  events
	Store   store
	Runs    runReader
	Agent   func(kind string) agent.Agent // nil: none is known
	Env     func(string) string           // the environment
	Version string                        // of linesman
	Log     *zap.Logger                   // default: none
}

// Exporter exports traces and metrics.
type Exporter struct {
	cfg      Config
	log      *zap.Logger
	traces   *target // nil: none
	metrics  *target // nil: none
	resource *resourcepb.Resource
	scope    *commonpb.InstrumentationScope
	names    conventions
	content  bool // arguments and results of tools, and messages
	most     int  // spans of a batch
	memory   int  // bytes of open runs
	counts   counts

	// of the time of a lease
	known    *known
	meter    *meter // of several leases while it has points that are owed
	position position
	revision uint64
	saved    time.Time

	owes bool // the meter has points of batches that are done, which the receiver of metrics did not get yet
}

// position is how far EVENTS were exported.
type position struct {
	Stream string `json:"stream"` // identity of EVENTS
	Seq    uint64 `json:"seq"`    // all up to it is exported
	Raw    uint64 `json:"raw"`    // where its event came from
	Line   uint64 `json:"line"`
	Part   int    `json:"part"`
	Time   int64  `json:"time"`

	// Again means that the stream was recreated, or lost its end: its events up to that one
	// are exported already.
	Again bool `json:"again,omitempty"`

	// Begun are runs that had events, but no line yet, the newest last. A live run has those of its
	// process. One that is not listed begins at its first line: it had events already at the first start
	// or when a version without this list ended, or there were too many such runs at once.
	Begun []string `json:"begun,omitempty"`
}

// note notes whether a run has had events, but no line.
func (p *position) note(run string, begun bool) {
	switch i := slices.Index(p.Begun, run); {
	case begun && i < 0:
		p.Begun = append(p.Begun, run)
		p.Begun = p.Begun[max(len(p.Begun)-maxBegun, 0):]
	case !begun && i >= 0:
		p.Begun = slices.Delete(p.Begun, i, i+1)
	}
}

// covers reports whether an event of a recreated stream is exported.
func (p position) covers(e runs.Event) bool {
	return p.Again && e.Time <= p.Time &&
		cmp.Or(cmp.Compare(e.Raw, p.Raw), cmp.Compare(e.Line, p.Line), cmp.Compare(e.Part, p.Part)) <= 0
}

// New returns an exporter as the standard environment configures it, or nil if that names no
// receiver. The error names the variable that is wrong.
func New(cfg Config) (*Exporter, error) {
	e := &Exporter{cfg: cfg, log: cfg.Log, scope: scope(cfg.Version), memory: maxKnown}
	if e.log == nil {
		e.log = zap.NewNop()
	}
	e.log = e.log.Named("telemetry")
	var err error
	if e.traces, err = newTarget(cfg.Env, "traces"); err != nil {
		return nil, err
	}
	if e.metrics, err = newTarget(cfg.Env, "metrics"); err != nil {
		return nil, err
	}
	if e.traces == nil && e.metrics == nil {
		return nil, nil
	}
	if e.resource, err = resource(cfg.Env, cfg.Version); err != nil {
		return nil, err
	}
	if e.most = maxSpans; cfg.Env("OTEL_BSP_MAX_EXPORT_BATCH_SIZE") != "" {
		n, err := strconv.Atoi(cfg.Env("OTEL_BSP_MAX_EXPORT_BATCH_SIZE"))
		if err != nil || n < 1 {
			return nil, errors.New("OTEL_BSP_MAX_EXPORT_BATCH_SIZE: must be 1 or more")
		}
		e.most = min(n, maxSpans)
	}
	e.names, e.content = conventionsOf(cfg.Env(optIn)), captures(cfg.Env(captureContent))
	return e, nil
}

// Run exports until ctx ends; then it returns nil. Of several exporters one works at a time.
func (e *Exporter) Run(ctx context.Context) error {
	defer e.traces.close()
	defer e.metrics.close()
	return e.cfg.Store.Lead(ctx, e.lead)
}

// lead exports while the lease is held.
func (e *Exporter) lead(ctx context.Context) error {
	e.known = newKnown(e.memory)
	value, revision, err := e.cfg.Store.Position(ctx)
	if err != nil {
		return err
	}
	if !e.owes || !e.meter.delta && revision != e.revision { // totals would go back behind those of another process
		e.meter = newMeter(e.names, e.cfg.Env("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"), now())
	}
	if e.position, e.revision = (position{}), revision; len(value) > 0 && json.Unmarshal(value, &e.position) != nil {
		return errors.New("the stored position is not of a known form")
	}
	e.log.Info("exporting traces", zap.Uint64("after", e.position.Seq))
	for {
		b, err := e.collect(ctx)
		if err == nil {
			err = e.deliver(ctx, b)
		}
		if err == nil {
			err = e.save(ctx, len(b.spans) > 0)
		}
		if err != nil {
			return err
		}
		if b.more {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(interval):
		}
	}
}

func now() uint64 { return uint64(time.Now().UnixNano()) }

// batch is what was read at once.
type batch struct {
	spans []spans.Span
	last  map[string]end // event of each run with spans
	ended []string       // runs
	more  bool           // EVENTS have more
}

// end is where an event came from, and when EVENTS stored it.
type end struct {
	raw    uint64
	stored int64
}

var errFull = errors.New("enough events")

// collect reads the next events, and moves the position in memory.
func (e *Exporter) collect(ctx context.Context) (b batch, err error) {
	if err := e.locate(ctx); err != nil {
		return b, err
	}
	b.last = map[string]end{}
	read := 0
	err = e.cfg.Events.EachEvent(ctx, runs.Selection{After: e.position.Seq}, func(v runs.Event) error {
		if len(b.spans) >= e.most || read >= maxEvents {
			return errFull
		}
		read++
		if e.position.covers(v) {
			e.position.Seq = v.Seq
			return nil
		}
		s, err := e.stateOf(ctx, v)
		if err != nil {
			return err
		}
		e.position = position{
			Stream: e.position.Stream, Seq: v.Seq, Raw: v.Raw, Line: v.Line, Part: v.Part, Time: v.Time,
			Begun: e.position.Begun,
		}
		ended := e.known.apply(s, v)
		e.position.note(v.Run, !s.lined && v.Token != api.Completion)
		if len(ended) == 0 {
			return nil
		}
		b.spans, b.last[v.Run] = append(b.spans, ended...), end{v.Raw, v.Stored}
		if ended[len(ended)-1].Kind == spans.Whole {
			b.ended = append(b.ended, v.Run)
		}
		return nil
	})
	if errors.Is(err, errFull) {
		b.more, err = true, nil
	}
	if err != nil {
		err = fmt.Errorf("read events: %w", err)
	}
	return b, err
}

// locate compares the position with EVENTS: the first time it is their end.
func (e *Exporter) locate(ctx context.Context) error {
	id, first, last, err := e.cfg.Store.Stored(ctx)
	p := &e.position
	switch {
	case err != nil:
		return err
	case p.Stream == "":
		*p = position{Stream: id, Seq: last}
		return e.save(ctx, true)
	case p.Stream != id:
		e.log.Warn("EVENTS were recreated: reading from their beginning what is new")
		p.Stream, p.Seq, p.Again = id, 0, true
		e.known = newKnown(e.memory)
	case p.Seq > last:
		p.Seq, p.Again = last, true
	case p.Seq+1 < first:
		n := first - 1 - p.Seq
		p.Seq, p.Begun = first-1, nil
		e.known = newKnown(e.memory)
		if err := e.save(ctx, true); err != nil { // else they are counted again
			return err
		}
		e.counts.expired.Add(n)
		e.log.Warn("events expired before they were exported", zap.Uint64("events", n))
	}
	return nil
}

// agent returns what is known of an agent.
func (e *Exporter) agent(kind string) agent.Agent {
	if e.cfg.Agent == nil {
		return agent.Agent{}
	}
	return e.cfg.Agent(kind)
}

// stateOf returns the state of the run of an event. If it is not known and the event is not
// its first one, it reads the earlier ones.
func (e *Exporter) stateOf(ctx context.Context, v runs.Event) (*state, error) {
	if s := e.known.get(v.Run); s != nil {
		return s, nil
	}
	s := e.known.add(v.Run, spans.New(v.Run, v.Agent, e.agent(v.Agent)))
	of := runs.Selection{Agent: v.Agent, Run: v.Run}
	if v.Line == 1 && v.Part == 1 {
		if !slices.Contains(e.position.Begun, v.Run) {
			return s, nil
		}
		of.Want = 10 // there are few before the first line
	}
	err := e.cfg.Events.EachEvent(ctx, of, func(old runs.Event) error {
		if old.Seq >= v.Seq {
			return errFull
		}
		e.known.apply(s, old)
		return nil
	})
	if err != nil && !errors.Is(err, errFull) {
		return nil, fmt.Errorf("run %s: read its events again: %w", v.Run, err)
	}
	return s, nil
}

// save stores the position, soon or at once. A former exporter is refused.
func (e *Exporter) save(ctx context.Context, atOnce bool) error {
	if !atOnce && time.Since(e.saved) < saveEvery {
		return nil
	}
	value, err := json.Marshal(e.position)
	if err != nil {
		return err
	}
	revision, err := e.cfg.Store.SetPosition(ctx, value, e.revision)
	if err != nil {
		return err
	}
	e.revision, e.saved = revision, time.Now()
	return nil
}
