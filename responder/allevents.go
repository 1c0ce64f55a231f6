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

// Numbers of events that are read for a page of all runs: the maximum, and that after which it ends for others that
// wait for their turn.
const (
	maxScanned  = 100_000
	fairScanned = 5000
)

// FollowAll opens the events of all runs, or of the run of the request, after a sequence.
// Runs that start later are included. The error is [api.Validation] for a wrong filter,
// else those of [Service.Events].
func (s *Service) FollowAll(ctx context.Context, q api.EventsRequest) (*eventStream, error) {
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
	f := &eventStream{service: s, of: of, end: end, wants: wants}
	if len(q.Labels) > 0 {
		some, covered, err := s.labelledRuns(ctx, q.Labels, end.Made)
		if err != nil {
			return nil, err
		}
		if covered = min(covered, end.Last); covered > q.After+uint64(fewEvents*len(some)) {
			f.first = of
			f.first.Runs, f.first.Last, f.first.Follow, f.of.After = some, covered, false, covered
		}
	}
	return f, nil
}

// Limits of reading run by run: the number of runs, and how many events are read as soon as one of them begins.
const (
	maxLabelled = 32
	fewEvents   = 1000
)

// rowsWithin is how long the table may take to read a record that is stored.
const rowsWithin = 200 * time.Millisecond

// labelledRuns returns the runs with labels, and the sequence up to which no other run with them has events. Zero: it
// is not known, or these are too many runs.
func (s *Service) labelledRuns(ctx context.Context, labels []string, made int64) (some []string, covered uint64,
	err error) {
	covered, err = s.covered(ctx, made)
	if err != nil || covered == 0 {
		return nil, 0, err
	}
	page, err := s.List(api.List{Labels: labels, Limit: maxLabelled})
	if err != nil || page.Next != "" {
		return nil, 0, err
	}
	some = []string{}
	for _, r := range page.Runs {
		some = append(some, r.ID)
	}
	return some, covered, nil
}

// Covers returns the sequence up to which the events are of runs that lists have, or whose records are removed; 0: not
// known.
func (s *Service) Covers(ctx context.Context) (uint64, error) {
	end, err := s.cfg.Streams.EventsEnd(ctx, "", "")
	if err != nil {
		return 0, s.explain("read events", err)
	}
	covered, err := s.covered(ctx, end.Made)
	return min(covered, end.Last), err
}

// covered returns the sequence up to which the table has the runs of all events that have a record; 0: not known.
func (s *Service) covered(ctx context.Context, made int64) (uint64, error) {
	events, revision, err := s.cfg.Streams.EventsKnown(ctx, made)
	switch {
	case err != nil:
		return 0, s.explain("read events", err)
	case events > 0 && s.table.Has(ctx, revision, rowsWithin):
		return events, nil
	}
	return 0, nil
}

// AllEvents returns a page of what [Service.FollowAll] reads: at most limit events, and at
// most maxBytes in total, but at least one event. It reads at most 100,000 stored events,
// and fewer while others wait, so a page may be empty although more follow: see [api.EventPage].
func (s *Service) AllEvents(ctx context.Context, q api.EventsRequest, limit, maxBytes int) (api.EventPage, error) {
	page := api.EventPage{Events: []api.Event{}, Next: q.After}
	f, err := s.FollowAll(ctx, q)
	if err != nil {
		return page, err
	}
	open := f.of.Follow
	page.Done = f.Ended
	if f.of.Follow = false; f.wants == nil {
		f.of.Want = limit + 1
	}
	f.first.Want = limit + 1
	done, err := s.pageTurn(ctx)
	if err != nil {
		return page, err
	}
	defer done()
	size, scanned, full := 0, 0, false
	err = f.read(ctx, func(e api.Event, wanted bool) error {
		if wanted {
			if size += len(e.Body); len(page.Events) == limit || size > maxBytes && len(page.Events) > 0 {
				full = true
				return errEnough
			}
			page.Events = append(page.Events, e)
		}
		page.Next, page.Done = e.Seq, q.Run != "" && e.Kind == api.Completion
		if scanned++; scanned == maxScanned || scanned >= fairScanned && s.pages.Load() > 0 {
			full = true
			return errEnough
		}
		return nil
	})
	if err == nil && !full && f.first.Runs != nil { // no other event up to there is wanted
		page.Next = max(page.Next, f.first.Last)
	}
	if err == nil && !full && !open { // the completion has expired
		page.Done = true
	}
	return page, s.explain("read events", err)
}

// wanted is the condition of the filters of a request; nil: all events.
func (s *Service) wanted(q api.EventsRequest) (func(context.Context, runs.Event) (bool, error), error) {
	labels, err := readLabels(q.Labels)
	if err != nil {
		return nil, err
	}
	if q.Agent != "" && runs.CheckAgent(q.Agent) != nil {
		return nil, api.Invalid("agent", "must be a kind of agent, or its short name")
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
