package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"strings"

	"github.com/linesman/linesman/bus/reader"
)

// ErrNoResponder reports that no responder is running. Nothing was done.
var ErrNoResponder = errors.New("no responder answers")

// Call sends one request of the NATS service, to a tool or a verb, and returns the body
// of the answer; failed reports that it is that of an error. It waits until ctx ends.
// The error is [ErrNoResponder] if no responder receives the request, [ErrDenied] if
// the user has no permission, [ErrUnreachable] if the server is unreachable or the
// connection is lost, and the service's error if its answer has no body. Except for the
// first two, the request may have been carried out.
func (b *Bus) Call(ctx context.Context, name string, args []byte) (body []byte, failed bool, err error) {
	asking, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	// A pending answer is lost with the connection.
	lost := b.inside.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	var watch sync.WaitGroup
	watch.Go(func() {
		if _, broke := <-lost; broke {
			cancel(ErrUnreachable)
		}
	})
	defer watch.Wait()
	defer b.inside.RemoveStatusListener(lost)

	subject := b.API() + "." + name
	m, err := b.request(asking, cancel, subject, args)
	switch {
	case err == nil && len(m.Data) > 0:
		return m.Data, m.Header.Get(micro.ErrorCodeHeader) != "", nil
	case errors.Is(err, nats.ErrNoResponders):
		return nil, false, ErrNoResponder
	case errors.Is(context.Cause(asking), ErrDenied):
		return nil, false, context.Cause(asking)
	case errors.Is(err, ErrRefused):
		return nil, false, err
	case errors.Is(context.Cause(asking), ErrUnreachable), errors.Is(err, ErrUnreachable),
		errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed):
		return nil, false, fmt.Errorf("%w: the connection is lost", ErrUnreachable)
	case err != nil:
		return nil, false, fmt.Errorf("request %s: %w", name, err)
	}
	return nil, false, fmt.Errorf("request %s: the responder refused it: %.200q", name, m.Header.Get(micro.ErrorHeader))
}

// request sends a request and waits for the answer in an inbox of its own, so that a
// permission violation can be matched to this request. It sends the request after the
// server has accepted the subscription.
func (b *Bus) request(
	ctx context.Context,
	cancel context.CancelCauseFunc,
	subject string,
	args []byte,
) (*nats.Msg, error) {
	inbox := b.inside.NewInbox()
	deny := func(subject string) { cancel(errDenied(subject)) }
	defer b.denied.watch(deny, subject, inbox)()
	sub, err := b.inside.SubscribeSync(inbox)
	if err != nil {
		return nil, whyClosed(b.inside, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails if the connection is lost
	if !b.inside.IsConnected() {
		return nil, ErrUnreachable
	}
	listening, stop := context.WithTimeout(ctx, reader.AnswerTimeout)
	defer stop()
	if err := b.inside.FlushWithContext(listening); err != nil {
		return nil, whyClosed(b.inside, err)
	}
	if denies(b.inside.LastError(), inbox) {
		deny(inbox)
		return nil, ctx.Err()
	}
	if err := b.inside.PublishRequest(subject, inbox, args); err != nil {
		return nil, whyClosed(b.inside, err)
	}
	m, err := sub.NextMsgWithContext(ctx)
	return m, whyClosed(b.inside, err)
}

// ErrDenied reports a request for which the user has no permission. Nothing was done.
var ErrDenied = errors.New("not permitted")

// denials dispatches permission violations to the requests that caused them. The server
// reports them separately: a refused request has no answer.
type denials struct {
	mu      sync.Mutex
	waiting map[*denial]struct{}
}

type denial struct {
	subjects []string
	notify   func(subject string)
}

// watch calls notify, in another goroutine, when a violation names one of the subjects,
// until stop is called.
func (d *denials) watch(notify func(subject string), subjects ...string) (stop func()) {
	one := &denial{subjects, notify}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting == nil {
		d.waiting = map[*denial]struct{}{}
	}
	d.waiting[one] = struct{}{}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiting, one)
	}
}

// notice handles an error of a connection.
func (d *denials) notice(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for one := range d.waiting {
		for _, subject := range one.subjects {
			if denies(err, subject) {
				one.notify(subject)
			}
		}
	}
}

// unlessDenied calls do. It returns [ErrDenied] if the server reports a violation for
// the subject meanwhile, and counts returns true.
func (b *Bus) unlessDenied(
	ctx context.Context,
	subject string,
	counts func() bool,
	do func(context.Context) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer b.denied.watch(func(subject string) {
		if counts() {
			cancel(errDenied(subject))
		}
	}, subject)()
	err := do(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, ErrDenied) {
		return cause
	}
	return err
}

func errDenied(subject string) error {
	return fmt.Errorf("%w: these credentials have no permission for %s", ErrDenied, subject)
}

// denies reports whether a connection error is a violation that names a subject.
func denies(err error, subject string) bool {
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), ` to "`+subject+`"`)
}
