// Package metrics has the Prometheus metrics of linesman: a type for each role, whose methods
// the packages of that role call.
//
//	normalizer ─▶ Tally ─▶ Normalizer ─┐
//	worker ───────────────▶ Worker ────┼─▶ *prometheus.Registry ─▶ /metrics
//	responder ──▶ responder, Calls ────┘
//
// What happens in runs is counted by the active normalizer, once, when the records of the runs
// are stored; a responder counts only what it did itself. Labels have a bounded number of
// values: never a run, a path, a text of a user, or a name that an agent can choose. A nil
// pointer to a type of this package counts nothing.
package metrics

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// The roles that a metric can be of.
const (
	roleEvery      = "every role"
	roleNormalizer = "normalizer"
	roleWorker     = "worker"
	roleResponder  = "responder"
)

// description describes a metric.
type description struct {
	Name   string
	Type   string // counter, gauge or histogram
	Labels []string
	Help   string
	Role   string
}

// Descriptions returns the descriptions of all metrics, by role and name.
func Descriptions() []description {
	r := prometheus.NewRegistry()
	all := new([]description)
	registerBuild(set{r, roleEvery, all}, "", "", "")
	newNormalizer(set{r, roleNormalizer, all}, nil, nil)
	newWorker(set{r, roleWorker, all})
	newResponder(set{r, roleResponder, all})
	newCalls(set{r, roleResponder, all})
	order := []string{roleEvery, roleNormalizer, roleWorker, roleResponder}
	slices.SortFunc(*all, func(a, b description) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Role), slices.Index(order, b.Role)), cmp.Compare(a.Name, b.Name))
	})
	return *all
}

// NewRegistry returns a registry with what every process has: the build, and the metrics of the Go
// runtime and of the process.
func NewRegistry(version, revision, goVersion string) *prometheus.Registry {
	r := prometheus.NewRegistry()
	registerBuild(set{reg: r}, version, revision, goVersion)
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

func registerBuild(s set, version, revision, goVersion string) {
	s.gauges("build_info", "1, with the version of linesman, the revision of its source, and the version of Go.",
		"version", "revision", "goversion").WithLabelValues(version, revision, goVersion).Set(1)
}

// set registers metrics of a role, and describes them.
type set struct {
	reg  prometheus.Registerer
	role string
	all  *[]description // nil: they are not described
}

func (s set) describe(kind, name, help string, labels []string) prometheus.Opts {
	o := prometheus.Opts{Namespace: "linesman", Name: name, Help: help}
	if s.all != nil {
		*s.all = append(*s.all, description{"linesman_" + name, kind, labels, help, s.role})
	}
	return o
}

func (s set) counters(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts(s.describe("counter", name, help, labels)), labels)
	s.reg.MustRegister(v)
	return v
}

func (s set) counter(name, help string) prometheus.Counter {
	return s.counters(name, help).WithLabelValues()
}

func (s set) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts(s.describe("gauge", name, help, labels)), labels)
	s.reg.MustRegister(v)
	return v
}

func (s set) gauge(name, help string) prometheus.Gauge { return s.gauges(name, help).WithLabelValues() }

// histograms have the given buckets, and native ones for servers that ask for them.
func (s set) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	o := s.describe("histogram", name, help, labels)
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: o.Namespace, Name: o.Name, Help: o.Help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.2, NativeHistogramMaxBucketNumber: 100,
	}, labels)
	s.reg.MustRegister(v)
	return v
}

// read registers gauges and counters that are read together when they are collected: read calls
// send with a value of a metric and those of its labels.
func (s set) read(read func(send func(m *desc, value float64, labels ...string)), all ...*desc) {
	s.reg.MustRegister(&reader{read, all})
}

// desc is a metric that is read.
type desc struct {
	*prometheus.Desc
	kind prometheus.ValueType
}

func (s set) desc(kind prometheus.ValueType, name, help string, labels ...string) *desc {
	o := s.describe(map[prometheus.ValueType]string{
		prometheus.GaugeValue: "gauge", prometheus.CounterValue: "counter",
	}[kind], name, help, labels)
	return &desc{prometheus.NewDesc(o.Namespace+"_"+o.Name, help, labels, nil), kind}
}

// reader is a collector of metrics that are read together.
type reader struct {
	read func(send func(m *desc, value float64, labels ...string))
	all  []*desc
}

func (r *reader) Describe(to chan<- *prometheus.Desc) {
	for _, d := range r.all {
		to <- d.Desc
	}
}

func (r *reader) Collect(to chan<- prometheus.Metric) {
	r.read(func(m *desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(m.Desc, m.kind, value, labels...)
	})
}
