// Command publish-raw publishes stdin, the JSON lines of an agent, as the raw log of
// a new run.
//
//	publish-raw RUN <lines.jsonl
//
// NATS_URL, NATS_USER and NATS_PASSWORD are the server and the credentials. The
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
		nats.CustomInboxPrefix("_INBOX_"+user), // a user may subscribe only to its own inboxes
		nats.Timeout(time.Minute))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}

	w := &writer{js: js, subject: "linesman.raw.codex." + run}
	chunk := make([]byte, 64<<10) // the maximum size of a message; boundaries have no meaning
	for {
		n, err := in.Read(chunk)
		if n > 0 {
			if err := w.add(ctx, "out", chunk[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			// The run has ended; without a process there is no exit code.
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
	offset  int64  // offset of the next byte of output
	last    uint64 // sequence number of the last message of the run; 0: none
}

// add stores one message. The expected last sequence is a compare-and-set: the
// server rejects a second writer of the run, and a run id that is already used.
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
