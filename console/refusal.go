package console

import (
	"errors"
	"io"
	"slices"

	"github.com/linesman/linesman/api"
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

// RunsJSON is an overview as it is printed for programs.
func RunsJSON(all *api.Overview) any {
	return struct {
		Runs   []*api.Run `json:"runs"`
		Counts api.Counts `json:"counts"`
	}{append([]*api.Run{}, slices.Concat(all.Working, all.Queued, all.Ended)...), all.Counts}
}
