package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/console"
)

// printer prints what runs do.
type printer struct {
	Out, Err io.Writer           // data, and advice to people
	Getenv   func(string) string // looks up NO_COLOR and TERM
	JSON     bool                // print JSON lines, not for people
	Asks     func(*api.Run)      // is called with the states of a run that is followed on a terminal; nil: nothing is
}

// Events returns a function that prints the events of a filter until there are no more, and
// returns how many it printed. It calls seen, which may be nil, with each event before it is
// printed.
func (p printer) Events(
	l *client.Client, seen func(console.Record),
) func(context.Context, client.Filter) (n int, err error) {
	out, flush := console.Lines(p.Out)
	on := console.New(out, p.Getenv)
	each := func(e client.Event) error {
		r := console.Record{Seq: e.Seq, Time: e.Time, Agent: e.Agent, Run: e.Run, Line: e.Line, Part: e.Part}
		if e.Kind == api.Completion {
			r.Completion = e.Body
		} else {
			r.Event = e.Body
		}
		if seen != nil {
			seen(r)
		}
		if p.JSON {
			return console.WriteJSON(out, r)
		}
		return on.Write(r)
	}
	return func(ctx context.Context, f client.Filter) (n int, err error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if !p.JSON {
			n, err = console.Follow(ctx, on, l.Follow(ctx, f), each)
			return n, cmp.Or(err, flush()) // they can be the same
		}
		for e, err := range l.Follow(ctx, f) {
			if err == nil {
				n++
				err = each(e)
			}
			if err != nil {
				return n, cmp.Or(err, flush())
			}
		}
		return n, flush()
	}
}

// Details prints the details of a run from its last items on, or all if last is 0, and returns
// the run. With follow it waits for the end of the run.
func (p printer) Details(
	ctx context.Context, l *client.Client, id string, last int, follow bool, o console.TimelineOptions,
) (*api.Run, error) {
	run, err := l.Describe(ctx, id)
	if err != nil {
		return nil, err
	}
	items := l.FollowDetail(ctx, id, "", last, follow)
	if p.JSON {
		for item, err := range items {
			if err == nil {
				err = console.PrintJSON(p.Out, item)
			}
			if err != nil {
				return run, err
			}
		}
	} else {
		t := console.NewTimeline(p.Out, p.Getenv, o)
		if err := t.Status(run); err != nil {
			return run, err
		}
		if _, err := t.Watch(ctx, items, p.states(l, run.ID)); err != nil {
			return run, err
		}
	}
	if follow && ctx.Err() == nil {
		run, err = ended(ctx, l, id)
	}
	if follow && ctx.Err() != nil {
		err = exitWith(exitFailed, fmt.Errorf("no longer following; run %s continues", id))
	}
	return run, err
}

// ended waits for the record of a run whose details are complete: the record may follow the last item. A run that
// waits to be resumed has ended, too, and its task has not.
func ended(ctx context.Context, l *client.Client, id string) (*api.Run, error) {
	for {
		run, err := l.WaitUntil(ctx, api.WaitRequest{Run: id, Until: api.UntilInput}, nil)
		if err != nil || run.State.Final() || run.Exit != nil {
			return run, err
		}
		select { // the record still has a question that was open at the end
		case <-ctx.Done():
			return run, ctx.Err()
		case <-time.After(unstored):
		}
	}
}

// states passes the states of a run, until it has ended, also to Asks. It waits for a run that is not stored yet.
func (p printer) states(l *client.Client, run string) func(context.Context, func(*api.Run)) {
	return func(ctx context.Context, set func(*api.Run)) {
		for {
			_, err := l.Wait(ctx, run, func(run *api.Run) {
				if set(run); p.Asks != nil {
					p.Asks(run)
				}
			})
			if !api.Is(err, api.NotFound) {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(unstored):
			}
		}
	}
}

// unstored is the time until the next look for a run that is not stored yet.
const unstored = 200 * time.Millisecond

// Attend returns a function that prints the events of a run that is about to start, or, with
// detailed, what its agent does, until its end. Called again, it continues. It gives advice if
// the output of the command argv is not what its dialect expects.
func (p printer) Attend(
	l func() *client.Client, run api.Run, argv []string, detailed bool,
) func(context.Context) error {
	f := client.Filter{Run: run.ID, Agent: run.Agent, Follow: true}
	wrong := misread{argv: argv, agents: known.Agents}
	advise := func(r console.Record) {
		if s := wrong.advice(r); s != "" {
			fmt.Fprintf(p.Err, "linesman: %s\n", s)
		}
	}
	printed := p.Events(l(), func(r console.Record) {
		f.After = r.Seq
		advise(r)
	})
	events := func(ctx context.Context) error {
		_, err := printed(ctx, f)
		return err
	}
	if !detailed {
		return events
	}
	t := console.NewTimeline(p.Out, p.Getenv, console.TimelineOptions{})
	after := ""
	return func(ctx context.Context) error {
		l := l()
		_ = t.Status(&run)
		_, err := t.Watch(ctx, client.Each(l.FollowNewDetail(ctx, run.ID, after), func(item api.DetailItem) {
			after = item.Pos
			if len(item.Event) > 0 && item.Kind != api.Completion {
				advise(console.Record{Agent: run.Agent, Event: item.Event})
			}
		}), p.states(l, run.ID))
		if after == "" && (api.Is(err, api.Unsupported) || errors.Is(err, client.ErrNoResponder)) {
			return events(ctx)
		}
		return err
	}
}
