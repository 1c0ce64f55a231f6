package responder

import (
	"context"
	"errors"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// errEnough ends the reading of events.
var errEnough = errors.New("enough events")

// maxPaging is the maximum number of pages of events that are read at the same time. Each
// reader requests up to 2 MiB at once.
const maxPaging = 6

// Events returns the events of a run after a sequence: at most limit events, and at
// most maxBytes in total, but at least one event. The error is [api.Conflict] if the
// stream ends before that sequence: it was recreated, and the caller must start
// without one.
func (s *Service) Events(ctx context.Context, run string, after uint64, limit, maxBytes int) (api.EventPage, error) {
	page := api.EventPage{Events: []api.Event{}, Next: after}
	f, err := s.Follow(ctx, run, after)
	if err != nil {
		return page, err
	}
	page.Done = f.Ended
	open := f.of.Follow
	f.of.Follow, f.of.Want = false, limit+1
	done, err := s.pageTurn(ctx)
	if err != nil {
		return page, err
	}
	defer done()
	size, full := 0, false
	err = f.Each(ctx, func(e api.Event) error {
		if size += len(e.Body); len(page.Events) == limit || size > maxBytes && len(page.Events) > 0 {
			full = true
			return errEnough
		}
		page.Events = append(page.Events, e)
		page.Next, page.Done = e.Seq, e.Kind == api.Completion
		return nil
	})
	if err == nil && !full && !open { // the completion has expired
		page.Done = true
	}
	return page, s.explain("read events", err)
}

// pageTurn waits until fewer than maxPaging pages of events are being read. A burst of
// requests is served a few at a time, so that the first ones are answered while the others
// wait; if all of them read at once, each would hold megabytes, and none would be in time.
func (s *Service) pageTurn(ctx context.Context) (done func(), err error) {
	s.pages.Add(1)
	defer s.pages.Add(-1)
	select {
	case s.paging <- struct{}{}:
		return func() { <-s.paging }, nil
	case <-ctx.Done():
		return nil, &api.Error{Code: api.TooMany, Message: "too many requests for events are open", Retryable: true}
	}
}

// eventsFrom returns the run whose events are read, and where they end.
func (s *Service) eventsFrom(ctx context.Context, run string, after uint64) (v runs.Header, end runs.EventsEnd,
	err error) {
	if v, err = s.Look(ctx, run); err != nil {
		return v, end, err
	}
	if end, err = s.cfg.Streams.EventsEnd(ctx, v.Agent, v.ID); err != nil {
		return v, end, s.explain("read events", err)
	}
	if after > end.Last {
		e := recreated()
		e.Run, e.State = v.ID, v.State
		return v, end, e
	}
	return v, end, nil
}

// over reports whether the run itself has ended, whatever the state of its task. The
// completion of such a run is stored before its record is: if there is none, it has
// expired, and no event will follow.
func over(v runs.Header) bool { return v.State.Final() || v.Waits() || v.ContinuedBy != "" }

// eventStream is an open stream of events.
type eventStream struct {
	// Ended means that the completion is not after the sequence: no event will follow.
	Ended bool

	service *Service
	first   runs.Selection // is read before the other, if it has Runs
	of      runs.Selection
	end     runs.EventsEnd                                  // when it was opened
	wants   func(context.Context, runs.Event) (bool, error) // nil: all of them
}

// Follow opens the events of a run after a sequence. The errors are those of
// [Service.Events].
func (s *Service) Follow(ctx context.Context, run string, after uint64) (*eventStream, error) {
	v, end, err := s.eventsFrom(ctx, run, after)
	if err != nil {
		return nil, err
	}
	return &eventStream{
		Ended: end.Completion != 0 && end.Completion <= after, service: s, end: end,
		of: runs.Selection{Agent: v.Agent, Run: v.ID, After: after, Follow: end.Completion != 0 || !over(v)},
	}, nil
}

// Each calls each with the events until the completion, an error of each, or the end
// of ctx. The error is that of each, that of ctx, or an [*api.Error].
func (f *eventStream) Each(ctx context.Context, each func(api.Event) error) error {
	return f.read(ctx, func(e api.Event, wanted bool) error {
		if !wanted {
			return nil
		}
		return each(e)
	})
}

// read is Each with the events that the filter refuses, too.
func (f *eventStream) read(ctx context.Context, each func(e api.Event, wanted bool) error) error {
	var own error
	pass := func(e runs.Event) error {
		wanted := true
		if f.wants != nil {
			if wanted, own = f.wants(ctx, e); own != nil {
				return own
			}
		}
		item := eventOf(e)
		if wanted {
			item.Meaning = f.service.meaning(e.Agent, e.Token, e.Body)
		}
		own = each(item, wanted)
		if own == nil && f.of.Run != "" && e.Token == api.Completion {
			return errEnough
		}
		return own
	}
	var err error
	if f.first.Runs != nil {
		err = f.service.cfg.Streams.EachEvent(ctx, f.first, pass)
	}
	if err == nil {
		err = f.service.cfg.Streams.EachEvent(ctx, f.of, pass)
	}
	switch {
	case err == nil, errors.Is(err, errEnough):
		return nil
	case own != nil, ctx.Err() != nil:
		return err
	}
	return f.service.explain("read events", err)
}

func eventOf(e runs.Event) api.Event {
	return api.Event{
		Seq: e.Seq, Kind: e.Token, Run: e.Run, Agent: e.Agent, At: runs.Time(e.Time), Line: e.Line, Part: e.Part,
		Body: e.Body,
	}
}

// settleTime is how long a request waits for the record of a run whose completion is stored.
const settleTime = 5 * time.Second

// Settled is Look for a request that needs a run that has ended. The record of a run follows
// its completion after a moment: Settled waits for it.
func (s *Service) Settled(ctx context.Context, run string) (runs.Header, error) {
	v, err := s.Look(ctx, run)
	if err != nil || over(v) {
		return v, err
	}
	if ended, err := s.HasCompletion(ctx, v); err != nil || !ended {
		return v, err
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	if now, err := s.table.Wait(ctx, run, nil); err == nil {
		return now, nil
	}
	return v, nil
}

// HasCompletion reports whether the completion of a run is stored.
func (s *Service) HasCompletion(ctx context.Context, v runs.Header) (bool, error) {
	end, err := s.cfg.Streams.EventsEnd(ctx, v.Agent, v.ID)
	return end.Completion != 0, s.explain("read events", err)
}

// LastEvents returns the newest n events of a kind of a run, oldest first. More than a few are read as a page is.
func (s *Service) LastEvents(ctx context.Context, v runs.Header, kind string, n int) (all []api.Event, err error) {
	if n > 16 {
		done, err := s.pageTurn(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	err = s.cfg.Streams.LastEvents(ctx, v.Agent, v.ID, kind, n, func(seq uint64, kind string, body []byte) error {
		all = append(all, api.Event{Seq: seq, Kind: kind, Body: body})
		return nil
	})
	return all, s.explain("read events", err)
}

// Output reads a part of the output of a run. The error is [api.NotFound] for an
// unknown run.
func (s *Service) Output(ctx context.Context, q api.OutputRequest) (api.OutputPart, error) {
	v, err := s.Look(ctx, q.Run)
	if err != nil {
		return api.OutputPart{}, err
	}
	p := api.OutputPart{Offset: q.Offset}
	// The record of the task may be that of a later run.
	record, err := s.table.OwnRecord(ctx, v.ID)
	switch {
	case errors.Is(err, runs.ErrNoRun): // it does not exist yet
	case err != nil:
		return api.OutputPart{}, s.explain("read a record", err)
	case q.Stderr:
		p.Size = record.ErrBytes
	default:
		p.Size = record.Bytes
	}
	if record != nil && record.State.Final() && q.Offset >= p.Size { // else all of the log is read for what is not there
		return p, nil
	}
	kind := runs.Out
	if q.Stderr {
		kind = runs.ErrOut
	}
	if p.Offset, p.Data, err = s.cfg.Streams.OutputAt(ctx, v.Agent, v.ID, kind, q.Offset, q.Limit); err != nil {
		return api.OutputPart{}, s.explain("read output", err)
	}
	if len(p.Data) > 0 {
		p.Size = max(p.Size, p.Offset+int64(len(p.Data)))
	}
	return p, nil
}
