package rest_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
)

// BenchmarkStreamOfRuns measures the time and the bytes until a stream of so many runs, all ended or
// all queued, is synced, over loopback, and the ratio to the time of the same list by pages of 100.
func BenchmarkStreamOfRuns(b *testing.B) {
	for _, c := range []struct {
		runs  int
		state runs.State
	}{{10_000, runs.StateCompleted}, {100_000, runs.StateCompleted}, {10_000, runs.StateQueued}} {
		b.Run(fmt.Sprintf("%d %s", c.runs, c.state), func(b *testing.B) {
			s, n := newStage(b, nil), c.runs
			s.record(b, n, c.state)
			var streamed, paged time.Duration
			size := 0
			for b.Loop() {
				begun := time.Now()
				size = s.readSynced(b)
				streamed += time.Since(begun)
				begun = time.Now()
				if got := s.readPages(b); got != n {
					b.Fatalf("%d runs on pages", got)
				}
				paged += time.Since(begun)
			}
			b.ReportMetric(float64(streamed.Milliseconds())/float64(b.N), "ms/stream")
			b.ReportMetric(float64(size)/float64(n), "bytes/run")
			b.ReportMetric(float64(paged)/float64(streamed), "pages/stream")
		})
	}
}

// record stores the records of n runs, and waits until the service has them.
func (s *stage) record(b *testing.B, n int, state runs.State) {
	b.Helper()
	js, err := jetstream.New(s.Operator.Inside(), jetstream.WithPublishAsyncMaxPending(1024))
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		r := runs.NewRecord(fmt.Sprintf("T-local-%015d", i), "codex")
		r.State, r.Source, r.Queue, r.Work = state, "queue", "default", uint64(i)
		r.Worker = "host-0123456789abcdef"
		at := int64(1_790_000_000_000 + i)
		r.QueuedAt, r.StartedAt, r.ActiveAt, r.EndedAt = at, at+1000, at+2000, at+3000
		r.Dir, r.Thread, r.Seq, r.Title = "/home/dev/project", fmt.Sprintf("01a2b3c4-0000-7000-8000-%012d", i), uint64(i+1),
			"Fix the failing test of the parser"
		m := nats.NewMsg("$KV." + bus.Names{Prefix: bus.DefaultPrefix}.Runs() + "." + r.ID)
		m.Header.Set(bus.HeaderRun, r.Header().Text())
		m.Data = append(append([]byte(`{"format":1,"record":`), r.JSON()...), '}')
		if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute)); err != nil {
			b.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	s.Await(fmt.Sprintf("T-local-%015d", n-1), func(runs.Header) bool { return true })
}

// readSynced returns the number of bytes until a stream is synced.
func (s *stage) readSynced(b *testing.B) (size int) {
	b.Helper()
	answer := s.open(b.Context(), "GET", "/v1/runs", "", "Accept", "text/event-stream")
	defer answer.Body.Close()
	lines := bufio.NewReaderSize(answer.Body, 64<<10)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			b.Fatal(err)
		}
		if size += len(line); strings.HasPrefix(string(line), "event: synced") {
			return size
		}
	}
}

func (s *stage) readPages(b *testing.B) (n int) {
	b.Helper()
	for cursor := ""; ; {
		answer := s.open(b.Context(), "GET", "/v1/runs?limit=100"+cursor, "")
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK {
			b.Fatal(answer.Status, err)
		}
		var page api.RunPage
		reply{body: body}.read(b, &page)
		if n += len(page.Runs); page.Next == "" {
			return n
		}
		cursor = "&cursor=" + page.Next
	}
}
