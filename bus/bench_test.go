package bus

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/linesman/linesman/runs"
)

// benchLines is how many lines one measurement takes.
const benchLines = 200_000

// BenchmarkPipeline measures the whole path, from a run's bytes to its stored
// events, beside bare publishers of 330-byte messages that parse nothing: Z,
// fast ingest; X, PublishAsync with a message id each; F, PublishMsgAsync with
// the fence that the normalizer uses. What counts are the ratios.
func BenchmarkPipeline(b *testing.B) {
	small := smallLines(benchLines)
	for _, c := range []struct {
		name string
		run  func(b *testing.B) (lines int, took time.Duration)
	}{
		{"Z", benchFast},
		{"X", benchX},
		{"F", benchFenced},
		{"small", func(b *testing.B) (int, time.Duration) { return benchPath(b, small, benchLines) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			lines, took := 0, time.Duration(0)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for b.Loop() {
				n, d := c.run(b)
				lines, took = lines+n, took+d
			}
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(lines)/took.Seconds(), "lines/s")
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(lines), "allocs/line")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// smallLines are n lines of 243 bytes on average.
func smallLines(n int) []byte {
	var out bytes.Buffer
	for i := range n {
		fmt.Fprintf(&out, `{"type":"item.completed","item":{"id":"item_%d","type":"command_execution","command":"/bin/bash -lc 'go test ./pkg/%d'","aggregated_output":"ok  \tgithub.com/x/y/pkg/%d\t0.%03ds\n","exit_code":0,"status":"completed"}}`+"\n", i, i%100, i%100, i%1000)
	}
	return out.Bytes()
}

func benchPath(b *testing.B, out []byte, lines int) (int, time.Duration) {
	b.StopTimer()
	s, op := serve(b)
	normal := connect(b, s, NormalizerUser)
	l, err := connect(b, s, WorkerUser).OpenLog(b.Context(), "codex", "bench", runs.Mark{})
	if err != nil {
		b.Fatal(err)
	}
	n := newNormalizer(normal)
	n.cutEvery = time.Second
	ctx, cancel := context.WithCancel(b.Context())
	var group sync.WaitGroup
	group.Go(func() {
		if err := n.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	b.StartTimer()
	began := time.Now()
	for at := 0; at < len(out); {
		end := min(at+runs.MaxChunk, len(out))
		end = at + bytes.LastIndexByte(out[at:end], '\n') + 1
		if err := l.Append(b.Context(), runs.Entry{Kind: runs.Out, Time: 1, Offset: int64(at), Body: out[at:end]}); err != nil {
			b.Fatal(err)
		}
		at = end
	}
	if err := l.Append(b.Context(), runs.Entry{Kind: runs.Exited, Time: 2, Body: []byte(`{"reason":"eof"}`)}); err != nil {
		b.Fatal(err)
	}
	for tick := time.NewTicker(2 * time.Millisecond); lastSeq(b, op.jsPub, op.Names.Events()) < uint64(lines+1); {
		<-tick.C
	}
	took := time.Since(began)
	b.StopTimer()
	cancel()
	group.Wait()
	s.Stop()
	b.StartTimer()
	return lines, took
}

func benchX(b *testing.B) (int, time.Duration) {
	return benchBare(b, func(i int, m *nats.Msg) {
		m.Header = nats.Header{"Nats-Msg-Id": {strconv.Itoa(i)}}
	})
}

func benchFast(b *testing.B) (int, time.Duration) {
	b.StopTimer()
	s, op := serve(b)
	fast, err := jetstreamext.NewFastPublisher(op.jsPub, jetstreamext.FastPublishFlowControl{Flow: 500, MaxOutstandingAcks: 4})
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

func benchFenced(b *testing.B) (int, time.Duration) {
	return benchBare(b, func(i int, m *nats.Msg) {
		m.Header = nats.Header{headerLastSeq: {strconv.Itoa(i)}, HeaderPos: {"123456 123456 1 1763719200000"}}
	})
}

func benchBare(b *testing.B, head func(int, *nats.Msg)) (int, time.Duration) {
	b.StopTimer()
	s, op := serve(b)
	js, err := jetstream.New(op.public, jetstream.WithPublishAsyncMaxPending(publishWindow))
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
