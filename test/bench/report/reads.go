package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/test/bench/corpus"
)

// shortRun is the number of lines of a short run.
const shortRun = 21

// read is the process of the reference of whole reads: a consumer of the client library that reads EVENTS, and parses
// nothing.
func read(ctx context.Context, data, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	b, err := dial(ctx, data, "")
	if err != nil {
		return err
	}
	defer b.Close()
	return eachStored(ctx, b.PublicJetStream(), names.Events(), n, func(jetstream.Msg) {})
}

// eachStored calls each with the first messages of a stream.
func eachStored(ctx context.Context, js jetstream.JetStream, stream string, n int, each func(jetstream.Msg)) error {
	c, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{})
	if err != nil || n == 0 {
		return err
	}
	all, err := c.Messages(jetstream.PullMaxMessages(1000))
	if err != nil {
		return err
	}
	defer all.Stop()
	for range n {
		m, err := all.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		each(m)
	}
	return nil
}

// measureReads reads all events of one run, and of short runs, and derives those again: CPU time an event.
func measureReads(ctx context.Context, h *harness) (metrics, error) {
	inputs := map[string]input{}
	var err error
	if inputs["small"], err = h.input(corpus.Small(h.lines), 1); err != nil {
		return nil, err
	}
	if inputs["short"], err = h.input(corpus.Small(h.lines/4), h.lines/4/shortRun); err != nil {
		return nil, err
	}
	s := samples{}
	for name, in := range inputs {
		if err := h.inUp(ctx, h.linesman, func(c *cell) error {
			if _, err := c.tail(ctx, h.linesman, in); err != nil {
				return err
			}
			events, err := c.stored(ctx)
			if err != nil {
				return err
			}
			for range h.rounds {
				for what, start := range map[string]command{
					"consumer": {program: h.self, args: []string{"read", c.data, fmt.Sprint(events)}},
					"events":   c.command(h.linesman, "events", "--json"),
					"rebuild":  c.command(h.linesman, "rebuild"),
				} {
					up, own, err := c.used(ctx, start)
					if err != nil {
						return err
					}
					us := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(events) }
					s.add(name+"-"+what+"-up-us", us(up))
					s.add(name+"-"+what+"-us", us(up+own))
				}
			}
			return nil
		}); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return metrics{
		"up-us/event":       s.median("small-events-up-us"),
		"up/consumer":       s.median("small-events-up-us") / s.median("small-consumer-up-us"),
		"us/event":          s.median("small-events-us"),
		"rebuild-us/event":  s.median("small-rebuild-us"),
		"rebuild/consumer":  s.median("small-rebuild-us") / s.median("small-consumer-us"),
		"short-us/event":    s.median("short-rebuild-us"),
		"short-up-us/event": s.median("short-rebuild-up-us"),
		"short/consumer":    s.median("short-rebuild-us") / s.median("short-consumer-us"),
	}, nil
}

// used runs a command, and returns the CPU time of `up` meanwhile, and its own.
func (c *cell) used(ctx context.Context, start command) (up, own time.Duration, err error) {
	before, err := c.cpu("up")
	if err != nil {
		return 0, 0, err
	}
	p, err := c.harness.start(ctx, start)
	if err != nil {
		return 0, 0, err
	}
	if err := p.wait(); err != nil {
		return 0, 0, err
	}
	if own, err = p.cpu(); err != nil {
		return 0, 0, err
	}
	after, err := c.cpu("up")
	return after - before, own, err
}

// measureStored imports one file, and short runs, and divides the bytes of the streams by those of the input.
func measureStored(ctx context.Context, h *harness) (metrics, error) {
	small, err := h.input(corpus.Small(h.lines/10), 1)
	if err != nil {
		return nil, err
	}
	short, err := h.input(corpus.Small(h.lines/10), h.lines/10/shortRun)
	if err != nil {
		return nil, err
	}
	m := metrics{}
	for name, in := range map[string]input{"small": small, "short": short} {
		if err := h.inUp(ctx, h.linesman, func(c *cell) error {
			if _, err := c.tail(ctx, h.linesman, in); err != nil {
				return err
			}
			for what, of := range map[string]struct {
				js     jetstream.JetStream
				stream string
			}{
				"events": {c.bus.PublicJetStream(), names.Events()}, "raw": {c.bus.JetStream(), names.Raw()},
				"runs": {c.bus.JetStream(), bucket.Stream(names.Runs())},
			} {
				if err := parts(ctx, m, name+"-"+what, of.js, of.stream, in.bytes); err != nil {
					return err
				}
				m[name+"/input"] += m[name+"-"+what+"/input"]
			}
			return nil
		}); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return m, nil
}

// parts adds what a stream has of an input, and the bytes of the parts of a message on average: its subject, its
// headers, its body, and the server's record around them.
func parts(ctx context.Context, m metrics, name string, js jetstream.JetStream, stream string, of int64) error {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	state := s.CachedInfo().State
	var subject, headers, body int
	if err := eachStored(ctx, js, stream, int(state.Msgs), func(msg jetstream.Msg) {
		subject, headers, body = subject+len(msg.Subject()), headers+headerBytes(msg.Headers()), body+len(msg.Data())
	}); err != nil {
		return err
	}
	m[name+"/input"] = float64(state.Bytes) / float64(of)
	for part, n := range map[string]int{
		"subject": subject, "headers": headers, "body": body, "record": int(state.Bytes) - subject - headers - body,
	} {
		m[name+"-"+part+"-B"] = float64(n) / float64(state.Msgs)
	}
	return nil
}

// headerBytes is the length of the headers of a message as they are stored.
func headerBytes(h nats.Header) int {
	if len(h) == 0 {
		return 0
	}
	n := len("NATS/1.0\r\n\r\n")
	for name, values := range h {
		for _, value := range values {
			n += len(name) + len(": \r\n") + len(value)
		}
	}
	return n
}
