package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bridge"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/pipeline"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/external"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// lastMoment sees nothing of its run until the time of the request is over.
// Somebody answers before that, or right after it.
type lastMoment struct {
	*externalRunner
	late   bool
	answer func(run string)
	over   bool
}

func (r *lastMoment) Wait(ctx context.Context, run string) (bridge.Outcome, error) {
	if r.over {
		return r.externalRunner.Wait(ctx, run)
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
	return r.externalRunner.Expire(ctx, run)
}

// outside is a responder at work, on streams of the test's own.
func outside(t *testing.T) *desk {
	t.Helper()
	_, server := serve(t)
	n := &pipeline.Normalizer{
		Bus: as(t, server, embedded.NormalizerUser), Out: bus.Names{Prefix: bus.DefaultPrefix},
		Backends: []normalizer.Backend{external.Backend{}}, Log: zap.NewNop(),
	}
	d := &desk{Service: responder.New(responder.Config{Streams: as(t, server, embedded.ResponderUser), Queue: bus.DefaultQueue, LostAfter: time.Minute})}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for _, run := range []func(context.Context) error{n.Run, d.Service.Run} {
		group.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { cancel(); group.Wait() })
	if err := d.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// Whoever answers as the request's time runs out, and is told that it counts,
// finds that answer in the response: an error as well as a text. Who comes later
// is told that it does not count.
func TestWhatWasTakenAtTheLastMomentIsTheResponse(t *testing.T) {
	t.Parallel()
	d := outside(t)
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
			runner := &lastMoment{externalRunner: &externalRunner{d}, late: c.late, answer: func(run string) { _, told = d.Answer(ctx, run, c.reply, false) }}
			done := make(chan error, 1)
			go func() {
				done <- bridge.New(bridge.Config{Dirs: []bridge.Dir{{Path: dir, Must: true}}, State: t.TempDir(), Runner: runner, Poll: 20 * time.Millisecond}).Run(ctx)
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
			if c.late && (!isCode(told, api.Ended) || r.Status != bridge.StatusTimeout) || !c.late && (told != nil || said != c.reply) {
				t.Errorf("who answered was told %v, and the response is %s", told, got)
			}
		})
	}
}

// Who gives both ids of a request, as they are listed, has not said an answer.
func TestAnIDOfTheRequestIsNoAnswer(t *testing.T) {
	t.Parallel()
	d := outside(t)
	const run = "T-local-asked"
	if err := d.Ask(t.Context(), run, runs.Question{Prompt: "Which one?"}, map[string]string{"request_id": "id-1"}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	var asked []api.Question
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(30 * time.Second); ; {
		if all, err := d.Questions(t.Context(), run); err == nil {
			asked = all
			break
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("the run asks nothing")
		}
	}
	for text, want := range map[string]int{run: exitUsage, "id-1": exitUsage, "id-2": exitDone, "": exitDone} {
		c := bridgeAnswerCmd{Request: run, Text: &text}
		if err := c.mixedUp(asked); exitCode(err) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}
