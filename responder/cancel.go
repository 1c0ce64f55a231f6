package responder

import (
	"context"
	"errors"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/runs"
)

// Cancel asks for the end of a run, once where the request has a key. The error
// is [api.Ended] for a run that has ended, and [api.NotFound] for none; with a
// key the outcome of a run that is no longer kept may still be known. A task of
// Codex Cloud is [api.Unsupported].
func (s *Service) Cancel(ctx context.Context, q api.Cancel) (api.Cancelled, error) {
	v, missing := s.Look(ctx, q.Run)
	var e *api.Error
	if missing != nil && !(errors.As(missing, &e) && e.Code == api.NotFound && q.Once.Key != "") {
		return api.Cancelled{}, missing
	}
	if missing == nil && IsCloud(v.Row) {
		return api.Cancelled{}, s.cloudCancel(ctx, v)
	}
	done, err := s.once(ctx, q.Once, q, q.Run, cancelLease, func(_ string, again bool) (outcome, error) {
		if missing != nil {
			return outcome{}, missing
		}
		c, err := s.table.Cancel(ctx, q.Run, q.Reason)
		done := outcome{Run: q.Run, At: time.Now().UnixMilli(), State: c.State, Before: c.Before, Basis: s.Basis()}
		var over *runtable.EndedError
		if again && errors.As(err, &over) && over.State == runs.StateCancelled { // by the attempt that broke off
			done.State, done.replayed = over.State, true
			return done, nil
		}
		return done, s.about(q.Run, "cancel", err)
	})
	return done.cancelled(), s.about(q.Run, "cancel", err)
}
