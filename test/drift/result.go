package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// results are the results of each agent, by its short name, in the order of the versions.
type results map[string][]result

// result is what linesman makes of the output of one version.
type result struct {
	Version   string `json:"version"`
	Missing   string `json:"missing,omitempty"`   // why nothing was played
	Scenarios int    `json:"scenarios,omitempty"` // played ones
	Lines     int64  `json:"lines,omitempty"`

	Unknown []unknown    `json:"unknown,omitempty"` // what linesman does not know
	Faults  []difference `json:"faults,omitempty"`  // what has no explanation
	// What differs from the recordings of the tested version, which is no fault.
	Differs []difference `json:"differs,omitempty"`
}

// unknown is a thing that linesman does not know, in a scenario.
type unknown struct {
	Scenario string    `json:"scenario"`
	What     runs.What `json:"what"`
	Name     string    `json:"name"`
	Line     int64     `json:"line"`
	Count    int64     `json:"count"`
}

// difference is something in a scenario that is not as in the recording of the tested version.
type difference struct {
	Scenario string `json:"scenario"`
	What     string `json:"what"`
}

// good reports whether linesman understands the whole output.
func (r result) good() bool { return r.Missing == "" && len(r.Unknown) == 0 && len(r.Faults) == 0 }

// put adds a result, or replaces that of the same version, unless nothing was played now.
func (all results) put(agent string, r result) {
	i, found := slices.BinarySearchFunc(all[agent], r, func(a, b result) int { return compare(a.Version, b.Version) })
	switch {
	case !found:
		all[agent] = slices.Insert(all[agent], i, r)
	case r.Missing == "":
		all[agent][i] = r
	}
}

// known returns the versions known good.
func (all results) known(agent string) (versions []string) {
	for _, r := range all[agent] {
		if r.good() {
			versions = append(versions, r.Version)
		}
	}
	return versions
}

// add folds the recording of a scenario and compares it with that of the tested version.
// Unordered says that the order of events depends on how fast the agent is.
func (r *result) add(a agent.Agent, scenario, played, recorded string, differs span, unordered bool) {
	got, err := fold(a.Backend, played)
	if err != nil {
		r.fault(scenario, err.Error())
		return
	}
	want, err := fold(a.Backend, recorded)
	if err != nil {
		r.fault(scenario, err.Error())
		return
	}
	r.Lines += got.record.Lines
	if d := got.record.Drift; d != nil {
		for _, t := range d.Things {
			r.Unknown = append(r.Unknown, unknown{scenario, t.What, t.Name, t.Line, t.Count})
		}
	}
	if n := got.record.Unknown; n > 0 && got.record.Drift == nil {
		r.fault(scenario, fmt.Sprintf("%d lines of an unknown type", n))
	}
	if v := got.record.Version; v != "" && v != r.Version {
		r.fault(scenario, "the output tells version "+v)
	}
	if n := got.record.Malformed; n > 0 {
		r.fault(scenario, fmt.Sprintf("%d lines cannot be parsed", n))
	}
	if n := got.record.Bad; n > 0 {
		r.fault(scenario, fmt.Sprintf("%d unreadable records", n))
	}
	state := want.record.State
	if differs.State != "" {
		state = differs.State
	}
	if got.record.State != state {
		r.fault(scenario, fmt.Sprintf("%s: %s, want %s", got.record.State, got.record.Reason, state))
	}
	if got.exit == killed && want.exit != killed {
		what := "had not ended after " + scenarioTime.String() + ", and was killed"
		r.Differs = append(r.Differs, difference{scenario, what})
	}
	if text := diff(want.sequence(unordered), got.sequence(unordered)); text != "" {
		r.Differs = append(r.Differs, difference{scenario, text})
	}
}

func (r *result) fault(scenario, what string) {
	r.Faults = append(r.Faults, difference{scenario, what})
}

// folded is what linesman makes of a recording.
type folded struct {
	record *runs.Record
	events []string // see event
	exit   int      // exit status, 128 and its number for a signal
}

// fold folds NAME.jsonl and NAME.exit.
func fold(b normalizer.Backend, name string) (folded, error) {
	out, err := os.ReadFile(name + ".jsonl")
	if err != nil {
		return folded{}, err
	}
	exit, err := os.ReadFile(name + ".exit")
	if err != nil {
		return folded{}, err
	}
	code, err := strconv.Atoi(strings.TrimSpace(string(exit)))
	if err != nil {
		return folded{}, err
	}
	end := runs.Exit{Reason: runs.ReasonExited, Code: &code}
	if code > 128 && code < 160 { // a shell's status for a signal
		end.Code, end.Signal = nil, code-128
	}
	f := normalizer.NewFold(b, "T-local-test", 0)
	var events []string
	for i, e := range []runs.Entry{
		{Kind: runs.Started, Time: 1_000, Body: runs.Encode(runs.Start{Source: "run"})},
		{Kind: runs.Out, Time: 2_000, Body: out},
		{Kind: runs.Exited, Time: 3_000, Body: runs.Encode(end)},
	} {
		f.Apply(uint64(i+1), e, func(m normalizer.Message) { events = append(events, event(m)) })
	}
	return folded{f.Record, events, code}, nil
}

// sequence returns the events to be compared. Equal ones that follow each other count as one: a
// text comes in any number of parts.
func (f folded) sequence(unordered bool) []string {
	if unordered {
		slices.Sort(f.events)
	}
	return slices.Compact(f.events)
}

// event describes a message without what changes from run to run: its kind, and kind and
// phase of a tool.
func event(m normalizer.Message) string {
	var e struct {
		Kind, Channel string
		Data          struct {
			Tool struct{ Kind, Phase, Status string }
		}
	}
	if json.Unmarshal(m.Body, &e) != nil || e.Kind == "" {
		return m.Token
	}
	switch t := e.Data.Tool; {
	case t.Phase != "":
		return e.Kind + "(" + t.Kind + " " + t.Phase + ")"
	case e.Kind == "TextOutput":
		return e.Kind + "(" + e.Channel + ")"
	}
	return e.Kind
}

// diff describes what b has in place of a part of a, "" if they are equal.
func diff(a, b []string) string {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	switch {
	case len(a)+len(b) == 0:
		return ""
	case len(a) == 0:
		return "also " + some(b)
	case len(b) == 0:
		return "without " + some(a)
	}
	return some(b) + " in place of " + some(a)
}

// some joins events, the first ones of many.
func some(events []string) string {
	if len(events) > 6 {
		return strings.Join(events[:6], ", ") + fmt.Sprintf(" and %d more", len(events)-6)
	}
	return strings.Join(events, ", ")
}

// text describes the result for people.
func (r result) text(agent string) string {
	var s strings.Builder
	switch {
	case r.Missing != "":
		fmt.Fprintf(&s, "%s %s: not played: %s\n", agent, r.Version, r.Missing)
	case r.good():
		fmt.Fprintf(&s, "%s %s: good; %d scenarios, %d lines\n", agent, r.Version, r.Scenarios, r.Lines)
	default:
		fmt.Fprintf(&s, "%s %s: not understood; %d scenarios, %d lines\n", agent, r.Version, r.Scenarios, r.Lines)
	}
	for _, u := range r.Unknown {
		fmt.Fprintf(&s, "  unknown %s %q: %d times in %s, first in line %d\n", u.What, u.Name, u.Count, u.Scenario, u.Line)
	}
	for _, f := range r.Faults {
		fmt.Fprintf(&s, "  %s: %s\n", f.Scenario, f.What)
	}
	for _, d := range r.Differs {
		fmt.Fprintf(&s, "  %s differs: %s\n", d.Scenario, d.What)
	}
	return s.String()
}
