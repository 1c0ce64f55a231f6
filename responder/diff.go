package responder

import (
	"context"
	"errors"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Diff returns what a run changed in its directory, or the reason why that is unknown. The error is
// [api.NotEnded] for a run that has not ended.
func (s *Service) Diff(ctx context.Context, q api.RunRequest) (*api.Diff, error) {
	v, err := s.Settled(ctx, q.Run)
	if err != nil {
		return nil, err
	}
	record, err := s.table.OwnRecord(ctx, v.ID)
	missing := errors.Is(err, runs.ErrNoRun)
	switch {
	case err != nil && !missing:
		return nil, s.explain("read a record", err)
	case missing && v.State.Final():
		return nil, notFound(v.ID)
	case missing, record.Exit == nil && !record.State.Final():
		return nil, &api.Error{
			Code: api.NotEnded, Message: "the run has not ended: it is " + string(v.State),
			Run: v.ID, State: v.State, Retryable: true,
		}
	}
	answer := &api.Diff{Run: v.ID, Files: []runs.DiffFile{}}
	if answer.Reason = noDiff(record); answer.Reason == "" {
		d, reason, err := s.noted(ctx, v, record.Changes.Seq)
		if err != nil {
			return nil, s.explain("read a diff", err)
		}
		if answer.Reason = reason; d != nil {
			answer.Changes = changes(&d.Changes)
			answer.Files, answer.Patch, answer.Truncated = list(d.Listed), d.Patch, d.Truncated
			answer.Unlisted = max(d.Files-int64(len(d.Listed)), 0)
		}
	}
	answer.Why = api.Whys[answer.Reason]
	return answer, nil
}

// noDiff is why a run that has ended has no diff, "" if it has one.
func noDiff(r *runs.Record) api.DiffReason {
	switch {
	case r.Changes != nil:
		return api.DiffReason(r.Changes.Reason)
	case r.Source != "run" && r.Source != "queue":
		return api.DiffNoProcess
	case r.StartedAt == 0, r.Exit != nil && r.Exit.Reason == runs.ReasonSpawn:
		return api.DiffNotStarted
	case r.Exit != nil && r.Exit.Reason == runs.ReasonLost:
		return api.DiffLost
	}
	return api.DiffNoWorkTree
}

// noted reads the diff in the notes of a run, from a sequence of RAW on, or the reason why it is
// incomplete.
func (s *Service) noted(ctx context.Context, v runs.Header, from uint64) (*runs.Diff, api.DiffReason, error) {
	var d runs.DiffReader
	reason := api.DiffExpired
	err := s.cfg.Streams.Entries(ctx, v.Agent, v.ID, from, false, func(seq uint64, e runs.Entry) error {
		if d.Add(e); seq == from {
			reason = api.DiffLost
		}
		return nil
	})
	if err != nil || d.Last() != nil {
		return d.Last(), "", err
	}
	return nil, reason, nil
}

// changes returns the numbers of a record, nil if there are none.
func changes(c *runs.Changes) *api.Changes {
	if c == nil {
		return nil
	}
	return &api.Changes{
		Files: c.Files, Added: c.Added, Removed: c.Removed, Reason: c.Reason,
	}
}
