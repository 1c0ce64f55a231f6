package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/daemon/daemontest"
	"github.com/linesman/linesman/responder/bridge"
	"github.com/linesman/linesman/responder/bridge/runner"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// lastMoment hides the end of its run from the bridge until the request times out.
// The answer arrives before the timeout, or right after it.
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

// An answer that is accepted right before the timeout of its request is the
// response, be it a text or an error. An answer after the timeout is refused.
func TestAnswerAcceptedRightBeforeTheTimeoutIsTheResponse(t *testing.T) {
	t.Parallel()
	d := daemontest.Start(t, nil).Responder.Service()
	for name, c := range map[string]struct {
		reply runs.Reply
		late  bool
	}{
		"text":  {reply: runs.Reply{Status: runs.ReplySuccess, Text: "the second"}},
		"error": {reply: runs.Reply{Status: runs.ReplyError, Error: "unknown"}},
		"late":  {reply: runs.Reply{Status: runs.ReplySuccess, Text: "the second"}, late: true},
	} {
		t.Run(name, func(t *testing.T) {
			// A busy machine needs more time for the question, or for the answer.
			for limit, last := 0.5, 32.0; ; limit *= 4 {
				ask := &lastMoment{External: &runner.External{Service: d.Service}, late: c.late}
				asked, refused := "", error(nil)
				ask.answer = func(run string) {
					asked = run
					_, refused = d.Answer(t.Context(), run, c.reply, false)
				}
				said, whole := respond(t, ask, fmt.Sprint(name, "-", limit), limit)
				inTime := asked != "" && hasEnded(refused) == c.late && (refused == nil) != c.late
				if !inTime && limit < last {
					continue
				}
				if !inTime || c.late && said.Status != bridge.StatusTimeout || !c.late && said != c.reply {
					t.Errorf("the answer got %v, and the response is %s", refused, whole)
				}
				return
			}
		})
	}
}

// respond writes a request with a timeout in seconds, runs a bridge, and returns the response to it.
func respond(t *testing.T, answers bridge.Runner, id string, limit float64) (said runs.Reply, whole []byte) {
	t.Helper()
	dir := t.TempDir()
	body, err := json.Marshal(map[string]any{"request_id": id, "prompt": "Which one?", "timeout_seconds": limit})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, ".agent-request.json"), body, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- bridge.New(bridge.Config{
			Dirs: []bridge.Dir{{Path: dir, Must: true}}, State: t.TempDir(), Runner: answers, Poll: 20 * time.Millisecond,
		}).Run(ctx)
	}()
	fixture.Eventually(t, fixture.Patience, "there is a response", func() bool {
		whole, _ = os.ReadFile(filepath.Join(dir, ".agent-response.json"))
		return whole != nil
	})
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	var r struct {
		Status   string
		Response string // null is ""
		Message  string `json:"error_message"`
	}
	if err := json.Unmarshal(whole, &r); err != nil {
		t.Fatal(err)
	}
	return runs.Reply{Status: r.Status, Text: r.Response, Error: r.Message}, whole
}

func hasEnded(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Code == api.Ended
}
