package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

type bridgeAnswerCmd struct {
	Request string  `arg:"" help:"Id of the request, or of its run: one of the two that \"linesman bridge list\" prints."`
	Text    *string `arg:"" optional:"" help:"The answer, as it is. By default that of --file, or stdin."`
	File    string  `placeholder:"FILE" help:"The answer is in this file."`
	Error   string  `placeholder:"TEXT" help:"Answer with an error: why there is no answer."`
	JSON    bool    `name:"json" help:"Print the result as JSON, on one line."`
}

// Help is printed by "linesman bridge answer --help".
func (bridgeAnswerCmd) Help() string {
	return `Answers a request that "linesman bridge --external" has made a run of, which waits in the state input-required. The answer
is stored at once, wholly or not at all; a bridge that is at work, or the next one, writes the response file. Of several
answers the first counts; the same one once more does no harm. It has at most 512 KiB as JSON. Prints the run and its state.

Examples:

    linesman bridge answer 32ecfadc-2b66-4daa-a7c0-a03c449fcea5 "Use the second one."
    linesman bridge answer T-local-0mwqeheq41ojmir --file answer.json
    claude -p "$(linesman bridge list T-local-0mwqeheq41ojmir)" | linesman bridge answer T-local-0mwqeheq41ojmir

Exit status: 0 answered, 1 failed, or it was answered before, or has ended, 2 bad flags or settings, 3 NATS is out of reach,
4 there is no such request.`
}

func (c *bridgeAnswerCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	reply, err := c.reply(a)
	if err == nil {
		_, err = reply.Line()
	}
	var field *runs.FieldError
	if errors.As(err, &field) {
		return exitWith(exitUsage, fmt.Errorf("the answer: %s", field.Problem))
	}
	if err != nil {
		return err
	}
	return a.withTable(ctx, func(ctx context.Context, r *responder.Service) error {
		run, err := r.RunOfRequest(ctx, c.Request)
		if err != nil {
			return noRequest(err, fmt.Errorf("no request %s is known that asks somebody outside", safeWord(c.Request)))
		}
		if err := c.mixedUp(ctx, r, run); err != nil {
			return err
		}
		done, err := r.Answer(ctx, run, reply, false)
		switch {
		case isCode(err, api.Ended):
			return fmt.Errorf("run %s: it was answered before, or has ended: it is %s", run, done.State)
		case err != nil:
			return fmt.Errorf("run %s: %w", run, err)
		case c.JSON:
			return printJSON(a.stdout, answeredRun{run, done.State})
		}
		_, err = fmt.Fprintf(a.stdout, "%s %s\n", run, done.State)
		return err
	})
}

// mixedUp refuses a TEXT that is an id of the very request: who copies both of
// them, as bridge list prints them, has not said the answer.
func (c *bridgeAnswerCmd) mixedUp(ctx context.Context, r *responder.Service, run string) error {
	if c.Text == nil {
		return nil
	}
	record, err := r.Record(ctx, run)
	switch {
	case isCode(err, api.NotFound): // its record is late
		return nil
	case err != nil:
		return fmt.Errorf("run %s: %w", run, err)
	case *c.Text == run, *c.Text != "" && *c.Text == record.Labels["request_id"]:
		return exitWith(exitUsage, errors.New("TEXT: is an id of this request, not an answer: give one of its ids, then the answer; where it is the answer all the same, give it by stdin"))
	}
	return nil
}

func (c *bridgeAnswerCmd) reply(a *app) (runs.Reply, error) {
	given := 0
	for _, is := range []bool{c.Text != nil, c.File != "", c.Error != ""} {
		if is {
			given++
		}
	}
	if given > 1 {
		return runs.Reply{}, exitWith(exitUsage, errors.New("TEXT, --file and --error: one of them"))
	}
	switch {
	case c.Error != "":
		return runs.Reply{Status: runs.ReplyError, Error: c.Error}, nil
	case c.Text != nil:
		return runs.Reply{Status: runs.ReplySuccess, Text: *c.Text}, nil
	}
	in := a.stdin
	if c.File != "" {
		f, err := os.Open(c.File)
		if err != nil {
			return runs.Reply{}, err
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, runs.MaxReply+1))
	if err != nil {
		return runs.Reply{}, fmt.Errorf("read the answer: %w", err)
	}
	return runs.Reply{Status: runs.ReplySuccess, Text: string(b)}, nil
}

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
	return a.withTable(ctx, func(ctx context.Context, r *responder.Service) error {
		all, err := waitingRequests(ctx, r, c.Request)
		if err != nil {
			return noRequest(err, fmt.Errorf("no request %s waits for an answer from outside", safeWord(c.Request)))
		}
		for _, w := range all {
			switch {
			case c.JSON:
				err = printJSON(a.stdout, w)
			case c.Request != "":
				_, err = fmt.Fprintf(a.stdout, "%s\n", w.Prompt)
			default:
				_, err = fmt.Fprintf(a.stdout, "%s  %s  %s  %s\n", w.Run, safeWord(cmp.Or(w.Request, "-")), safeWord(cmp.Or(w.Agent, "-")), ago(w.Asked, time.Now()))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// noRequest says what to do next where a request was not found.
func noRequest(err, none error) error {
	if isCode(err, api.NotFound) {
		return exitWith(exitNoRun, errors.Join(none, errors.New("linesman bridge list: lists those that wait, each by its run and its request id")))
	}
	return err
}

// withTable does something with a responder that serves nobody else.
func (a *app) withTable(ctx context.Context, do func(context.Context, *responder.Service) error) error {
	b, err := a.client(ctx, embedded.ResponderUser)
	if err != nil {
		return err
	}
	defer b.Close()
	r := responder.New(responder.Config{
		Streams: b, Queue: a.config.Work.Queue, LostAfter: a.config.LostAfter, Patience: answerTime, Log: a.log,
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.Run(ctx) })
	group.Go(func() error {
		defer cancel()
		if err := r.Ready(ctx); err != nil {
			return exitWith(exitNATS, err)
		}
		return do(ctx, r)
	})
	return group.Wait()
}
