package main

import (
	"context"
	"os"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/local"
)

// dialer connects to the server of the settings. It has the log and the settings
// of its first use.
func (a *app) dialer() *local.Dialer {
	a.dialed.Do(func() {
		a.local = &local.Dialer{
			Config: a.config, File: a.file, Environ: a.environ, Stderr: a.stderr, Log: a.log, EndRefused: a.asks,
		}
	})
	return a.local
}

// client connects as user to the server that a command needs, and starts it if
// there is none.
func (a *app) client(ctx context.Context, user string) (*bus.Bus, error) {
	return a.dialer().DialOrStart(ctx, user)
}

// connect connects as user to a server that is running.
func (a *app) connect(ctx context.Context, user string) (*bus.Bus, error) {
	return a.dialer().Dial(ctx, user)
}

func (a *app) connectWithRetry(ctx context.Context, user string) (*bus.Bus, error) {
	return a.dialer().DialWithRetry(ctx, user)
}

func (a *app) logins(user string) (inside, public bus.Login, err error) {
	return a.dialer().Logins(user)
}

func (a *app) names() bus.Names { return bus.Names{Prefix: a.config.Prefix} }

func (a *app) takeOver(ctx context.Context) (*os.File, error) { return a.dialer().TakeOver(ctx) }

func (a *app) insist(ctx context.Context, do func(context.Context) error) error {
	return a.dialer().Retry(ctx, do)
}

// away is how long a command waits for NATS.
const away = local.MaxOutage

func (a *app) server() string { return a.dialer().ServerName() }

func (a *app) sayAway() { a.dialer().TellOutage() }

// instance is the content of linesman.json.
type instance = local.Instance

func readInstance(data string) (instance, error) { return local.ReadInstance(data) }

func instanceFile(data string) string { return local.InstanceFile(data) }

func lockData(data string) (*os.File, error) { return local.Lock(data) }

func sameProgram(path string) string { return local.SameProgram(path) }

// mayDo describes the permission of a user.
var mayDo = map[string]string{embedded.OperatorUser: local.Permission(embedded.OperatorUser)}

// soon is the context of a request that takes a moment.
func soon(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 10*time.Second)
}
