package main

import (
	"context"
	"errors"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/normalizer"
)

// printer prints what the event stream holds: for people, or as JSON lines.
type printer struct {
	app  *app
	json bool
	seen func(record) // called with each event before it is printed; may be nil
	*renderer
}

func (a *app) printer(json bool) *printer {
	return &printer{app: a, json: json, renderer: newRenderer(a.stdout, a.environ)}
}

func (p *printer) print(s bus.Stored) error {
	r := record{Seq: s.Seq, Time: time.UnixMilli(s.Pos.Time), Agent: s.Agent, Run: s.Run, Line: s.Pos.Line, Part: s.Pos.Part}
	if s.Token == normalizer.CompletionToken {
		r.Completion = s.Body
	} else {
		r.Event = s.Body
	}
	if p.seen != nil {
		p.seen(r)
	}
	if p.json {
		return writeJSON(p.app.stdout, r)
	}
	return p.write(r)
}

// errComplete ends the reading of one run's events.
var errComplete = errors.New("the run is complete")

// watch prints the events of the filter until there are no more, or, if the
// filter is for one run, its completion was printed, which it reports.
func (p *printer) watch(ctx context.Context, b *bus.Bus, f bus.Filter) (complete bool, n int, err error) {
	until := f
	if f.Run != "" && f.Follow && len(f.Tokens) > 0 {
		until.Tokens = append([]string{normalizer.CompletionToken}, f.Tokens...) // to know when to stop
	}
	messages := make(chan bus.Stored)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- b.Read(ctx, until, func(s bus.Stored) error {
			select {
			case messages <- s:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	finish := func(cause error) (bool, int, error) {
		if err := p.close(); cause == nil {
			cause = err
		}
		return complete, n, cause
	}
	for {
		select {
		case s := <-messages:
			last := f.Run != "" && s.Token == normalizer.CompletionToken
			if !last || f.Wants(s.Token) {
				n++
				if err := p.print(s); err != nil {
					return finish(err)
				}
			}
			if last {
				complete = true
				if f.Follow {
					return finish(nil)
				}
			}
		case err := <-done:
			return finish(quiet(err))
		case <-ctx.Done(): // a reader that waits for its server to come back would keep us
			return finish(nil)
		case now := <-tick.C:
			if !p.json {
				if err := p.tick(now); err != nil {
					return finish(err)
				}
			}
		}
	}
}
