package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// ErrDenied reports a request that the user of the connection may not make.
// Nothing was done.
var ErrDenied = errors.New("not permitted")

// denials passes permission violations on to the requests that they are about.
// A server sends them by themselves: a request that it refuses has no answer.
type denials struct {
	mu      sync.Mutex
	waiting map[*denial]struct{}
}

type denial struct {
	subjects []string
	tell     func(subject string)
}

// watch calls tell, in another goroutine, when a violation names one of the
// subjects, until stop is called.
func (d *denials) watch(tell func(subject string), subjects ...string) (stop func()) {
	one := &denial{subjects, tell}
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
				one.tell(subject)
			}
		}
	}
}

// unlessDenied calls do, whose error is [ErrDenied] if the server refuses
// requests on the subject meanwhile, and counts says that this matters.
func (b *Bus) unlessDenied(ctx context.Context, subject string, counts func() bool, do func(context.Context) error) error {
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
	return fmt.Errorf("%w: the user of these keys may not use %s", ErrDenied, subject)
}

// denies reports whether an error of a connection is a violation that names a subject.
func denies(err error, subject string) bool {
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), ` to "`+subject+`"`)
}
