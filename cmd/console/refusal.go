package console

import (
	"context"
	"errors"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
)

// Why describes the error of a request in a few words, on one line.
func Why(err error) string {
	switch {
	case errors.Is(err, client.ErrDenied):
		return "these credentials do not allow it"
	case errors.Is(err, client.ErrNoResponder):
		return "no responder is running"
	case errors.Is(err, client.ErrRefused):
		return "the server refuses the credentials"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, client.ErrUnreachable):
		return "the server is away"
	}
	return Grid(flat(err.Error()))
}

// RunsJSON is an overview as it is printed for programs.
func RunsJSON(all *api.Overview) any {
	return struct {
		Runs   []*api.Run `json:"runs"`
		Counts api.Counts `json:"counts"`
	}{append([]*api.Run{}, byNeed(all, time.Now())...), all.Counts}
}
