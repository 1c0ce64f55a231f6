package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// ErrNoResponder reports that nobody answers requests here. Nothing was done.
var ErrNoResponder = errors.New("no responder answers")

// Ask is Call of a tool, whose answer is an envelope, be it that of an error.
func (b *Bus) Ask(ctx context.Context, tool string, args []byte) (body []byte, err error) {
	body, _, err = b.Call(ctx, tool, args)
	return body, err
}

// Call sends one request of the NATS service, to a tool or a verb, and returns
// the body that answers it; failed says that it is that of an error. It waits
// as long as ctx does. The error is [ErrNoResponder] where nothing takes the
// request, [ErrDenied] where the user may not make it, [ErrUnreachable] where
// the server is away or goes away before the answer comes, and what the service
// said where its answer has no body. But for the first two of these the request
// may have been carried out.
func (b *Bus) Call(ctx context.Context, name string, args []byte) (body []byte, failed bool, err error) {
	asking, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	// An answer that was on its way when the connection broke never comes.
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

// request sends a request and waits for its answer, which comes to an inbox of
// its own: a violation names it, and no other request is concerned. The request
// is sent once the server has let us listen there.
func (b *Bus) request(ctx context.Context, cancel context.CancelCauseFunc, subject string, args []byte) (*nats.Msg, error) {
	inbox := b.inside.NewInbox()
	deny := func(subject string) { cancel(errDenied(subject)) }
	defer b.denied.watch(deny, subject, inbox)()
	sub, err := b.inside.SubscribeSync(inbox)
	if err != nil {
		return nil, whyClosed(b.inside, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // a connection that is lost has none
	if !b.inside.IsConnected() {
		return nil, ErrUnreachable
	}
	listening, stop := context.WithTimeout(ctx, answerTimeout)
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
