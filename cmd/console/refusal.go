package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
)

// Refusal prints why linesman refused a request as JSON, on one line: the [api.Error] in the
// tree of err. It prints nothing for any other error, and for a request that got no answer.
func Refusal(w io.Writer, err error) error {
	var e *api.Error
	if !errors.As(err, &e) || e.Err != nil {
		return nil
	}
	return PrintJSON(w, e)
}

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

// Ambiguous is the refusal of a reference to several runs, which it lists: joined errors.
func Ambiguous(ref string, e *api.Error) error {
	all := []error{fmt.Errorf("RUN: %s %s: give more of its id", Word(ref), Safe(e.Message))}
	for _, i := range e.Issues {
		all = append(all, fmt.Errorf("    %s  %s", Word(i.Field), Safe(i.Problem)))
	}
	if e.Unlisted > 0 {
		all = append(all, fmt.Errorf("    and %d more", e.Unlisted))
	}
	return errors.Join(all...)
}
