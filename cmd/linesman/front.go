package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/linesman/linesman/responder/web"
	"github.com/linesman/linesman/worker"
)

// front is the HTTP server of a desk. It can serve before there is one, while
// NATS is away: then it is alive and not ready.
type front struct {
	web  *web.Server
	addr net.Addr
	desk atomic.Pointer[desk]

	end    context.CancelFunc // of what begin began; nil: nothing
	served chan error
}

// newFront returns the server of an address, which it has taken.
func (a *app) newFront(listen string) (*front, error) {
	if err := worker.MakeDir(a.config.DataDir); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	token, err := web.TokenFile(a.tokenFile())
	if err != nil {
		return nil, err
	}
	f := &front{}
	if f.web, err = web.New(web.Config{Listen: listen, Token: token, Tokens: a.tokensFile(), Ready: f.ready, Log: a.log}); err != nil {
		return nil, err
	}
	if f.addr, err = f.web.Listen(); err != nil {
		return nil, fmt.Errorf("--http: %w; choose another address, or port 0 for a free one", err)
	}
	return f, nil
}

func (f *front) ready(ctx context.Context) error {
	if d := f.desk.Load(); d != nil {
		return d.ready(ctx)
	}
	return errors.New("NATS is away")
}

// begin serves the health checks. What else there is comes with the desk. The
// context ends with the server, also where that fails.
func (f *front) begin(ctx context.Context) context.Context {
	ctx, f.end = context.WithCancel(ctx)
	f.served = make(chan error, 1)
	f.web.Hold()
	go func() {
		defer f.end()
		f.served <- f.web.Serve(ctx)
	}()
	return ctx
}

// serve serves until ctx ends; it goes on with what begin began.
func (f *front) serve(ctx context.Context) error {
	if f.end == nil {
		return f.web.Serve(ctx)
	}
	select {
	case err := <-f.served:
		return err
	case <-ctx.Done():
		f.end()
		return <-f.served
	}
}
