package main

import (
	"context"
	"net"

	"github.com/linesman/linesman/responder/a2a"
	"github.com/linesman/linesman/responder/push"
	"github.com/linesman/linesman/responder/web"
)

// serveA2A hangs A2A on the HTTP server: the card for all, the rest for who
// may read. What more an operation needs it asks itself.
func (d *desk) serveA2A() error {
	h := a2a.New(a2a.Config{
		Service: d.Service, URL: d.cardURL(), Version: build().Version, Allows: allows, Log: d.app.log,
		Push: push.NewRegistry(d.bus.PushStore(), push.A2A, d.app.config.Push.AllowPrivate),
	})
	for _, r := range h.Routes() {
		if r.Scope == "" {
			d.front.web.HandlePublic(r.Pattern, r.Handler)
			continue
		}
		scope, err := web.ScopeOf(r.Scope)
		if err != nil {
			return err
		}
		d.front.web.HandleFor(scope, r.Pattern, d.named(r.Handler))
	}
	return nil
}

// cardURL is what the agent card says where HTTP is served. A server that
// listens at every address of the machine has none of its own: its card names
// the one that it was asked at.
func (d *desk) cardURL() string {
	if addr, ok := d.front.addr.(*net.TCPAddr); ok && addr.IP.IsUnspecified() {
		return ""
	}
	return d.url()
}

func allows(ctx context.Context, scope string) bool {
	needed, err := web.ScopeOf(scope)
	return err == nil && web.Allows(ctx, needed)
}
