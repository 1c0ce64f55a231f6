// Command publish-raw publishes what stdin holds as the raw log of a new run:
// what any program can do that has JSON lines of an agent.
//
//	publish-raw RUN <lines.jsonl
//
// NATS_URL, NATS_USER and NATS_PASSWORD say where to connect and as whom; the
// user worker may write raw logs.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: publish-raw RUN <lines.jsonl")
		os.Exit(2)
	}
	if err := publish(ctx, os.Args[1], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "publish-raw:", err)
		os.Exit(1)
	}
}

func publish(ctx context.Context, run string, in io.Reader) error {
	user := os.Getenv("NATS_USER")
	nc, err := nats.Connect(os.Getenv("NATS_URL"),
		nats.UserInfo(user, os.Getenv("NATS_PASSWORD")),
		nats.CustomInboxPrefix("_INBOX_"+user)) // each user may listen to its own inboxes only
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}

	w := &writer{js: js, subject: "linesman.raw.codex." + run}
	chunk := make([]byte, 64<<10) // a message holds at most so much; where it is cut means nothing
	for {
		n, err := in.Read(chunk)
		if n > 0 {
			if err := w.add(ctx, "out", chunk[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			// Says that the run is over; without a process there is no exit code.
			return w.add(ctx, "exit", []byte(`{"reason":"eof"}`))
		case err != nil:
			return err
		}
	}
}

// writer appends to the raw log of one run.
type writer struct {
	js      jetstream.JetStream
	subject string
	offset  int64  // of the next byte of output
	last    uint64 // sequence of the run's last message; 0: it has none
}

// add stores one message. Each names the one before it, so that of two writers
// of one run one is refused, and an id that is taken is found out at once.
func (w *writer) add(ctx context.Context, record string, body []byte) error {
	m := nats.NewMsg(w.subject)
	m.Header.Set("Linesman-Record", record)
	m.Header.Set("Linesman-Time", strconv.FormatInt(time.Now().UnixMilli(), 10))
	if record == "out" {
		m.Header.Set("Linesman-Offset", strconv.FormatInt(w.offset, 10))
		w.offset += int64(len(body))
	}
	m.Data = body
	ack, err := w.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(w.last))
	if err != nil {
		return fmt.Errorf("%s: %w", w.subject, err)
	}
	w.last = ack.Sequence
	return nil
}
