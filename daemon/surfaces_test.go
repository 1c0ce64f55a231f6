package daemon_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/spans"
)

// What an agent's tools and counters mean is said once, in its entry. Every surface shows a run of an
// agent that none of them has heard of.
func TestSurfacesKnowAnAgentByItsEntry(t *testing.T) {
	c := newAviary(t, `#!/bin/sh
echo '{"says":"Polly "}'
echo '{"says":"wants"}'
echo '{"breaks":"stick-1"}'
echo '{"used":{"heard":4,"repeated":6,"said":3}}'
`)
	ctx := t.Context()
	task, err := c.Submit(ctx, api.Submission{Task: runs.Task{
		Attributes: runs.Attributes{Agent: "parrot", Dir: c.config.Settings.Work.Roots[0]}, Prompt: "hello"}})
	if err != nil {
		t.Fatal(err)
	}
	run, err := c.Wait(ctx, task.Run, nil)
	if err != nil {
		t.Fatal(err)
	}
	if u := run.Detail.Usage; u == nil || u.Total == nil || u.Total.Input != 10 {
		t.Errorf("the record has the usage %+v", u)
	}

	// The events and the details, as the page reads them.
	meanings := func(all []api.Meaning) string {
		var b strings.Builder
		for _, m := range all {
			if m.Tokens != nil {
				fmt.Fprintf(&b, "%+v ", *m.Tokens)
			}
			if m.Tokens = nil; m != (api.Meaning{}) {
				fmt.Fprintf(&b, "%s subagent=%t piece=%t ", m.Class, m.Subagent, m.Piece)
			}
		}
		return b.String()
	}
	const want = " subagent=false piece=true  subagent=false piece=true file_change subagent=true piece=false " +
		"{Input:10 Cached:6 Output:3 Thread:true} "
	page, err := c.Events(ctx, api.EventsRequest{Run: task.Run})
	if err != nil {
		t.Fatal(err)
	}
	var all []api.Meaning
	for _, e := range page.Events {
		all = append(all, e.Meaning)
	}
	if got := meanings(all); got != want {
		t.Errorf("its events mean %q, want %q", got, want)
	}
	var printed bytes.Buffer
	timeline := console.NewTimeline(&printed, func(string) string { return "" }, console.TimelineOptions{})
	all = nil
	for item, err := range c.FollowDetail(ctx, task.Run, "", 0, false) {
		if err == nil {
			err = timeline.Write(item)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, item.Meaning)
	}
	if got := meanings(all); got != want {
		t.Errorf("its details mean %q, want %q", got, want)
	}
	for _, want := range []string{"│ Polly wants\n", "✓ break", "10 tokens in (6 cached), 3 out"} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("the console prints %q, want %q in it", &printed, want)
		}
	}
	workers, err := c.Workers(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(workers.Agents, api.Agent{Kind: "parrot", Short: "parrot", Name: "Parrot"}) {
		t.Errorf("the agents are %+v", workers.Agents)
	}

	can := []string{
		"agent_api.artifacts.final_text.v1", "agent_api.control.cancel.v1", "agent_api.events", "agent_api.events.live",
		"agent_api.exec.non_interactive", "agent_api.run", agent.ToolsStructured,
	}
	if got := workers.Workers[0].Capabilities["parrot"]; !slices.Equal(got, can) {
		t.Errorf("a worker with it can %q", got)
	}
	info, err := c.bus.Inside().RequestWithContext(ctx, "$SRV.INFO.linesman", nil)
	if want := `"capabilities.parrot":"` + strings.Join(can, " ") + `"`; err != nil || !strings.Contains(string(info.Data), want) {
		t.Errorf("the service says %s, %v", info.Data, err)
	}

	checkSpans(t, parrot(""), page.Events)
	for metric, want := range map[string]float64{
		"linesman_tool_calls_total agent=parrot kind=file_change status=completed": 1,
		"linesman_tokens_total agent=parrot type=cache_read":                       6,
	} {
		if got := series(t, c.config.Registry)[metric]; got != want {
			t.Errorf("%s is %v, want %v", metric, got, want)
		}
	}
}

// checkSpans checks the spans of the events of the parrot.
func checkSpans(t *testing.T, of agent.Agent, events []api.Event) {
	t.Helper()
	r := spans.New("run", of.Kind(), of)
	kinds, tokens := map[any]int{}, runs.Usage{}
	for _, e := range events {
		for _, s := range r.Apply(runs.Event{Token: e.Kind, Line: e.Line, Part: e.Part, Time: int64(e.At), Body: e.Body}) {
			kinds[s.Kind]++
			tokens = tokens.Plus(s.Tokens)
		}
	}
	if kinds[spans.Agent] != 1 || kinds[spans.Tool] != 1 || kinds[spans.Turn] != 1 ||
		tokens != (runs.Usage{Input: 10, CachedInput: 6, Output: 3}) {
		t.Errorf("the spans are of the kinds %v, with %+v", kinds, tokens)
	}
}

// series are the counters and gauges of a registry by name and labels.
func series(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return all
}
