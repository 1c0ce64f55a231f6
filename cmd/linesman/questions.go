package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/console"
)

type bridgeListCmd struct {
	Request string `arg:"" optional:"" help:"Id of a run, or of a request: print what it asks."`
	JSON    bool   `name:"json" help:"Print a JSON object for each, with what it asks, on one line."`
}

// Help is printed by "linesman bridge list --help".
func (bridgeListCmd) Help() string {
	return `Lists the requests of "linesman bridge --external" that nobody has answered yet, those that wait longest first: run, request
id, agent, and since when. With the id of one it prints its prompt and nothing else.

Examples:

    linesman bridge list
    linesman bridge list --json | jq -r .prompt

Exit status: 0 done, 1 failed, 2 bad flags or settings, 3 NATS is out of reach, 4 there is no such request.`
}

func (c *bridgeListCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	l, err := a.responder(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	all, err := l.Questions(ctx, api.QuestionsRequest{Request: c.Request})
	if err != nil {
		none := fmt.Errorf("no request %s waits for an answer from outside", console.Word(c.Request))
		return noRequest(err, none)
	}
	for _, q := range all.Requests {
		switch {
		case c.JSON:
			err = console.PrintJSON(a.stdout, waitingOf(q))
		case c.Request != "":
			_, err = fmt.Fprintf(a.stdout, "%s\n", q.Prompt)
		default:
			request, agent := console.Word(q.Request), console.Word(q.Agent)
			_, err = fmt.Fprintf(a.stdout, "%s  %s  %s  %s\n", q.Run, request, agent, console.Ago(q.Asked, time.Now()))
		}
		if err != nil {
			return err
		}
	}
	if all.Unlisted > 0 {
		fmt.Fprintf(a.stderr, "linesman: %d more do not fit one answer\n", all.Unlisted)
	}
	return nil
}

// waitingRequest is a request that waits for an answer from outside, as
// `bridge list --json` prints it.
type waitingRequest struct {
	Run     string `json:"task_id"`
	Request string `json:"request_id,omitempty"`
	Agent   string `json:"agent_name,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Asked   string `json:"asked_at"`
	Due     string `json:"due_at,omitempty"`
	Prompt  string `json:"prompt,omitempty"`
	Model   string `json:"model,omitempty"`
}

func waitingOf(q api.Question) waitingRequest {
	moment := func(t api.Time) string {
		if t == 0 {
			return ""
		}
		return time.UnixMilli(int64(t)).UTC().Format(time.RFC3339)
	}
	return waitingRequest{
		Run: q.Run, Request: q.Request, Agent: q.Agent, Phase: q.Phase, Prompt: q.Prompt, Model: q.Model,
		Asked: moment(q.Asked), Due: moment(q.Due),
	}
}

// noRequest is the error of a request for one that waits, and says what to do
// next where it was not found.
func noRequest(err, none error) error {
	var e *api.Error
	switch {
	case !errors.As(err, &e) || e.Err != nil:
		return explain(err, nil, "")
	case e.Code == api.NotFound:
		const hint = "linesman bridge list: lists those that wait, each by its run and its request id"
		return exitWith(exitNoRun, errors.Join(none, errors.New(hint)))
	case e.Run != "":
		return fmt.Errorf("run %s: %s", console.Word(e.Run), console.Safe(e.Error()))
	}
	return errors.New(console.Safe(e.Error()))
}
