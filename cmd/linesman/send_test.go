package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
)

// messages stores each message by its key, and then fails as often as it has errors.
type messages struct {
	stored map[string]string
	errs   []error
	calls  int
}

func (m *messages) Call(_ context.Context, _ api.Entry, request, _ any) error {
	m.calls++
	q, ok := request.(api.SendRequest)
	if !ok || q.Key == "" {
		return errors.New("no message with a key")
	}
	m.stored[q.Key] = q.Text
	if len(m.errs) == 0 {
		return nil
	}
	err := m.errs[0]
	m.errs = m.errs[1:]
	return err
}

func TestAMessageWhoseAnswerIsLostIsSentOnce(t *testing.T) {
	const unknown = "it is not known whether the message was accepted: "
	lost := &api.Error{Code: api.Unavailable, Message: "lost", Retryable: true, Err: context.DeadlineExceeded}
	none := &api.Error{Code: api.Unavailable, Message: "none", Retryable: true, Err: client.ErrNoResponder}
	ending := &api.Error{Code: api.TooMany, Message: "ends", Retryable: true}
	conflict := &api.Error{Code: api.Conflict, Message: "no"}
	for name, tt := range map[string]struct {
		errs  []error
		calls int
		code  int
		says  string // the beginning
	}{
		"answered":        {nil, 1, exitDone, ""},
		"lost":            {[]error{lost}, 2, exitDone, ""},
		"an ending one":   {[]error{ending}, 2, exitDone, ""},
		"lost twice":      {[]error{lost, lost}, 2, exitNATS, unknown + "lost"},
		"lost, then gone": {[]error{lost, none}, 2, exitNATS, unknown + "none"},
		"lost, then busy": {[]error{lost, ending}, 2, exitFailed, unknown + "run T-1: ends"},
		"gone":            {[]error{none}, 1, exitNATS, "none: start `linesman up`"},
		"busy twice":      {[]error{ending, ending}, 2, exitFailed, "run T-1: ends"},
		"refused":         {[]error{conflict}, 1, exitFailed, "run T-1: no"},
	} {
		m := &messages{stored: map[string]string{}, errs: tt.errs}
		_, err := sendOnce(t.Context(), m, api.SendRequest{Run: "T-1", Text: "Hi."})
		said := ""
		if err != nil {
			err = notOrdered(err, "T-1")
			said = err.Error()
		}
		if len(m.stored) != 1 || m.calls != tt.calls || exitCode(err) != tt.code || !strings.HasPrefix(said, tt.says) ||
			tt.says == "" && said != "" {
			t.Errorf("%s: %q of %d calls, exit %d and %q, want %d calls, exit %d and %q", name, m.stored, m.calls,
				exitCode(err), said, tt.calls, tt.code, tt.says)
		}
	}
}
