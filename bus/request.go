package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// ErrNoResponder reports that no responder is running. Nothing was done.
var ErrNoResponder = errors.New("no responder answers")

// ErrNotSent is an error of requests that did not leave this process, beside their cause. Nothing was done.
var ErrNotSent = errors.New("the request was not sent")

// unsent is the error of a request that was not sent.
type unsent struct{ error }

func (u unsent) Unwrap() []error { return []error{u.error, ErrNotSent} }

// answer is the answer to a request.
type answer struct {
	Body   []byte
	Type   string // media type; "": JSON of package api
	Failed bool   // it is that of an error
}

// Headers of the answers of the NATS service.
const (
	// PartHeader is in each message of an answer but the last one: see the constants below.
	PartHeader = "Linesman-Part"
	TypeHeader = "Content-Type" // of the answer; absent: JSON of package api
)

// Parts of an answer.
const (
	ProgressPart = "progress" // the progress of the call
	BodyPart     = "body"     // the next part of the body, whose rest is in the last message
	HeldPart     = "held"     // the call is still being carried out
)

// StopVerb and RenewVerb end and renew a call that is held. All responders hear them: they name no request
// but a reply subject, StopVerb as its body and RenewVerb as its own reply subject.
const (
	StopVerb  = "stop"
	RenewVerb = "renew"

	// RenewEvery is how often a held call is renewed. A responder ends one that was not renewed for three
	// times as long.
	RenewEvery = 30 * time.Second
)

// MaxAnswer bounds the body of an answer, in bytes: beside other messages it is less than the built-in server keeps
// for a client that does not read, before it ends the connection.
const MaxAnswer = 12 << 20

// Call sends one request of the NATS service, to a tool or a verb, and returns its answer. It waits until
// ctx ends. The error is [ErrNoResponder] if no responder receives the request, [ErrDenied] if the user has no
// permission, [ErrUnreachable] if the server is unreachable or the connection is lost, and the service's error
// if its answer has no body. Except for the first two, and for [ErrNotSent], the request may have been carried
// out.
func (b *Bus) Call(ctx context.Context, name string, args []byte) (answer, error) {
	return b.call(ctx, name, args, func([]byte) {}, nil)
}

// Hold is Call for a request that is held by its responder until it is answered: it calls progress, unless
// that is nil, for each part of the answer that has progress. If ctx ends, so does the request. If its
// responder is gone, which may take twice [RenewEvery] to notice, the request may have been carried out.
func (b *Bus) Hold(ctx context.Context, name string, args []byte, progress func(part []byte)) (answer, error) {
	renew := time.NewTicker(RenewEvery)
	defer renew.Stop()
	if progress == nil {
		progress = func([]byte) {}
	}
	return b.call(ctx, name, args, progress, renew.C)
}

func (b *Bus) call(ctx context.Context, name string, args []byte, progress func([]byte),
	renew <-chan time.Time) (answer, error) {
	// A pending answer is lost with the connection.
	lost := b.inside.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	defer b.inside.RemoveStatusListener(lost)
	q, err := b.inbox.open(ctx, b)
	if err != nil {
		return answer{}, unsent{b.failure(name, err)}
	}
	defer b.inbox.close(q)
	subject := b.API() + "." + name
	denied := make(chan error, 1)
	defer b.denied.watch(func(subject string) {
		select {
		case denied <- errDenied(subject):
		default:
		}
	}, subject)()
	if !b.inside.IsConnected() {
		return answer{}, unsent{b.failure(name, ErrUnreachable)}
	}
	if err := b.inside.PublishRequest(subject, q.reply, args); err != nil {
		return answer{}, unsent{b.failure(name, whyClosed(b.inside, err))}
	}
	renewed := false
	for {
		select {
		case m := <-q.answered:
			if m == nil {
				return answer{}, errDenied(q.inbox + "*")
			}
			for len(q.progress) > 0 {
				progress(<-q.progress)
			}
			if err := q.refused(m, renewed); err != nil {
				return answer{}, b.failure(name, err)
			}
			return answer{Body: append(q.body, m.Data...), Type: m.Header.Get(TypeHeader),
				Failed: m.Header.Get(micro.ErrorCodeHeader) != ""}, nil
		case part := <-q.progress:
			progress(part)
		case <-renew:
			if heard := q.heard.Swap(false); renewed && !heard {
				return answer{}, errGone
			}
			renewed = true
			_ = b.inside.PublishRequest(b.API()+"."+RenewVerb, q.reply, nil) // else the connection is lost
		case err := <-denied:
			return answer{}, err
		case <-lost:
			return answer{}, b.failure(name, whyClosed(b.inside, nats.ErrConnectionClosed))
		case <-ctx.Done():
			if renew != nil {
				_ = b.inside.Publish(b.API()+"."+StopVerb, []byte(q.reply)) // else it is not renewed
			}
			return answer{}, fmt.Errorf("request %s: %w", name, ctx.Err())
		}
	}
}

// refused returns why the last message of an answer is none.
func (q *asked) refused(m *nats.Msg, renewed bool) error {
	switch {
	case len(m.Data) == 0 && m.Header.Get("Status") == noResponders && renewed:
		return errGone
	case len(m.Data) == 0 && m.Header.Get("Status") == noResponders:
		return ErrNoResponder
	case len(q.body)+len(m.Data) == 0:
		return fmt.Errorf("the responder refused it: %.200q", m.Header.Get(micro.ErrorHeader))
	case q.tooLong:
		return fmt.Errorf("its answer is larger than %d bytes", MaxAnswer)
	}
	return nil
}

// errGone reports that a request is no longer held.
var errGone = errors.New("the responder that took the request is gone")

// noResponders is the status that the server answers with if the subject has no subscriber.
const noResponders = "503"

// failure is the error of a request.
func (b *Bus) failure(name string, err error) error {
	switch {
	case errors.Is(err, ErrNoResponder), errors.Is(err, ErrDenied), errors.Is(err, ErrRefused), errors.Is(err, errGone):
		return err
	case errors.Is(err, ErrUnreachable), errors.Is(err, nats.ErrReconnectBufExceeded),
		errors.Is(err, nats.ErrConnectionClosed):
		return fmt.Errorf("%w: the connection is lost", ErrUnreachable)
	}
	return fmt.Errorf("request %s: %w", name, err)
}

// ErrDenied reports a request for which the user has no permission. Nothing was done.
var ErrDenied = errors.New("not permitted")

// denials dispatches permission violations to the requests that caused them. The server
// reports them separately: a refused request has no answer.
type denials struct {
	waiting sync.Map // *denial
}

type denial struct {
	subjects []string
	notify   func(subject string)
}

// watch calls notify, in another goroutine, when a violation names one of the subjects,
// until stop is called.
func (d *denials) watch(notify func(subject string), subjects ...string) (stop func()) {
	one := &denial{subjects, notify}
	d.waiting.Store(one, nil)
	return func() { d.waiting.Delete(one) }
}

// notice handles an error of a connection.
func (d *denials) notice(err error) {
	for one := range d.waiting.Range {
		one := one.(*denial)
		for _, subject := range one.subjects {
			if denies(err, subject) {
				one.notify(subject)
			}
		}
	}
}

// unlessDenied calls do. It returns [ErrDenied] if the server reports a violation for
// the subject meanwhile, and counts returns true.
func (b *Bus) unlessDenied(ctx context.Context, subject string, counts func() bool,
	do func(context.Context) error) error {
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
