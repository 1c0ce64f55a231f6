package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"
)

// report is what was measured. Its JSON has all metrics, also those without a row.
type report struct {
	Date    string  `json:"date,omitempty"`
	Commit  string  `json:"commit,omitempty"`
	Quick   bool    `json:"quick,omitempty"`
	Machine machine `json:"machine"`
	Metrics metrics `json:"metrics"` // "SOURCE METRIC"

	rows []row
}

// result is a row with its value.
type result struct {
	What   string   `json:"what"`
	Metric string   `json:"metric"`
	Value  *float64 `json:"value"` // nil: not measured
	Target string   `json:"target,omitempty"`
	Bound  *float64 `json:"bound,omitempty"` // of the target
	Met    *bool    `json:"met,omitempty"`
}

// MarshalJSON adds the rows with their results, and leaves out what is not a number.
func (r report) MarshalJSON() ([]byte, error) {
	type plain report
	r.Metrics = maps.Clone(r.Metrics)
	maps.DeleteFunc(r.Metrics, func(_ string, v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) })
	all := []result{}
	for _, row := range r.rows {
		all = append(all, r.result(row))
	}
	return json.Marshal(struct {
		plain
		Rows []result `json:"rows"`
	}{plain(r), all})
}

func (r report) result(row row) result {
	res := result{What: row.what, Metric: row.source + " " + row.metric, Target: row.goal.String()}
	if row.goal != none {
		res.Bound = &row.goal.bound
	}
	if v, measured := r.Metrics[res.Metric]; measured && !math.IsNaN(v) && !math.IsInf(v, 0) {
		res.Value = &v
		if row.goal != none {
			met := row.goal.met(v)
			res.Met = &met
		}
	}
	return res
}

func (g goal) String() string {
	if g == none {
		return ""
	}
	return g.op + " " + number(g.bound)
}

func (g goal) met(v float64) bool {
	if g.op == "≤" {
		return v <= g.bound
	}
	return v >= g.bound
}

// print prints the table.
func (r report) print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WHAT\tMEASURED\tTARGET\t")
	met, targets := 0, 0
	for _, row := range r.rows {
		res := r.result(row)
		value, verdict := "-", ""
		if res.Value != nil {
			value = number(*res.Value)
		}
		if res.Met != nil {
			targets++
			verdict = "not met"
			if *res.Met {
				met++
				verdict = "met"
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", row.what, value, res.Target, verdict)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d of %d targets met. %d cores, %s, %s, nats-server %s, linesman %s\n", met, targets,
		r.Machine.Cores, r.Machine.CPU, r.Machine.Go, r.Machine.Server, r.Commit)
	return err
}

// number formats a value with three digits at least, and as few as possible beyond them.
func number(v float64) string {
	switch {
	case math.Abs(v) >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case math.Abs(v) >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// samples are the values of several rounds, by name.
type samples map[string][]float64

func (s samples) add(name string, v float64) { s[name] = append(s[name], v) }

func (s samples) median(name string) float64 { return percentile(s[name], 0.5) }

// percentile returns the smallest of the values that p of them do not exceed; NaN of none.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(p*float64(len(sorted))))-1)]
}
