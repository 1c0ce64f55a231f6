package webhook

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/linesman/linesman/runs"
)

// oneValue stores the registrations of one run.
type oneValue struct {
	registrations
	raw []byte
}

func (o *oneValue) Get(context.Context, string) ([]byte, uint64, error) { return o.raw, 1, nil }

func (o *oneValue) Put(_ context.Context, _ string, raw []byte, _ int, _ time.Duration, _ uint64) (bool, error) {
	o.raw = raw
	return true, nil
}

// pusherOf returns a pusher with a registration for a URL, the notification of its run's end, and the outcomes of
// attempts.
func pusherOf(t *testing.T, url string) (
	p *Pusher, store *oneValue, n notice, outcomes *[]Outcome, logs *observer.ObservedLogs,
) {
	t.Helper()
	e := entry{Registration: Registration{ID: "x", Run: "T-local-1", Protocol: A2A, URL: url}, Seed: seed()}
	store = &oneValue{}
	if _, err := write(t.Context(), store, e.Run, []entry{e}, 0); err != nil {
		t.Fatal(err)
	}
	about, err := json.Marshal(outboxMeta{Protocol: A2A, ID: e.ID, State: runs.StateCompleted, Type: "application/json"})
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.InfoLevel)
	outcomes = &[]Outcome{}
	p = New(Config{Registrations: store, Private: true, Log: zap.New(core), Attempted: func(o Outcome, _ time.Duration) {
		*outcomes = append(*outcomes, o)
	}})
	n = notice{Run: e.Run, Key: e.key(runs.StateCompleted), About: string(about), Body: []byte("{}"), Times: 1}
	return p, store, n, outcomes, logs
}

// No process delivered for a day: the receiver gets what was kept meanwhile, by the one attempt that is left.
func TestWhatIsTooOldHasALastAttempt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		want   []Outcome
	}{{200, []Outcome{delivered}}, {503, []Outcome{givenUp}}, {404, []Outcome{givenUp}}} {
		var requests atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			w.WriteHeader(c.status)
		}))
		defer server.Close()
		p, _, n, outcomes, _ := pusherOf(t, server.URL)
		n.At = time.Now().Add(-25 * time.Hour)
		if again := p.deliver(t.Context(), n); again != 0 || requests.Load() != 1 || !slices.Equal(*outcomes, c.want) {
			t.Errorf("%d: %d requests, %v, again after %v", c.status, requests.Load(), *outcomes, again)
		}
	}
}

// Many are too old. If their receiver cannot be reached, one attempt counts for all; if it is busy, each has its turn.
func TestWhatIsTooOldWaitsForABusyReceiverOnly(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	p, _, n, outcomes, _ := pusherOf(t, server.URL)
	p.Patience(48 * time.Hour)
	const many = 1000
	host := hostOf(server.URL)
	for range perHost {
		if _, ok := p.hosts.enter(host, false, time.Now()); !ok {
			t.Fatal("it is busy")
		}
	}
	for i := range many {
		n.At = time.Now().Add(-time.Duration(i%2) * 25 * time.Hour)
		if again := p.deliver(t.Context(), n); again <= 0 || len(*outcomes) != 0 {
			t.Fatalf("busy: %v, again after %v", *outcomes, again)
		}
	}
	for range perHost {
		p.hosts.leave(host, time.Millisecond, true, time.Now())
	}
	n.At, n.Times = time.Now().Add(-25*time.Hour), 2
	for i := range many {
		if again := p.deliver(t.Context(), n); again != 0 || len(*outcomes) != i+1 || (*outcomes)[i] != givenUp {
			t.Fatalf("away: %v, again after %v", *outcomes, again)
		}
	}
	if turned := p.hosts.of[host].turned; turned != 0 {
		t.Errorf("away: %d turns are left", turned)
	}
	p.hosts.of[host].until = time.Time{} // as after the pause
	*outcomes = nil
	if p.deliver(t.Context(), n); len(*outcomes) != 1 || p.hosts.of[host].fails != 2 {
		t.Errorf("a due attempt is not made: %v, %+v", *outcomes, *p.hosts.of[host])
	}
}

// A value that cannot be read now is tried again with growing pauses, said once, and given up.
func TestRegistrationsOfAnotherFormAreTriedSeldom(t *testing.T) {
	t.Parallel()
	p, store, n, outcomes, logs := pusherOf(t, "http://127.0.0.1:1/")
	store.raw = []byte(`{"registrations": 7}`)
	var pauses []time.Duration
	for _, age := range []time.Duration{0, time.Minute, time.Hour, 25 * time.Hour} {
		n.At = time.Now().Add(-age)
		pauses = append(pauses, p.deliver(t.Context(), n))
		n.Times += 20
	}
	if pauses[0] < time.Second || pauses[1] < time.Minute || pauses[2] < maxPause || pauses[3] != 0 {
		t.Errorf("pauses %v", pauses)
	}
	if !slices.Equal(*outcomes, []Outcome{givenUp}) {
		t.Errorf("%v", *outcomes)
	}
	if all := logs.TakeAll(); len(all) != 2 || all[1].Message != "a notification is given up" {
		t.Errorf("logged %v", all)
	}
}
