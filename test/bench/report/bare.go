package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/daemon/datadir"
)

// The references: publishers that store bodies of the mean size of an event in EVENTS,
// and parse nothing.
const (
	refZ = "Z" // fast ingest
	refX = "X" // PublishMsgAsync with a message id each

	bodySize = 330
	flow     = 500 // messages for each acknowledgement of fast ingest
	unacked  = 4   // of these acknowledgements
	window   = flow * unacked
)

// serve is the process of a server alone: that of `linesman up`, with its streams.
func serve(ctx context.Context, data string) error {
	s, err := embedded.StartServer(data, "127.0.0.1:0", names, zap.NewNop())
	if err != nil {
		return err
	}
	defer s.Stop()
	b, err := s.Connect(ctx, embedded.OperatorUser, names, zap.NewNop())
	if err != nil {
		return err
	}
	defer b.Close()
	limits := bus.DefaultLimits()
	limits.RawBytes, limits.EventsBytes = 16<<30, 16<<30
	if _, err := b.Ensure(ctx, limits); err != nil {
		return err
	}
	if err := (datadir.Instance{NATS: s.URL(), Data: data}).Write(); err != nil {
		return err
	}
	fmt.Println("ready")
	<-ctx.Done()
	return nil
}

// publish is the process of a reference. It prints how many seconds its messages took,
// from the first one to the acknowledgement of the last one.
func publish(ctx context.Context, kind, count, data, url string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	b, err := dial(ctx, data, url)
	if err != nil {
		return err
	}
	defer b.Close()
	begun := time.Now()
	if kind == refZ {
		err = publishFast(ctx, b, n)
	} else {
		err = publishAsync(ctx, b, n)
	}
	fmt.Println(time.Since(begun).Seconds())
	return err
}

func publishFast(ctx context.Context, b *bus.Bus, n int) error {
	p, err := jetstreamext.NewFastPublisher(b.PublicJetStream(),
		jetstreamext.FastPublishFlowControl{Flow: flow, MaxOutstandingAcks: unacked})
	if err != nil {
		return err
	}
	body := bytes.Repeat([]byte("x"), bodySize)
	subject := names.EventSubject("codex", "bench", "status")
	for range n {
		if _, err := p.Add(subject, body); err != nil {
			return err
		}
	}
	_, err = p.Close(ctx)
	return err
}

func publishAsync(ctx context.Context, b *bus.Bus, n int) error {
	const inFlight = 4096
	js, err := jetstream.New(b.PublicJetStream().Conn(), jetstream.WithPublishAsyncMaxPending(inFlight))
	if err != nil {
		return err
	}
	body := bytes.Repeat([]byte("x"), bodySize)
	subject := names.EventSubject("codex", "bench", "status")
	for i := range n {
		m := &nats.Msg{Subject: subject, Data: body, Header: nats.Header{jetstream.MsgIDHeader: {strconv.Itoa(i)}}}
		if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(10*time.Second)); err != nil {
			return err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reference measures a reference at a server, in messages per second.
func (c *cell) reference(ctx context.Context, kind string, n int) (float64, error) {
	before, err := c.stored(ctx)
	if err != nil {
		return 0, err
	}
	data, url := c.data, ""
	if c.nats != nil {
		url = c.nats[0]
	}
	p, err := c.harness.start(ctx, command{
		program: c.harness.self, args: []string{"publish", kind, strconv.Itoa(n), data, url}, piped: true,
	})
	if err != nil {
		return 0, err
	}
	line, err := p.line()
	if err != nil {
		return 0, err
	}
	if err := p.wait(); err != nil {
		return 0, err
	}
	after, err := c.stored(ctx)
	if err == nil && after != before+uint64(n) {
		err = fmt.Errorf("reference %s: %d messages stored, want %d", kind, after-before, n)
	}
	seconds, failed := strconv.ParseFloat(line, 64)
	if err == nil {
		err = failed
	}
	return float64(n) / seconds, err
}

// binarySize returns the size of a program in MB.
func binarySize(program string) (float64, error) {
	info, err := os.Stat(filepath.Clean(program))
	if err != nil {
		return 0, err
	}
	return float64(info.Size()) / 1e6, nil
}
