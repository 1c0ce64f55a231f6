package main

import (
	"context"
	"errors"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/console"
)

// printer prints what the event stream holds: for people, or as JSON lines.
type printer struct {
	app  *app
	json bool
	seen func(console.Record) // called with each event before it is printed; may be nil
	on   *console.Renderer
}

func (a *app) printer(json bool) *printer { return &printer{app: a, json: json, on: a.shown(a.stdout)} }

func (p *printer) print(e client.Event) error {
	r := console.Record{Seq: e.Seq, Time: e.Time, Agent: e.Agent, Run: e.Run, Line: e.Line, Part: e.Part}
	if e.Kind == api.Completion {
		r.Completion = e.Body
	} else {
		r.Event = e.Body
	}
	if p.seen != nil {
		p.seen(r)
	}
	if p.json {
		return console.WriteJSON(p.app.stdout, r)
	}
	return p.on.Write(r)
}

// errComplete ends the reading of one run's events.
var errComplete = errors.New("the run is complete")

// watch prints the events of the filter until there are no more, and returns
// how many it printed. It returns at the end of ctx, also where the reader waits
// for its server.
func (p *printer) watch(ctx context.Context, l *client.Client, f client.Filter) (n int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, done := make(chan client.Event), make(chan error, 1)
	go func() {
		for e, err := range l.Follow(ctx, f) {
			if err != nil {
				done <- err
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
				return
			}
		}
		done <- nil
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	defer func() { err = errors.Join(err, p.on.Close()) }()
	for {
		select {
		case e := <-events:
			n++
			if err := p.print(e); err != nil {
				return n, err
			}
		case err := <-done:
			return n, err
		case <-ctx.Done():
			return n, nil
		case now := <-tick.C:
			if !p.json {
				if err := p.on.Tick(now); err != nil {
					return n, err
				}
			}
		}
	}
}
