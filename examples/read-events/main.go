// Command read-events prints the events of one run until its completion, or the
// events of all runs until it is interrupted, one JSON object per line.
//
//	read-events [RUN]
//
// NATS_URL, NATS_USER and NATS_PASSWORD are the server and the credentials. The
// user subscriber may only read events.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := "*"
	if len(os.Args) > 1 {
		run = os.Args[1]
	}
	if err := read(ctx, run, os.Stdout); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "read-events:", err)
		os.Exit(1)
	}
}

func read(ctx context.Context, run string, out io.Writer) error {
	user := os.Getenv("NATS_USER")
	nc, err := nats.Connect(os.Getenv("NATS_URL"),
		nats.UserInfo(user, os.Getenv("NATS_PASSWORD")),
		nats.CustomInboxPrefix("_INBOX_"+user), // a user may subscribe only to its own inboxes
		nats.Timeout(time.Minute), nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}

	// An ordered consumer needs no acknowledgements, and the server removes it
	// after 30 seconds of inactivity. It has one filter subject, because the
	// permissions of the user depend on it. To resume after a restart, store the
	// last sequence number and start at the next one with
	// DeliverByStartSequencePolicy and OptStartSeq.
	consumer, err := js.OrderedConsumer(ctx, "LINESMAN_EVENTS", jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{"linesman.events.*." + run + ".*"},
		DeliverPolicy:  jetstream.DeliverAllPolicy, InactiveThreshold: 30 * time.Second,
	})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s\n", m.Data()); err != nil {
			return err
		}
		// The completion is the last message of its run.
		if run != "*" && strings.HasSuffix(m.Subject(), ".completion") {
			return nil
		}
	}
}
