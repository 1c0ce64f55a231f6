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

// meter keeps the metrics of the conventions.
type meter struct {
	names   conventions
	delta   bool   // each request has what is new, else all since start
	start   uint64 // Unix nanoseconds
	metrics []*instrument
}

// instrument has the points of a metric, by their attributes: of a histogram, or of a counter.
type instrument struct {
	metric
	points map[string]*metricspb.HistogramDataPoint
	counts map[string]*metricspb.NumberDataPoint
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
	switch s.Kind {
	case spans.Turn, spans.Agent:
		d := m.names.agentDuration
		of.text(attrOperation, opInvokeAgent)
		if d.operation {
			of.text(attrProvider, f.provider)
			of.text(attrModel, f.model)
		} else if s.Kind == spans.Turn {
			of.text(attrAgentName, s.Agent)
			of.text(attrModel, f.model)
		}
		of.text(attrErrorType, s.Error)
		m.observe(d, of, seconds)
	case spans.Tool:
		d := m.names.toolDuration
		if d.operation {
			of.text(attrOperation, opExecuteTool)
			of.text(attrProvider, f.provider)
		} else {
			of.text(attrToolName, toolName(s))
			of.text(attrAgentName, s.Agent)
			of.text(attrToolType, toolType(s.ToolKind, s.Tool))
		}
		of.text(attrErrorType, s.Error)
		m.observe(d, of, seconds)
	}
	t := used(s, f)
	if t == nil {
		return
	}
	for _, one := range m.names.tokens {
		var of attributes
		of.text(attrOperation, one.operation)
		of.text(attrProvider, f.provider)
		of.text(attrModel, f.model)
		of.text(attrTokenType, one.kind)
		of.text(attrModality, one.modality)
		if one.buckets != nil {
			m.observe(one.metric, of, float64(one.of(*t)))
		} else {
			m.add(one.metric, of, one.of(*t))
		}
	}
}

// of returns the instrument of a metric.
func (m *meter) of(one metric) *instrument {
	i := slices.IndexFunc(m.metrics, func(h *instrument) bool { return h.name == one.name })
	if i < 0 {
		i = len(m.metrics)
		m.metrics = append(m.metrics, &instrument{
			one, map[string]*metricspb.HistogramDataPoint{}, map[string]*metricspb.NumberDataPoint{},
		})
	}
	return m.metrics[i]
}

// bounded returns the attributes of a point and its key: those of the overflow if there are too many
// points already.
func bounded[P any](points map[string]P, a attributes) (attributes, string) {
	key := keyOf(a)
	if _, known := points[key]; !known && len(points) >= maxPoints-1 {
		a = nil
		a.flag(overflow, true)
		key = keyOf(a)
	}
	return a, key
}

// observe adds a value to a histogram.
func (m *meter) observe(of metric, a attributes, value float64) {
	h := m.of(of)
	a, key := bounded(h.points, a)
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

// add adds a value to a counter.
func (m *meter) add(of metric, a attributes, value int64) {
	h := m.of(of)
	a, key := bounded(h.counts, a)
	sum := int64(0)
	if p := h.counts[key]; p != nil {
		sum = p.GetAsInt()
	}
	h.counts[key] = &metricspb.NumberDataPoint{
		Attributes: a, Value: &metricspb.NumberDataPoint_AsInt{AsInt: sum + value},
	}
}

func keyOf(a attributes) string {
	var b strings.Builder
	for _, kv := range a {
		b.WriteString(kv.Key + "\x00" + kv.Value.GetStringValue() + "\x00")
	}
	return b.String()
}

// read returns the metrics up to a time; nil: there are none. The next request has them again, unless they are taken.
func (m *meter) read(now uint64, by *commonpb.InstrumentationScope) *metricspb.ScopeMetrics {
	all := &metricspb.ScopeMetrics{Scope: by, SchemaUrl: m.names.schema}
	temporality := metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
	if m.delta {
		temporality = metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	}
	for _, h := range m.metrics {
		one := &metricspb.Metric{Name: h.name, Unit: h.unit, Description: h.description}
		if h.buckets != nil {
			data := &metricspb.Histogram{AggregationTemporality: temporality}
			for _, p := range h.points {
				p.StartTimeUnixNano, p.TimeUnixNano = m.start, now
				data.DataPoints = append(data.DataPoints, p)
			}
			one.Data = &metricspb.Metric_Histogram{Histogram: data}
		} else {
			data := &metricspb.Sum{AggregationTemporality: temporality, IsMonotonic: true}
			for _, p := range h.counts {
				p.StartTimeUnixNano, p.TimeUnixNano = m.start, now
				data.DataPoints = append(data.DataPoints, p)
			}
			one.Data = &metricspb.Metric_Sum{Sum: data}
		}
		all.Metrics = append(all.Metrics, one)
	}
	if len(all.Metrics) == 0 {
		return nil
	}
	return all
}

// taken notes that the receiver has what was read at a time.
func (m *meter) taken(now uint64) {
	if m.delta {
		m.metrics, m.start = nil, now
	}
}
