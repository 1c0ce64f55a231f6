package pipeline

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// A term that has listed the keys of records and threads finds those of former terms, and what it has stored
// itself, and sends no request for a new run.
func TestRunsOfFormerTermsAreInTheListOfKeys(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	appendTo := func(run string, entries ...runs.Entry) {
		t.Helper()
		l, err := b.OpenLog(t.Context(), "codex", run, runs.Mark{})
		for _, e := range entries {
			if err == nil {
				err = l.Append(t.Context(), e)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	start := runs.Entry{Kind: runs.Started, Body: runs.Encode(runs.Start{Source: runs.SourceRun})}
	exit := runs.Entry{Kind: runs.Exited, Time: 9, Body: []byte(`{"reason":"eof"}`)}
	used := func(thread, tokens int) runs.Entry {
		return runs.Entry{Kind: runs.Out, Time: 1, Body: fmt.Appendf(nil,
			`{"type":"thread.started","thread_id":"01a1fd7c-2789-76b0-9824-%012d"}
{"type":"turn.completed","usage":{"input_tokens":%d,"cached_input_tokens":0,"output_tokens":0}}
`, thread, tokens)}
	}
	appendTo("former", used(1, 100), exit)
	appendTo("forgotten", used(1, 100), exit)
	normalize(t, b)
	records, err := b.JetStream().Stream(t.Context(), bucket.Stream(b.Runs()))
	if err == nil { // as a full RUNS removes it
		err = records.Purge(t.Context(), jetstream.WithPurgeSubject(bucket.Subject(b.Runs(), "forgotten")))
	}
	if err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := newNormalizer(b)
	s, err := n.open(ctx, n.Log)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	raw, err := b.JetStream().OrderedConsumer(ctx, b.Raw(), jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: s.last.Raw + 1,
	})
	foldAll := func() {
		t.Helper()
		for last := bustest.LastSeq(t, b.JetStream(), b.Raw()); err == nil && s.raw < last; {
			var m jetstream.Msg
			if m, err = raw.Next(); err == nil {
				err = s.entry(ctx, m)
			}
		}
		if err == nil {
			if err = s.beginCut(ctx, whole); err == nil {
				err = s.cutDone(<-s.cut)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// The first one is recorded; the second one asks for the list.
	appendTo("first", used(2, 1), exit)
	foldAll()
	appendTo("second", used(3, 1), exit)
	foldAll()
	keys := []*keySet{s.keys[b.Runs()], s.keys[b.Threads()]}
	for _, k := range keys {
		bustest.Until(t, "there is no list of keys", func() bool { return k.lacks("nothing") })
	}
	appendTo("third", start, used(4, 1), exit)
	requests := 0
	stop := bustest.Subscribe(t, b.JetStream().Conn(), "$JS.API.STREAM.MSG.GET.*", func(*nats.Msg) { requests++ })
	foldAll()
	if stop(); requests > 0 {
		t.Errorf("%d requests for a new run", requests)
	}

	if _, err := b.Forget(t.Context(), "forgotten"); err != nil {
		t.Fatal(err)
	}
	clear(s.ended)
	appendTo("later", used(1, 150), exit)
	events := s.events.next
	late := runs.Entry{Kind: runs.Out, Time: 10, Offset: 1 << 20, Body: []byte(`{"type":"turn.started"}` + "\n")}
	for _, run := range []string{"former", "first", "third", "forgotten"} {
		appendTo(run, late)
	}
	foldAll()
	if r, ok, err := b.Record(t.Context(), "later"); err != nil || !ok || r.Before == nil || r.Before.Input != 100 {
		t.Errorf("before the last run its thread had used %+v, want 100 (%v, %v)", r.Before, ok, err)
	}
	if more := s.events.next - events; more != 3 {
		t.Errorf("%d events, want those of the last run alone", more)
	}
}
