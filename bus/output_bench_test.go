package bus_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// fillRaw stores the log of a run: so many entries of so many bytes, each after so many
// entries of other runs.
func fillRaw(b *testing.B, on *bus.Bus, run string, entries, size, others int) {
	b.Helper()
	js, last := on.JetStream(), uint64(0)
	add := func(run string, record runs.Kind, offset int, body []byte) {
		m := &nats.Msg{Subject: on.RawSubject("codex", run), Data: body, Header: nats.Header{
			bus.HeaderRecord: {string(record)}, bus.HeaderTime: {"1790000000000"}, bus.HeaderOffset: {fmt.Sprint(offset)},
		}}
		ack, err := js.PublishMsg(b.Context(), m)
		if err != nil {
			b.Fatal(err)
		}
		last = max(last, ack.Sequence)
	}
	add(run, runs.Started, 0, []byte(`{"source":"run"}`))
	line := append(bytes.Repeat([]byte("x"), size-1), '\n')
	for i := range entries {
		add(run, runs.Out, i*size, line)
		for n := range others {
			add(fmt.Sprintf("other-%d", (i*others+n)%1000), runs.Out, 0, line[:min(size, 200)])
		}
	}
	add(run, runs.Exited, 0, []byte(`{"reason":"exited","code":0}`))
}

// BenchmarkOutput compares requests for the output of a run with a bare request, in the
// same run: of a short run, of one with large chunks, and of one with thousands of small
// ones, among those of others. All is in the newest block of the stream: from an older one the
// server first reads that, 8 MiB, which is most of the time.
func BenchmarkOutput(b *testing.B) {
	s, op := serve(b)
	fillRaw(b, op, "short", 1, 2000, 0)
	fillRaw(b, op, "large", 40, runs.MaxChunk, 0)
	fillRaw(b, op, "small", 2000, 200, 3)
	responder := bustest.Connect(b, s, embedded.ResponderUser)
	answer := make([]byte, 2000)
	sub, err := responder.Inside().Subscribe(responder.API()+".bare", func(m *nats.Msg) { _ = m.Respond(answer) })
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := responder.Inside().Flush(); err != nil {
		b.Fatal(err)
	}
	ends := func(run string, limit int) func() error {
		return func() error {
			out, _, err := responder.Output(b.Context(), "codex", run, limit, false)
			if err == nil && len(out.Head) == 0 {
				err = fmt.Errorf("nothing of %s", run)
			}
			return err
		}
	}
	page := func(run string, at int64, limit int) func() error {
		return func() error {
			from, data, err := responder.OutputAt(b.Context(), "codex", run, runs.Out, at, limit)
			if err == nil && (from != at || len(data) != limit) {
				err = fmt.Errorf("%d bytes at %d of %s", len(data), from, run)
			}
			return err
		}
	}
	each := []struct {
		name string
		do   func() error
		took []float64
	}{
		{name: "bare", do: func() error {
			_, err := op.Inside().Request(responder.API()+".bare", []byte(`{"task_id":"short"}`), 10*time.Second)
			return err
		}},
		{name: "short-ends", do: ends("short", 32<<10)},
		{name: "short-page", do: page("short", 0, 2000)},
		{name: "large-ends", do: ends("large", 32<<10)},
		{name: "large-page", do: page("large", 20<<16, 64<<10)},
		{name: "large-MiB", do: page("large", 20<<16, 1<<20)},
		{name: "small-ends", do: ends("small", 32<<10)},
		{name: "small-page", do: page("small", 200_000, 32<<10)},
	}
	for b.Loop() {
		for i := range each {
			for range 3 { // the first time, the server may read a block of its file
				began := time.Now()
				if err := each[i].do(); err != nil {
					b.Fatal(err)
				}
				each[i].took = append(each[i].took, time.Since(began).Seconds())
			}
		}
	}
	median := func(v []float64) float64 { slices.Sort(v); return v[len(v)/2] }
	bare := median(each[0].took)
	for _, e := range each[1:] {
		b.ReportMetric(median(e.took)/bare, e.name+"/bare")
	}
	b.ReportMetric(bare*1e6, "bare-µs")
	b.ReportMetric(0, "ns/op")
}
