package pipeline

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bustest"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/bench/corpus"
)

// benchLines is the number of lines of one measurement.
const benchLines = 200_000

// BenchmarkPipeline measures the whole path, from a run's bytes to its stored events,
// and simple publishers of 330-byte messages that parse nothing: Z, fast ingest; X,
// PublishAsync with a message id each. Every round measures all of them in turn;
// compare the ratios of the medians.
func BenchmarkPipeline(b *testing.B) {
	small, mix := corpus.Small(benchLines), corpus.Mix(benchLines/4)
	measure := []struct {
		name string
		run  func(b *testing.B) (lines int, took time.Duration)
	}{
		{"Z", benchFast},
		{"X", benchX},
		{"small", func(b *testing.B) (int, time.Duration) { return benchPath(b, small) }},
		{"mix", func(b *testing.B) (int, time.Duration) { return benchPath(b, mix) }},
	}
	rates := map[string][]float64{}
	for b.Loop() {
		for _, m := range measure {
			lines, took := m.run(b)
			rates[m.name] = append(rates[m.name], float64(lines)/took.Seconds())
		}
	}
	median := func(name string) float64 {
		slices.Sort(rates[name])
		return rates[name][len(rates[name])/2]
	}
	for _, m := range measure {
		b.ReportMetric(median(m.name), m.name+"-lines/s")
	}
	for _, name := range []string{"small", "mix"} {
		b.ReportMetric(median(name)/median("Z"), name+"/Z")
		b.ReportMetric(median(name)/median("X"), name+"/X")
	}
	b.ReportMetric(0, "ns/op")
}

// benchRuns is the number of concurrent writers: each has one entry in flight.
const benchRuns = 4

func benchPath(b *testing.B, out []byte) (int, time.Duration) {
	b.StopTimer()
	want := expect(out)
	s, op := serve(b)
	n := newNormalizer(bustest.Connect(b, s, embedded.NormalizerUser))
	n.CutEvery = time.Second
	ctx, cancel := context.WithCancel(b.Context())
	var normalizing, writing sync.WaitGroup
	normalizing.Go(func() {
		if err := n.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	worker := bustest.Connect(b, s, embedded.WorkerUser)
	b.StartTimer()
	began := time.Now()
	for i := range benchRuns {
		writing.Go(func() { writeRun(b, worker, benchRun(i), part(out, i)) })
	}
	writing.Wait()
	// a reader would cost the server time
	for tick := time.NewTicker(2 * time.Millisecond); bustest.LastSeq(b, op.PublicJetStream(), op.Names.Events()) < want; {
		<-tick.C
	}
	took := time.Since(began)
	b.StopTimer()
	cancel()
	normalizing.Wait()
	s.Stop()
	b.StartTimer()
	return bytes.Count(out, []byte{'\n'}), took
}

func benchRun(i int) string { return "bench-" + strconv.Itoa(i) }

// part returns the share of run i, in whole lines.
func part(out []byte, i int) []byte {
	at := func(i int) int { return bytes.LastIndexByte(out[:len(out)/benchRuns*i], '\n') + 1 }
	if i == benchRuns-1 {
		return out[at(i):]
	}
	return out[at(i):at(i+1)]
}

func writeRun(b *testing.B, client *bus.Bus, run string, out []byte) {
	l, err := client.OpenLog(b.Context(), "codex", run, runs.Mark{})
	if err != nil {
		b.Error(err)
		return
	}
	for at := 0; at < len(out); {
		end := min(at+runs.MaxChunk, len(out))
		if whole := bytes.LastIndexByte(out[at:end], '\n'); whole >= 0 {
			end = at + whole + 1
		}
		if err := l.Append(
			b.Context(),
			runs.Entry{Kind: runs.Out, Time: 1, Offset: int64(at), Body: out[at:end]},
		); err != nil {
			b.Error(err)
			return
		}
		at = end
	}
	if err := l.Append(b.Context(), runs.Entry{Kind: runs.Exited, Time: 2, Body: []byte(`{"reason":"eof"}`)}); err != nil {
		b.Error(err)
	}
}

// expect returns the number of messages that result from a run's output.
func expect(out []byte) (n uint64) {
	for i := range benchRuns {
		f := normalizer.NewFold(codex.Backend{}, benchRun(i), 0)
		f.Apply(1, runs.Entry{Kind: runs.Out, Body: part(out, i)}, func(normalizer.Message) { n++ })
		n++ // the completion
	}
	return n
}

func benchX(b *testing.B) (int, time.Duration) {
	return benchBare(b, func(i int, m *nats.Msg) {
		m.Header = nats.Header{"Nats-Msg-Id": {strconv.Itoa(i)}}
	})
}

func benchFast(b *testing.B) (int, time.Duration) {
	b.StopTimer()
	s, op := serve(b)
	fast, err := jetstreamext.NewFastPublisher(
		op.PublicJetStream(),
		jetstreamext.FastPublishFlowControl{Flow: 500, MaxOutstandingAcks: 4},
	)
	if err != nil {
		b.Fatal(err)
	}
	body := bytes.Repeat([]byte("x"), 330)
	subject := op.EventSubject("codex", "bench", "status")
	b.StartTimer()
	began := time.Now()
	for range benchLines {
		if _, err := fast.Add(subject, body); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := fast.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	b.StopTimer()
	s.Stop()
	b.StartTimer()
	return benchLines, took
}

func benchBare(b *testing.B, head func(int, *nats.Msg)) (int, time.Duration) {
	b.StopTimer()
	s, op := serve(b)
	js, err := jetstream.New(op.PublicJetStream().Conn(), jetstream.WithPublishAsyncMaxPending(publishWindow))
	if err != nil {
		b.Fatal(err)
	}
	body := bytes.Repeat([]byte("x"), 330)
	subject := op.EventSubject("codex", "bench", "status")
	b.StartTimer()
	began := time.Now()
	for i := range benchLines {
		m := &nats.Msg{Subject: subject, Data: body}
		head(i, m)
		if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(10*time.Second)); err != nil {
			b.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	took := time.Since(began)
	b.StopTimer()
	s.Stop()
	b.StartTimer()
	return benchLines, took
}
