package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/daemon/daemontest"
	"github.com/linesman/linesman/runs"
	testfixture "github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// lastMoment hides the end of its run from the bridge until the request times out.
// The answer arrives before the timeout, or right after it.
type lastMoment struct {
	*tasks
	late   bool
	answer func(run string)
	over   bool
}

func (r *lastMoment) Wait(ctx context.Context, run string) (outcome, error) {
	if r.over {
		return r.tasks.Wait(ctx, run)
	}
	if !r.late {
		r.answer(run)
	}
	<-ctx.Done()
	return outcome{}, ctx.Err()
}

func (r *lastMoment) Expire(ctx context.Context, run string) error {
	if r.over = true; r.late {
		r.answer(run)
	}
	return r.tasks.Expire(ctx, run)
}

// An answer that is accepted right before the timeout of its request is the
// response, be it a text or an error. An answer after the timeout is refused.
func TestAnswerAcceptedRightBeforeTheTimeoutIsTheResponse(t *testing.T) {
	t.Parallel()
	up := daemontest.Start(t, nil)
	d, l := up.Responder.Service(), operator(t, up)
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
				ask := &lastMoment{tasks: &tasks{client: l, external: true}, late: c.late}
				asked, refused := "", error(nil)
				ask.answer = func(run string) {
					asked = run
					q := api.AnswerRequest{Request: run, Text: &c.reply.Text}
					if c.reply.Status != runs.ReplySuccess {
						q.Text, q.Error = nil, &c.reply.Error
					}
					_, refused = d.Decide(t.Context(), q)
				}
				said, whole := respond(t, ask, fmt.Sprint(name, "-", limit), limit)
				inTime := asked != "" && hasEnded(refused) == c.late && (refused == nil) != c.late
				if !inTime && limit < last {
					continue
				}
				if !inTime || c.late && said.Status != statusTimeout || !c.late && said != c.reply {
					t.Errorf("the answer got %v, and the response is %s", refused, whole)
				}
				return
			}
		})
	}
}

// operator is a client with the permissions of the operator.
func operator(t *testing.T, up *daemon.Daemon) *client.Client {
	t.Helper()
	b, err := up.Server.Connect(bustest.Patient(t), embedded.OperatorUser)
	if err != nil {
		t.Fatal(err)
	}
	l := client.New(b)
	t.Cleanup(l.Close)
	return l
}

// respond writes a request with a timeout in seconds, runs a bridge, and returns the response to it.
func respond(t *testing.T, answers runner, id string, limit float64) (said runs.Reply, whole []byte) {
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
		done <- newBridge(Config{
			Dirs: []Dir{{Path: dir, Must: true}}, State: t.TempDir(), runner: answers, Poll: 20 * time.Millisecond,
		}).run(ctx)
	}()
	testfixture.Eventually(t, testfixture.Patience, "there is a response", func() bool {
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

// A reply longer than a message is read in pieces: whole characters, whatever JSON makes of them.
func TestLongReplyIsWhole(t *testing.T) {
	t.Parallel()
	r := &tasks{client: operator(t, daemontest.Start(t, nil)), external: true}
	for name, text := range map[string]string{
		"empty": "", "short": "the second", "escaped": strings.Repeat("\x01é", 60_000), "long": strings.Repeat("€", 170_000),
	} {
		run := "T-local-" + name
		j := job{Run: run, Prompt: "Which one?", Due: time.Now().Add(time.Hour)}
		if err := r.Submit(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		if _, err := api.OpReply.Call(t.Context(), r.client, api.ReplyRequest{Run: run}); !api.Is(err, api.NotEnded) {
			t.Errorf("%s: a reply before the answer: %v", name, err)
		}
		if err := r.Overtaken(t.Context(), run, outcome{Status: statusSuccess, Text: text}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		o, err := r.Wait(t.Context(), run)
		if err != nil || o.Status != statusSuccess || !o.Taken || o.Text != text {
			t.Errorf("%s: %d bytes of %d, %s, %v", name, len(o.Text), len(text), o.Status, err)
		}
	}
}

// A bridge begins when a responder answers.
func TestBridgeAwaitsAResponder(t *testing.T) {
	t.Parallel()
	l := operator(t, daemontest.Start(t, nil))
	if err := await(t.Context(), l, zap.NewNop()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	said, logs := observer.New(zap.WarnLevel)
	done := make(chan error, 1)
	l.Close() // as if there were none
	go func() { done <- await(ctx, l, zap.New(said)) }()
	testfixture.Eventually(t, testfixture.Patience, "it says that it waits", func() bool {
		return logs.Len() == 1 || len(done) > 0
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A program may have written a response that is no answer, or too large for one: the run has its status.
func TestOvertakenRunHasTheStatusOfTheResponse(t *testing.T) {
	t.Parallel()
	r := &tasks{client: operator(t, daemontest.Start(t, nil)), external: true}
	for name, c := range map[string]struct {
		by   outcome
		want string
		says string
	}{
		"timeout": {outcome{Status: statusTimeout, Message: "too slow"}, statusTimeout, "too slow"},
		"error":   {outcome{Status: statusError}, statusError, "no reason was given"},
		"large": {outcome{Status: statusSuccess, Text: strings.Repeat("x", 3<<19)}, statusError,
			"answered by a file: "},
	} {
		run := "T-local-" + name
		j := job{Run: run, Prompt: "Which one?", Due: time.Now().Add(time.Hour)}
		if err := r.Submit(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		if err := r.Overtaken(t.Context(), run, c.by); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if o, err := r.Wait(t.Context(), run); err != nil || o.Status != c.want || !strings.HasPrefix(o.Message, c.says) {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
	if err := r.Overtaken(t.Context(), "T-local-none", outcome{Status: statusSuccess}); err != nil {
		t.Errorf("a run that is not known: %v", err)
	}
	if err := r.Expire(t.Context(), "T-local-none"); err != nil {
		t.Errorf("a run that is not known: %v", err)
	}
}
