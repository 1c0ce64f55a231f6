package telemetry

import (
	"slices"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/linesman/linesman/telemetry/spans"
)

// maxPoints is the maximum number of combinations of attributes of a metric. Further ones
// are counted together, with the attribute of the specification.
const (
	maxPoints = 1000
	overflow  = "otel.metric.overflow"
)

// meter keeps the histograms of the conventions.
type meter struct {
	names   conventions
	delta   bool   // each request has what is new, else all since start
	start   uint64 // Unix nanoseconds
	metrics []*histogram
}

type histogram struct {
	metric
	points map[string]*metricspb.HistogramDataPoint
}

// newMeter returns a meter from a time on. Preference is the value of the variable for the
// temporality.
func newMeter(names conventions, preference string, start uint64) *meter {
	preference = strings.ToLower(preference)
	return &meter{names: names, delta: preference == "delta" || preference == "lowmemory", start: start}
}

// record counts a span.
func (m *meter) record(s spans.Span, f facts) {
	var of attributes
	seconds := float64(s.End-s.Start) / 1000
	agent := attributes{}
	agent.text(attrOperation, opInvokeAgent)
	agent.text(attrProvider, provider(s.Agent, f.model))
	agent.text(attrModel, f.model)
	switch s.Kind {
	case spans.Turn, spans.Agent:
		d := m.names.agentDuration
		if d.operation {
			of = slices.Clone(agent)
		} else if s.Kind == spans.Turn {
			of.text(attrAgentName, s.Agent)
		}
		of.text(attrErrorType, s.Error)
		m.observe(d, of, seconds)
	case spans.Tool:
		d := m.names.toolDuration
		if d.operation {
			of.text(attrOperation, opExecuteTool)
			of.text(attrProvider, provider(s.Agent, f.model))
		} else {
			of.text(attrToolName, toolName(s))
			of.text(attrAgentName, s.Agent)
			of.text(attrToolType, toolType(s.ToolKind, s.Tool))
		}
		of.text(attrErrorType, s.Error)
		m.observe(d, of, seconds)
	}
	if t := used(s, f); t != nil {
		for _, n := range []struct {
			kind  string
			count int64
		}{{"input", t.Input}, {"output", t.Output}} {
			with := slices.Clone(agent)
			with.text(attrTokenType, n.kind)
			m.observe(m.names.tokens, with, float64(n.count))
		}
	}
}

// observe adds a value to a histogram.
func (m *meter) observe(of metric, a attributes, value float64) {
	i := slices.IndexFunc(m.metrics, func(h *histogram) bool { return h.name == of.name })
	if i < 0 {
		i = len(m.metrics)
		m.metrics = append(m.metrics, &histogram{of, map[string]*metricspb.HistogramDataPoint{}})
	}
	h := m.metrics[i]
	key := keyOf(a)
	if h.points[key] == nil && len(h.points) >= maxPoints-1 {
		a = nil
		a.flag(overflow, true)
		key = keyOf(a)
	}
	p := h.points[key]
	if p == nil {
		p = &metricspb.HistogramDataPoint{
			Attributes: a, ExplicitBounds: of.buckets, BucketCounts: make([]uint64, len(of.buckets)+1), Sum: new(float64),
			Min: new(value), Max: new(value),
		}
		h.points[key] = p
	}
	at, _ := slices.BinarySearch(of.buckets, value) // a bucket includes its upper bound
	p.BucketCounts[at]++
	p.Count++
	*p.Sum += value
	*p.Min, *p.Max = min(*p.Min, value), max(*p.Max, value)
}

func keyOf(a attributes) string {
	var b strings.Builder
	for _, kv := range a {
		b.WriteString(kv.Key + "\x00" + kv.Value.GetStringValue() + "\x00")
	}
	return b.String()
}

// take returns the metrics up to a time; nil: there are none.
func (m *meter) take(now uint64, by *commonpb.InstrumentationScope) *metricspb.ScopeMetrics {
	all := &metricspb.ScopeMetrics{Scope: by, SchemaUrl: schemaURL}
	temporality := metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
	if m.delta {
		temporality = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	}
	for _, h := range m.metrics {
		data := &metricspb.Histogram{AggregationTemporality: temporality}
		for _, p := range h.points {
			p.StartTimeUnixNano, p.TimeUnixNano = m.start, now
			data.DataPoints = append(data.DataPoints, p)
		}
		all.Metrics = append(all.Metrics, &metricspb.Metric{
			Name: h.name, Unit: h.unit, Description: h.description, Data: &metricspb.Metric_Histogram{Histogram: data},
		})
	}
	if m.delta {
		m.metrics, m.start = nil, now
	}
	if len(all.Metrics) == 0 {
		return nil
	}
	return all
}
