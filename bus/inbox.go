package bus

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/bus/reader"
)

// inbox is the subscription of a connection for the answers of its requests: it is made once, for the first
// one, so that a request is sent only after the server has accepted it.
type inbox struct {
	opening chan struct{} // held by the request that subscribes
	drop    func()        // ends the subscription; nil: there is none

	mu      sync.Mutex
	subject string // of the answers, with a token of the request at its end; "": not subscribed
	waiting map[string]*asked
	last    uint64 // token
}

func newInbox() *inbox { return &inbox{opening: make(chan struct{}, 1), waiting: map[string]*asked{}} }

// asked is a request that waits for its answer.
type asked struct {
	inbox, reply string
	answered     chan *nats.Msg // the last message; nil: the server refuses the inbox
	progress     chan []byte    // the newest is dropped where the requester does not take it
	heard        atomic.Bool    // since that was reset

	// Of the parts of the body, until the last message.
	body    []byte
	tooLong bool
}

// open adds a request. The error is [ErrDenied] if the user may not subscribe.
func (i *inbox) open(ctx context.Context, b *Bus) (*asked, error) {
	select {
	case i.opening <- struct{}{}:
		defer func() { <-i.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	i.mu.Lock()
	subject := i.subject
	i.mu.Unlock()
	if subject == "" {
		var err error
		if subject, err = i.subscribe(ctx, b); err != nil {
			return nil, err
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.last++
	q := &asked{inbox: subject, reply: subject + strconv.FormatUint(i.last, 36), answered: make(chan *nats.Msg, 1),
		progress: make(chan []byte, 64)}
	i.waiting[q.reply] = q
	return q, nil
}

// close removes a request: later messages to it are dropped.
func (i *inbox) close(q *asked) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.waiting, q.reply)
}

// subscribe subscribes to a new inbox, and waits until the server has accepted that.
func (i *inbox) subscribe(ctx context.Context, b *Bus) (subject string, err error) {
	if i.drop != nil { // of an inbox that the server refused later
		i.drop()
		i.drop = nil
	}
	subject = b.inside.NewInbox() + "."
	sub, err := b.inside.Subscribe(subject+"*", i.deliver)
	if err != nil {
		return "", whyClosed(b.inside, err)
	}
	refused := false // guarded by mu
	// A server to which the connection moves may refuse it later.
	stop := b.denied.watch(func(string) { i.refuse(subject, &refused) }, subject+"*")
	drop := func() {
		stop()
		_ = sub.Unsubscribe() // fails if the connection is lost
	}
	defer func() {
		if err != nil {
			drop()
		}
	}()
	listening, cancel := context.WithTimeout(ctx, reader.AnswerTimeout)
	defer cancel()
	if !b.inside.IsConnected() {
		return "", ErrUnreachable
	}
	if err := b.inside.FlushWithContext(listening); err != nil {
		return "", whyClosed(b.inside, err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if refused || denies(b.inside.LastError(), subject+"*") {
		return "", errDenied(subject + "*")
	}
	i.subject, i.drop = subject, drop
	return subject, nil
}

// refuse ends the requests of an inbox that the server refuses. The next request subscribes again.
func (i *inbox) refuse(subject string, refused *bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	*refused = true
	if i.subject == subject {
		i.subject = ""
	}
	for reply, q := range i.waiting {
		if q.inbox == subject {
			delete(i.waiting, reply)
			q.answered <- nil
		}
	}
}

// deliver hands a message to its request. It never blocks: other requests wait behind it.
func (i *inbox) deliver(m *nats.Msg) {
	i.mu.Lock()
	defer i.mu.Unlock()
	q := i.waiting[m.Subject]
	if q == nil {
		return
	}
	q.heard.Store(true)
	switch m.Header.Get(PartHeader) {
	case HeldPart:
	case ProgressPart:
		select {
		case q.progress <- m.Data:
		default:
		}
	case BodyPart:
		if q.tooLong = q.tooLong || len(q.body)+len(m.Data) > MaxAnswer; !q.tooLong {
			q.body = append(q.body, m.Data...)
		}
	default:
		delete(i.waiting, m.Subject) // nothing follows, so that the requester may read the body
		q.answered <- m
	}
}
