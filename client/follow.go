package client

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
)

// Event is one message of the event stream.
type Event struct {
	Seq        uint64    // in the stream
	Time       time.Time // when the line was written; for a tail or a pipe when it was read
	Agent, Run string
	Raw        uint64 // in the raw log, of the entry that made it; the same in a stream that is created again
	Line       uint64 // of the run's output, from 1; 0 when no line made it
	Part       int    // counts the events of that line, from 1
	Kind       string // as subjects spell it; [api.Completion] for the last one of a run
	Body       []byte // JSON: an AgentWrapperEvent, or a completion
}

// Filter selects events. Its zero value is all of them, from the oldest that is
// kept to the newest that there is.
type Filter struct {
	Agent, Run string
	Kinds      []string  // any of them; none: all
	Labels     []string  // KEY=VALUE: all of them, of the run; the responder is asked for each run
	After      uint64    // only events after this sequence
	Since      time.Time // only events that were stored then or later
	Follow     bool      // continue with new events; with Run until its completion
}

// errStop ends the reading of events.
var errStop = errors.New("no more events are wanted")

// Follow reads events in the order of the stream. With Follow in the filter it
// continues until ctx ends, which is no error, or the run of the filter is
// complete, and waits while the server is unreachable. An error ends it; to resume,
// set After to the last sequence.
func (c *Client) Follow(ctx context.Context, f Filter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := c.follow(ctx, f, func(e Event) bool { return yield(e, nil) }); err != nil {
			yield(Event{}, err)
		}
	}
}

func (c *Client) follow(ctx context.Context, f Filter, each func(Event) bool) error {
	read := runs.Selection{
		Agent: f.Agent, Run: f.Run, Tokens: f.Kinds, After: f.After, Follow: f.Follow,
	}
	if !f.Since.IsZero() {
		read.Since = api.TimeOf(f.Since)
	}
	if f.Run != "" && f.Follow {
		// The completion may be before the first event to read, and nothing comes after it.
		if f.After > 0 || !f.Since.IsZero() {
			ended, err := c.complete(ctx, f.Run)
			if err != nil {
				return err
			}
			read.Follow = !ended
		}
		if len(f.Kinds) > 0 && !slices.Contains(f.Kinds, api.Completion) { // which ends it
			read.Tokens = append([]string{api.Completion}, f.Kinds...)
		}
	}
	known := map[string]bool{}
	pass := func(s bus.Stored) error {
		wanted := len(f.Kinds) == 0 || slices.Contains(f.Kinds, s.Token)
		if wanted && len(f.Labels) > 0 {
			var err error
			if wanted, err = c.labelled(ctx, s.Run, f.Labels, known); err != nil {
				return err
			}
		}
		if wanted && !each(event(s)) || read.Follow && f.Run != "" && s.Token == api.Completion {
			return errStop
		}
		return nil
	}
	if len(f.Labels) > 0 && f.Run == "" {
		some, covers, err := c.labelledRuns(ctx, f.Labels)
		if err != nil {
			return err
		}
		if covers > read.After+uint64(fewEvents*len(some)) {
			of := read
			of.Runs, of.Last, of.Follow, read.After = some, covers, false, covers
			for _, run := range some {
				known[run] = true
			}
			if err := c.bus.Read(ctx, of, pass); err != nil {
				return events(ctx, err)
			}
		}
	}
	return events(ctx, c.bus.Read(ctx, read, pass))
}

// Limits of reading run by run: the number of runs, and how many events are read as soon as one of them begins.
const (
	maxLabelled = 32
	fewEvents   = 1000
)

// labelledRuns returns the runs with labels, and the sequence up to which no other run with them has events. Zero: it
// is not known, or these are too many runs.
func (c *Client) labelledRuns(ctx context.Context, labels []string) (some []string, covers uint64, err error) {
	page, err := c.List(ctx, api.List{Labels: labels, Limit: maxLabelled, Covers: true})
	if err != nil || page.Covers == 0 || page.Next != "" {
		return nil, 0, err
	}
	some = []string{}
	for _, r := range page.Runs {
		some = append(some, r.ID)
	}
	return some, page.Covers, nil
}

// maxKnown is the maximum number of runs whose labels are remembered.
const maxKnown = 10_000

// labelled reports whether a run has labels. Known remembers the answers. A run without a
// record has none.
func (c *Client) labelled(ctx context.Context, run string, labels []string, known map[string]bool) (bool, error) {
	if has, ok := known[run]; ok {
		return has, nil
	}
	r, err := c.Status(ctx, run)
	if err != nil && !api.Is(err, api.NotFound) {
		return false, err
	}
	has := err == nil && !slices.ContainsFunc(labels, func(label string) bool {
		key, value, _ := strings.Cut(label, "=")
		return !r.Labels.Has(key, value)
	})
	if len(known) == maxKnown {
		clear(known)
	}
	known[run] = has
	return has, nil
}

// complete reports whether the completion of a run is stored.
func (c *Client) complete(ctx context.Context, run string) (found bool, err error) {
	err = c.bus.Read(ctx, runs.Selection{Run: run, Tokens: []string{api.Completion}}, func(bus.Stored) error {
		found = true
		return errStop
	})
	return found, events(ctx, err)
}

// events is the error of reading events.
func events(ctx context.Context, err error) error {
	switch {
	case err == nil, errors.Is(err, errStop), ctx.Err() != nil:
		return nil
	case errors.As(err, new(*api.Error)):
		return err
	}
	return unanswered(err)
}

func event(s bus.Stored) Event {
	return Event{
		Seq: s.Seq, Time: time.UnixMilli(s.Pos.Time), Agent: s.Agent, Run: s.Run, Raw: s.Pos.Raw, Line: s.Pos.Line,
		Part: s.Pos.Part, Kind: s.Token, Body: s.Body,
	}
}

// Known reports whether anything is stored about a run: its raw log, its record
// or events. It asks the streams, no responder.
func (c *Client) Known(ctx context.Context, run string) (bool, error) {
	known, err := c.bus.Known(ctx, run)
	if err != nil {
		return false, unanswered(err)
	}
	return known, nil
}
