package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/runs"
)

type bridgeListCmd struct {
	Request string `arg:"" optional:"" help:"Id of a run, or of a request: print its prompt."`
	jsonFlag
}

func (c *bridgeListCmd) Run(ctx context.Context, a *app) error {
	return a.ask(ctx, func(l *client.Client) error {
		all, err := l.Questions(ctx, api.QuestionsRequest{Request: c.Request})
		if err != nil {
			none := fmt.Errorf("no request %s waits for an answer from outside", console.Word(c.Request))
			return noRequest(err, none)
		}
		for _, q := range all.Requests {
			switch {
			case q.Kind != api.KindText: // see "linesman questions"
			case c.JSON:
				err = console.PrintQuestion(a.stdout, q)
			case c.Request != "":
				err = a.shown(a.stdout).Text(q.Prompt)
			default:
				request, agent := console.Word(q.Request), console.Word(q.Agent)
				_, err = fmt.Fprintf(a.stdout, "%s  %s  %s  %s\n", q.Run, request, agent, console.Ago(q.Asked, time.Now()))
			}
			if err != nil {
				return err
			}
		}
		return a.omitted(all)
	})
}

type bridgeAnswerCmd struct {
	Request string  `arg:"" help:"Id of the request, or of its run: one of the two that \"linesman bridge list\" prints."`
	Text    *string `arg:"" optional:"" help:"The answer, unchanged. By default that of --file, or stdin."`
	replyFlags
}

func (c *bridgeAnswerCmd) Run(ctx context.Context, a *app) error {
	reply, err := c.read(ctx, a, c.Text)
	if err != nil {
		return err
	}
	return a.ask(ctx, func(l *client.Client) error { return c.send(ctx, a, l, c.Request, c.Text, reply) })
}

// replyFlags are those of an answer to a request of a bridge.
type replyFlags struct {
	File  string `placeholder:"FILE" help:"The answer is in this file."`
	Error string `placeholder:"TEXT" help:"Answer with an error: why there is no answer."`
	jsonFlag
}

// read returns the answer that text, which may be nil, and the flags tell.
func (c *replyFlags) read(ctx context.Context, a *app, text *string) (reply runs.Reply, err error) {
	if text != nil && c.File+c.Error != "" || c.File != "" && c.Error != "" {
		return reply, exitWith(exitUsage, errors.New("TEXT, --file and --error: one of them"))
	}
	reply, err = readReply(ctx, a.stdin, text, c.File, c.Error)
	if err == nil {
		_, err = reply.Line()
	}
	var field *runs.FieldError
	if errors.As(err, &field) {
		err = exitWith(exitUsage, fmt.Errorf("the answer: %s", field.Problem))
	}
	return reply, err
}

// reply answers a request, named by its id or by its run.
func (c *replyFlags) reply(ctx context.Context, a *app, l *client.Client, request string, text *string) error {
	reply, err := c.read(ctx, a, text)
	if err != nil {
		return err
	}
	return c.send(ctx, a, l, request, text, reply)
}

func (c *replyFlags) send(
	ctx context.Context, a *app, l *client.Client, request string, text *string, reply runs.Reply,
) error {
	if text != nil {
		asked, err := l.Questions(ctx, api.QuestionsRequest{Request: request})
		var e *api.Error
		if err != nil && (!errors.As(err, &e) || e.Code != api.NotFound) {
			return explain(err, nil, "")
		}
		if err := mixedUp(*text, asked.Requests); err != nil {
			return err
		}
	}
	q := api.AnswerRequest{Request: request, Text: &reply.Text}
	if reply.Status == runs.ReplyError {
		q.Text, q.Error = nil, &reply.Error
	}
	done, err := l.Answer(ctx, q)
	var e *api.Error
	switch {
	case errors.As(err, &e) && e.Code == api.Ended:
		state := console.Word(string(e.State))
		return refuse(fmt.Errorf("run %s: it was answered before, or has ended: it is %s", e.Run, state), e)
	case err != nil:
		none := fmt.Errorf("no request %s for an answer from outside is known", console.Word(request))
		return noRequest(err, none)
	case c.JSON:
		return console.PrintJSON(a.stdout, done)
	}
	_, err = fmt.Fprintf(a.stdout, "%s %s\n", done.Run, done.State)
	return err
}

// mixedUp refuses a TEXT that is an id of this request: it was copied with the
// other id from the output of bridge list, and the answer is missing.
func mixedUp(text string, asked []api.Question) error {
	for _, q := range asked {
		if text == q.Run || text != "" && text == q.Request {
			return exitWith(exitUsage, errors.New("TEXT: is an id of this request, not an answer: give one of its ids, then "+
				"the answer; if the id is the answer, pass it by stdin"))
		}
	}
	return nil
}
