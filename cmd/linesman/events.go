package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/console"
)

type eventsCmd struct {
	Run_    runID         `name:"run" placeholder:"ID" help:"Only this run."`
	Agent   agentKind     `placeholder:"KIND" help:"Only runs of this agent."`
	Kind    []eventKind   `placeholder:"KIND" help:"Only these kinds: text_output tool_call tool_result status error unknown completion. Repeat the flag or separate them with commas."`
	Follow  bool          `short:"f" help:"Also print new events; with --run until its completion."`
	Since   time.Duration `placeholder:"DURATION" xor:"start" help:"Begin with the events stored this long ago."`
	FromSeq uint64        `name:"from-seq" placeholder:"N" xor:"start" help:"Begin with this sequence of the stream."`
	JSON    bool          `name:"json" help:"Print JSON lines, not for people."`
}

func (c *eventsCmd) check(*app) error {
	if c.Since < 0 {
		return fmt.Errorf("--since: must not be negative, got %v", c.Since)
	}
	return nil
}

func (c *eventsCmd) Run(ctx context.Context, a *app) error {
	l, err := a.dialer.Reader(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	f := client.Filter{Agent: string(c.Agent), Run: string(c.Run_), Follow: c.Follow}
	if c.FromSeq > 0 {
		f.After = c.FromSeq - 1
	}
	for _, k := range c.Kind {
		f.Kinds = append(f.Kinds, string(k))
	}
	if c.Since > 0 {
		f.Since = time.Now().Add(-c.Since)
	}
	n, err := a.printer(c.JSON).watch(ctx, l, f)
	if errors.Is(err, client.ErrUnreachable) {
		err = exitWith(exitNATS, err)
	}
	if err != nil || n > 0 || c.Run_ == "" || c.Follow || ctx.Err() != nil {
		return err
	}
	// A run without events to show, or one that does not exist.
	return a.ask(ctx, func(l *client.Client) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		known, err := l.Known(ctx, string(c.Run_))
		if err != nil || known {
			return err
		}
		return errNoRun(c.Run_)
	})
}

// printer prints events: for people, or as JSON lines.
type printer struct {
	app  *app
	json bool
	seen func(record) // called with each event before it is printed; may be nil
	on   *console.Renderer
}

func (a *app) printer(json bool) *printer { return &printer{app: a, json: json, on: a.shown(a.stdout)} }

func (p *printer) print(e client.Event) error {
	r := record{Seq: e.Seq, Time: e.Time, Agent: e.Agent, Run: e.Run, Line: e.Line, Part: e.Part}
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

// watch prints the events of the filter until there are no more, and returns
// how many it printed. It returns at the end of ctx, even while the reader waits
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
			if p.json {
				continue
			}
			if err := p.on.Tick(now); err != nil {
				return n, err
			}
		}
	}
}
