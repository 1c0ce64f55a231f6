package reader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// NewTail returns a reader of a subject from a sequence on, 1 or more, for accounts and
// streams that allow no direct gets: it gets a few messages one by one, which leaves no
// state on the server, and many by a consumer. The stream need not republish what it
// stores: a message on the subject live of the connection wake is a hint that there may be
// more, and without one the stream is polled every two seconds.
func NewTail(js jetstream.JetStream, stream, subject string, wake *nats.Conn, live string, from uint64) *Reader {
	r := NewConsumer(js, stream, subject, 16, from)
	r.live, r.wake, r.poll, r.single = live, wake, 2*time.Second, true
	byConsumer := r.open
	r.open = func(from uint64, patience time.Duration) source {
		return &tail{js: js, stream: stream, subject: subject, from: from, turns: r.Turns, open: func(from uint64) source {
			return byConsumer(from, patience)
		}}
	}
	r.Log = zap.NewNop()
	return r
}

// maxGets is how many messages a tail gets one by one.
const maxGets = 16

// tail is a source that gets messages one by one, and then by another source.
type tail struct {
	js      jetstream.JetStream
	stream  string
	subject string
	from    uint64
	open    func(from uint64) source
	turns   chan struct{} // of [Reader.Turns]

	on   jetstream.Stream
	gets int
	many source // nil: not needed so far
}

func (t *tail) next(ctx context.Context) ([]*jetstream.RawStreamMsg, bool, error) {
	if t.gets == maxGets {
		if t.many == nil {
			t.many = t.open(t.from)
		}
		return t.many.next(ctx)
	}
	t.gets++
	m, err := t.get(ctx)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, false, nil
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	case errors.Is(err, jetstream.ErrStreamNotFound), err != nil && t.js.Conn().IsClosed():
		return nil, false, err
	case err != nil:
		return nil, false, fmt.Errorf("%w: %w", errUnanswered, err)
	}
	t.from = m.Sequence + 1
	return []*jetstream.RawStreamMsg{m}, true, nil
}

func (t *tail) get(ctx context.Context) (m *jetstream.RawStreamMsg, err error) {
	if t.on == nil {
		if t.on, err = Look(ctx, t.js, t.stream); err != nil {
			return nil, err
		}
	}
	done, err := turn(ctx, t.turns)
	if err != nil {
		return nil, err
	}
	defer done()
	err = retryLost(ctx, t.js.Conn(), func(ctx context.Context) error {
		m, err = t.on.GetMsg(ctx, t.from, jetstream.WithGetMsgSubject(t.subject))
		return err
	})
	return m, err
}

func (t *tail) close() {
	if t.many != nil {
		t.many.close()
	}
}
