package reader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// NewTail returns a reader of a subject from a sequence on, 1 or more, for accounts and
// streams that allow no direct gets: it gets the first messages by requests for each, which
// leave no state on the server, and many by a consumer. The stream need not republish what it
// stores: a message on the subject live of the connection wake is a hint that there may be
// more, and without one the stream is polled every two seconds. Live is needed for
// [Reader.Follow] only.
func NewTail(js jetstream.JetStream, stream, subject string, wake *nats.Conn, live string, from uint64) *Reader {
	r := NewConsumer(js, stream, subject, 16, from)
	r.live, r.wake, r.poll, r.single = []string{live}, wake, 2*time.Second, true
	byConsumer := r.open
	r.open = func(from uint64, patience time.Duration) source {
		return &tail{
			conn: js.Conn(), stream: stream, subject: subject, from: from, turns: r.Turns,
			open: func(from uint64) source { return byConsumer(from, patience) },
		}
	}
	r.Log = zap.NewNop()
	return r
}

// Limits of the requests for single messages.
const (
	// maxRounds is how often they are requested, and maxGetBytes how many bytes of them; then a
	// consumer reads the others. To create one takes as long as a few requests, and it
	// delivers large bodies, which such an answer has in base64, at a quarter of the cost.
	maxRounds   = 6
	maxGetBytes = 256 << 10
	// maxAhead is how many are requested at the same time. The server has one queue for such
	// requests of all clients, and a guard in the embedded one acts at a hundred.
	maxAhead = 8
)

// tail is a source that gets messages one by one, and then by another source.
type tail struct {
	conn    *nats.Conn
	stream  string
	subject string
	from    uint64
	open    func(from uint64) source
	turns   chan struct{} // of [Reader.Turns]

	rounds int
	bytes  int    // of the messages so far
	ahead  int    // requests of the next round; 0 means 1
	many   source // nil: not needed so far
}

func (t *tail) next(ctx context.Context) ([]*jetstream.RawStreamMsg, bool, error) {
	if t.many != nil || t.rounds == maxRounds || t.bytes >= maxGetBytes {
		if t.many == nil {
			t.many = t.open(t.from)
		}
		return t.many.next(ctx)
	}
	asked := t.from + uint64(max(t.ahead, 1)) // the first sequence that is not asked for
	messages, err := t.get(ctx, asked)
	t.rounds++
	for _, m := range messages {
		t.bytes += len(m.Data)
	}
	if n := len(messages); n > 0 {
		t.from = messages[n-1].Sequence + 1
	}
	if t.from == asked { // the messages follow each other
		t.ahead = min(2*max(t.ahead, 1), maxAhead)
	} else {
		t.ahead = 1
	}
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return messages, false, nil
	case ctx.Err() != nil:
		return messages, false, ctx.Err()
	case errors.Is(err, jetstream.ErrStreamNotFound), err != nil && t.conn.IsClosed():
		return messages, false, err
	case err != nil:
		return messages, false, fmt.Errorf("%w: %w", errUnanswered, err)
	}
	return messages, true, nil
}

// get asks at the same time for the first message at or after each sequence from t.from to
// the one before end, and returns those that there are, each once. Messages before an error
// are valid.
func (t *tail) get(ctx context.Context, end uint64) (messages []*jetstream.RawStreamMsg, err error) {
	done, err := turn(ctx, t.turns)
	if err != nil {
		return nil, err
	}
	defer done()
	type answer struct {
		message *jetstream.RawStreamMsg
		err     error
	}
	answers := make([]answer, end-t.from)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			a := &answers[i]
			a.message, a.err = Next(ctx, t.conn, t.stream, t.subject, t.from+uint64(i))
		})
	}
	all.Wait()
	for _, a := range answers {
		if a.err != nil {
			return messages, a.err
		}
		if n := len(messages); n == 0 || a.message.Sequence > messages[n-1].Sequence {
			messages = append(messages, a.message)
		}
	}
	return messages, nil
}

func (t *tail) close() {
	if t.many != nil {
		t.many.close()
	}
}
