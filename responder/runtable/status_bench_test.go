package runtable_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/natsapi"
	"github.com/linesman/linesman/responder/tools"
)

// BenchmarkStatus compares the status of one run over NATS with a bare
// request whose body and answer are as long, at 1k and at 100k runs: p50 at most 1.3 times as long.
func BenchmarkStatus(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			o := newOffice(b, n)
			service := responder.New(responder.Config{Streams: o.bus, Queue: "default", LostAfter: time.Minute,
				Patience: time.Minute})
			set := tools.New(service)
			ctx, cancel := context.WithCancel(b.Context())
			done := make(chan error, 2)
			go func() { done <- service.Run(ctx) }()
			go func() {
				done <- natsapi.Serve(ctx, natsapi.Config{
					Conn: o.bus.Inside(), Root: o.bus.API(), Endpoints: natsapi.ToolEndpoints(set, set.List()), Version: "1.0.0",
					Log: zap.NewNop(),
				})
			}()
			if err := service.Ready(ctx); err != nil {
				b.Fatal(err)
			}
			var answer []byte // as long as a status of one run
			bare, err := o.bus.Inside().Subscribe(o.bus.API()+".bare", func(m *nats.Msg) { _ = m.Respond(answer) })
			if err != nil {
				b.Fatal(err)
			}
			if err := o.bus.Inside().Flush(); err != nil {
				b.Fatal(err)
			}
			ask := func(name string, body []byte) time.Duration {
				begin := time.Now()
				if _, err := o.client.Request(o.bus.API()+"."+name, body, 10*time.Second); err != nil {
					b.Fatal(err)
				}
				return time.Since(begin)
			}
			for end := time.Now().Add(10 * time.Second); ; { // until the service is there
				m, err := o.client.Request(o.bus.API()+"._codex_local_status", fmt.Appendf(nil, `{"task_id":%q}`, runID(1)),
					time.Second)
				if err == nil {
					answer = make([]byte, len(m.Data))
					break
				} else if time.Now().After(end) {
					b.Fatal(err)
				}
			}
			var bares, ours []float64
			for i := 0; b.Loop(); i++ {
				body := fmt.Appendf(nil, `{"task_id":%q}`, runID(i*7919%n))
				bares = append(bares, float64(ask("bare", body)))
				ours = append(ours, float64(ask("_codex_local_status", body)))
			}
			b.ReportMetric(median(ours)/median(bares), "x-bare")
			b.ReportMetric(median(ours)/1000, "p50-us")
			if err := bare.Unsubscribe(); err != nil {
				b.Fatal(err)
			}
			cancel()
			for range 2 {
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
