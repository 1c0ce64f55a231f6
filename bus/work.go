package bus

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/runs"
)

// DefaultQueue is the work queue of submissions without a queue.
const DefaultQueue = "default"

// Submit adds a task to a queue and writes the run's queued entry, with the given time
// in Unix milliseconds. It returns the task's sequence in the queue, which increases,
// and the sequence of the entry in RAW.
//
// No worker starts a task without a queued entry that names it. So after a crash or an
// error in between, the caller can submit the task again, even under the same run id:
// if the same task, but for its trace context, is in the queue without its entry, the
// entry is added; and if its entry is in the log, but neither was the task started nor
// does a queue have it, it is queued again, with another entry. That entry was stored
// after the attempt had failed, and removed its task.
func (b *Bus) Submit(ctx context.Context, queue string, t runs.QueuedTask, at int64) (work, raw uint64, err error) {
	fail := func(err error) (uint64, uint64, error) {
		return 0, 0, fmt.Errorf("run %s: submit: %w", t.Run, err)
	}
	body, err := json.Marshal(t)
	if err != nil {
		return fail(err)
	}
	if why := b.TooLarge(len(body)); why != "" {
		return 0, 0, &runs.FieldError{Field: "prompt", Problem: why}
	}
	entries, err := b.OpenLog(ctx, t.Agent, t.Run, runs.Mark{})
	if err != nil {
		return fail(err)
	}
	known := entries.Mark()
	if known.Seq != 0 { // or had a log that has expired
		if err := b.unqueued(ctx, entries, t.Entry(queue, 0, at)); err != nil {
			return fail(err)
		}
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
	switch {
	case work == known.Work: // it is there: a node of the cluster that lags behind said that it is not
		return fail(runs.ErrKnownRun)
	case work < known.Work:
		err = errors.New("the work queue was recreated: no worker would accept the task")
	default:
		err = entries.Append(ctx, t.Entry(queue, work, at))
	}
	if errors.Is(err, runs.ErrMoved) { // another caller used the id meanwhile
		err = runs.ErrKnownRun
		if entries.Mark().Work == work { // for the same task
			return fail(err)
		}
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		// The caller may be gone, or the time over, before the answer.
		if log, err := b.openLog(ctx, t.Agent, t.Run, runs.Mark{}, true); err == nil && log.Mark().Work == work {
			return work, log.Mark().Seq, nil
		}
		// The caller may submit it again: remove the task.
		if back := b.Unqueue(ctx, queue, t.Run); back != nil {
			b.log.Warn("cannot remove the task of a failed submission", zap.String("run", t.Run), zap.Error(back))
		}
		return fail(err)
	}
	return work, entries.Mark().Seq, nil
}

// unqueued returns nil if a log has nothing but queued entries of the same task as this one, and no queue has it.
// The error is [runs.ErrKnownRun] if the task is queued, was started, or is over.
func (b *Bus) unqueued(ctx context.Context, log *RawLog, want runs.Entry) error {
	if m := log.Mark(); m.Work == 0 || m.Started || m.Cancelled || m.Exited {
		return runs.ErrKnownRun
	}
	if m, err := b.lastOf(ctx, b.Work(), b.WorkSubject("*", log.run)); m != nil || err != nil {
		return cmp.Or(err, runs.ErrKnownRun)
	}
	var last runs.Entry
	err := log.Entries(ctx, 0, func(_ uint64, e runs.Entry) error {
		last = e
		return nil
	})
	if err == nil && (last.Kind != runs.Queued || !bytes.Equal(said(last), said(want))) {
		err = errors.New("no queue has the task of this run, and it is not this one")
	}
	return err
}

// said is what a queued entry says, without what differs at each attempt.
func said(e runs.Entry) []byte {
	s, err := runs.DecodeStart(e.Body)
	if err != nil {
		return e.Body
	}
	s.Queue, s.Work, s.Labels = "", 0, untracedLabels(s.Labels)
	return runs.Encode(s)
}

// waiting returns the sequence of a task that is in the queue already. The error is
// [runs.ErrKnownRun] if the queue has another task.
func (b *Bus) waiting(ctx context.Context, subject string, body []byte) (uint64, error) {
	m, err := b.lastOf(ctx, b.Work(), subject)
	switch {
	case err != nil:
		return 0, err
	case m == nil, !bytes.Equal(untraced(m.Data), untraced(body)): // a worker has just taken it, or it is another task
		return 0, runs.ErrKnownRun
	}
	return m.Sequence, nil
}

// untraced is a task in the queue without the trace context of its submitter, which each attempt has of its own.
func untraced(body []byte) []byte {
	var t runs.QueuedTask
	if json.Unmarshal(body, &t) != nil {
		return body
	}
	t.Labels = untracedLabels(t.Labels)
	return runs.Encode(t)
}

func untracedLabels(l runs.Labels) runs.Labels {
	labels := l.Map()
	delete(labels, runs.LabelTraceparent)
	return runs.LabelsOf(labels)
}

// refused translates the error for a message that WORK refused.
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

// Unqueue removes a task from its queue, if it is still there.
func (b *Bus) Unqueue(ctx context.Context, queue, run string) error {
	stream, err := b.Stream(ctx, b.Work())
	if err != nil {
		return err
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject(b.WorkSubject(queue, run))); err != nil {
		return fmt.Errorf("run %s: remove it from the queue: %w", run, err)
	}
	return nil
}

// Queued reports whether a task is in a queue, or delivered to a worker that has not
// started it.
func (b *Bus) Queued(ctx context.Context, queue, run string) (bool, error) {
	m, err := b.lastOf(ctx, b.Work(), b.WorkSubject(queue, run))
	return m != nil, err
}

// Queue is one work queue, for workers.
type Queue struct {
	// AckWait is the time from the delivery of a task to its start entry, the same for all
	// workers of the queue. Afterwards the task is redelivered; the log decides which
	// worker owns it. Default: 30 s.
	AckWait time.Duration
	// Room returns why there is no room for another task; nil: there always is.
	Room func() error

	bus  *Bus
	name string
}

// Queue returns a work queue.
func (b *Bus) Queue(name string) *Queue { return &Queue{AckWait: 30 * time.Second, bus: b, name: name} }

// Delivery is a task delivered to a worker.
type Delivery struct {
	m    jetstream.Msg
	meta *jetstream.MsgMetadata
}

// Next waits for the oldest task, even while NATS is unreachable. Without room it leaves all to
// other workers. The error is that of ctx.
func (q *Queue) Next(ctx context.Context) (*Delivery, error) {
	const pause = time.Second
	out := reader.Outage{Log: q.bus.log, Began: "no tasks are taken", Ended: "tasks are taken again"}
	for {
		for err := q.full(); err != nil; err = q.full() {
			out.Failed(err.Error())
			if err := reader.Sleep(ctx, pause); err != nil {
				return nil, err
			}
		}
		out.Over()
		d, err := q.next(ctx)
		if err != nil || q.full() == nil {
			return d, err
		}
		_ = d.Later(pause) // else it is redelivered
	}
}

func (q *Queue) full() error {
	if q.Room == nil {
		return nil
	}
	return q.Room()
}

func (q *Queue) next(ctx context.Context) (*Delivery, error) {
	out := reader.Outage{Log: q.bus.log, Began: "the work queue is out of reach", Ended: "the work queue answers again"}
	stalled := false
	for {
		consumer, err := q.consumer(ctx)
		var m jetstream.Msg
		switch {
		case err != nil:
			stalled = false
		case !stalled:
			out.Over()
			fallthrough
		default:
			m, err = fetchOne(ctx, consumer)
		}
		switch {
		case ctx.Err() != nil:
			if m != nil {
				_ = m.Nak() // the caller is gone
			}
			return nil, ctx.Err()
		case err == nil && m != nil:
			meta, err := m.Metadata()
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", q.bus.Work(), err)
			}
			out.Over()
			return &Delivery{m, meta}, nil
		case err == nil:
			out.Over()
			stalled = false
			continue
		case errors.Is(err, jetstream.ErrNoHeartbeat) && !stalled: // of a connection that was lost
			stalled = true
			continue
		}
		if q.bus.Connected() { // else that is logged
			out.Failed(q.bus.Explain(err))
		}
		if err := reader.Sleep(ctx, time.Second); err != nil {
			return nil, err
		}
	}
}

// consumer returns the consumer of the workers of the queue, which it creates if it is
// missing.
func (q *Queue) consumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return q.bus.js.CreateOrUpdateConsumer(ctx, q.bus.Work(), jetstream.ConsumerConfig{
		Durable: q.durable(), Description: "the workers of queue " + q.name,
		FilterSubject: q.bus.WorkSubject(q.name, "*"), AckPolicy: jetstream.AckExplicitPolicy, AckWait: q.AckWait,
		MaxAckPending: maxQueued, MaxDeliver: -1,
	})
}

func (q *Queue) durable() string { return "worker_" + q.name }

// Ready returns why tasks cannot be taken, nil if they can. It changes nothing: a health check
// may be reached by anybody.
func (q *Queue) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err := q.bus.js.Consumer(ctx, q.bus.Work(), q.durable()); err != nil {
		return fmt.Errorf("the work queue is out of reach: %w", q.bus.plainly(err))
	}
	return nil
}

// fetchOne waits for a message for 20 s; nil: there was none.
func fetchOne(ctx context.Context, consumer jetstream.Consumer) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	batch, err := consumer.Fetch(1, jetstream.FetchContext(ctx))
	if err != nil {
		return nil, err
	}
	for m := range batch.Messages() {
		return m, nil
	}
	if err := batch.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, jetstream.ErrNoMessages) {
		return nil, err
	}
	return nil, nil
}

// Task decodes the submitted task.
func (d *Delivery) Task() (t runs.QueuedTask, err error) {
	if err := json.Unmarshal(d.m.Data(), &t); err != nil {
		return t, errors.New("cannot decode the task")
	}
	return t, t.Check()
}

// Work returns the task's sequence in the queue.
func (d *Delivery) Work() uint64 { return d.meta.Sequence.Stream }

// Times returns how often the task was delivered, including this time.
func (d *Delivery) Times() int { return int(d.meta.NumDelivered) }

// Done removes the task from the queue. If the acknowledgement is lost the task is
// redelivered, and its log shows that it was started.
func (d *Delivery) Done() error { return d.m.Ack() }

// Later returns the task to the queue, for redelivery after some time.
func (d *Delivery) Later(after time.Duration) error { return d.m.NakWithDelay(after) }
