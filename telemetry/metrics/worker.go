package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Worker has the metrics of a worker.
type Worker struct {
	state atomic.Pointer[func() WorkerState]

	appends, appended, refused, adopted prometheus.Counter
	shims                               *prometheus.CounterVec
	appendTime                          prometheus.Observer
}

// WorkerState is the state of a worker.
type WorkerState struct {
	Runs, Tasks, Slots int   // driven runs, those of them from the queue, and how many of these there may be
	Spool, Unsent      int64 // bytes of output in run directories; of all output that RAW does not have
	Waiting            int   // runs with output that RAW does not have

	// Of runs that take messages: those with a process and those without, and the messages that wait.
	Awake, Asleep, Messages int
}

// NewWorker registers the metrics of a worker.
func NewWorker(r prometheus.Registerer) *Worker { return newWorker(set{reg: r}) }

func newWorker(s set) *Worker {
	w := &Worker{
		appends:  s.counter("raw_appends_total", "Writes to RAW that were acknowledged; a burst is one."),
		appended: s.counter("raw_appended_bytes_total", "Bytes of output that RAW acknowledged."),
		refused: s.counter("raw_refusals_total",
			"Writes to RAW that were refused, because another one had written to the log of the run, as a cancel does."),
		appendTime: s.histograms("raw_append_duration_seconds", "Time of a write to RAW, outages included.", calls).
			WithLabelValues(),
		shims: s.counters("shims_started_total",
			"Processes that were started to supervise an agent; takeover: in place of one that was gone.", "reason"),
		adopted: s.counter("runs_adopted_total", "Runs that were found without an owner and resumed."),
	}
	for _, reason := range []string{"start", "takeover"} {
		w.shims.WithLabelValues(reason)
	}
	runs := s.desc(prometheus.GaugeValue, "worker_runs", "Runs that the worker drives.")
	tasks := s.desc(prometheus.GaugeValue, "worker_tasks", "Runs that the worker drives and that are tasks of the queue.")
	slots := s.desc(prometheus.GaugeValue, "worker_slots", "Maximum number of tasks that the worker runs at a time.")
	spool := s.desc(prometheus.GaugeValue, "worker_spool_bytes",
		"Bytes of output in the directories of the runs that the worker drives.")
	unsent := s.desc(prometheus.GaugeValue, "worker_unsent_bytes",
		"Bytes of output that RAW lacks, unless they only begin a line.")
	waiting := s.desc(prometheus.GaugeValue, "worker_unsent_runs",
		"Runs with output that RAW lacks, unless it only begins a line.")
	kept := s.desc(prometheus.GaugeValue, "worker_kept_runs",
		"Runs that the worker drives and that take messages; asleep: without a process.", "state")
	messages := s.desc(prometheus.GaugeValue, "worker_messages", "Messages for these runs that wait for their turn.")
	s.read(func(send func(*desc, float64, ...string)) {
		state := w.state.Load()
		if state == nil {
			return
		}
		v := (*state)()
		send(runs, float64(v.Runs))
		send(tasks, float64(v.Tasks))
		send(slots, float64(v.Slots))
		send(spool, float64(v.Spool))
		send(unsent, float64(v.Unsent))
		send(waiting, float64(v.Waiting))
		send(kept, float64(v.Awake), "awake")
		send(kept, float64(v.Asleep), "asleep")
		send(messages, float64(v.Messages))
	}, runs, tasks, slots, spool, unsent, waiting, kept, messages)
	return w
}

// Read sets what returns the state of the worker. It is called for each collection, from any
// goroutine.
func (w *Worker) Read(state func() WorkerState) {
	if w != nil {
		w.state.Store(&state)
	}
}

// Appended counts a write to RAW that took some seconds, and the bytes of its output.
func (w *Worker) Appended(bytes int, seconds float64) {
	if w == nil {
		return
	}
	w.appends.Inc()
	w.appended.Add(float64(bytes))
	w.appendTime.Observe(seconds)
}

// Refused counts a write that RAW refused.
func (w *Worker) Refused() {
	if w != nil {
		w.refused.Inc()
	}
}

// Shim counts a shim that was started.
func (w *Worker) Shim(takeover bool) {
	switch {
	case w == nil:
	case takeover:
		w.shims.WithLabelValues("takeover").Inc()
	default:
		w.shims.WithLabelValues("start").Inc()
	}
}

// Adopted counts a run without an owner that is resumed.
func (w *Worker) Adopted() {
	if w != nil {
		w.adopted.Inc()
	}
}
