package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
)

// MaxOutage is how long a command waits for NATS: to connect, before its run has
// begun, and after the end of the agent.
const MaxOutage = 60 * time.Second

// DialWithRetry is [Dialer.Dial] for a role. While the server is unreachable or
// refuses the credentials it retries, with growing pauses: both can heal. Each
// attempt reads the files again; one that is missing or damaged is an error, as
// is a server that does not meet the requirements. Each reason is logged once.
// If ctx ends, the error is that of ctx.
func (d *Dialer) DialWithRetry(ctx context.Context, user string) (*bus.Bus, error) {
	delays := backoff.NewExponentialBackOff()
	delays.InitialInterval, delays.MaxInterval = 200*time.Millisecond, 5*time.Second
	logged := ""
	for {
		b, err := d.Dial(ctx, user)
		switch {
		case ctx.Err() != nil:
			if b != nil {
				b.Close()
			}
			return nil, ctx.Err()
		case !errors.Is(err, bus.ErrUnreachable):
			if err == nil && logged != "" {
				d.Log.Info("connected")
			}
			return b, err
		}
		if why := err.Error(); why != logged {
			logged = why
			d.Log.Warn("no connection yet, trying again", zap.String("why", why))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(delays.NextBackOff()):
		}
	}
}

// Retry calls do until it succeeds, or fails for another reason than an outage of
// NATS. It tells the user once that it waits. After MaxOutage the error is
// [ErrUnavailable].
func (d *Dialer) Retry(ctx context.Context, do func(context.Context) error) error {
	begun, told := time.Now(), false
	// The answer to a request that was in flight when the connection broke never arrives.
	for timeout := 2 * time.Second; ; timeout = min(2*timeout, 10*time.Second) {
		attempt, cancel := context.WithTimeout(ctx, timeout)
		err := do(attempt)
		cancel()
		switch {
		case err == nil, ctx.Err() != nil, !bus.IsAway(err):
			return err
		case time.Since(begun) > MaxOutage:
			return unavailable(fmt.Errorf("%s has given no answer for %v; `linesman doctor` says what is wrong: %w",
				d.ServerName(), MaxOutage, err))
		case !told:
			told = true
			d.TellOutage()
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// Hint returns a cause of an error, or advice, that its text does not contain, or "".
func Hint(err error) string {
	cause := bus.Cause(err)
	switch {
	case errors.Is(err, bus.ErrNoStream):
		return "the streams are made by `linesman normalizer`: is one running, with the same prefix?"
	case strings.Contains(err.Error(), cause):
		return ""
	}
	return cause
}

// ServerName names the server in texts for people.
func (d *Dialer) ServerName() string {
	if d.Config.NATS != "" {
		return "NATS"
	}
	return "the `linesman up` of " + d.Config.DataDir
}

// TellOutage tells the user that a command waits for the server.
func (d *Dialer) TellOutage() {
	fmt.Fprintf(d.Stderr, "linesman: %s is away: waiting for it, %v at most\n", d.ServerName(), MaxOutage)
}
