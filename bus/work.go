package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/runs"
)

// DefaultQueue is the work queue of submissions that name none.
const DefaultQueue = "default"

// Submit puts a task on a queue and writes the run's queued entry, at the
// given time in Unix milliseconds. It returns the task's sequence in the queue,
// which later ones are above, and the sequence of the entry in RAW.
//
// No worker begins a task without a queued entry that names it: killed
// in between, or with an error, the caller can submit it again: under the same
// run id, too, for a task that waits without its entry, and is the same byte
// for byte, gets the entry that it lacks.
func (b *Bus) Submit(ctx context.Context, queue string, t runs.Task, at int64) (work, raw uint64, err error) {
	fail := func(err error) (uint64, uint64, error) {
		return 0, 0, fmt.Errorf("run %s: submit: %w", t.Run, err)
	}
	body, err := json.Marshal(t)
	if err != nil {
		return fail(err)
	}
	entries, err := b.OpenLog(ctx, t.Agent, t.Run, runs.Mark{})
	if err != nil {
		return fail(err)
	}
	if entries.Mark().Seq != 0 { // or had a log, that has aged out
		return fail(runs.ErrKnownRun)
	}
	subject := b.WorkSubject(queue, t.Run)
	ack, err := b.js.Publish(ctx, subject, body, jetstream.WithExpectLastSequencePerSubject(0))
	if err = refused(err); err == nil {
		work = ack.Sequence
	} else if errors.Is(err, runs.ErrKnownRun) {
		work, err = b.waiting(ctx, subject, body)
	}
	if err != nil {
		return fail(err)
	}
	err = entries.Append(ctx, runs.Entry{Kind: runs.Queued, Time: at, Body: runs.Encode(runs.Start{
		Source: "queue", Dir: t.Dir, Labels: t.Labels, Queue: queue, Work: work, Thread: t.Thread, Governance: t.Governance,
	})})
	if errors.Is(err, runs.ErrMoved) { // somebody else took the id meanwhile
		err = runs.ErrKnownRun
		if entries.Mark().Work == work { // for this very task: the entry is there
			return fail(err)
		}
	}
	if err != nil {
		// The caller may submit it again: take it back.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if back := b.Unqueue(ctx, queue, t.Run); back != nil {
			b.log.Warn("a submission could not be taken back", zap.String("run", t.Run), zap.Error(back))
		}
		return fail(err)
	}
	return work, entries.Mark().Seq, nil
}

// waiting is the sequence of a task that is in the queue already. The error is
// [runs.ErrKnownRun] where it is another one.
func (b *Bus) waiting(ctx context.Context, subject string, body []byte) (uint64, error) {
	m, err := last(ctx, b.js, b.Work(), subject)
	switch {
	case err != nil:
		return 0, err
	case m == nil, !bytes.Equal(m.Data, body): // a worker has taken it just now, or it is another one
		return 0, runs.ErrKnownRun
	}
	return m.Sequence, nil
}

// refused says what it means that WORK did not take a message.
func refused(err error) error {
	var api *jetstream.APIError
	switch {
	case !errors.As(err, &api):
		return err
	case bucket.Moved(err), strings.HasPrefix(api.Description, "maximum messages per subject"):
		return runs.ErrKnownRun
	case strings.HasPrefix(api.Description, "maximum "): // messages or bytes
		return runs.ErrQueueFull
	}
	return err
}

// Unqueue takes a task off its queue, if it is still there.
func (b *Bus) Unqueue(ctx context.Context, queue, run string) error {
	stream, err := b.js.Stream(ctx, b.Work())
	if err != nil {
		return fmt.Errorf("stream %s: %w", b.Work(), err)
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject(b.WorkSubject(queue, run))); err != nil {
		return fmt.Errorf("run %s: take it off the queue: %w", run, err)
	}
	return nil
}

// Queued reports whether a task waits in a queue, or is with a worker that
// has not begun it.
func (b *Bus) Queued(ctx context.Context, queue, run string) (bool, error) {
	m, err := last(ctx, b.js, b.Work(), b.WorkSubject(queue, run))
	return m != nil, err
}

// ackWait is how long a worker may take from getting a task to its start
// entry. After it another one gets the task, too; the log says whose it is.
const ackWait = 30 * time.Second

// Queue is one work queue, as a worker sees it.
type Queue struct {
	bus  *Bus
	name string
}

// Queue returns a work queue.
func (b *Bus) Queue(name string) *Queue { return &Queue{b, name} }

// Delivery is a task in a worker's hands.
type Delivery struct{ m jetstream.Msg }

// Next waits for the task that has waited longest. It waits while NATS is
// away, too; the error is ctx's.
func (q *Queue) Next(ctx context.Context) (*Delivery, error) {
	const patience = 20 * time.Second
	said := false
	for {
		m, err := q.next(ctx, patience)
		switch {
		case ctx.Err() != nil:
			if m != nil {
				_ = m.Nak() // nobody is there to take it
			}
			return nil, ctx.Err()
		case err == nil && m != nil:
			return &Delivery{m}, nil
		case err == nil:
			said = false
			continue
		}
		if !said {
			said = true
			q.bus.log.Warn("the work queue is out of reach", zap.String("why", q.bus.Explain(err)))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func (q *Queue) next(ctx context.Context, patience time.Duration) (jetstream.Msg, error) {
	soon, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	consumer, err := q.bus.js.CreateOrUpdateConsumer(soon, q.bus.Work(), jetstream.ConsumerConfig{
		Durable: "worker_" + q.name, Description: "the workers of queue " + q.name,
		FilterSubject: q.bus.WorkSubject(q.name, "*"), AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
		MaxAckPending: MaxQueued, MaxDeliver: -1,
	})
	if err != nil {
		return nil, err
	}
	patient, stop := context.WithTimeout(ctx, patience)
	defer stop()
	batch, err := consumer.Fetch(1, jetstream.FetchContext(patient))
	if err != nil {
		return nil, err
	}
	for m := range batch.Messages() {
		return m, nil
	}
	if err := batch.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, jetstream.ErrNoMessages) {
		return nil, err
	}
	return nil, nil
}

// Task is what was submitted. The error says that nobody can read it.
func (d *Delivery) Task() (t runs.Task, err error) {
	if err := json.Unmarshal(d.m.Data(), &t); err != nil {
		return t, errors.New("the task is no JSON of the known form")
	}
	return t, t.Check()
}

// Work is the task's sequence in the queue.
func (d *Delivery) Work() uint64 {
	meta, err := d.m.Metadata()
	if err != nil {
		return 0
	}
	return meta.Sequence.Stream
}

// Times is how often it was given out, this time counted.
func (d *Delivery) Times() int {
	meta, err := d.m.Metadata()
	if err != nil {
		return 1
	}
	return int(meta.NumDelivered)
}

// Done takes the task off the queue. If that is lost the task comes again,
// and its log shows that it was begun.
func (d *Delivery) Done() error { return d.m.Ack() }

// Later gives the task back, for whoever asks next after some time.
func (d *Delivery) Later(after time.Duration) error { return d.m.NakWithDelay(after) }
