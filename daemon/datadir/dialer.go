package datadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/config"
)

// Dialer connects to the NATS server that the settings name: that of
// Config.NATS, else that of the `linesman up` of the data directory. Its errors
// are [ErrUnavailable] if no server can be used, and [ErrSettings] if a setting
// is wrong. Set the fields before the first call; the methods may be called from
// several goroutines.
type Dialer struct {
	Config  config.Config
	File    string      // configuration file for an `up` that is started; "": that of the environment, if any
	Environ []string    // as [os.Environ]
	Stderr  io.Writer   // for a person: what a command is waiting for
	Log     *zap.Logger // not nil, except for Retry

	// endRefused ends a connection to Config.NATS when the server refuses the
	// credentials at a reconnect.
	endRefused bool

	revival  sync.Mutex // guards the fields below, about an `up` that is gone
	free     time.Time  // since when the lock of the data directory is free
	retryAt  time.Time  // no `up` is started before
	starting *startup   // the last `up` that was started
}

// Classes of errors. They are part of the error tree, for errors.Is, and of no
// error text.
var (
	ErrUnavailable = errors.New("no NATS server is available")
	ErrSettings    = errors.New("wrong settings")
)

// classified is an error of a class.
type classified struct {
	error
	class error
}

func (c classified) Unwrap() []error { return []error{c.error, c.class} }

func unavailable(err error) error { return classified{err, ErrUnavailable} }

// Dial connects as user. It starts no server.
func (d *Dialer) Dial(ctx context.Context, user string) (*bus.Bus, error) {
	inside, public, err := d.Logins(user)
	if err != nil {
		return nil, err
	}
	return d.dial(ctx, inside, public)
}

func (d *Dialer) dial(ctx context.Context, inside, public bus.Login) (*bus.Bus, error) {
	// The server of a data directory may come back on another port. If its old
	// port refuses the credentials meanwhile, that is another server.
	inside.EndRefused = d.endRefused && d.Config.NATS != ""
	public.EndRefused = inside.EndRefused
	b, err := bus.Connect(ctx, inside, public, bus.Names{Prefix: d.Config.Prefix}, d.Log)
	if !errors.Is(err, bus.ErrUnreachable) {
		return b, err
	}
	data := d.Config.DataDir
	here, unread := ReadInstance(data)
	switch {
	case d.Config.NATS != "":
	case unread == nil && isLocked(data):
		err = fmt.Errorf("%w; %s", err, here.unresponsive())
	default:
		err = fmt.Errorf("%w; the address is from %s: was that `linesman up` killed? Start it again", err, InstanceFile(data))
	}
	return nil, unavailable(err)
}

// Client returns a client for requests. It ends when the server of Config.NATS
// refuses its credentials at a reconnect.
func (d *Dialer) Client(ctx context.Context) (*client.Client, error) {
	return d.client(ctx, embedded.OperatorUser)
}

// Reader is [Dialer.Client] for reading events. At the server of a data directory
// it is the operator, because the connections of readers are limited.
func (d *Dialer) Reader(ctx context.Context) (*client.Client, error) {
	if d.Config.NATS == "" {
		return d.Client(ctx)
	}
	return d.client(ctx, embedded.SubscriberUser)
}

func (d *Dialer) client(ctx context.Context, user string) (*client.Client, error) {
	d.endRefused = true
	b, err := d.DialOrStart(ctx, user)
	if err != nil {
		return nil, err
	}
	return client.New(b), nil
}

// Logins returns the logins of a user to the inside and the public account. They
// hold secrets.
func (d *Dialer) Logins(user string) (inside, public bus.Login, err error) {
	if d.Config.NATS != "" {
		if isDir(d.Config.Creds) {
			inside, public, err = keyLogins(d.Config.Creds, d.Config.NATS, user)
		} else {
			inside, public, err = fileLogins(d.Config.NATS, d.Config.Creds, d.Config.PublicCreds, user)
		}
		if err != nil {
			err = classified{err, ErrSettings}
		}
		return inside, public, err
	}
	data := d.Config.DataDir
	running, err := ReadInstance(data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("no linesman is running here (%s): start `linesman up`, or name a server with --nats", data)
		return inside, public, unavailable(err)
	case err != nil:
		return inside, public, unavailable(unreadable(err))
	}
	credentials, err := embedded.LoadCredentials(data)
	if err != nil {
		return inside, public, err
	}
	inside, public = credentials.Logins(running.NATS, user)
	where := func() string { return serverAddress(data) } // it may come back on another port
	inside.Where, public.Where = where, where
	return inside, public, nil
}

// TaskDir returns the directory of a task that names none: that of this process, or "" for the one of the
// worker, if that is not the `linesman up` of the data directory, or runs in a terminal. Ask for it at each
// submission, because one `up` can replace the other.
func (d *Dialer) TaskDir() (string, error) {
	if d.Config.NATS != "" {
		return "", nil
	}
	if here, err := ReadInstance(d.Config.DataDir); err == nil && !here.Background {
		return "", nil
	}
	return os.Getwd()
}

// isDir reports whether there is a directory at a path.
func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// MaxOutage is how long a command waits for NATS: to connect, before its run has
// started, and after the end of the agent.
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
