package metrics

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/linesman/linesman/runs"
)

// responder has the metrics of a responder, without its calls.
type responder struct {
	state   atomic.Pointer[func() (ResponderState, bool)]
	traces  atomic.Pointer[func() Traces]
	sent    *prometheus.CounterVec
	webhook prometheus.Observer
	dropped prometheus.Counter
}

// ResponderState is what the run table of a responder has, and what it knows of others.
type ResponderState struct {
	Runs    map[string]int // by state; "lost" beside the states of runs
	Asked   int            // open questions that people are asked
	Orphans uint64         // runs that were ended because their workers were gone
	Oldest  time.Duration  // since the oldest queued task was submitted; 0: none is queued
	Workers int            // that take tasks
	Slots   int            // of these
	Busy    int            // slots
	Pending int            // notifications in the outbox; -1: unknown
}

// Traces are what an exporter of traces has done since its process began.
type Traces struct{ Exported, Rejected, Expired uint64 }

// Lost is the state of working runs whose worker sends no heartbeats.
const Lost = "lost"

// states are the values of the label state of runs.
var states = []string{
	string(runs.StateQueued), string(runs.StateWorking), Lost, string(runs.StateInputRequired),
	string(runs.StateCompleted), string(runs.StateFailed), string(runs.StateCancelled), string(runs.StateTimeout),
}

// NewResponder registers the metrics of a responder.
func NewResponder(r prometheus.Registerer) *responder { return newResponder(set{reg: r}) }

func newResponder(s set) *responder {
	r := &responder{
		sent: s.counters("webhook_attempts_total",
			"Attempts to deliver a notification; failed: it is retried later; given_up: it is not.", "outcome"),
		webhook: s.histograms("webhook_duration_seconds", "Time until a webhook answered, or the attempt failed.", calls).
			WithLabelValues(),
		dropped: s.counters("agents_requests_dropped_total",
			"Requests of the Agent Protocol for NATS that were dropped: their reply subject is no inbox.").WithLabelValues(),
	}
	for _, outcome := range []string{"delivered", "failed", "given_up"} {
		r.sent.WithLabelValues(outcome)
	}
	table := s.desc(prometheus.GaugeValue, "runs",
		"Runs in RUNS by state; queued: the depth of the queue; lost: working, but the worker sends no heartbeats.", "state")
	asked := s.desc(prometheus.GaugeValue, "questions_open", "Questions that wait for people.")
	orphans := s.desc(prometheus.CounterValue, "orphans_ended_total",
		"Runs that this responder ended, because their workers were gone.")
	oldest := s.desc(prometheus.GaugeValue, "queue_oldest_seconds",
		"How long ago the oldest task that waits was submitted; 0: none waits.")
	workers := s.desc(prometheus.GaugeValue, "workers", "Workers that take tasks and send heartbeats.")
	slots := s.desc(prometheus.GaugeValue, "slots", "Maximum number of tasks that all workers together run at a time.")
	busy := s.desc(prometheus.GaugeValue, "slots_busy", "Slots of all workers that are in use.")
	pending := s.desc(prometheus.GaugeValue, "webhooks_pending", "Notifications that are not delivered yet.")
	s.read(func(send func(*desc, float64, ...string)) {
		state := r.state.Load()
		if state == nil {
			return
		}
		v, known := (*state)()
		if !known {
			return
		}
		for _, state := range states {
			send(table, float64(v.Runs[state]), state)
		}
		send(asked, float64(v.Asked))
		send(orphans, float64(v.Orphans))
		send(oldest, v.Oldest.Seconds())
		send(workers, float64(v.Workers))
		send(slots, float64(v.Slots))
		send(busy, float64(v.Busy))
		if v.Pending >= 0 {
			send(pending, float64(v.Pending))
		}
	}, table, asked, orphans, oldest, workers, slots, busy, pending)
	r.readTraces(s)
	return r
}

// readTraces registers the metrics of the exporter.
func (r *responder) readTraces(s set) {
	spans := s.desc(prometheus.CounterValue, "telemetry_spans_total",
		"Spans that the receiver of traces acknowledged, or rejected: these are not sent again.", "outcome")
	expired := s.desc(prometheus.CounterValue, "telemetry_events_expired_total",
		"Events that EVENTS removed before they were exported as traces.")
	s.read(func(send func(*desc, float64, ...string)) {
		v := Traces{}
		if traces := r.traces.Load(); traces != nil {
			v = (*traces)()
		}
		send(spans, float64(v.Exported), "exported")
		send(spans, float64(v.Rejected), "rejected")
		send(expired, float64(v.Expired))
	}, spans, expired)
}

// ReadTraces sets what returns the counts of the exporter. It is called for each collection,
// from any goroutine.
func (r *responder) ReadTraces(traces func() Traces) {
	if r != nil {
		r.traces.Store(&traces)
	}
}

// Read sets what returns the state, false while it is not known. It is called for each collection,
// from any goroutine.
func (r *responder) Read(state func() (ResponderState, bool)) {
	if r != nil {
		r.state.Store(&state)
	}
}

// Webhook counts an attempt to deliver a notification: "delivered", "failed" or "given_up".
// Took is negative if nothing was sent.
func (r *responder) Webhook(outcome string, took time.Duration) {
	if r == nil {
		return
	}
	r.sent.WithLabelValues(outcome).Inc()
	if took >= 0 {
		r.webhook.Observe(took.Seconds())
	}
}

// Dropped counts a request of the Agent Protocol for NATS that was dropped.
func (r *responder) Dropped() {
	if r != nil {
		r.dropped.Inc()
	}
}

// Calls has the metrics of the requests that a responder answers.
type Calls struct {
	http, nats         *prometheus.CounterVec
	httpTime, natsTime *prometheus.HistogramVec
	open               prometheus.Gauge
}

// NewCalls registers the metrics of requests.
func NewCalls(r prometheus.Registerer) *Calls { return newCalls(set{reg: r}) }

func newCalls(s set) *Calls {
	return &Calls{
		http: s.counters("http_requests_total",
			"Requests over HTTP that were answered, by route and status; a stream when it ends.", "operation", "code"),
		httpTime: s.histograms("http_request_duration_seconds",
			"Time until a request was answered; a wait and a stream are as long as the client wants.", calls, "operation"),
		open: s.gauge("http_requests_open", "Requests over HTTP that are being answered, streams too."),
		nats: s.counters("nats_requests_total",
			"Requests over NATS that were answered, by endpoint and status; 200 without an error.", "operation", "code"),
		natsTime: s.histograms("nats_request_duration_seconds", "Time until a request over NATS was answered.", calls,
			"operation"),
	}
}

// HTTP returns a handler that counts the requests to h. Operation is the pattern of a route.
func (c *Calls) HTTP(operation string, h http.Handler) http.Handler {
	if c == nil {
		return h
	}
	of := prometheus.Labels{"operation": operation}
	h = promhttp.InstrumentHandlerDuration(c.httpTime.MustCurryWith(of), h)
	h = promhttp.InstrumentHandlerCounter(c.http.MustCurryWith(of), h)
	return promhttp.InstrumentHandlerInFlight(c.open, h)
}

// NATS counts a request over NATS. Operation is the name of an endpoint; the code is that of
// HTTP, 0 without an error.
func (c *Calls) NATS(operation string, code int, took time.Duration) {
	if c == nil {
		return
	}
	if code == 0 {
		code = http.StatusOK
	}
	c.nats.WithLabelValues(operation, strconv.Itoa(code)).Inc()
	c.natsTime.WithLabelValues(operation).Observe(took.Seconds())
}
