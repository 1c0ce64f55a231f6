package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/internal/lazy"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
)

// questionRef is an argument that names a question, RUN/q1, or a run.
type questionRef string

var questionID = lazy.Regexp(`^q[1-9][0-9]{0,8}$`)

func (ref questionRef) split() (run runRef, question string) {
	if at := strings.LastIndexByte(string(ref), '/'); at >= 0 && questionID().MatchString(string(ref[at+1:])) {
		return runRef(ref[:at]), string(ref[at+1:])
	}
	return runRef(ref), ""
}

// Validate is called by kong.
func (ref questionRef) Validate() error {
	run, _ := ref.split()
	return run.Validate()
}

// find returns the id of the run, that of the question, if ref has it, and the open questions that it names.
func (ref questionRef) find(ctx context.Context, l *client.Client) (run, id string, open api.Questions, err error) {
	if ref != "" {
		var name runRef
		name, id = ref.split()
		if run, err = resolveRun(ctx, l, string(name)); err != nil {
			return
		}
	}
	open, err = l.Questions(ctx, api.QuestionsRequest{Request: run})
	if api.Is(err, api.NotFound) {
		err = nil
	}
	open.Requests = slices.DeleteFunc(open.Requests, func(q api.Question) bool { return id != "" && q.ID != id })
	return run, id, open, explain(err, nil, "")
}

type questionsCmd struct {
	Run_  questionRef `arg:"" name:"run" optional:"" help:"Only those of this run; RUN/q1: that one, in full."`
	Whole bool        `help:"Print the whole request of the agent, as JSON, and its digest."`
	jsonFlag
}

func (c *questionsCmd) Run(ctx context.Context, a *app) error {
	if c.Whole && c.Run_ == "" {
		return exitWith(exitUsage, errors.New("--whole: needs RUN/q1, or RUN where one question is open"))
	}
	return a.ask(ctx, func(l *client.Client) error {
		run, id, open, err := c.Run_.find(ctx, l)
		switch {
		case err != nil:
			return err
		case run != "" && len(open.Requests)+len(open.Unread) == 0:
			return notOpen(ctx, l, run, id)
		case c.Whole:
			return a.whole(ctx, l, run, cmp.Or(id, onlyOne(open)))
		case a.json:
			for _, q := range open.Requests {
				if err := console.PrintJSON(a.stdout, q); err != nil {
					return err
				}
			}
		default:
			err = a.shown(a.stdout).Questions(open.Requests, id != "")
		}
		return cmp.Or(err, a.omitted(open))
	})
}

// omitted prints which questions an answer does not have. It is an error if it has none, because none can be read.
func (a *app) omitted(open api.Questions) error {
	if open.Unlisted > 0 {
		fmt.Fprintf(a.stderr, "linesman: %d more do not fit one answer\n", open.Unlisted)
	}
	for i, run := range open.Unread {
		err := errors.New(ofRun(run, "asks something that cannot be read: its record is damaged"))
		if i == len(open.Unread)-1 && len(open.Requests) == 0 {
			return err
		}
		fmt.Fprintf(a.stderr, "linesman: %v\n", err)
	}
	return nil
}

// onlyOne is the id of the only question; "" if there are several.
func onlyOne(open api.Questions) string {
	if len(open.Requests) == 1 {
		return open.Requests[0].ID
	}
	return ""
}

// whole prints the whole request of a question, and its digest.
func (a *app) whole(ctx context.Context, l *client.Client, run, id string) error {
	var text strings.Builder
	piece, err := api.Request{}, error(nil)
	for {
		piece, err = api.OpRequest.Call(ctx, l, api.RequestRequest{Run: run, Question: id, Offset: piece.Next})
		if err != nil {
			return notAnswered(err, run, nil)
		}
		if text.WriteString(piece.Text); piece.Next <= piece.Offset {
			break
		}
	}
	request := text.String()
	switch {
	case a.json:
		return console.PrintJSON(a.stdout, api.Request{Text: request, Bytes: piece.Bytes, Digest: piece.Digest})
	case a.shown(a.stdout).Terminal():
		err = a.shown(a.stdout).JSON(request)
	default:
		_, err = io.WriteString(a.stdout, request+"\n")
	}
	fmt.Fprintf(a.stderr, "linesman: its digest is %s\n", console.Word(piece.Digest))
	return err
}

// word is an answer to a question. Its values are the ones that completion knows.
type word string

type answerCmd struct {
	Run_    questionRef `arg:"" name:"run" help:"The question: RUN/q1, or RUN where one is open."`
	Word    *word       `arg:"" optional:"" help:"allow, deny, decline or cancel, or the id of an option. Of a request of a bridge: the answer, unchanged."`
	Content string      `placeholder:"JSON" help:"Answer a form with this object, one member a field, such as {\"name\": \"a\", \"checks\": [\"lint\"]}; or with that in the file of this name; \"-\" is stdin."`
	Digest  string      `placeholder:"HEX" help:"The digest that \"linesman questions --whole\" printed: needed to allow what was not shown in full."`
	replyFlags
}

func (c *answerCmd) Run(ctx context.Context, a *app) error {
	if worker.InAgent(a.environ) {
		return errors.New("an agent that linesman started cannot answer questions: what it asks is decided by people, " +
			"outside of it")
	}
	content, err := c.content(ctx, a)
	if err != nil {
		return exitWith(exitUsage, fmt.Errorf("--content: %w", err))
	}
	return a.ask(ctx, func(l *client.Client) error {
		run, id, open, err := c.Run_.find(ctx, l)
		if err != nil {
			return err
		}
		var q *api.Question
		switch len(open.Requests) {
		case 0:
			known, err := l.Status(ctx, run)
			switch {
			case err == nil && known.Agent == runs.AgentExternal:
				return c.reply(ctx, a, l, run, (*string)(c.Word))
			case api.Is(err, api.NotFound): // it may be the id of a request
				if err = c.reply(ctx, a, l, run, (*string)(c.Word)); exitCode(err) == exitNoRun {
					err = noSuchRun(run)
				}
				return err
			}
		case 1:
			q, id = &open.Requests[0], open.Requests[0].ID
		default:
			return exitWith(exitUsage, several(open.Requests))
		}
		switch {
		case q != nil && q.Kind == api.KindText:
			return c.reply(ctx, a, l, run, (*string)(c.Word))
		case c.File+c.Error != "":
			return exitWith(exitUsage, errors.New("--file and --error: are for a request of a bridge"))
		case c.Word == nil && content == nil:
			err := &api.Error{Code: api.Validation, Field: "option", Message: "is required: allow, deny or the id of an option"}
			if q != nil && q.Kind == api.KindForm {
				err.Field, err.Message = "content", "or WORD is required: an object with the fields, or decline or cancel"
			}
			return notAnswered(err, run, q)
		}
		return c.decide(ctx, a, l, q, api.AnswerRequest{
			Request: run, Question: id, Option: string(*cmp.Or(c.Word, new(word))), Content: content, Digest: c.Digest,
		})
	})
}

// decide answers a question of a live run; q may be nil.
func (c *answerCmd) decide(ctx context.Context, a *app, l *client.Client, q *api.Question, r api.AnswerRequest) error {
	done, err := l.Answer(ctx, r)
	if err != nil {
		return notAnswered(err, r.Request, q)
	}
	return a.print(done, func() error {
		if !done.Delivered && !done.State.Final() {
			fmt.Fprintln(a.stderr, "linesman: the answer is stored; the agent gets it when its worker is back")
		}
		outcome := console.Word(cmp.Or(done.Outcome, r.Option, done.Option))
		_, err := fmt.Fprintf(a.stdout, "%s %s %s\n", done.Run, done.Question, outcome)
		return err
	})
}

// content is that of --content; nil: none.
func (c *answerCmd) content(ctx context.Context, a *app) (json.RawMessage, error) {
	text := []byte(c.Content)
	if c.Content == "" {
		return nil, nil
	}
	if !strings.HasPrefix(strings.TrimSpace(c.Content), "{") {
		var err error
		if text, err = readInput(ctx, a.stdin, c.Content, runs.MaxContent); err != nil {
			return nil, err
		}
		if len(text) > runs.MaxContent {
			return nil, fmt.Errorf("at most %d bytes", runs.MaxContent)
		}
	}
	if !json.Valid(text) {
		return nil, errors.New("must be JSON, an object")
	}
	return text, nil
}

// several are the open questions of a run, of which one has to be named.
func several(open []api.Question) error {
	all := []error{fmt.Errorf("RUN: %d questions are open: name one", len(open))}
	for _, q := range open {
		all = append(all, fmt.Errorf("    %s/%s  %s", console.Word(q.Run), console.Word(q.ID), console.Asks(q)))
	}
	return errors.Join(all...)
}

// notOpen is the error of a command about a question that is not open, perhaps as there is no such run.
func notOpen(ctx context.Context, l *client.Client, run, id string) error {
	if _, err := api.OpStatus.Call(ctx, l, api.RunRequest{Run: run}); api.Is(err, api.NotFound) {
		return noSuchRun(run)
	}
	e := &api.Error{Code: api.NotFound, Message: "run " + console.Word(run) + " has no open question", Run: run}
	if id != "" {
		e.Message = "question " + id + " of run " + console.Word(run) + " is not open"
	}
	return exitWith(exitNoRun, refused{e, e})
}

// notAnswered is the error of an answer to a question of a run, which may be nil.
func notAnswered(err error, run string, q *api.Question) error {
	var e *api.Error
	if !errors.As(err, &e) || e.Err != nil {
		return explain(err, nil, "")
	}
	switch e.Code {
	case api.Conflict:
		return refuse(errors.New(ofRun(run, e.Message)), e)
	case api.NotFound, api.NotWaiting:
		return exitWith(exitNoRun, refuse(errors.New(ofRun(run, e.Message)), e))
	case api.Validation:
		all := []error{mistakes(e, map[string]string{
			"question": "RUN", "option": "WORD", "content": "--content", "digest": "--digest",
		})}
		switch {
		case q == nil:
		case e.Field == "digest":
			all = append(all, fmt.Errorf("linesman questions %s/%s --whole: prints the request and its digest", run, q.ID))
		case e.Field == "content" && q.Kind == api.KindForm:
			all = append(all, fmt.Errorf("linesman questions %s/%s: prints the fields", run, q.ID))
		case e.Field == "option", e.Field == "content":
			for _, o := range q.Options {
				all = append(all, errors.New("    "+console.Word(o.ID)+"  "+console.Safe(o.Name)+" ("+console.Word(o.Kind)+")"))
			}
		}
		return exitWith(exitUsage, refuse(errors.Join(all...), e))
	}
	return explain(err, nil, run)
}

// asks is [tellQuestions] on stderr; nil where that is no terminal.
func (a *app) asks(ctx context.Context, l *client.Client) func(*api.Run) {
	if !a.shown(a.stderr).Terminal() {
		return nil
	}
	return tellQuestions(ctx, l.Questions, a.stderr)
}

// tellQuestions returns a function that is called with the states of a run, and prints each of its questions once.
func tellQuestions(
	ctx context.Context, read func(context.Context, api.QuestionsRequest) (api.Questions, error), out io.Writer,
) func(*api.Run) {
	var said []string // of those that are open
	return func(run *api.Run) {
		said = slices.DeleteFunc(said, func(id string) bool { return !slices.Contains(run.Questions, id) })
		if len(said) == len(run.Questions) {
			return
		}
		open, err := read(ctx, api.QuestionsRequest{Request: run.ID})
		if err != nil { // the next state follows
			return
		}
		for _, q := range open.Requests {
			if !slices.Contains(said, q.ID) {
				said = append(said, q.ID)
				fmt.Fprintf(out, "linesman: %s asks: %s — answer with: %s\n", run.ID, console.Asks(q), console.AnswerLine(q))
			}
		}
	}
}
