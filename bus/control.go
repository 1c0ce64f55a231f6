package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/runs"
)

// order is what the owner of a run is asked, and answers.
type order struct {
	Do     string `json:"do"` // cancel
	Reason string `json:"reason,omitempty"`
}

type receipt struct {
	Done  bool   `json:"done"`
	Error string `json:"error,omitempty"`
}

// Listen lets the caller, who drives a run, be asked for its end. Stop ends
// that. A cancel that takes longer than ten seconds is given up.
func (b *Bus) Listen(run string, cancel func(ctx context.Context, reason string) error) (stop func(), err error) {
	sub, err := b.inside.Subscribe(b.ControlSubject(run), func(m *nats.Msg) {
		go func() { // the next one need not wait
			var o order
			r := receipt{}
			if json.Unmarshal(m.Data, &o) != nil || o.Do != "cancel" {
				r.Error = "unknown order"
			} else {
				ctx, done := context.WithTimeout(context.Background(), 10*time.Second)
				defer done()
				err := cancel(ctx, o.Reason)
				if r.Done = err == nil; err != nil {
					r.Error = "not carried out"
				}
			}
			body, err := json.Marshal(r)
			if err == nil {
				_ = m.Respond(body) // who asked may have gone
			}
		}()
	})
	if err != nil {
		return nil, fmt.Errorf("run %s: listen: %w", run, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// AskCancel asks the owner of a run to end it, and returns when its log says
// so. The error is [runs.ErrNoOwner] where nobody answers.
func (b *Bus) AskCancel(ctx context.Context, run, reason string) error {
	body, err := json.Marshal(order{"cancel", reason})
	if err != nil {
		return err
	}
	ctx, done := context.WithTimeout(ctx, 5*time.Second)
	defer done()
	m, err := b.inside.RequestWithContext(ctx, b.ControlSubject(run), body)
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return runs.ErrNoOwner
	case err != nil:
		return fmt.Errorf("run %s: ask for its end: %w", run, err)
	}
	var r receipt
	if json.Unmarshal(m.Data, &r) != nil || !r.Done {
		return fmt.Errorf("run %s: its owner did not end it", run)
	}
	return nil
}
