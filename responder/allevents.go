package responder

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// maxScanned is the maximum number of events that are read for a page of all runs.
const maxScanned = 100_000

// FollowAll opens the events of all runs, or of the run of the request, after a sequence.
// Runs that start later are included. The error is [api.Validation] for a wrong filter,
// else those of [Service.Events].
func (s *Service) FollowAll(ctx context.Context, q api.EventsRequest) (*Follow, error) {
	wants, err := s.wanted(q)
	if err != nil {
		return nil, err
	}
	if q.Run != "" {
		f, err := s.Follow(ctx, q.Run, q.After)
		if err == nil {
			f.wants = wants
			if len(q.Kinds) > 0 { // the completion ends it
				f.of.Tokens = append(slices.Clone(q.Kinds), api.Completion)
			}
		}
		return f, err
	}
	end, err := s.cfg.Streams.EventsEnd(ctx, "", "")
	switch {
	case err != nil:
		return nil, s.explain("read events", err)
	case q.After > end.Last:
		return nil, recreated()
	}
	of := runs.Selection{Agent: s.agentKind(q.Agent), Tokens: q.Kinds, After: q.After, Follow: true}
	return &Follow{service: s, of: of, end: end, wants: wants}, nil
}

// AllEvents returns a page of what [Service.FollowAll] reads: at most limit events, and at
// most maxBytes in total, but at least one event. It reads at most 100,000 stored events,
// so a page may be empty although more follow: see [api.EventPage].
func (s *Service) AllEvents(ctx context.Context, q api.EventsRequest, limit, maxBytes int) (api.EventPage, error) {
	page := api.EventPage{Events: []api.Event{}, Next: q.After}
	f, err := s.FollowAll(ctx, q)
	if err != nil {
		return page, err
	}
	if f.of.Follow = false; f.wants == nil {
		f.of.Want = limit + 1
	}
	done, err := s.pageTurn(ctx)
	if err != nil {
		return page, err
	}
	defer done()
	size, scanned := 0, 0
	err = f.read(ctx, func(e api.Event, wanted bool) error {
		if wanted {
			if size += len(e.Body); len(page.Events) == limit || size > maxBytes && len(page.Events) > 0 {
				return errEnough
			}
			page.Events = append(page.Events, e)
		}
		page.Next, page.Done = e.Seq, q.Run != "" && e.Kind == api.Completion
		if scanned++; scanned == maxScanned {
			return errEnough
		}
		return nil
	})
	return page, s.explain("read events", err)
}

// wanted is the condition of the filters of a request; nil: all events.
func (s *Service) wanted(q api.EventsRequest) (func(context.Context, runs.Event) (bool, error), error) {
	labels, err := readLabels(q.Labels)
	if err != nil {
		return nil, err
	}
	if q.Agent != "" && runs.CheckAgent(q.Agent) != nil {
		return nil, api.Invalid(api.FieldAgent, "must be a kind of agent, or its short name")
	}
	for _, kind := range q.Kinds {
		if !slices.Contains(api.EventKinds, kind) {
			return nil, api.Invalid(api.FieldKinds, "must be one of "+strings.Join(api.EventKinds, ", "))
		}
	}
	agent := s.agentKind(q.Agent)
	if len(labels) == 0 && (q.Run == "" || agent == "" && len(q.Kinds) == 0) {
		return nil, nil // the streams know agents and kinds
	}
	gone := map[string]bool{} // runs without a record
	return func(ctx context.Context, e runs.Event) (bool, error) {
		if agent != "" && e.Agent != agent || len(q.Kinds) > 0 && !slices.Contains(q.Kinds, e.Token) {
			return false, nil
		}
		return s.labelled(ctx, e.Run, labels, gone)
	}, nil
}

// maxGone is the maximum number of runs without a record that a reading remembers.
const maxGone = 10_000

// labelled reports whether a run has labels. The record of a new run is stored after its
// first events: then it waits for it. A run without a record has no labels: gone remembers
// those, because each of them needs a request.
func (s *Service) labelled(ctx context.Context, run string, labels [][2]string, gone map[string]bool) (bool, error) {
	switch {
	case len(labels) == 0:
		return true, nil
	case gone[run]:
		return false, nil
	}
	for end := time.Now().Add(s.cfg.Patience); ; {
		if v, ok := s.table.Get(run); ok {
			return hasLabels(v, labels), nil
		}
		_, err := s.table.Look(ctx, run)
		switch {
		case errors.Is(err, runs.ErrNoRun):
			if len(gone) == maxGone {
				clear(gone)
			}
			gone[run] = true
			return false, nil
		case err != nil:
			return false, s.explain("look up a run", err)
		case time.Now().After(end):
			return false, unavailable("the labels of a new run are not recorded yet", nil)
		}
	}
}

// recreated is the error for a sequence that the stream of events does not reach.
func recreated() *api.Error {
	return &api.Error{
		Code: api.Conflict, Field: api.FieldAfter,
		Message: "the stream of events ends before it: the stream was recreated; start without it",
	}
}
