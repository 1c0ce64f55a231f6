package pipeline

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
	"go.uber.org/zap"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/bench/corpus"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// benchLines is the number of lines of one measurement.
const benchLines = 200_000

// BenchmarkPipeline measures the whole path, from a run's bytes to its stored events,
// and simple publishers of 330-byte messages that parse nothing: Z, fast ingest; X,
// PublishAsync with a message id each. Every round measures all of them in turn;
// compare the ratios of the medians, and the CPU time of the whole process a line. A round before
// the first is not counted, as memory that a virtual machine uses for the first time is slow.
func BenchmarkPipeline(b *testing.B) {
	measure := append([]measurement{{"Z", benchFast}, {"X", benchX}}, paths(b)...)
	for _, m := range measure {
		m.run(b)
		b.StartTimer()
	}
	rates, cpu := map[string][]float64{}, map[string][]float64{}
	for b.Loop() {
		for _, m := range measure {
			c := m.run(b)
			rates[m.name] = append(rates[m.name], float64(c.lines)/c.took.Seconds())
			cpu[m.name] = append(cpu[m.name], c.perLine())
			b.StartTimer()
		}
	}
	median := func(of map[string][]float64, name string) float64 {
		slices.Sort(of[name])
		return of[name][len(of[name])/2]
	}
	for _, m := range measure {
		b.ReportMetric(median(rates, m.name), m.name+"-lines/s")
		b.ReportMetric(median(cpu, m.name), m.name+"-cpu-us/line")
		if m.name != "Z" && m.name != "X" {
			b.ReportMetric(median(rates, m.name)/median(rates, "Z"), m.name+"/Z")
			b.ReportMetric(median(rates, m.name)/median(rates, "X"), m.name+"/X")
		}
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPath measures the whole path with one corpus, for profiles: with -cpuprofile,
// `go tool pprof -tags` divides the CPU time into worker, normalizer and server, which has
// labels of its own, too.
func BenchmarkPath(b *testing.B) {
	for _, m := range paths(b) {
		b.Run(m.name, func(b *testing.B) {
			var cpu float64
			for b.Loop() {
				cpu += m.run(b).perLine()
				b.StartTimer()
			}
			b.ReportMetric(cpu/float64(b.N), "cpu-us/line")
		})
	}
}

type measurement struct {
	name string
	run  func(*testing.B) cost
}

// paths are the measurements of the whole path, by corpus.
func paths(b *testing.B) (all []measurement) {
	for name, lines := range map[string][]byte{
		"small": corpus.Small(benchLines), "mix": corpus.Mix(benchLines / 4), "real": recorded(b, benchLines/4),
	} {
		all = append(all, measurement{name, func(b *testing.B) cost { return benchPath(b, lines) }})
	}
	return all
}

// cost is the result of one measurement.
type cost struct {
	lines     int
	took, cpu time.Duration // cpu is that of the whole process
}

// perLine returns the CPU time of a line in microseconds.
func (c cost) perLine() float64 { return float64(c.cpu.Nanoseconds()) / 1e3 / float64(c.lines) }

// meter starts a measurement; the result ends it.
func meter(b *testing.B) func(lines int) cost {
	b.StartTimer()
	began, before := time.Now(), cpuUsed(b)
	return func(lines int) cost {
		c := cost{lines: lines, took: time.Since(began), cpu: cpuUsed(b) - before}
		b.StopTimer()
		return c
	}
}

func cpuUsed(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// labelled calls f with the label part for CPU profiles, which goroutines that it starts
// inherit.
func labelled(b *testing.B, part string, f func()) {
	pprof.Do(b.Context(), pprof.Labels("part", part), func(context.Context) { f() })
}

// recorded returns the recorded runs of Codex, repeated, at least n lines.
func recorded(b *testing.B, n int) (out []byte) {
	files, err := filepath.Glob(filepath.Join(bustest.Corpus(b), "*.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	var once []byte
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			b.Fatal(err)
		}
		once = append(once, text...)
		if !bytes.HasSuffix(text, []byte{'\n'}) && len(text) > 0 { // torn by a kill
			once = append(once, '\n')
		}
	}
	return bytes.Repeat(once, 1+n/bytes.Count(once, []byte{'\n'}))
}

// benchRuns is the number of concurrent writers: each has one entry in flight.
const benchRuns = 4

func benchPath(b *testing.B, out []byte) cost {
	c, s, clients := live(b, out)
	stop(s, clients...)
	return c
}

// live stores the output of some runs, and returns the cost, the server, and the
// connections of operator, worker and normalizer, which has stopped.
func live(b *testing.B, out []byte) (cost, *embedded.Server, []*bus.Bus) {
	b.StopTimer()
	want := expect(out)
	var s *embedded.Server
	var op, worker, reader *bus.Bus
	labelled(b, "server", func() { s, op = serve(b) })
	labelled(b, "worker", func() { worker = bustest.Connect(b, s, embedded.WorkerUser) })
	// a reader of all events would cost the server time
	completions := make(chan *nats.Msg, benchRuns)
	ended := strings.Replace(op.EventSubject("codex", "*", normalizer.CompletionToken), ".events.", ".live.", 1)
	if _, err := op.PublicJetStream().Conn().ChanSubscribe(ended, completions); err != nil {
		b.Fatal(err)
	}
	running, cancel := context.WithCancel(b.Context())
	var normalizing, writing sync.WaitGroup
	labelled(b, "normalizer", func() {
		reader = bustest.Connect(b, s, embedded.NormalizerUser)
		n := newNormalizer(reader)
		n.CutEvery, n.By = time.Second, "bench"
		normalizing.Go(func() {
			if err := n.Run(running); err != nil {
				b.Error(err)
			}
		})
	})
	done := meter(b)
	labelled(b, "worker", func() {
		for i := range benchRuns {
			writing.Go(func() { writeRun(b, worker, benchRun(i), part(out, i)) })
		}
	})
	writing.Wait()
	for range benchRuns {
		<-completions
	}
	c := done(bytes.Count(out, []byte{'\n'}))
	cancel()
	normalizing.Wait()
	if have := bustest.LastSeq(b, op.PublicJetStream(), op.Names.Events()); have != want {
		b.Fatalf("%d events, want %d", have, want)
	}
	return c, s, []*bus.Bus{op, worker, reader}
}

// BenchmarkRebuild compares the rate of a rebuild with the live rate of the same lines.
func BenchmarkRebuild(b *testing.B) {
	out := corpus.Mix(benchLines / 4)
	var took, rebuilt cost
	for b.Loop() {
		c, s, clients := live(b, out)
		took.took, took.cpu = took.took+c.took, took.cpu+c.cpu
		done := meter(b)
		r, err := Rebuild(b.Context(), clients[0], []normalizer.Backend{codex.Backend{}}, 0, zap.NewNop())
		if err != nil || len(r.Differences) > 0 {
			b.Fatal(r, err)
		}
		c = done(c.lines)
		rebuilt.took, rebuilt.cpu = rebuilt.took+c.took, rebuilt.cpu+c.cpu
		stop(s, clients...)
		b.StartTimer()
	}
	b.ReportMetric(took.took.Seconds()/rebuilt.took.Seconds(), "rebuild/live")
	b.ReportMetric(rebuilt.cpu.Seconds()/took.cpu.Seconds(), "cpu-rebuild/live")
	b.ReportMetric(0, "ns/op")
}

// stop closes the connections, which would try to reconnect during later measurements.
func stop(s *embedded.Server, clients ...*bus.Bus) {
	for _, c := range clients {
		c.Close()
	}
	s.Stop()
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

func benchX(b *testing.B) cost {
	return benchBare(b, func(i int, m *nats.Msg) {
		m.Header = nats.Header{"Nats-Msg-Id": {strconv.Itoa(i)}}
	})
}

func benchFast(b *testing.B) cost {
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
	done := meter(b)
	for range benchLines {
		if _, err := fast.Add(subject, body); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := fast.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	c := done(benchLines)
	stop(s, op)
	return c
}

func benchBare(b *testing.B, head func(int, *nats.Msg)) cost {
	b.StopTimer()
	s, op := serve(b)
	js, err := jetstream.New(op.PublicJetStream().Conn(), jetstream.WithPublishAsyncMaxPending(publishWindow))
	if err != nil {
		b.Fatal(err)
	}
	body := bytes.Repeat([]byte("x"), 330)
	subject := op.EventSubject("codex", "bench", "status")
	done := meter(b)
	for i := range benchLines {
		m := &nats.Msg{Subject: subject, Data: body}
		head(i, m)
		if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(10*time.Second)); err != nil {
			b.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	c := done(benchLines)
	stop(s, op)
	return c
}
