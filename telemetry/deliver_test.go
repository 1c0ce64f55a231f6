package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/spans"
)

// A receiver that is away, or slow, or refuses for a time, gets all; it is asked less and less.
func TestReceiverThatIsAwayGetsAllLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.value = []byte(`{"stream":"a","seq":0}`)
		s.begin("r")
		s.finish("r")
		back := time.Now().Add(time.Hour)
		s.answer = func(n int) (int, []byte) {
			if time.Now().Before(back) {
				return []int{0, 503, 401, 404, 429, 500}[n%6], []byte("the request had sentinel")
			}
			return 200, nil
		}
		e := s.exporter(nil)
		s.export(e, 2*time.Hour)
		s.want(3)
		if s.asked > 400 {
			t.Errorf("%d requests in an hour", s.asked)
		}
		said := s.log.FilterMessage("waiting for the receiver").Len() +
			s.log.FilterMessage("the receiver answers again").Len()
		if said != 2 {
			t.Errorf("it was logged %d times", said)
		}
		for _, line := range s.log.All() {
			if text := fmt.Sprint(line.Message, line.ContextMap()); strings.Contains(text, "secret") ||
				strings.Contains(text, "sentinel") {
				t.Errorf("the log has %s", text)
			}
		}
		if c := e.Counts(); c != (totals{Exported: 3}) {
			t.Errorf("counts %+v", c)
		}
	})
}

// A request on which a receiver fails again and again is dropped after an hour. What follows is
// sent.
func TestRequestThatAReceiverFailsOnIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.value = []byte(`{"stream":"a","seq":0}`)
		s.begin("r")
		s.finish("r")
		end := time.Now().Add(time.Hour)
		s.answer = func(int) (int, []byte) {
			if time.Now().Before(end) {
				return 500, nil
			}
			s.answer = nil
			return 500, nil
		}
		e := s.exporter(map[string]string{"OTEL_METRICS_EXPORTER": "none"})
		s.export(e, 59*time.Minute)
		if c := e.Counts(); c != (totals{}) {
			t.Errorf("counts %+v before the hour", c)
		}
		end = time.Now().Add(time.Hour)
		e = s.exporter(map[string]string{"OTEL_METRICS_EXPORTER": "none"})
		s.export(e, 2*time.Hour)
		if c := e.Counts(); c != (totals{Rejected: 3}) {
			t.Errorf("counts %+v", c)
		}
		s.begin("next")
		s.finish("next")
		s.export(s.exporter(nil), time.Minute)
		s.want(3)
	})
}

// The facts of a run come from a record that includes the event, if there will be one soon. A
// record that is late is not kept.
func TestFactsWaitForTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		e := s.exporter(nil)
		e.known = newKnown(maxKnown)
		e.known.add("r", spans.New("r", "codex", agent.Agent{}))
		for _, c := range []struct {
			name   string
			age    time.Duration // of the event in EVENTS
			record *runs.Record
			wait   time.Duration
			model  string
		}{
			{"an old event without a record", time.Hour, nil, 0, ""},
			{"a new event without a record", time.Second, nil, 9 * time.Second, ""},
			{"an event of a clock that is ahead", -time.Hour, nil, 10 * time.Second, ""},
			{"a record that is late", 0, &runs.Record{Seq: 4, Attributes: runs.Attributes{Model: "late"}}, 10 * time.Second,
				"late"},
			{"a record that includes it", 0, &runs.Record{Seq: 5, Attributes: runs.Attributes{Model: "m"}}, 0, "m"},
			{"the same later", 0, &runs.Record{Seq: 6, Attributes: runs.Attributes{Model: "other"}}, 0, "m"},
		} {
			s.records["r"] = c.record
			began := time.Now()
			f, err := e.factsOf(t.Context(), "r", end{raw: 5, stored: began.Add(-c.age).UnixMilli()})
			if took := time.Since(began); err != nil || f.model != c.model || took < c.wait || took > c.wait+2*recordPoll {
				t.Errorf("%s: %q after %v, %v", c.name, f.model, took, err)
			}
		}
	})
}

// late has records from a time on.
type late struct {
	*stage
	from time.Time
}

func (l late) Record(ctx context.Context, run string) (*runs.Record, error) {
	if time.Now().Before(l.from) {
		return nil, nil
	}
	return l.stage.Record(ctx, run)
}

// What an agent printed yesterday, and a worker has read now, gets the record that comes soon.
func TestOldLinesThatAreReadNowWaitForTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.value = []byte(`{"stream":"a","seq":0}`)
		s.begin("r")
		s.finish("r")
		for i := range s.events {
			s.events[i].Time, s.events[i].Stored = time.Now().Add(-24*time.Hour).UnixMilli(), time.Now().UnixMilli()
		}
		s.records["r"] = &runs.Record{Seq: 5, Attributes: runs.Attributes{Model: "gpt-5"}}
		e := s.exporter(nil)
		e.cfg.Runs = late{s, time.Now().Add(2 * time.Second)}
		s.export(e, time.Minute)
		s.want(3)
		for _, span := range s.spans {
			if strings.HasPrefix(span.Name, "invoke_agent") && !strings.Contains(span.String(), "gpt-5") {
				t.Errorf("%v has no model", span)
			}
		}
	})
}

// Many receivers of traces take no metrics: they answer 404 there. Traces do not wait for them.
func TestReceiverWithoutMetricsGetsAllTraces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.value = []byte(`{"stream":"a","seq":0}`)
		e := s.exporter(nil)
		asked := 0
		e.metrics.client.Transport = transport(func(*http.Request) (*http.Response, error) {
			asked++
			return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody}, nil
		})
		for i := range 4 {
			s.begin(fmt.Sprint(i))
			s.finish(fmt.Sprint(i))
		}
		e.most = 3 // a batch for each run
		s.export(e, time.Minute)
		s.want(12)
		if asked != 4 || s.log.FilterMessage("the receiver refuses a request, which is dropped").Len() != 1 {
			t.Errorf("%d requests, %v", asked, s.log.All())
		}
	})
}

// Nor do they wait for one that is not reached, or is not ready. It gets all points once it is, from the same process.
func TestTracesDoNotWaitForMetrics(t *testing.T) {
	for _, temporality := range []string{"delta", "cumulative"} {
		for _, status := range []int{0, http.StatusServiceUnavailable} {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t)
				s.value = []byte(`{"stream":"a","seq":0}`)
				e := s.exporter(map[string]string{"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": temporality})
				asked, back := 0, time.Now().Add(time.Hour)
				e.metrics.client.Transport = transport(func(q *http.Request) (*http.Response, error) {
					switch asked++; {
					case time.Now().After(back):
						return s.RoundTrip(q)
					case status == 0:
						return nil, errors.New("connection refused")
					}
					return &http.Response{StatusCode: status, Body: http.NoBody}, nil
				})
				for i := range 4 {
					s.begin(fmt.Sprint(i))
					s.finish(fmt.Sprint(i))
				}
				e.most = 3 // a batch for each run
				s.export(e, time.Minute)
				s.want(12)
				s.begin("last")
				s.finish("last")
				s.export(e, time.Hour) // of another term
				s.want(15)
				if asked < 100 || asked > 400 {
					t.Errorf("%d requests in an hour", asked)
				}
				points := map[string]uint64{}
				for _, m := range s.metrics {
					for _, one := range m.ResourceMetrics[0].ScopeMetrics[0].Metrics {
						for _, p := range one.GetHistogram().GetDataPoints() {
							points[one.Name] += p.Count
						}
					}
				}
				if points["gen_ai.client.operation.duration"] != 10 || points["gen_ai.client.token.usage"] != 10 ||
					len(s.metrics) != 1 {
					t.Errorf("%s after %d: %d requests with %v", temporality, status, len(s.metrics), points)
				}
				for message, n := range map[string]int{"waiting for the receiver": 1, "the receiver answers again": 1} {
					if s.log.FilterMessage(message).Len() != n {
						t.Errorf("%q: %v", message, s.log.All())
					}
				}
			})
		}
	}
}

// Nor for one that accepts requests, and never answers.
func TestTracesDoNotWaitForSilentMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.value = []byte(`{"stream":"a","seq":0}`)
		e := s.exporter(nil)
		e.metrics.client.Transport = transport(func(q *http.Request) (*http.Response, error) {
			<-q.Context().Done()
			return nil, q.Context().Err()
		})
		for i := range 4 {
			s.begin(fmt.Sprint(i))
			s.finish(fmt.Sprint(i))
		}
		e.most = 3 // a batch for each run
		s.export(e, defaultTimeout/2)
		s.want(12)
		if !e.owes {
			t.Error("the points are not kept")
		}
		e.metrics.client.Transport = s
		s.export(e, time.Minute)
		if len(s.metrics) != 1 || e.owes {
			t.Errorf("%d requests have points, others are left: %t", len(s.metrics), e.owes)
		}
	})
}

// What a process owes is sent in its next term. Totals are not, if another process sent its own meanwhile: they would
// go back.
func TestTotalsDoNotGoBack(t *testing.T) {
	for temporality, want := range map[string]uint64{"delta": 6, "cumulative": 4} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			s.value = []byte(`{"stream":"a","seq":0}`)
			env := map[string]string{"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": temporality}
			e, other := s.exporter(env), s.exporter(env)
			e.metrics.client.Transport = transport(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
			})
			for i, of := range []*Exporter{e, other, e} {
				s.begin(fmt.Sprint(i))
				s.finish(fmt.Sprint(i))
				s.export(of, time.Minute)
				e.metrics.client.Transport = s
			}
			n, start := uint64(0), uint64(0)
			for _, m := range s.metrics {
				for _, one := range m.ResourceMetrics[0].ScopeMetrics[0].Metrics {
					for _, p := range one.GetHistogram().GetDataPoints() {
						if temporality == "cumulative" && p.StartTimeUnixNano < start {
							t.Errorf("%s begins at %d, after one at %d", one.Name, p.StartTimeUnixNano, start)
						}
						start = p.StartTimeUnixNano
						if one.Name == "gen_ai.client.operation.duration" {
							n += p.Count
						}
					}
				}
			}
			if n != want {
				t.Errorf("%s: %d points, want %d", temporality, n, want)
			}
		})
	}
}

// What a receiver refuses for good is counted, and what follows is sent.
func TestWhatAReceiverRefusesIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.value = []byte(`{"stream":"a","seq":0}`)
		s.begin("refused")
		s.finish("refused")
		s.answer = func(n int) (int, []byte) {
			switch n {
			case 1:
				return 400, nil
			case 2:
				return 200, []byte{10, 2, 8, 2} // partial_success {rejected_spans: 2}
			}
			return 200, nil
		}
		e := s.exporter(map[string]string{"OTEL_METRICS_EXPORTER": "none"})
		s.export(e, 5*time.Second)
		if c := e.Counts(); c != (totals{Rejected: 3}) {
			t.Errorf("counts %+v", c)
		}
		for _, run := range []string{"partly", "whole"} {
			s.begin(run)
			s.finish(run)
			e = s.exporter(map[string]string{"OTEL_METRICS_EXPORTER": "none"})
			s.export(e, 5*time.Second)
			if c := e.Counts(); run == "partly" && c != (totals{Exported: 1, Rejected: 2}) ||
				run == "whole" && c != (totals{Exported: 3}) {
				t.Errorf("%s: counts %+v", run, c)
			}
		}
	})
}

// transport is an [http.RoundTripper].
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }
