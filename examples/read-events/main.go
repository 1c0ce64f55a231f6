// Command read-events prints the events of linesman as JSON, one a line: those
// of one run until its completion, or those of all runs, for ever.
//
//	read-events [RUN]
//
// NATS_URL, NATS_USER and NATS_PASSWORD say where to connect and as whom; the
// user subscriber may read events and nothing else.
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
		nats.CustomInboxPrefix("_INBOX_"+user), // each user may listen to its own inboxes only
		nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}

	// An ordered consumer needs no acknowledgements, and the server removes it
	// when nobody has asked it for half a minute. It has one filter subject: a
	// subscriber's rights are bound to it. To go on after a restart, keep the
	// last sequence and begin one behind it, with DeliverByStartSequencePolicy
	// and OptStartSeq.
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
