package pipeline

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// Runs of BenchmarkShortRuns, how many are written at the same time, and the events of each.
const (
	shortRuns    = 2000
	shortWriters = 64
	shortEvents  = 21
)

// BenchmarkShortRuns measures the CPU time of runs of 21 events, each of a thread of its own, from their
// entries to their records, of server, log and normalizer: where the entries come in, and where a normalizer
// starts that has them all before it. Run/Z compares that with Z for as many events.
func BenchmarkShortRuns(b *testing.B) {
	for name, backlog := range map[string]bool{"live": false, "backlog": true} {
		b.Run(name, func(b *testing.B) {
			var all, z, messages float64
			for b.Loop() {
				c, sent := benchShort(b, backlog)
				all, messages = all+c.perLine(), messages+sent
				z += benchFast(b).perLine() * shortEvents
				b.StartTimer()
			}
			b.ReportMetric(all/float64(b.N), "cpu-us/run")
			b.ReportMetric(all/z, "run/Z")
			b.ReportMetric(messages/float64(b.N), "messages/run") // from and to the clients
			b.ReportMetric(0, "ns/op")
		})
	}
}

func benchShort(b *testing.B, backlog bool) (c cost, messages float64) {
	b.StopTimer()
	s, op := serve(b)
	worker, reader := bustest.Connect(b, s, embedded.WorkerUser), bustest.Connect(b, s, embedded.NormalizerUser)
	completions := make(chan *nats.Msg, shortRuns)
	ended := strings.Replace(op.EventSubject("codex", "*", "completion"), ".events.", ".live.", 1)
	if _, err := op.PublicJetStream().Conn().ChanSubscribe(ended, completions); err != nil {
		b.Fatal(err)
	}
	var writing, normalizing sync.WaitGroup
	write := func() {
		for w := range shortWriters {
			writing.Go(func() {
				for i := w; i < shortRuns; i += shortWriters {
					writeShort(b, worker, i)
				}
			})
		}
	}
	if backlog {
		write()
		writing.Wait()
	}
	n := newNormalizer(reader)
	n.By, n.CutEvery, n.toList = "bench", time.Second, 0
	ctx, cancel := context.WithCancel(b.Context())
	messagesOf := func() (n float64) {
		for _, c := range []*bus.Bus{worker, reader} {
			stats := c.JetStream().Conn().Stats()
			n += float64(stats.InMsgs + stats.OutMsgs)
		}
		return n
	}
	before := messagesOf()
	done := meter(b)
	normalizing.Go(func() {
		if err := n.Run(ctx); err != nil {
			b.Error(err)
		}
	})
	if !backlog {
		write()
		writing.Wait()
	}
	for range shortRuns {
		<-completions
	}
	cancel() // it records what is left
	normalizing.Wait()
	c = done(shortRuns)
	messages = (messagesOf() - before) / shortRuns
	if have := bustest.LastSeq(b, op.PublicJetStream(), op.Names.Events()); have != shortRuns*shortEvents {
		b.Fatalf("%d events, want %d", have, shortRuns*shortEvents)
	}
	stop(s, op, worker, reader)
	return c, messages
}

// writeShort writes the entries of a short run.
func writeShort(b *testing.B, client *bus.Bus, i int) {
	l, err := client.OpenLog(b.Context(), "codex", "short-"+strconv.Itoa(i), runs.Mark{})
	if err != nil {
		b.Error(err)
		return
	}
	var out strings.Builder
	fmt.Fprintf(&out, `{"type":"thread.started","thread_id":"0199a213-81c0-7800-8aa1-%012d"}`+"\n", i)
	fmt.Fprintln(&out, `{"type":"turn.started"}`)
	for k := range 8 {
		item := fmt.Sprintf(`"item":{"id":"item_%d","type":"command_execution","command":"bash -lc 'ls /tmp/%d'",`, k, i)
		fmt.Fprintln(&out, `{"type":"item.started",`+item+`"aggregated_output":"","exit_code":null,"status":"in_progress"}}`)
		fmt.Fprintln(&out, `{"type":"item.completed",`+item+
			`"aggregated_output":"total 0\n","exit_code":0,"status":"completed"}}`)
	}
	fmt.Fprintln(&out, `{"type":"item.completed","item":{"id":"item_9","type":"agent_message","text":"All done."}}`)
	fmt.Fprintln(&out, `{"type":"turn.completed","usage":{"input_tokens":24763,"output_tokens":122}}`)
	for _, e := range []runs.Entry{
		{Kind: runs.Started, Time: 1, Body: runs.Encode(runs.Start{Source: runs.SourceTail})},
		{Kind: runs.Out, Time: 1, Body: []byte(out.String())},
		{Kind: runs.Exited, Time: 2, Body: runs.EncodeExit(runs.Exit{Reason: runs.ReasonEOF})},
	} {
		if err := l.Append(b.Context(), e); err != nil {
			b.Error(err)
		}
	}
}
