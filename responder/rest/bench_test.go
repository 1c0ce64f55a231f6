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

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder/natsapi"
	"github.com/linesman/linesman/responder/tools"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// BenchmarkStatusUnderLoad requests the status of a run a thousand times a second,
// over HTTP and over NATS, while 50 runs stream, and reports the 99th percentile
// of the answers' times and its ratio to that of a handler that does nothing:
// on an HTTP server of its own, and on a subject of the same NATS server.
// Requests are sent by the clock, whether answers came or not.
func BenchmarkStatusUnderLoad(b *testing.B) {
	const perSecond, streaming = 1000, 50
	s := newStage(b, nil)
	out := servicetest.Recording(b, "long-message.jsonl")
	var logs []*servicetest.Log
	for i := range streaming {
		id := fmt.Sprintf("r%d", i)
		logs = append(logs, s.Begin("codex", id, runs.Start{Source: "run"}))
		s.Await(id, func(runs.Header) bool { return true })
	}
	servicetest.During(b, "runs", func(ctx context.Context) error {
		for {
			for _, l := range logs {
				at := l.Raw.Mark().Out
				from := int(at % int64(len(out)-2000))
				e := runs.Entry{Kind: runs.Out, Time: l.At, Offset: at, Body: out[from : from+2000]}
				if err := l.Raw.Append(context.WithoutCancel(ctx), e); err != nil {
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
	bare := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = io.WriteString(w, "{}\n")
	})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	servicetest.During(b, "bare", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { _ = bare.Close() })()
		if err := bare.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	s.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 256
	servicetest.During(b, "NATS service", func(ctx context.Context) error {
		return natsapi.Serve(ctx, natsapi.Config{
			Conn: s.Bus.Inside(), Root: s.Bus.API(), Endpoints: natsapi.ToolEndpoints(tools.New(s.Service), tools.List()),
			Version: "1.0.0", Log: zap.NewNop(),
		})
	})
	nothing, err := s.Bus.Inside().Subscribe(s.Bus.API()+".bare", func(m *nats.Msg) { _ = m.Respond([]byte("{}")) })
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = nothing.Unsubscribe() }()
	operator, err := s.Server.Connect(b.Context(), embedded.OperatorUser, bus.Names{Prefix: bus.DefaultPrefix},
		zap.NewNop())
	if err != nil {
		b.Fatal(err)
	}
	defer operator.Close()
	asker := operator.Inside()

	get := func(url string) func() error {
		return func() error {
			r, err := http.NewRequest("GET", url, nil)
			if err != nil {
				return err
			}
			r.Header.Set("Authorization", "Bearer "+token)
			answer, err := s.client.Do(r)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				return errors.New(answer.Status)
			}
			_, err = io.Copy(io.Discard, answer.Body)
			return err
		}
	}
	request := func(name, body string) func() error {
		return func() error {
			m, err := asker.Request(s.Bus.API()+"."+name, []byte(body), 10*time.Second)
			if err == nil && m.Header.Get(micro.ErrorCodeHeader) != "" {
				err = errors.New(m.Header.Get(micro.ErrorHeader))
			}
			return err
		}
	}
	measure := func(ask func() error) time.Duration {
		took := make([]time.Duration, perSecond)
		var wg sync.WaitGroup
		tick := time.NewTicker(time.Second / perSecond)
		defer tick.Stop()
		for i := range took {
			due := <-tick.C
			wg.Go(func() {
				if err := ask(); err != nil {
					b.Error(err)
				}
				took[i] = time.Since(due)
			})
		}
		wg.Wait()
		slices.Sort(took)
		return took[len(took)*99/100]
	}
	each := []struct {
		name string
		ask  func() error
		of   int // what it is compared with
		took time.Duration
	}{
		{name: "http-bare", ask: get("http://" + listener.Addr().String())},
		{name: "http-run", ask: get(s.url + "/v1/runs/r7")},
		{name: "http-list", ask: get(s.url + "/v1/runs?limit=20")},
		{name: "nats-bare", ask: request("bare", `{"task_id":"r7"}`), of: 3},
		{name: "nats-status", ask: request("_codex_local_status", `{"task_id":"r7"}`), of: 3},
	}
	for end := time.Now().Add(10 * time.Second); each[4].ask() != nil; { // until the service is there
		if time.Now().After(end) {
			b.Fatal("no NATS service")
		}
	}
	for b.Loop() {
		for i := range each {
			each[i].took += measure(each[i].ask)
		}
	}
	for i, e := range each {
		b.ReportMetric(float64(e.took.Microseconds())/float64(b.N), e.name+"-p99-µs")
		if e.of != i {
			b.ReportMetric(float64(e.took)/float64(each[e.of].took), e.name+"/bare")
		}
	}
}
