package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

// saturated is the rate at which a line is written as soon as fewer than window lines are on
// their way: as many as the reference has in flight.
const saturated = 0

// loads are the rates at which latency is measured, in lines per second.
var loads = []struct {
	name string
	rate int
}{{"100", 100}, {"20k", 20_000}, {"full", saturated}}

// measureLatency measures the time from the write of a line into a followed file to the event at
// a subscriber, and the same of messages of a reference.
func measureLatency(ctx context.Context, h *harness) (metrics, error) {
	m := metrics{}
	for _, load := range loads {
		if err := h.inUp(ctx, h.linesman, func(c *cell) error {
			return c.lineLatency(ctx, m, load.name, load.rate)
		}); err != nil {
			return nil, fmt.Errorf("%s: %w", load.name, err)
		}
		c, err := h.bare(ctx)
		if err != nil {
			return nil, err
		}
		err = c.bareLatency(ctx, m, load.name, load.rate)
		c.stop()
		if err != nil {
			return nil, fmt.Errorf("reference at %s: %w", load.name, err)
		}
	}
	return m, nil
}

// lineLatency writes lines into a file that `tail` follows.
func (c *cell) lineLatency(ctx context.Context, m metrics, load string, rate int) error {
	path := filepath.Join(c.data, "followed.jsonl")
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	p, err := c.harness.start(ctx, c.command(c.harness.linesman, "tail", path))
	if err != nil {
		return err
	}
	defer p.stop()
	filler := bytes.Repeat([]byte("x"), 150)
	var line []byte
	err = c.latency(ctx, m, load, rate, func(stamp []byte) error {
		line = append(line[:0], `{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"`...)
		line = append(append(append(line, stamp...), filler...), "\"}}\n"...)
		_, err := file.Write(line)
		return err
	})
	if err != nil {
		return p.failed(err)
	}
	return nil
}

// bareLatency publishes messages by fast ingest.
func (c *cell) bareLatency(ctx context.Context, m metrics, load string, rate int) error {
	p, err := jetstreamext.NewFastPublisher(c.bus.PublicJetStream(),
		jetstreamext.FastPublishFlowControl{Flow: flow, MaxOutstandingAcks: unacked})
	if err != nil {
		return err
	}
	subject := names.EventSubject("codex", "bench", "status")
	filler := bytes.Repeat([]byte("x"), bodySize-len(mark)-stampSize)
	if err := c.latency(ctx, m, "Z-"+load, rate, func(stamp []byte) error {
		_, err := p.Add(subject, append(append([]byte(nil), stamp...), filler...))
		return err
	}); err != nil {
		return err
	}
	_, err = p.Close(ctx)
	return err
}

// A stamp is mark and the time when a line is written, Unix nanoseconds.
const (
	mark      = "written-at-"
	stampSize = 19
)

// latency writes lines at a rate, and subscribes to their events. It is a mistake if not each
// line becomes one event.
func (c *cell) latency(
	ctx context.Context, m metrics, load string, rate int, write func(stamp []byte) error,
) error {
	var received atomic.Int64
	var times []float64 // in milliseconds; read after the subscription has ended
	sub, err := c.bus.PublicJetStream().Conn().Subscribe(names.LiveSubjects(), func(msg *nats.Msg) {
		now := time.Now()
		_, rest, found := bytes.Cut(msg.Data, []byte(mark))
		if !found || len(rest) < stampSize {
			return
		}
		if at, err := strconv.ParseInt(string(rest[:stampSize]), 10, 64); err == nil {
			times = append(times, float64(now.UnixNano()-at)/1e6)
			received.Add(1)
		}
	})
	if err != nil {
		return err
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return err
	}
	line := func() error { return write(strconv.AppendInt([]byte(mark), time.Now().UnixNano(), 10)) }
	all := func(n int) func() bool { return func() bool { return received.Load() >= int64(n) } }
	// The first line shows that the file is followed; it is not measured.
	if err := line(); err != nil {
		return err
	}
	if err := until(ctx, "the first event arrives", time.Millisecond, all(1)); err != nil {
		return err
	}
	begun := time.Now()
	sent, err := pace(ctx, rate, c.harness.latency, &received, line)
	if err != nil {
		return err
	}
	err = until(ctx, "all events arrive", time.Millisecond, all(sent+1))
	took := time.Since(begun)
	if failed := sub.Unsubscribe(); err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("%d of %d events: %w", received.Load()-1, sent, err)
	}
	measured := times[1 : sent+1]
	for _, p := range []float64{50, 99, 99.9} {
		m[fmt.Sprintf("%s-p%v-ms", load, p)] = percentile(measured, p/100)
	}
	m[load+"-lines/s"] = float64(sent) / took.Seconds()
	return nil
}

// pace calls write at a rate for some time, and returns how often. It writes what is due every
// millisecond, because no system wakes a process more often in a reliable way.
func pace(
	ctx context.Context, rate int, limit time.Duration, received *atomic.Int64, write func() error,
) (sent int, err error) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); ; {
		passed := time.Since(begun)
		if passed >= limit {
			return sent, nil
		}
		due := int(passed.Seconds() * float64(rate))
		if rate == saturated {
			due = int(received.Load()) - 1 + window
		}
		for ; sent < due; sent++ {
			if err := write(); err != nil {
				return sent, err
			}
		}
		select {
		case <-ctx.Done():
			return sent, ctx.Err()
		case <-tick.C:
		}
	}
}
