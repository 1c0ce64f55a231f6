package rest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// BenchmarkStatusUnderLoad asks a thousand times a second how a run stands,
// while 50 runs stream, and tells the 99th percentile of the answers' times and
// its ratio to that of a handler that does nothing, on a server of its own.
// Requests are sent by the clock, whether answers came or not.
func BenchmarkStatusUnderLoad(b *testing.B) {
	const perSecond, streaming = 1000, 50
	s := newStage(b, nil)
	out := corpus(b, "long-message.jsonl")
	var logs []*log
	for i := range streaming {
		id := fmt.Sprintf("r%d", i)
		logs = append(logs, s.begin("codex", id, begun, runs.Start{Source: "run"}))
		s.await(id, func(responder.View) bool { return true })
	}
	during(b, "runs", func(ctx context.Context) error {
		for {
			for _, l := range logs {
				at := l.raw.Mark().Out
				from := int(at % int64(len(out)-2000))
				e := runs.Entry{Kind: runs.Out, Time: l.at, Offset: at, Body: out[from : from+2000]}
				if err := l.raw.Append(context.WithoutCancel(ctx), e); err != nil {
					return err
				}
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(10 * time.Millisecond): // 10 MB a second, all runs together
			}
		}
	})
	bare := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}\n") })}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	during(b, "bare", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { _ = bare.Close() })()
		if err := bare.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	s.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 256
	measure := func(url string) time.Duration {
		took := make([]time.Duration, perSecond)
		var wg sync.WaitGroup
		tick := time.NewTicker(time.Second / perSecond)
		defer tick.Stop()
		for i := range took {
			due := <-tick.C
			wg.Go(func() {
				r, err := http.NewRequest("GET", url, nil)
				if err != nil {
					b.Error(err)
					return
				}
				r.Header.Set("Authorization", "Bearer "+token)
				answer, err := s.client.Do(r)
				if err != nil {
					b.Error(err)
					return
				}
				defer answer.Body.Close()
				if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != 200 {
					b.Errorf("status %d, %v", answer.StatusCode, err)
				}
				took[i] = time.Since(due)
			})
		}
		wg.Wait()
		slices.Sort(took)
		return took[len(took)*99/100]
	}
	var least, one, list time.Duration
	for b.Loop() {
		least += measure("http://" + listener.Addr().String())
		one += measure(s.url + "/v1/runs/r7")
		list += measure(s.url + "/v1/runs?limit=20")
	}
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(b.N) }
	b.ReportMetric(per(least), "bare-p99-µs")
	b.ReportMetric(per(one), "run-p99-µs")
	b.ReportMetric(per(list), "list-p99-µs")
	b.ReportMetric(float64(one)/float64(least), "run/bare")
	b.ReportMetric(float64(list)/float64(least), "list/bare")
}
