package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bridge"
	"github.com/linesman/linesman/bridge/runner"
	"github.com/linesman/linesman/daemon/daemontest"
	"github.com/linesman/linesman/runs"
)

// lastMoment sees nothing of its run until the time of the request is over.
// Somebody answers before that, or right after it.
type lastMoment struct {
	*runner.External
	late   bool
	answer func(run string)
	over   bool
}

func (r *lastMoment) Wait(ctx context.Context, run string) (bridge.Outcome, error) {
	if r.over {
		return r.External.Wait(ctx, run)
	}
	if !r.late {
		r.answer(run)
	}
	<-ctx.Done()
	return bridge.Outcome{}, ctx.Err()
}

func (r *lastMoment) Expire(ctx context.Context, run string) error {
	if r.over = true; r.late {
		r.answer(run)
	}
	return r.External.Expire(ctx, run)
}

// Whoever answers as the request's time runs out, and is told that it counts,
// finds that answer in the response: an error as well as a text. Who comes later
// is told that it does not count.
func TestWhatWasTakenAtTheLastMomentIsTheResponse(t *testing.T) {
	t.Parallel()
	d := daemontest.Start(t, nil).Responder.Service()
	for name, c := range map[string]struct {
		reply runs.Reply
		late  bool
	}{
		"text":  {reply: runs.Reply{Status: runs.ReplySuccess, Text: "the second"}},
		"error": {reply: runs.Reply{Status: runs.ReplyError, Error: "nobody knows"}},
		"late":  {reply: runs.Reply{Status: runs.ReplySuccess, Text: "the second"}, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir, ctx := t.TempDir(), t.Context()
			body, err := json.Marshal(map[string]any{"request_id": name, "prompt": "Which one?", "timeout_seconds": 2})
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, ".agent-request.json"), body, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			var told error
			answers := &lastMoment{
				External: &runner.External{Service: d.Service}, late: c.late,
				answer: func(run string) { _, told = d.Answer(ctx, run, c.reply, false) },
			}
			done := make(chan error, 1)
			go func() {
				done <- bridge.New(bridge.Config{
					Dirs: []bridge.Dir{{Path: dir, Must: true}}, State: t.TempDir(), Runner: answers, Poll: 20 * time.Millisecond,
				}).Run(ctx)
			}()
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			late := time.After(30 * time.Second)
			var got []byte
			for got == nil {
				select {
				case <-tick.C:
					got, _ = os.ReadFile(filepath.Join(dir, ".agent-response.json"))
				case <-late:
					t.Fatal("there is no response")
				}
			}
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
			var r bridge.Response
			if err := json.Unmarshal(got, &struct {
				*bridge.Response
				Duration any `json:"duration_seconds"`
			}{Response: &r}); err != nil {
				t.Fatal(err)
			}
			said := runs.Reply{Status: r.Status}
			if r.Response != nil {
				said.Text = *r.Response
			}
			if r.ErrorMessage != nil {
				said.Error = *r.ErrorMessage
			}
			if c.late && (!hasEnded(told) || r.Status != bridge.StatusTimeout) || !c.late && (told != nil || said != c.reply) {
				t.Errorf("who answered was told %v, and the response is %s", told, got)
			}
		})
	}
}

func hasEnded(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code == api.Ended
}
