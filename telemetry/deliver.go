package telemetry

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/linesman/linesman/telemetry/spans"
)

// Limits of requests.
const (
	maxRequest = 1 << 20 // bytes of spans; one span may be larger
	retryLeast = 500 * time.Millisecond
	retryMost  = 30 * time.Second
	onceMost   = 2 * time.Second  // of an attempt that others wait for
	recordWait = 10 * time.Second // after an event was stored, for a record that includes it
	recordPoll = 100 * time.Millisecond
	faultsMost = time.Hour // of answers that the receiver failed on a request, until it counts as refused
)

// counts are what the exporter has done.
type counts struct{ exported, rejected, expired atomic.Uint64 }

// totals are what an exporter has done since its process began.
type totals struct {
	Exported uint64 // spans that the receiver has acknowledged
	Rejected uint64 // spans that the receiver has refused for good
	Expired  uint64 // events that were removed before they were exported
}

// Counts returns what the exporter has done.
func (e *Exporter) Counts() totals {
	return totals{e.counts.exported.Load(), e.counts.rejected.Load(), e.counts.expired.Load()}
}

// deliver sends the spans of a batch and their metrics, and returns when the receiver has
// acknowledged them, or refused them for good.
func (e *Exporter) deliver(ctx context.Context, b batch) error {
	defer func() {
		for _, run := range b.ended {
			e.known.drop(run)
		}
	}()
	if len(b.spans) > 0 {
		if err := e.deliverSpans(ctx, b); err != nil {
			return err
		}
	}
	if e.metrics == nil || len(b.spans) == 0 && !e.owes {
		return nil
	}
	return e.sendMetrics(ctx)
}

// deliverSpans sends the spans of a batch, and counts them for metrics.
func (e *Exporter) deliverSpans(ctx context.Context, b batch) error {
	all := map[string]facts{}
	for run, last := range b.last {
		f, err := e.factsOf(ctx, run, last)
		if err != nil {
			return err
		}
		all[run] = f
	}
	for _, s := range b.spans {
		f := all[s.Run]
		f.provider = provider(e.agent(s.Agent), s.Agent, f.model)
		all[s.Run] = f
	}
	if err := e.sendSpans(ctx, b.spans, all); err != nil {
		return err
	}
	if e.metrics != nil {
		for _, s := range b.spans {
			e.meter.record(s, all[s.Run])
		}
	}
	return nil
}

// sendMetrics sends what the meter has. Beside traces, which are not to wait, it makes one short
// attempt, if one is due: what the receiver does not take stays in the meter, is tried again later,
// also without new spans, and is lost only if the process ends before, or if totals are sent and
// another process exported meanwhile.
func (e *Exporter) sendMetrics(ctx context.Context) error {
	once := e.traces != nil
	if once && time.Now().Before(e.metrics.due) {
		e.owes = true
		return nil
	}
	at := now()
	m := e.meter.read(at, e.scope)
	if m == nil {
		e.owes = false
		return nil
	}
	_, err := e.sendAll(ctx, e.metrics, &metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{{
		Resource: e.resource, SchemaUrl: schemaURL, ScopeMetrics: []*metricspb.ScopeMetrics{m},
	}}}, once)
	switch {
	case errors.Is(err, errLater):
		e.owes = true
		return nil
	case err != nil:
		return err
	}
	e.meter.taken(at)
	e.owes = false
	return nil
}

// factsOf returns the facts of a run, by a record that includes an event, if there will be one
// soon. Of an event that was stored long ago it is either stored, too, or was removed.
func (e *Exporter) factsOf(ctx context.Context, run string, last end) (facts, error) {
	s := e.known.get(run)
	if s != nil && s.facts != nil {
		return *s.facts, nil
	}
	wait := min(time.Until(time.UnixMilli(last.stored)), 0) + recordWait
	late := time.Now().Add(wait)
	for {
		r, err := e.cfg.Runs.Record(ctx, run)
		if err != nil {
			return facts{}, err
		}
		includes := r != nil && (r.Seq >= last.raw || r.State.Final())
		if includes || time.Now().After(late) {
			f := factsOf(run, r)
			if s != nil && includes {
				s.facts = &f
			}
			return f, nil
		}
		select {
		case <-ctx.Done():
			return facts{}, ctx.Err()
		case <-time.After(recordPoll):
		}
	}
}

// sendSpans sends spans in requests of a limited size. Spans of a trace that its submitter
// does not sample are not sent.
func (e *Exporter) sendSpans(ctx context.Context, ended []spans.Span, all map[string]facts) error {
	if e.traces == nil {
		return nil
	}
	contents, err := e.contents(ctx, ended)
	if err != nil {
		return err
	}
	var part []*tracepb.Span
	size := 0
	flush := func() error {
		if len(part) == 0 {
			return nil
		}
		rejected, err := e.sendAll(ctx, e.traces, &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
			Resource: e.resource, SchemaUrl: schemaURL,
			ScopeSpans: []*tracepb.ScopeSpans{{Scope: e.scope, SchemaUrl: e.names.schema, Spans: part}},
		}}}, false)
		if rejected < 0 {
			rejected = int64(len(part))
		}
		if err == nil {
			rejected = min(rejected, int64(len(part)))
			e.counts.rejected.Add(uint64(rejected))
			e.counts.exported.Add(uint64(int64(len(part)) - rejected))
		}
		part, size = nil, 0
		return err
	}
	for i, s := range ended {
		f := all[s.Run]
		if !f.own.Sampled {
			continue
		}
		p := encode(s, f, contents[i], e.names)
		n := proto.Size(p)
		if size+n > maxRequest {
			if err := flush(); err != nil {
				return err
			}
		}
		part, size = append(part, p), size+n
	}
	return flush()
}

// errLater reports that an attempt failed, and another one may not.
var errLater = errors.New("the receiver is tried again later")

// sendAll sends a request until it is acknowledged or refused for good, or ctx ends; once, it makes one short attempt,
// and the error may be errLater. It returns how much of it was rejected, -1 for all. Traces do not wait for a receiver
// that takes no metrics: it may answer 404.
func (e *Exporter) sendAll(ctx context.Context, to *target, m proto.Message, once bool) (rejected int64, err error) {
	var fault time.Time // when the present row of faults began
	attempt := ctx
	if once {
		var cancel context.CancelFunc
		attempt, cancel = context.WithTimeout(ctx, onceMost)
		defer cancel()
	}
	for {
		rejected, err = to.send(attempt, m)
		var answer *refusal
		refused := errors.As(err, &answer)
		if !refused || !answer.fault() {
			fault = time.Time{}
		} else if fault.IsZero() {
			fault = time.Now()
		}
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case err == nil:
			if to.failing {
				e.log.Info("the receiver answers again")
			}
			if rejected > 0 {
				e.log.Warn("the receiver rejects a part", zap.Int64("rejected", rejected))
			}
			to.done(false)
			return rejected, nil
		case refused && (answer.final() || to == e.metrics && e.traces != nil && !answer.again() ||
			!fault.IsZero() && time.Since(fault) >= faultsMost):
			if !to.refused {
				e.log.Warn("the receiver refuses a request, which is dropped", zap.Error(err))
			}
			to.done(true)
			return -1, nil
		case !to.failing:
			to.failing = true
			e.log.Warn("waiting for the receiver", zap.Error(err))
		}
		wait := to.pause.NextBackOff()
		if refused {
			wait = max(wait, min(answer.after, retryMost))
		}
		if once {
			to.due = time.Now().Add(wait)
			return 0, errLater
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// done notes that the receiver has answered a request, or refused it.
func (t *target) done(refused bool) {
	t.refused, t.failing = refused, false
	t.pause.Reset()
}
