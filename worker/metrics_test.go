package worker

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/linesman/linesman/telemetry/metrics"
)

// gathered returns the values of metrics by name, with those of a label added to it.
func gathered(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

// TestUnsentOutputIsCounted lets an agent write while its raw log is unreachable.
func TestUnsentOutputIsCounted(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	r := prometheus.NewRegistry()
	l.w.cfg.Metrics = metrics.NewWorker(r)
	l.w.cfg.Metrics.Read(l.w.state)
	dir := t.TempDir()
	spec := shell("r", "echo one; while ! [ -e go ]; do sleep 0.01; done; echo two; touch done; "+
		"printf half; while ! [ -e end ]; do sleep 0.01; done")
	spec.Dir = dir
	expect := func(want map[string]float64) { // some are counted a moment later
		t.Helper()
		waitFor(t, fmt.Sprint(want), func() bool {
			have := gathered(t, r)
			for name, n := range want {
				if is, ok := have[name]; !ok || is != n {
					return false
				}
			}
			return true
		})
	}
	_, done := l.begun(spec, "one")
	expect(map[string]float64{
		"linesman_worker_runs": 1, "linesman_worker_spool_bytes": 4, "linesman_raw_appended_bytes_total": 4,
		"linesman_shims_started_total start": 1, "linesman_shims_started_total takeover": 0,
		"linesman_worker_unsent_bytes": 0,
	})
	back := make(chan struct{})
	l.logs.setBlocked(back)
	write(t, filepath.Join(dir, "go"), "")
	waitFor(t, "the agent", func() bool { return exists(filepath.Join(dir, "done")) })
	expect(map[string]float64{
		"linesman_worker_spool_bytes": 12, "linesman_worker_unsent_bytes": 8, "linesman_worker_unsent_runs": 1,
	})
	close(back)
	expect(map[string]float64{ // the rest of the line is not there yet
		"linesman_worker_spool_bytes": 12, "linesman_worker_unsent_bytes": 0, "linesman_worker_unsent_runs": 0,
		"linesman_raw_appended_bytes_total": 8,
	})
	write(t, filepath.Join(dir, "end"), "")
	<-done
	expect(map[string]float64{
		"linesman_worker_runs": 0, "linesman_worker_unsent_bytes": 0, "linesman_raw_appended_bytes_total": 12,
		"linesman_raw_appends_total": 5, "linesman_raw_append_duration_seconds": 5, "linesman_raw_refusals_total": 0,
	})
}

// TestRunsThatTakeMessagesAreCounted sends a run messages in its turn, and lets it sleep.
func TestRunsThatTakeMessagesAreCounted(t *testing.T) {
	t.Parallel()
	s := sleeping(t, "resumes", "waits")
	r, done := s.driven(t.Context(), s.create(s.spec))
	expect := func(awake, asleep, messages int) {
		t.Helper()
		waitFor(t, fmt.Sprint(awake, asleep, messages), func() bool {
			v := s.w.state()
			return v.Awake == awake && v.Asleep == asleep && v.Messages == messages
		})
	}
	waitFor(t, "the turn", func() bool { return strings.HasSuffix(s.transcript(), "<update") })
	expect(1, 0, 0)
	s.say(r, "m1")
	s.say(r, "m2")
	expect(1, 0, 2)
	write(t, s.dir+"/go", "")
	expect(0, 1, 0)
	s.over(r, done)
	expect(0, 0, 0)
}
