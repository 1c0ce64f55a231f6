package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	"github.com/linesman/linesman/agent"
	agents "github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/spans"
)

// stage is streams and a receiver in memory.
type stage struct {
	t       *testing.T
	id      string
	first   uint64
	events  []runs.Event // from first on
	reads   int          // of single runs
	value   []byte
	rev     uint64
	records map[string]*runs.Record

	answer  func(n int) (status int, body []byte)
	asked   int
	spans   map[string]*tracepb.Span
	twice   int
	metrics []*metricspb.MetricsData
	log     *observer.ObservedLogs
}

func newStage(t *testing.T) *stage {
	return &stage{t: t, id: "a", first: 1, records: map[string]*runs.Record{}, spans: map[string]*tracepb.Span{}}
}

// exporter returns an exporter to the receiver of the stage.
func (s *stage) exporter(env map[string]string) *Exporter {
	s.t.Helper()
	core, log := observer.New(zap.DebugLevel)
	s.log = log
	all := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://user:secret@receiver"}
	maps.Copy(all, env)
	e, err := New(Config{
		Agent: func(kind string) agent.Agent {
			a, _ := agents.Agents.Find(kind)
			return a
		},
		Events: s, Store: s, Runs: s, Env: func(k string) string { return all[k] }, Version: "v", Log: zap.New(core),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, to := range []*target{e.traces, e.metrics} {
		if to != nil {
			to.client.Transport = s
		}
	}
	return e
}

// export runs an exporter for a time.
func (s *stage) export(e *Exporter, d time.Duration) {
	ctx, cancel := context.WithTimeout(s.t.Context(), d)
	defer cancel()
	if err := e.Run(ctx); err != nil {
		s.t.Error(err)
	}
}

func (s *stage) Lead(ctx context.Context, f func(context.Context) error) error {
	for ctx.Err() == nil {
		_ = f(ctx)
		time.Sleep(time.Second)
	}
	return nil
}

func (s *stage) Position(context.Context) ([]byte, uint64, error) { return s.value, s.rev, nil }

func (s *stage) SetPosition(_ context.Context, value []byte, revision uint64) (uint64, error) {
	if revision != s.rev {
		return 0, errors.New("moved")
	}
	s.value, s.rev = value, s.rev+1
	return s.rev, nil
}

func (s *stage) Stored(context.Context) (string, uint64, uint64, error) {
	return s.id, s.first, s.first + uint64(len(s.events)) - 1, nil
}

func (s *stage) EachEvent(_ context.Context, of runs.Selection, each func(runs.Event) error) error {
	if of.Run != "" {
		s.reads++
	}
	for _, e := range s.events {
		if e.Seq > of.After && (of.Run == "" || e.Run == of.Run) {
			if err := each(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *stage) Record(_ context.Context, run string) (*runs.Record, error) {
	return s.records[run], nil
}

func (s *stage) Detail(context.Context, string, string) (api.DetailPage, error) {
	return api.DetailPage{}, &api.Error{Code: api.NotFound}
}

func (s *stage) RoundTrip(q *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(q.Body)
	s.asked++
	status, answer := 200, []byte(nil)
	if s.answer != nil {
		status, answer = s.answer(s.asked)
	}
	if status == 0 {
		return nil, errors.New("connection refused")
	}
	if status == 200 {
		s.keep(q.URL.Path, body)
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(answer)), Header: http.Header{}}, nil
}

func (s *stage) keep(path string, body []byte) {
	if path == "/v1/metrics" {
		m := &metricspb.MetricsData{}
		if err := proto.Unmarshal(body, m); err != nil {
			s.t.Error(err)
		}
		s.metrics = append(s.metrics, m)
		return
	}
	d := &tracepb.TracesData{}
	if err := proto.Unmarshal(body, d); err != nil {
		s.t.Error(err)
	}
	for _, span := range d.ResourceSpans[0].ScopeSpans[0].Spans {
		id := fmt.Sprintf("%x", span.SpanId)
		if old := s.spans[id]; old != nil {
			s.twice++
			if !proto.Equal(old, span) {
				s.t.Errorf("%v was %v", span, old)
			}
		}
		s.spans[id] = span
	}
}

// say appends an event of a run.
func (s *stage) say(run, token, body string) {
	line := uint64(1)
	for _, e := range s.events {
		if e.Run == run {
			line = e.Line + 1
		}
	}
	n := s.first + uint64(len(s.events))
	s.events = append(s.events, runs.Event{Seq: n, Raw: n, Agent: "codex", Run: run, Token: token, Line: line, Part: 1,
		Time: int64(900_000_000_000 + 100*n), Body: []byte(body)})
}

func call(phase, key string) string {
	return fmt.Sprintf(`{"data":{"schema":"agent_api.tools.structured.v1","tool":{"kind":"command_execution","phase":%q,`+
		`"status":"completed","tool_use_id":%q}}}`, phase, key)
}

// begin begins a turn with an open call, and finish ends all of it.
func (s *stage) begin(run string) {
	s.say(run, "status", `{"message":"turn started"}`)
	s.say(run, "tool_call", call("start", "x"))
}

func (s *stage) finish(run string) {
	s.say(run, "tool_result", call("complete", "x"))
	s.say(run, "status",
		`{"message":"turn completed","data":{"schema":"backend.codex.usage.v1","usage":{"input_tokens":9,`+
			`"cached_input_tokens":4,"output_tokens":2}}}`)
	s.say(run, "completion", `{"status":{"success":true,"code":0}}`)
}

func (s *stage) want(n int) {
	s.t.Helper()
	if len(s.spans) != n {
		s.t.Errorf("%d spans, want %d", len(s.spans), n)
	}
}

// The first export begins with what ends from then on. A later one continues.
func TestExportContinuesWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.begin("old")
		s.finish("old")
		s.begin("open")
		e := s.exporter(nil)
		s.export(e, 10*time.Second)
		s.want(0)
		s.finish("open")
		s.begin("new")
		s.export(s.exporter(nil), 10*time.Second)
		s.want(3)
		s.finish("new")
		s.export(s.exporter(nil), 10*time.Second)
		s.want(6)
		if s.twice != 0 {
			t.Errorf("%d spans were sent twice", s.twice)
		}
	})
}

// More open runs than fit into memory are read again, and end the same spans.
func TestRunsThatDoNotFitAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		export := func(memory int) *stage {
			s := newStage(t)
			s.value = []byte(`{"stream":"a","seq":0}`)
			e := s.exporter(map[string]string{"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "3"})
			e.memory = memory
			for i := range 200 {
				s.begin(fmt.Sprint("r", i))
			}
			for i := range 200 {
				s.finish(fmt.Sprint("r", i))
			}
			s.export(e, time.Minute)
			s.want(600)
			if e.known.size != 0 || e.known.order.Len() != 0 {
				t.Errorf("%d bytes are kept of no run", e.known.size)
			}
			return s
		}
		all, few := export(maxKnown), export(4<<10)
		if all.reads != 0 || few.reads < 150 {
			t.Errorf("read again: %d and %d runs", all.reads, few.reads)
		}
		for id, want := range all.spans {
			if !proto.Equal(few.spans[id], want) {
				t.Fatalf("%v, want %v", few.spans[id], want)
			}
		}
	})
}

// A run can have events before its first line: a live one has those of its process. Another exporter reads them again,
// and none of runs that begin with that line.
func TestRunThatBeganBeforeItsFirstLineIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name   string
			former bool // the position is one of a former version
			live   int  // runs that begin before the restart
			lost   int  // the oldest of them, which begin at their first line
		}{
			{"one", false, 1, 0},
			{"one, and a former version", true, 1, 1},
			{"too many to remember", false, maxBegun + 2, 2},
		} {
			s := newStage(t)
			s.value = []byte(`{"stream":"a","seq":0}`)
			for i := range c.live {
				s.say(fmt.Sprint("live", i), "status", `{"message":"agent started"}`)
				s.events[len(s.events)-1].Line = 0
			}
			s.begin("other")
			s.say("none", "completion", `{"status":{"success":true,"code":0}}`) // of no line
			s.events[len(s.events)-1].Line = 0
			s.export(s.exporter(nil), 10*time.Second)
			if c.former {
				s.value = []byte(fmt.Sprintf(`{"stream":"a","seq":%d}`, len(s.events)))
			}
			s.export(s.exporter(nil), 10*time.Second) // reads nothing
			s.reads = 0
			for i := range c.live {
				s.begin(fmt.Sprint("live", i))
				s.finish(fmt.Sprint("live", i))
			}
			for i := range 10 {
				s.begin(fmt.Sprint("r", i))
				s.finish(fmt.Sprint("r", i))
			}
			s.finish("other")
			e := s.exporter(nil)
			s.export(e, time.Minute)
			s.want(1 + 3*(c.live+10+1))
			if want := c.live - c.lost + 1; s.reads != want || len(e.position.Begun) != 0 {
				t.Errorf("%s: %d runs were read again, want %d; left: %v", c.name, s.reads, want, e.position.Begun)
			}
			starts := map[uint64]bool{}
			for _, span := range s.spans {
				starts[span.StartTimeUnixNano] = true
			}
			for i, v := range s.events[:c.live] {
				if starts[uint64(v.Time)*1e6] != (i >= c.lost) {
					t.Errorf("%s: run %d begins at its first event: %t", c.name, i, i < c.lost)
				}
			}
		}
	})
}

// detailed has the details of runs: their calls have long arguments.
type detailed struct{ *stage }

func (d detailed) Detail(_ context.Context, run, _ string) (page api.DetailPage, _ error) {
	for _, e := range d.events {
		if e.Run == run && e.Token == "tool_call" {
			page.Items = append(page.Items, api.DetailItem{Pos: fmt.Sprint(e.Seq), Line: e.Line, Part: e.Part, Kind: e.Token,
				Detail: &runs.Detail{Arguments: runs.Whole(strings.Repeat("x", 16<<10))}})
		}
	}
	page.Done = true
	return page, nil
}

// What is kept of the content of open calls is in the limit, too, though nothing more happens in their runs.
func TestContentOfOpenCallsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.value = []byte(`{"stream":"a","seq":0}`)
		e := s.exporter(map[string]string{captureContent: "true"})
		e.cfg.Runs, e.memory = detailed{s}, 100<<10
		for i := range 20 {
			run := fmt.Sprint("r", i)
			s.begin(run)
			s.say(run, "tool_call", call("start", "y"))
			s.say(run, "tool_result", call("complete", "y"))
		}
		s.export(e, time.Minute)
		s.want(20)
		kept := 0
		for el := e.known.order.Front(); el != nil; el = el.Next() {
			kept += el.Value.(*state).captured.size()
		}
		if kept == 0 || kept > e.memory {
			t.Errorf("%d bytes are kept, the limit is %d", kept, e.memory)
		}
	})
}

// Events that expired before they were exported are counted. The rest of their runs is sent.
func TestExpiredEventsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.value = []byte(`{"stream":"a","seq":1,"begun":["gone"]}`)
		s.begin("r")
		s.finish("r")
		s.events, s.first = s.events[3:], 4
		e := s.exporter(nil)
		s.answer = func(int) (int, []byte) { return 0, nil }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // the lease is lost while the receiver is away
		defer cancel()
		if err := e.lead(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		s.answer = nil
		s.export(e, 5*time.Second)
		s.want(2) // without the call
		if c := e.Counts(); c != (totals{Exported: 2, Expired: 2}) || len(e.position.Begun) != 0 {
			t.Errorf("counts %+v, begun %v", c, e.position.Begun)
		}
	})
}

// A stream that was recreated from RAW has the same events: only those that follow are
// exported. So has one that lost its end.
func TestRecreatedStreamIsNotExportedAgain(t *testing.T) {
	for _, id := range []string{"a", "b"} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t)
			s.value = []byte(`{"stream":"a","seq":0}`)
			s.begin("one")
			s.finish("one")
			s.begin("two")
			s.export(s.exporter(nil), 5*time.Second)
			s.want(3)
			kept := s.events
			s.events, s.id = kept[:4], id // it is being filled again
			s.export(s.exporter(nil), 5*time.Second)
			s.events = kept
			s.export(s.exporter(nil), 5*time.Second)
			time.Sleep(time.Second)
			s.finish("two")
			s.export(s.exporter(nil), 5*time.Second)
			s.want(6)
			if s.twice != 0 {
				t.Errorf("%d spans were sent twice", s.twice)
			}
		})
	}
}

// An exporter that was paused while another one worked stores no position.
func TestFormerExporterIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.value = []byte(`{"stream":"a","seq":0}`)
		e := s.exporter(nil)
		s.answer = func(int) (int, []byte) {
			s.value, s.rev = []byte(`{"stream":"a","seq":5}`), s.rev+1 // by another one
			return 200, nil
		}
		s.begin("r")
		s.finish("r")
		s.say("other", "status", `{"message":"turn started"}`)
		if err := e.lead(t.Context()); err == nil || string(s.value) != `{"stream":"a","seq":5}` {
			t.Errorf("error %v, position %s", err, s.value)
		}
	})
}

// The parent of a run is its submitter. A trace that the submitter does not sample has no
// spans.
func TestSubmitterIsTheParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.value = []byte(`{"stream":"a","seq":0}`)
		const context = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"
		for run, sampled := range map[string]string{"yes": "1", "no": "0"} {
			s.records[run] = &runs.Record{State: runs.StateCompleted, Source: "queue",
				Attributes: runs.Attributes{Model: "m",
					Labels: runs.LabelsOf(map[string]string{runs.LabelTraceparent: context + sampled})}, Version: "1.2"}
			s.begin(run)
			s.finish(run)
		}
		s.export(s.exporter(nil), 5*time.Second)
		s.want(3)
		for _, span := range s.spans {
			if fmt.Sprintf("%x", span.TraceId) != context[3:35] {
				t.Errorf("trace %x", span.TraceId)
			}
			if span.Name == "run codex" && fmt.Sprintf("%x", span.ParentSpanId) != context[36:52] {
				t.Errorf("parent %x", span.ParentSpanId)
			}
		}
	})
}

// Metrics have the names, units and buckets of the conventions, by version and temporality.
func TestMetricsOfTheConventions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			env  map[string]string
			want []string
		}{
			{nil, []string{"gen_ai.client.operation.duration s 15 2 of 2 cumulative",
				"gen_ai.client.operation.duration s 15 4 of 2 cumulative",
				"gen_ai.client.token.usage {token} 15 2 of 2 cumulative",
				"gen_ai.client.token.usage {token} 15 4 of 2 cumulative"}},
			{map[string]string{optIn: "http,gen_ai_latest_experimental",
				"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta"},
				[]string{
					"gen_ai.client.inference.usage.cache_read.input_tokens {token} 4 of 1 delta",
					"gen_ai.client.inference.usage.cache_read.input_tokens {token} 4 of 1 delta",
					"gen_ai.client.inference.usage.cache_write.input_tokens {token} 0 of 1 delta",
					"gen_ai.client.inference.usage.cache_write.input_tokens {token} 0 of 1 delta",
					"gen_ai.client.inference.usage.input_tokens {token} 9 of 1 delta",
					"gen_ai.client.inference.usage.input_tokens {token} 9 of 1 delta",
					"gen_ai.client.inference.usage.output_tokens {token} 2 of 1 delta",
					"gen_ai.client.inference.usage.output_tokens {token} 2 of 1 delta",
					"gen_ai.client.inference.usage.reasoning.output_tokens {token} 0 of 1 delta",
					"gen_ai.client.inference.usage.reasoning.output_tokens {token} 0 of 1 delta",
					"gen_ai.execute_tool.duration s 15 1 of 1 delta", "gen_ai.execute_tool.duration s 15 1 of 1 delta",
					"gen_ai.invoke_agent.duration s 14 1 of 1 delta", "gen_ai.invoke_agent.duration s 14 1 of 1 delta"}},
		} {
			s := newStage(t)
			s.value = []byte(`{"stream":"a","seq":0}`)
			e := s.exporter(c.env)
			for _, run := range []string{"one", "two"} {
				s.begin(run)
				s.finish(run)
			}
			e.most = 3 // a batch for each run
			s.export(e, 10*time.Second)
			var got []string
			for _, m := range s.metrics {
				for _, one := range m.ResourceMetrics[0].ScopeMetrics[0].Metrics {
					if sum := one.GetSum(); sum != nil {
						total := int64(0)
						for _, p := range sum.DataPoints {
							total += p.GetAsInt()
						}
						if !sum.IsMonotonic {
							t.Errorf("%s is no counter", one.Name)
						}
						got = append(got, fmt.Sprintf("%s %s %d of %d %s", one.Name, one.Unit, total, len(sum.DataPoints),
							strings.ToLower(strings.TrimPrefix(sum.AggregationTemporality.String(), "AGGREGATION_TEMPORALITY_"))))
						continue
					}
					h, n := one.GetHistogram(), uint64(0)
					for _, p := range h.DataPoints {
						n += p.Count
					}
					temporality := strings.ToLower(strings.TrimPrefix(h.AggregationTemporality.String(), "AGGREGATION_TEMPORALITY_"))
					got = append(got, fmt.Sprintf("%s %s %d %d of %d %s", one.Name, one.Unit, len(h.DataPoints[0].BucketCounts), n,
						len(h.DataPoints), temporality))
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		}
	})
}

// Which attributes of the conventions spans and metrics have, by version: an internal span of an agent
// has no provider, no version, and no parts of the tokens since 0.1.0, and the tokens written to a cache
// have another name.
func TestAttributesOfTheConventions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for value, want := range map[string]map[string]string{
			"": {
				"schema": "https://opentelemetry.io/schemas/1.41.0",
				"invoke_agent codex": "gen_ai.agent.name gen_ai.agent.version gen_ai.operation.name gen_ai.provider.name " +
					"gen_ai.request.model gen_ai.response.finish_reasons gen_ai.usage.cache_creation.input_tokens " +
					"gen_ai.usage.cache_read.input_tokens gen_ai.usage.input_tokens gen_ai.usage.output_tokens " +
					"gen_ai.usage.reasoning.output_tokens",
				"gen_ai.client.token.usage": "gen_ai.operation.name=invoke_agent gen_ai.provider.name=openai " +
					"gen_ai.request.model=gpt-5 gen_ai.token.type=input",
				"gen_ai.client.operation.duration": "gen_ai.operation.name=execute_tool gen_ai.provider.name=openai",
			},
			"gen_ai_latest_experimental": {
				"schema": "",
				"invoke_agent codex": "gen_ai.agent.name gen_ai.operation.name gen_ai.request.model " +
					"gen_ai.response.finish_reasons gen_ai.usage.input_tokens gen_ai.usage.output_tokens",
				"gen_ai.client.inference.usage.cache_write.input_tokens": "gen_ai.operation.name=chat " +
					"gen_ai.provider.name=openai gen_ai.request.model=gpt-5 gen_ai.token.modality=unknown",
				"gen_ai.invoke_agent.duration": "gen_ai.agent.name=codex gen_ai.operation.name=invoke_agent " +
					"gen_ai.request.model=gpt-5",
				"gen_ai.execute_tool.duration": "gen_ai.agent.name=codex gen_ai.tool.name=command_execution " +
					"gen_ai.tool.type=function",
			},
		} {
			s := newStage(t)
			s.value = []byte(`{"stream":"a","seq":0}`)
			s.records["one"] = &runs.Record{ID: "one", Attributes: runs.Attributes{Agent: "codex", Model: "gpt-5"},
				Version: "0.169.0"}
			s.begin("one")
			s.finish("one")
			s.export(s.exporter(map[string]string{optIn: value}), 10*time.Second)
			got := map[string]string{"schema": s.metrics[0].ResourceMetrics[0].ScopeMetrics[0].SchemaUrl}
			for _, span := range s.spans {
				var keys []string
				for _, kv := range span.Attributes {
					if strings.HasPrefix(kv.Key, "gen_ai.") {
						keys = append(keys, kv.Key)
					}
				}
				slices.Sort(keys)
				got[span.Name] = strings.Join(keys, " ")
			}
			for _, one := range s.metrics[0].ResourceMetrics[0].ScopeMetrics[0].Metrics {
				var all []string
				of := func(a []*commonpb.KeyValue) {
					var pairs []string
					for _, kv := range a {
						pairs = append(pairs, kv.Key+"="+kv.Value.GetStringValue())
					}
					slices.Sort(pairs)
					all = append(all, strings.Join(pairs, " "))
				}
				for _, p := range one.GetHistogram().GetDataPoints() {
					of(p.Attributes)
				}
				for _, p := range one.GetSum().GetDataPoints() {
					of(p.Attributes)
				}
				got[one.Name] = slices.Min(all)
			}
			for name, of := range want {
				if got[name] != of {
					t.Errorf("%q: %s has %q, want %q", value, name, got[name], of)
				}
			}
			for name := range got {
				if value != "" && strings.HasPrefix(name, "gen_ai.client.") && !strings.HasPrefix(name,
					"gen_ai.client.inference.usage.") {
					t.Errorf("%s is not of the newest conventions", name)
				}
			}
		}
	})
}

// However many tools there are, a metric has a limited number of points.
func TestPointsOfAMetricAreBounded(t *testing.T) {
	m := newMeter(versions[true], "", 1)
	for i := range 5000 {
		var a attributes
		a.text(attrToolName, fmt.Sprint(i))
		m.observe(m.names.toolDuration, a, 0.01)
	}
	points := m.read(2, scope("v")).Metrics[0].GetHistogram().DataPoints
	more := uint64(0)
	for _, p := range points {
		if p.Attributes[0].Key == overflow {
			more = p.Count
		}
		if p.BucketCounts[0] != p.Count { // the bound is included
			t.Errorf("buckets %v", p.BucketCounts)
		}
	}
	if len(points) != maxPoints || more != 5000-maxPoints+1 {
		t.Errorf("%d points, of which one has %d", len(points), more)
	}
	for i := range 5000 {
		var a attributes
		a.text(attrModel, fmt.Sprint(i))
		m.add(m.names.tokens[0].metric, a, 2)
	}
	counts, total := m.read(3, scope("v")).Metrics[1].GetSum().DataPoints, int64(0)
	for _, p := range counts {
		total += p.GetAsInt()
	}
	if len(counts) != maxPoints || total != 10_000 {
		t.Errorf("%d points of a counter with %d", len(counts), total)
	}
}

func TestTargetsOfTheEnvironment(t *testing.T) {
	const base = "OTEL_EXPORTER_OTLP_"
	for _, c := range []struct {
		env             map[string]string
		traces, metrics string // URLs; "": none
		wrong           string // part of the error
	}{
		{env: nil},
		{env: map[string]string{base + "ENDPOINT": "http://h:1/p/"}, traces: "http://h:1/p/v1/traces",
			metrics: "http://h:1/p/v1/metrics"},
		{env: map[string]string{base + "TRACES_ENDPOINT": "https://h"}, traces: "https://h/"},
		{env: map[string]string{base + "ENDPOINT": "http://h", "OTEL_SDK_DISABLED": "TRUE"}},
		{env: map[string]string{base + "ENDPOINT": "http://h", "OTEL_TRACES_EXPORTER": "none"},
			metrics: "http://h/v1/metrics"},
		{env: map[string]string{base + "ENDPOINT": "h:4317"}, wrong: "ENDPOINT"},
		{env: map[string]string{base + "ENDPOINT": "http://h", base + "PROTOCOL": "http/json"}, wrong: "PROTOCOL"},
		{env: map[string]string{base + "ENDPOINT": "http://h", base + "TIMEOUT": "-1"}, wrong: "TIMEOUT"},
		{env: map[string]string{base + "ENDPOINT": "http://h", base + "HEADERS": "secretvalue"}, wrong: "HEADERS"},
		{env: map[string]string{base + "ENDPOINT": "http://h", base + "COMPRESSION": "zip"}, wrong: "COMPRESSION"},
		{env: map[string]string{base + "ENDPOINT": "http://h", base + "CERTIFICATE": "/nowhere"}, wrong: "CERTIFICATE"},
		{env: map[string]string{base + "ENDPOINT": "http://h", "OTEL_RESOURCE_ATTRIBUTES": "x"}, wrong: "RESOURCE"},
		{env: map[string]string{base + "ENDPOINT": "http://h", "OTEL_RESOURCE_ATTRIBUTES": "x=%ff"}, wrong: "RESOURCE"},
		{env: map[string]string{base + "ENDPOINT": "http://h", "OTEL_RESOURCE_ATTRIBUTES": "\xff=x"}, wrong: "RESOURCE"},
		{env: map[string]string{base + "ENDPOINT": "http://h", "OTEL_SERVICE_NAME": "\xff"}, wrong: "SERVICE_NAME"},
		{env: map[string]string{base + "ENDPOINT": "http://h", base + "HEADERS": "\xff=secret"}, wrong: "HEADERS"},
		{env: map[string]string{base + "ENDPOINT": "http://h", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "0"}, wrong: "BATCH"},
	} {
		e, err := New(Config{Env: func(k string) string { return c.env[k] }})
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v: %v, want an error about %s", c.env, err, c.wrong)
			}
			continue
		}
		traces, metrics := "", ""
		if e != nil && e.traces != nil {
			traces = e.traces.url
		}
		if e != nil && e.metrics != nil {
			metrics = e.metrics.url
		}
		if err != nil || traces != c.traces || metrics != c.metrics || (e == nil) != (c.traces+c.metrics == "") {
			t.Errorf("%v: %q, %q, %v", c.env, traces, metrics, err)
		}
	}
}

func TestHeadersAndCompressionAreSent(t *testing.T) {
	var got http.Header
	e, err := New(Config{Env: func(k string) string {
		return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
			"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20x, b = 2 "}[k]
	}})
	if err != nil {
		t.Fatal(err)
	}
	e.traces.client.Transport = roundTrip(func(q *http.Request) { got = q.Header })
	if _, err := e.traces.send(t.Context(), &tracepb.TracesData{}); err != nil {
		t.Fatal(err)
	}
	if got.Get("Authorization") != "Bearer x" || got.Get("B") != "2" || got.Get("Content-Encoding") != "gzip" {
		t.Errorf("headers %v", got)
	}
}

// A redirect is no acknowledgement: the client would follow it without the body, and with the
// keys in the headers.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for _, status := range []int{http.StatusMovedPermanently, http.StatusPermanentRedirect} {
		receiver := httptest.NewServer(http.RedirectHandler(other.URL, status))
		defer receiver.Close()
		e, err := New(Config{Env: func(k string) string {
			return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.URL, "OTEL_EXPORTER_OTLP_HEADERS": "key=secret"}[k]
		}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.traces.send(t.Context(), &tracepb.TracesData{})
		var answer *refusal
		if !errors.As(err, &answer) || answer.status != status || answer.final() {
			t.Errorf("status %d: %v", status, err)
		}
	}
	if n := elsewhere.Load(); n != 0 {
		t.Errorf("%d requests were sent elsewhere", n)
	}
}

type roundTrip func(*http.Request)

func (f roundTrip) RoundTrip(q *http.Request) (*http.Response, error) {
	f(q)
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("")), Header: http.Header{}}, nil
}

// The stored position is what documents say.
func TestPositionIsStoredAsJSON(t *testing.T) {
	b, err := json.Marshal(position{Stream: "s", Seq: 7, Raw: 3, Line: 2, Part: 1, Time: 9})
	if want := `{"stream":"s","seq":7,"raw":3,"line":2,"part":1,"time":9}`; err != nil || string(b) != want {
		t.Errorf("%s, want %s", b, want)
	}
}

func TestAQuestionHasNoTexts(t *testing.T) {
	p := encode(spans.Span{Kind: spans.Question, Run: "r", Agent: "codex", Asked: "permission", Outcome: "allow",
		By: "person"}, facts{}, content{}, conventions{})
	got := p.Name
	for _, kv := range p.Attributes {
		got += " " + kv.Key + "=" + kv.Value.GetStringValue()
	}
	if want := "question permission linesman.question.kind=permission linesman.question.outcome=allow " +
		"linesman.question.by=person linesman.run.id=r"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
