package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/metrics"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// counters returns the values of the counters, and the numbers of observations of histograms, of
// what happened in runs.
func counters(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	ofNormalizer := map[string]bool{
		"linesman_normalizer_terms_total": true, "linesman_normalizer_failures_total": true,
		"linesman_normalizer_cuts_total": true, "linesman_publish_refusals_total": true,
	}
	all := map[string]float64{}
	for _, f := range families {
		if ofNormalizer[f.GetName()] {
			continue
		}
		for _, m := range f.GetMetric() {
			n := m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			if n != 0 {
				all[fmt.Sprint(f.GetName(), m.GetLabel())] = n
			}
		}
	}
	return all
}

func counting(b *Normalizer, m *metrics.Normalizer) *Normalizer {
	b.Metrics = m
	return b
}

// TestRunsAreCountedOnceAcrossTerms kills a normalizer before every event, with all that it has
// not recorded, and compares what it and its successors counted with an uninterrupted one.
func TestRunsAreCountedOnceAcrossTerms(t *testing.T) {
	t.Parallel()
	logs := map[string][]runs.Entry{"a": bustest.CorpusLog(t, "shell-fail", 700), "b": bustest.CorpusLog(t, "plan", 333)}
	run := func(t *testing.T, n *Normalizer) error {
		t.Helper()
		return n.term(t.Context(), n.Log)
	}
	var want map[string]float64
	for _, every := range []uint64{0, 1, 3} {
		_, b := serve(t)
		bustest.Interleave(t, b, logs, "a", "b")
		r := prometheus.NewRegistry()
		m := metrics.NewNormalizer(r, []string{"codex"}, known.Agents)
		last := bustest.LastSeq(t, b.JetStream(), b.Raw())
		killed := 0
		for stop := uint64(2); every > 0; stop += every {
			n := counting(newNormalizer(b), m)
			n.Until, n.die = last, func(next uint64) bool { return next >= stop }
			if err := run(t, n); err == nil {
				break
			} else if !errors.Is(err, errDied) {
				t.Fatal(err)
			}
			killed++
		}
		n := counting(newNormalizer(b), m)
		n.Until = last
		if err := run(t, n); err != nil {
			t.Fatal(err)
		}
		have := counters(t, r)
		switch {
		case every == 0:
			want = have
		case killed < 5:
			t.Errorf("only %d kills", killed)
		case !maps.Equal(have, want):
			t.Errorf("killed before every %d. event:\n got %v\nwant %v", every, have, want)
		}
	}
	if len(want) < 15 {
		t.Errorf("only %v", want)
	}
}

// answered is the log of a live run whose question is answered after its last line. Then it gets a message.
func answered() []runs.Entry {
	line := func(kind runs.Kind, offset int, text string) runs.Entry {
		return runs.Entry{Kind: kind, Time: 3_000, Offset: int64(offset), Body: []byte(text + "\n")}
	}
	command := func(c runs.Command) runs.Entry {
		return runs.Entry{Kind: runs.Ordered, Time: 4_000, Body: runs.Encode(c)}
	}
	const prompt = `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"prompt":[]}}`
	start := runs.Start{Source: "queue", Live: &runs.Terms{}, Keep: true}
	return []runs.Entry{
		{Kind: runs.Started, Time: 1_000, Body: runs.Encode(start)},
		{Kind: runs.Proc, Time: 2_000, Body: runs.Encode(runs.Process{N: 1, Do: runs.ProcessStart, How: "new"})},
		line(runs.Sent, 0, prompt),
		line(runs.Out, 0, `{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":{"sessionId":"s",`+
			`"toolCall":{"toolCallId":"c","kind":"edit"},"options":[{"optionId":"y","kind":"allow_once"}]}}`),
		command(runs.Command{ID: "a", Do: runs.DoAsk, By: runs.ByPolicy, Question: "q1"}),
		command(runs.Command{ID: "b", Do: runs.DoAnswer, By: "phone", Question: "q1", Option: "y"}),
		line(runs.Sent, len(prompt)+1,
			`{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"selected","optionId":"y"}}}`),
		command(runs.Command{ID: "c", Do: runs.DoSend, By: "phone", Text: "more"}),
	}
}

// TestEventsThatAreMadeAgainAreNotCountedAgain deletes EVENTS: all runs are folded again.
func TestEventsThatAreMadeAgainAreNotCountedAgain(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	logs := map[string][]runs.Entry{"a": bustest.CorpusLog(t, "plan", 700), "live": answered()}
	bustest.Interleave(t, b, logs, "a", "live")
	r := prometheus.NewRegistry()
	m := metrics.NewNormalizer(r, []string{"codex"}, known.Agents)
	var want map[string]float64
	for range 2 {
		n := counting(newNormalizer(b), m)
		n.Until = bustest.LastSeq(t, b.JetStream(), b.Raw())
		if err := n.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if have := counters(t, r); want != nil && !maps.Equal(have, want) {
			t.Errorf("got %v\nwant %v", have, want)
		} else {
			want = have
		}
		if len(want) < 15 {
			t.Errorf("only %v", want)
		}
		bustest.Remake(t, b, b.PublicJetStream(), b.Events())
	}
}

// TestStandbyCountsNothing runs two normalizers: only the one with the lease counts.
func TestStandbyCountsNothing(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	first, second := prometheus.NewRegistry(), prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	start := func(ctx context.Context, r *prometheus.Registry) {
		n := newNormalizer(bustest.Connect(t, s, embedded.NormalizerUser))
		n.Metrics = metrics.NewNormalizer(r, []string{"codex"}, known.Agents)
		go func() { done <- n.Run(ctx) }()
	}
	active := func(r *prometheus.Registry) bool { return gauge(t, r, "linesman_normalizer_active") == 1 }
	start(ctx, first)
	bustest.Until(t, "no normalizer is active", func() bool { return active(first) })
	others, stop := context.WithCancel(t.Context())
	start(others, second)
	bustest.Interleave(t, b, map[string][]runs.Entry{"a": bustest.CorpusLog(t, "hello", 700)}, "a")
	bustest.Ended(t, b, "a")
	bustest.Until(t, "the run is not counted", func() bool { return len(counters(t, first)) > 5 })
	if have := counters(t, second); len(have) > 0 || active(second) {
		t.Errorf("the standby counted %v", have)
	}
	bustest.Until(t, "the size of RAW is not known, or the normalizer is behind", func() bool {
		return gauge(t, first, "linesman_stream_messages") > 0 && gauge(t, first, "linesman_normalizer_lag_entries") == 0
	})
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	bustest.Until(t, "the standby does not become active", func() bool { return active(second) && !active(first) })
	for _, name := range []string{"messages", "bytes", "limit_bytes"} {
		if n := gauge(t, first, "linesman_stream_"+name); n != 0 {
			t.Errorf("a normalizer that is active no more reports stream_%s of %v", name, n)
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// gauge returns the sum of the values of a gauge.
func gauge(t *testing.T, g prometheus.Gatherer, name string) (sum float64) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// TestRefusalsOfEventsAreCounted lets another writer store an event first.
func TestRefusalsOfEventsAreCounted(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	p, err := newPublisher(b, 7, false) // EVENTS is empty
	if err != nil {
		t.Fatal(err)
	}
	r := prometheus.NewRegistry()
	p.metrics = metrics.NewNormalizer(r, nil, known.Agents)
	err = p.publish(t.Context(), b.EventSubject("codex", "x", "status"), normalizer.Message{Body: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.stored(ctx, 7); err == nil {
		t.Fatal("an event was stored with a gap before it")
	}
	p.close()
	if n := refusals(t, r); n != 1 {
		t.Errorf("%v refusals are counted, want 1", n)
	}
}

func refusals(t *testing.T, g prometheus.Gatherer) (n float64) {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "linesman_publish_refusals_total" {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// Entries that expired before they were read do not count as unread.
func TestLagOfEntriesThatExpired(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	log := bustest.CorpusLog(t, "hello", 700)
	bustest.Interleave(t, b, map[string][]runs.Entry{"a": log}, "a")
	n := newNormalizer(b)
	n.Until = 2
	if err := n.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	bustest.Purge(t, b.JetStream(), b.Raw())
	r := prometheus.NewRegistry()
	n = newNormalizer(b)
	n.Metrics = metrics.NewNormalizer(r, []string{"codex"}, known.Agents)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	bustest.Until(t, "it has not seen RAW", func() bool { return gauge(t, r, "linesman_stream_limit_bytes") > 0 })
	bustest.Until(t, "it is behind", func() bool { return gauge(t, r, "linesman_normalizer_lag_entries") == 0 })
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A term that has not read, or not recorded, anything yet is not behind since the year 1.
func TestLagOfANewTerm(t *testing.T) {
	t.Parallel()
	for _, first := range []lag{{unread: 7}, {at: time.Now()}, {unread: 7, at: time.Now()}} {
		r := prometheus.NewRegistry()
		m := metrics.NewNormalizer(r, nil, known.Agents)
		s := &session{
			Normalizer: &Normalizer{Metrics: m}, tally: m.NewTally(), events: &publisher{next: 1}, lag: first, raw: 3,
		}
		s.tellLag()
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, metric := range f.GetMetric() {
				if v := metric.GetGauge().GetValue(); f.GetName() == "linesman_normalizer_lag_seconds" && v > 60 {
					t.Errorf("%+v: %v is %v s", first, metric.GetLabel(), v)
				}
			}
		}
	}
}
