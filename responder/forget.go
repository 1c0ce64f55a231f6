package responder

import (
	"context"
	"errors"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Eraser erases runs. It needs the rights of an operator.
type Eraser interface {
	// Forget erases a run that has ended. The error is [runs.ErrNoRun],
	// [runs.ErrOpen] or [runs.ErrNeeded], or says what is wrong with the streams.
	Forget(ctx context.Context, run string) (runs.Forgotten, error)
}

// Forget erases a run that has ended: what its agent wrote, its events, its
// record, the requests that began it with a key, and its notifications. The
// error is [api.NotFound] for no run, [api.Conflict] for one that has not ended
// or whose task needs it, and [api.Unsupported] where this responder has no
// rights to erase.
func (s *Service) Forget(ctx context.Context, run string) (runs.Forgotten, error) {
	if s.cfg.Eraser == nil {
		return runs.Forgotten{}, notOffered(api.FieldRun, "runs are not erased from here: use the responder of `linesman up`")
	}
	if err := runs.CheckID(run); err != nil {
		return runs.Forgotten{}, notFound(run)
	}
	f, err := s.cfg.Eraser.Forget(ctx, run)
	if errors.Is(err, runs.ErrOpen) || errors.Is(err, runs.ErrNeeded) {
		return f, &api.Error{Code: api.Conflict, Field: api.FieldRun, Message: err.Error(), Run: run, Err: err}
	}
	return f, s.about(run, "forget", err)
}
