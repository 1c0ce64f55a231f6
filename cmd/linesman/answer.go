package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/console"
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
	l, err := a.responder(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	if c.Text != nil {
		asked, err := c.waiting(ctx, l)
		if err == nil {
			err = c.mixedUp(asked)
		}
		if err != nil {
			return err
		}
	}
	q := api.AnswerRequest{Request: c.Request, Text: &reply.Text}
	if reply.Status == runs.ReplyError {
		q.Text, q.Error = nil, &reply.Error
	}
	done, err := l.Answer(ctx, q)
	var e *api.Error
	switch {
	case errors.As(err, &e) && e.Code == api.Ended:
		state := console.Word(string(e.State))
		return fmt.Errorf("run %s: it was answered before, or has ended: it is %s", e.Run, state)
	case err != nil:
		return noRequest(err, fmt.Errorf("no request %s is known that asks somebody outside", console.Word(c.Request)))
	case c.JSON:
		return console.PrintJSON(a.stdout, answeredRun{done.Run, done.State})
	}
	_, err = fmt.Fprintf(a.stdout, "%s %s\n", done.Run, done.State)
	return err
}

// answeredRun is what became of an answer, as `bridge answer --json` prints it.
type answeredRun struct {
	Run   string     `json:"task_id"`
	State runs.State `json:"state"`
}

// waiting returns the request that is to be answered, if it still waits.
func (c *bridgeAnswerCmd) waiting(ctx context.Context, l *client.Client) ([]api.Question, error) {
	asked, err := l.Questions(ctx, api.QuestionsRequest{Request: c.Request})
	var e *api.Error
	if errors.As(err, &e) && e.Code == api.NotFound {
		return nil, nil
	}
	return asked.Requests, explain(err, nil, "")
}

// mixedUp refuses a TEXT that is an id of the very request: who copies both of
// them, as bridge list prints them, has not said the answer.
func (c *bridgeAnswerCmd) mixedUp(asked []api.Question) error {
	for _, q := range asked {
		if *c.Text == q.Run || *c.Text != "" && *c.Text == q.Request {
			return exitWith(exitUsage, errors.New("TEXT: is an id of this request, not an answer: "+
				"give one of its ids, then the answer; where it is the answer all the same, give it by stdin"))
		}
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
