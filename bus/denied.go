package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

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
