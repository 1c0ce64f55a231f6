package natsapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder/natsapi"
	"github.com/linesman/linesman/responder/tools"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/test/fixture"
)

// stats requests the statistics until an endpoint has counted so many requests:
// a request is counted when its answer has been sent.
func (l *lab) stats(endpoint string, requests int) *micro.EndpointStats {
	l.Helper()
	for end := time.Now().Add(fixture.Patience); time.Now().Before(end); {
		m, err := l.asker.Request("$SRV.STATS.linesman", nil, fixture.Patience)
		if errors.Is(err, nats.ErrNoResponders) {
			continue // it is not there yet
		}
		if err != nil {
			l.Fatal(err)
		}
		var s micro.Stats
		if err := json.Unmarshal(m.Data, &s); err != nil {
			l.Fatal(err)
		}
		if s.Type != micro.StatsResponseType || s.Started.IsZero() {
			l.Fatalf("the statistics are %s", m.Data)
		}
		for _, e := range s.Endpoints {
			if e.Name == endpoint && e.NumRequests >= requests {
				return e
			}
		}
	}
	l.Fatalf("%s has not told of %d requests", endpoint, requests)
	return nil
}

func TestStatisticsCountErrorsWithoutTheirContent(t *testing.T) {
	const secret = "S3NT1NEL"
	l := newLab(t)
	l.serve()
	for _, c := range []struct{ verb, args, last string }{
		{"results", `{"run":"T-local-` + secret + `"}`, "404:NOT_FOUND"},
		{"_codex_local_wait", `{"` + secret + `":"` + secret + `"}`, "400:VALIDATION"},
		{"_codex_cloud_submit", `{"task":"` + secret + `","envId":"e"}`, "501:UNSUPPORTED"},
		{"_codex_local_results", `{"format":"adcp","task_id":"T-local-` + secret + `"}`, "404:REFERENCE_NOT_FOUND"},
	} {
		for range 3 {
			l.ask(c.verb, c.args)
		}
		got := l.stats(c.verb, 3)
		if got.NumRequests != 3 || got.NumErrors != 3 || got.LastError != c.last {
			t.Errorf("%s: %d requests, %d errors, the last %q; want 3, 3, %q", c.verb, got.NumRequests, got.NumErrors,
				got.LastError, c.last)
		}
	}
	before := l.stats("_codex_local_status", 1)
	l.ask("_codex_local_status", `{}`)
	if got := l.stats("_codex_local_status", before.NumRequests+1); got.NumErrors != 0 || got.LastError != "" {
		t.Errorf("status: %d errors, the last %q; want none", got.NumErrors, got.LastError)
	}
}

func TestStatisticsTimeARequestUntilItIsAnswered(t *testing.T) {
	l := newLab(t)
	b := l.bus(embedded.ResponderUser)
	gate := gated{begun: make(chan struct{}), open: make(chan struct{})}
	l.start(func(ctx context.Context) error {
		return natsapi.Serve(ctx, natsapi.Config{Conn: b.Inside(), Root: "linesman.api",
			Endpoints: natsapi.ToolEndpoints(gate, tools.List()), Log: zap.NewNop()})
	})
	l.stats("_codex_local_wait", 0)
	begun := time.Now()
	answered := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := l.asker.Request("linesman.api._codex_local_wait", nil, 30*time.Second)
			answered <- err
		}()
	}
	<-gate.begun
	<-gate.begun
	if got := l.stats("_codex_local_wait", 0); got.NumRequests != 0 {
		t.Errorf("%d requests are counted before one is answered", got.NumRequests)
	}
	held := time.Now()
	l.stats("_codex_local_results", 0) // some time passes
	took := time.Since(held)
	close(gate.open)
	for range 2 {
		if err := <-answered; err != nil {
			t.Fatal(err)
		}
	}
	got := l.stats("_codex_local_wait", 2)
	if all := time.Since(begun); got.ProcessingTime < 2*took || got.ProcessingTime > 2*all ||
		got.AverageProcessingTime != got.ProcessingTime/2 {
		t.Errorf("%d requests took %v, on average %v; want between %v and %v each", got.NumRequests, got.ProcessingTime,
			got.AverageProcessingTime, took, all)
	}
}

// gated answers when its gate opens.
type gated struct{ begun, open chan struct{} }

func (g gated) Call(context.Context, string, json.RawMessage, func(v36.Progress)) (v36.Answer, error) {
	g.begun <- struct{}{}
	<-g.open
	return v36.Answer{Envelope: []byte("{}")}, nil
}

// What the tools of NATS ask for is as micro has it.
func TestTheServiceDescribesItself(t *testing.T) {
	l := newLab(t)
	l.serve()
	var ping micro.Ping
	for _, subject := range []string{"$SRV.PING", "$SRV.PING.linesman"} {
		m, err := l.asker.Request(subject, nil, fixture.Patience)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(m.Data, &ping); err != nil || ping.Type != micro.PingResponseType ||
			ping.Name != "linesman" || ping.ID == "" || ping.Metadata == nil {
			t.Errorf("%s: %s, %v", subject, m.Data, err)
		}
	}
	m, err := l.asker.Request("$SRV.INFO.linesman."+ping.ID, nil, fixture.Patience)
	if err != nil {
		t.Fatal(err)
	}
	var info micro.Info
	if err := json.Unmarshal(m.Data, &info); err != nil || info.Type != micro.InfoResponseType || info.Description == "" ||
		info.ID != ping.ID {
		t.Errorf("%s, %v", m.Data, err)
	}
	for _, e := range info.Endpoints {
		if e.Subject != "linesman.api."+e.Name || e.QueueGroup != micro.DefaultQueueGroup ||
			e.Metadata["description"] == "" ||
			strings.HasPrefix(e.Name, "_codex") && e.Metadata["tool"] != e.Name {
			t.Errorf("endpoint %+v", e)
		}
	}
}
