package bus_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// The first events take more than a second to arrive: that does not mean that there are
// none.
func TestReadSinceATimeWaitsForItsFirstEvent(t *testing.T) {
	for _, since := range []time.Time{{}, time.Now().Add(-time.Hour)} {
		b, client := through(t)
		bustest.Fill(t, client, 10)
		b.arm("$JS.API.DIRECT.GET."+client.Names.Events(), false)
		ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
		defer cancel()
		n := 0
		if err := client.Read(
			ctx,
			runs.Selection{Since: runs.Time(since.UnixMilli())},
			func(bus.Stored) error { n++; return nil },
		); err != nil ||
			n != 10 {
			t.Errorf("since %v: %d events, %v; want 10", since, n, err)
		}
		b.waitFired(t, 1)
	}
}

// Follow returns the error of each, even if the context ends meanwhile: the caller may
// have what it wanted.
func TestFollowerIsToldWhatEachReturnsThoughItsContextEnds(t *testing.T) {
	_, b := serve(t)
	bustest.Fill(t, b, 1)
	enough := errors.New("enough")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := b.Read(
		ctx,
		runs.Selection{Follow: true},
		func(bus.Stored) error { cancel(); return enough },
	); !errors.Is(
		err,
		enough,
	) {
		t.Errorf("got %v, want what each returned", err)
	}
}

// EVENTS is missing for longer than a running normalizer needs to recreate it:
// followers wait for it, as for a server.
func TestFollowerOutlivesEventsThatAreGoneForLong(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	bustest.Fill(t, b, 1)
	begun := make(chan struct{})
	read := make(chan error, 1)
	go func() {
		read <- b.Read(t.Context(), runs.Selection{Follow: true}, func(bus.Stored) error { close(begun); return nil })
	}()
	<-begun
	if err := b.PublicJetStream().DeleteStream(t.Context(), b.Names.Events()); err != nil {
		t.Fatal(err)
	}
	sent := b.PublicJetStream().Conn().Stats().OutMsgs
	bustest.Until(t, "it does not ask for the stream", func() bool {
		return b.PublicJetStream().Conn().Stats().OutMsgs >= sent+5 || len(read) > 0
	})
	select {
	case err := <-read:
		t.Errorf("it ended: %v", err)
	default:
	}
}

// EVENTS was recreated, and is shorter than before, since RAW no longer has everything.
// Followers continue with new events at once, not only after as many as before.
func TestFollowerContinuesWhenEventsAreRecreatedShorter(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	const before = 10
	bustest.Fill(t, b, before)
	enough := errors.New("enough")
	begun := make(chan struct{})
	read := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
	defer cancel()
	n := 0
	go func() {
		read <- b.Read(ctx, runs.Selection{Follow: true}, func(s bus.Stored) error {
			if n++; n == before {
				close(begun)
			}
			if n > before {
				return enough
			}
			return nil
		})
	}()
	<-begun
	if err := b.PublicJetStream().DeleteStream(t.Context(), b.Names.Events()); err != nil {
		t.Fatal(err)
	}
	bustest.EnsureSmall(t, b)
	tick := time.NewTicker(3 * time.Second)
	defer tick.Stop()
	for range before - 1 {
		m := nats.Msg{
			Subject: b.EventSubject("codex", "x", "status"),
			Header:  nats.Header{bus.HeaderPos: {"1 1 1 1"}},
			Data:    []byte("{}"),
		}
		if _, err := b.PublicJetStream().PublishMsg(t.Context(), &m); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-read:
			if !errors.Is(err, enough) {
				t.Error(err)
			}
			return
		case <-tick.C:
		}
	}
	t.Errorf("none of %d events came in %v", before-1, 3*(before-1)*time.Second)
}

// A reader of one stream ends with an error if the stream was recreated, or has lost its end.
func TestReadingOfOneStreamEndsWithIt(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	bustest.Fill(t, b, 10)
	end, err := b.EventsEnd(t.Context(), "", "")
	if err != nil || end.Last != 10 || end.Made == 0 {
		t.Fatalf("the end is %+v, %v", end, err)
	}
	of := []runs.Selection{{After: 10}, {After: 10, Run: "x"}, {After: 10, Tokens: []string{"error", "status"}}}
	read, begun := make(chan error, len(of)), make(chan struct{}, len(of))
	for i := range of {
		of[i].Made = end.Made
		for _, after := range []uint64{10, 11} { // 11: it had more
			one := of[i]
			one.After = after
			err := b.EachEvent(t.Context(), one, func(runs.Event) error { return nil })
			if replaced := errors.Is(err, runs.ErrReplaced); replaced != (after > 10) {
				t.Errorf("%+v: %v", one, err)
			}
		}
		go func() {
			one := of[i]
			one.Follow, one.After = true, 9
			read <- b.EachEvent(t.Context(), one, func(runs.Event) error {
				begun <- struct{}{}
				return nil
			})
		}()
	}
	for range of {
		<-begun
	}
	if err := b.PublicJetStream().DeleteStream(t.Context(), b.Names.Events()); err != nil {
		t.Fatal(err)
	}
	bustest.EnsureSmall(t, b)
	bustest.Fill(t, b, 5)
	for range of {
		select {
		case err := <-read:
			if !errors.Is(err, runs.ErrReplaced) {
				t.Errorf("it followed until %v", err)
			}
		case <-time.After(fixture.Patience):
			t.Fatal("the follower does not end")
		}
	}
	for _, one := range of {
		if err := b.EachEvent(t.Context(), one, func(runs.Event) error { return nil }); !errors.Is(err, runs.ErrReplaced) {
			t.Errorf("%+v afterwards: %v", one, err)
		}
	}
}

// slowly blocks a write that contains a text, once, until it is released.
type slowly struct {
	text atomic.Pointer[[]byte]
	held chan struct{}
	goOn chan struct{}
}

func (s *slowly) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return slowConn{c, s}, err
}

type slowConn struct {
	net.Conn
	*slowly
}

func (c slowConn) Write(p []byte) (int, error) {
	if text := c.text.Load(); text != nil && bytes.Contains(p, *text) {
		c.text.Store(nil)
		c.held <- struct{}{}
		<-c.goOn
	}
	return c.Conn.Write(p)
}

// Readers stop while a request is pending: they leave nothing behind, neither
// subscriptions nor goroutines.
func TestReadersThatLeaveDuringARequestLeaveNothing(t *testing.T) {
	url := bustest.ServePlain(t, server.Options{})
	s := &slowly{held: make(chan struct{}), goOn: make(chan struct{})}
	b, err := bus.Connect(
		bustest.Patient(t),
		bus.Login{URL: url, Options: []nats.Option{nats.SetCustomDialer(s)}},
		bus.Login{},
		bustest.Names,
		zap.NewNop(),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := b.Ensure(t.Context(), bus.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	bustest.Fill(t, b, 1)
	before := b.PublicJetStream().Conn().NumSubscriptions()
	text := []byte("$JS.API.DIRECT.GET." + b.Names.Events())
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		begun := make(chan struct{})
		read := make(chan error, 1)
		go func() {
			read <- b.Read(ctx, runs.Selection{Run: "x", Follow: true}, func(bus.Stored) error { close(begun); return nil })
		}()
		<-begun
		s.text.Store(&text)
		if err := b.PublicJetStream().
			Conn().
			Publish(b.Prefix+".live.codex.x.status", nil); err != nil { // anything there wakes it
			t.Fatal(err)
		}
		<-s.held
		cancel()
		s.goOn <- struct{}{}
		if err := <-read; err != nil {
			t.Fatal(err)
		}
	}
	bustest.Until(t, "subscriptions stay", func() bool { return b.PublicJetStream().Conn().NumSubscriptions() <= before })
}

// Events after a pause arrive at once, and no consumer is created for them.
func TestFollowerReceivesEventsAtOnceAfterAPause(t *testing.T) {
	t.Parallel()
	canary := fixture.StartCanary(t)
	s, b := serve(t)
	bustest.Fill(t, b, 1)
	enough := errors.New("enough")
	var told [4]chan time.Time
	read := make(chan error, len(told))
	for i, user := range []string{embedded.SubscriberUser, embedded.ResponderUser, embedded.OperatorUser,
		embedded.SubscriberUser} {
		reader, filter := bustest.Connect(t, s, user), runs.Selection{Follow: true, Run: "x"}
		if i == 3 {
			filter = runs.Selection{Follow: true, Tokens: []string{"status"}}
		}
		told[i] = make(chan time.Time, 2)
		go func() {
			read <- reader.Read(t.Context(), filter, func(bus.Stored) error {
				told[i] <- time.Now()
				if len(told[i]) == 2 {
					return enough
				}
				return nil
			})
		}()
	}
	for i := range told {
		bustest.Until(t, "the first event does not come", func() bool { return len(told[i]) == 1 })
	}
	<-time.After(6 * time.Second)
	stream, err := b.PublicJetStream().Stream(t.Context(), b.Names.Events())
	if err != nil || stream.CachedInfo().State.Consumers != 0 {
		t.Errorf("the followers have consumers: %v", err)
	}
	if _, err := b.PublicJetStream().PublishMsg(t.Context(), bustest.NewEvent(b, "x", 2, []byte("{}"))); err != nil {
		t.Fatal(err)
	}
	stored := time.Now()
	for range told {
		if err := <-read; !errors.Is(err, enough) {
			t.Error(err)
		}
	}
	var late time.Duration
	for i := range told {
		<-told[i]
		late = max(late, (<-told[i]).Sub(stored))
	}
	canary.Within("the last of the followers was told", late, time.Second)
}

func TestReadEndsWhereTheRestIsDiscardedMeanwhile(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	const events = 2 * reader.BatchMessages
	bustest.Fill(t, b, events)
	stream, err := b.PublicJetStream().Stream(t.Context(), b.Names.Events())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
	defer cancel()
	n := 0
	err = b.Read(ctx, runs.Selection{Run: "x"}, func(bus.Stored) error {
		if n++; n == 1 {
			return stream.Purge(ctx)
		}
		return nil
	})
	if err != nil || n == 0 || n == events {
		t.Errorf("%d events, %v", n, err)
	}
}
