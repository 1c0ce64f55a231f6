package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/linesman/linesman/agent"
)

// Normalizer has the metrics of a normalizer. Only the active one counts what happens in runs.
type Normalizer struct {
	known    []string             // agent kinds that have labels
	agents   agent.Table          // whose tools are known
	versions map[string]*versions // by the label of the agent

	started, ended, turns, calls       *prometheus.CounterVec
	asked, settled, messages           *prometheus.CounterVec
	answerTime                         *prometheus.HistogramVec
	runTime, turnTime, callTime, wait  *prometheus.HistogramVec
	tokens, thought, events            *prometheus.CounterVec
	lines, malformed, unknown, drift   *prometheus.CounterVec
	output                             [5]*prometheus.CounterVec
	active                             prometheus.Gauge
	terms, cuts                        prometheus.Counter
	failures, refusals                 *prometheus.CounterVec
	streamMessages, streamBytes, limit *prometheus.GaugeVec
	lagEvents                          prometheus.Gauge

	folding, recording lag
}

// lag is how far a stage is behind RAW.
type lag struct {
	entries atomic.Uint64
	since   atomic.Int64 // Unix milliseconds; 0: it is not behind
}

// The buckets of durations, in seconds.
var (
	seconds = []float64{.1, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600}
	hours   = []float64{1, 10, 30, 60, 120, 300, 600, 1800, 3600, 2 * 3600, 6 * 3600, 24 * 3600}
	calls   = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
)

// NewNormalizer registers the metrics of a normalizer that knows some agent kinds, and the tools of
// some agents; runs of other kinds are counted as "other".
func NewNormalizer(r prometheus.Registerer, kinds []string, agents agent.Table) *Normalizer {
	return newNormalizer(set{reg: r}, kinds, agents)
}

func newNormalizer(s set, kinds []string, agents agent.Table) *Normalizer {
	n := &Normalizer{known: kinds, agents: agents, versions: map[string]*versions{}}
	n.runs(s)
	n.contents(s)
	n.own(s)
	return n
}

func (n *Normalizer) runs(s set) {
	n.started = s.counters("runs_started_total", "Runs that began.", "agent", "source")
	n.ended = s.counters("runs_ended_total",
		"Runs that ended, by their final state and its reason; the reason is none for completed and cancelled runs.",
		"agent", "state", "reason")
	n.runTime = s.histograms("run_duration_seconds", "Time from the start of a run to its end.", hours, "agent", "state")
	n.wait = s.histograms("task_wait_seconds", "Time from the submission of a task to its start.", hours)
	n.wait.WithLabelValues()
	n.turns = s.counters("turns_total",
		"Turns that ended; unfinished: the run ended first.", "agent", "status")
	n.turnTime = s.histograms("turn_duration_seconds",
		"Time from the line that began a turn to the one that ended it, or to the end of the run.", seconds,
		"agent", "status")
	n.calls = s.counters("tool_calls_total",
		"Tool calls that ended; unfinished: the run ended first.", "agent", "kind", "status")
	n.callTime = s.histograms("tool_call_duration_seconds",
		"Time from the line that began a tool call to the one with its result, where the agent prints both.", seconds,
		"agent", "kind", "status")
	n.asked = s.counters("questions_total", "Questions of live runs.", "agent", "kind")
	n.settled = s.counters("questions_settled_total",
		"Questions that are over; other: no event told how.",
		"agent", "kind", "outcome", "decider")
	n.answerTime = s.histograms("question_answer_seconds",
		"Time until a person answered.", hours, "agent", "kind")
	n.messages = s.counters("messages_total",
		"Messages for live runs.", "agent", "status")
}

func (n *Normalizer) contents(s set) {
	n.tokens = s.counters("tokens_total",
		"Tokens that runs used, each counted once. The types do not overlap: input is without what came from or went to "+
			"a cache.", "agent", "type")
	n.thought = s.counters("reasoning_tokens_total",
		"Tokens of reasoning, where the agent reports them: a part of its output tokens.", "agent")
	n.events = s.counters("events_total", "Events and completions of the runs that were recorded.", "agent", "kind")
	n.lines = s.counters("lines_total", "Lines of stdout.", "agent", "version")
	n.malformed = s.counters("malformed_lines_total", "Lines that could not be parsed.", "agent", "version")
	n.unknown = s.counters("unknown_lines_total", "Lines of an unknown type.", "agent", "version")
	n.drift = s.counters("unknown_things_total",
		"Types, items, fields and statuses in lines that this linesman does not know.", "agent", "version")
	for i, m := range [len(n.output)][2]string{
		{"output_bytes_total", "Bytes of stdout of the runs."},
		{"stderr_bytes_total", "Bytes of stderr of the runs."},
		{"dropped_data_total", "Events without their data, because it was too long."},
		{"output_gaps_total", "Gaps in the output of runs: bytes that are not in RAW."},
		{"unreadable_entries_total", "Entries of RAW that could not be decoded."},
	} {
		n.output[i] = s.counters(m[0], m[1], "agent")
	}
}

// own are the metrics of the normalizer itself.
func (n *Normalizer) own(s set) {
	n.active = s.gauge("normalizer_active", "1 while this normalizer has the lease, 0 on a standby.")
	n.terms = s.counter("normalizer_terms_total", "Times that this normalizer became the active one.")
	n.failures = s.counters("normalizer_failures_total",
		"Times that an error interrupted this normalizer while it was the active one.", "cause")
	n.cuts = s.counter("normalizer_cuts_total", "Checkpoints that were stored, with the changed run records.")
	n.refusals = s.counters("publish_refusals_total",
		"Writes of the normalizer that a stream refused, because another one had written.", "stream")
	n.streamMessages = s.gauges("stream_messages", "Messages in a stream, as the active normalizer sees it.", "stream")
	n.streamBytes = s.gauges("stream_bytes", "Bytes of a stream.", "stream")
	n.limit = s.gauges("stream_limit_bytes", "Bytes that a stream may have; 0: no limit.", "stream")
	n.lagEvents = s.gauge("normalizer_unstored_events", "Events that were published and are not acknowledged yet.")
	entries := s.desc(prometheus.GaugeValue, "normalizer_lag_entries",
		"Entries of RAW that the active normalizer has not processed yet; stage record: whose results RUNS does not have.",
		"stage")
	behind := s.desc(prometheus.GaugeValue, "normalizer_lag_seconds",
		"How long ago the oldest entry of RAW was stored that the stage has not processed: an upper bound.", "stage")
	s.read(func(send func(*desc, float64, ...string)) {
		now := time.Now().UnixMilli()
		for stage, l := range map[string]*lag{"fold": &n.folding, "record": &n.recording} {
			send(entries, float64(l.entries.Load()), stage)
			age := int64(0)
			if since := l.since.Load(); since != 0 {
				age = max(now-since, 0)
			}
			send(behind, float64(age)/1e3, stage)
		}
	}, entries, behind)
	for _, stream := range []string{"events", "runs"} {
		n.refusals.WithLabelValues(stream)
	}
}

// version returns the label of a version of an agent.
func (n *Normalizer) version(agent, version string) string {
	v := n.versions[agent]
	if v == nil {
		v = new(versions)
		n.versions[agent] = v
	}
	return v.label(version)
}

// Active reports that a term began. The result ends it.
func (n *Normalizer) Active() (end func()) {
	if n == nil {
		return func() {}
	}
	n.terms.Inc()
	n.active.Set(1)
	return func() {
		n.active.Set(0)
		n.lagEvents.Set(0)
		for _, sizes := range []*prometheus.GaugeVec{n.streamMessages, n.streamBytes, n.limit} {
			sizes.Reset()
		}
		n.behind(&n.folding, 0, 0)
		n.behind(&n.recording, 0, 0)
	}
}

// Failed counts a term that an error ended. Cause must be one of few words.
func (n *Normalizer) Failed(cause string) {
	if n != nil {
		n.failures.WithLabelValues(cause).Inc()
	}
}

// Refused counts a write that a stream refused: "events" or "runs".
func (n *Normalizer) Refused(stream string) {
	if n != nil {
		n.refusals.WithLabelValues(stream).Inc()
	}
}

// Stored counts a cut.
func (n *Normalizer) Stored() {
	if n != nil {
		n.cuts.Inc()
	}
}

// Stream sets the size of a stream: "raw", "events" or "runs". Limit is in bytes; at most 0: none.
func (n *Normalizer) Stream(stream string, messages, bytes uint64, limit int64) {
	if n == nil {
		return
	}
	n.streamMessages.WithLabelValues(stream).Set(float64(messages))
	n.streamBytes.WithLabelValues(stream).Set(float64(bytes))
	n.limit.WithLabelValues(stream).Set(float64(max(limit, 0)))
}

// Lag says how far the active normalizer is behind.
type Lag struct {
	Entries   uint64    // of RAW that are not folded
	Since     time.Time // when the oldest of them was stored, at the earliest
	Recording uint64    // entries that are folded and not recorded
	Recorded  time.Time // when the last ones were recorded
	Events    int       // published and not acknowledged
}

// Lag sets the lag.
func (n *Normalizer) Lag(l Lag) {
	if n == nil {
		return
	}
	n.behind(&n.folding, l.Entries, l.Since.UnixMilli())
	n.behind(&n.recording, l.Entries+l.Recording, min(l.Since.UnixMilli(), l.Recorded.UnixMilli()))
	n.lagEvents.Set(float64(l.Events))
}

func (n *Normalizer) behind(l *lag, entries uint64, since int64) {
	if entries == 0 {
		since = 0
	}
	l.entries.Store(entries)
	l.since.Store(since)
}
