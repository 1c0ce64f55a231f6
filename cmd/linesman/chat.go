package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/chat"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
)

type chatCmd struct {
	newRunFlags
	Continue    runRef        `placeholder:"RUN" help:"Converse with this run, one of \"linesman submit --live --keep\" or of \"linesman chat\": its id, a unique beginning or end of it, \"last\", or a label."`
	WaitTimeout time.Duration `placeholder:"DURATION" help:"Without a terminal: wait no longer than this for an answer; the run continues."`
	jsonFlag

	Text string `arg:"" optional:"" help:"The first message. By default the first one that you type, or the first line of stdin."`
}

func (c *chatCmd) check(*app) error {
	var wrong problems
	unset := newRunFlags{taskFlags: taskFlags{Env: runs.InheritNone}}
	wrong.add(c.Continue != "" && !reflect.DeepEqual(c.newRunFlags, unset), "--continue: not with flags of a new run")
	isRun := c.Text == "last" || strings.HasPrefix(c.Text, "T-local-")
	wrong.add(isRun && c.Continue == "", "TEXT: names a run: linesman chat --continue %s opens it", console.Word(c.Text))
	wrong.add(c.WaitTimeout < 0, "--wait-timeout: must not be negative, got %s", c.WaitTimeout)
	return errors.Join(wrong...)
}

func (c *chatCmd) Run(ctx context.Context, a *app) error {
	screen := chat.Config{Stdin: a.stdin, Stdout: a.stdout, Environ: a.environ, Getenv: a.getenv,
		Inside: worker.InAgent(a.environ), Text: c.Text,
		About: cmp.Or(string(c.Agent), api.DefaultAgent) + ", " + cmp.Or(string(c.Mode), string(runs.ReadOnly)) + ", " +
			cmp.Or(c.Dir, "this directory")}
	people := !a.json && screen.Fits()
	if people {
		a.dialer.Log = zap.NewNop() // the screen shows outages
	}
	return a.ask(ctx, func(l *client.Client) error {
		screen.Start = func(ctx context.Context, id, text string) (*api.Run, error) { return c.start(ctx, l, id, text) }
		if c.Continue != "" {
			run, err := c.resume(ctx, l)
			if err != nil {
				return err
			}
			screen.Run = run
		}
		if !people {
			return c.pipe(ctx, a, l, screen.Run)
		}
		if c.Continue == "" && c.Text != "" {
			run, err := c.start(ctx, l, "", c.Text)
			if err != nil {
				return err
			}
			screen.Run, screen.Text = run, ""
		}
		run, err := chat.Run(ctx, l, screen)
		switch {
		case run == nil:
			return explain(err, nil, "")
		case err != nil:
			return explain(err, nil, run.ID)
		}
		return a.left(ctx, l, run)
	})
}

// start submits a run with its first message; id "": with a new id. The error has that of the request, too.
func (c *chatCmd) start(ctx context.Context, l *client.Client, id, text string) (*api.Run, error) {
	q, wrong := c.submission()
	if wrong != nil {
		return nil, exitWith(exitUsage, errors.Join(wrong...))
	}
	q.Run, q.Prompt, q.Live, q.Keep = id, text, true, true
	run, err := l.SubmitRun(ctx, q)
	var e *api.Error
	switch {
	case errors.As(err, &e):
		return nil, refuse(c.notAccepted(err, false), e)
	case err != nil:
		return nil, c.notAccepted(err, false)
	}
	return run, nil
}

// resume finds the run of --continue.
func (c *chatCmd) resume(ctx context.Context, l *client.Client) (*api.Run, error) {
	id, err := resolveRun(ctx, l, string(c.Continue))
	if err != nil {
		return nil, err
	}
	run, err := l.Describe(ctx, id)
	switch {
	case err != nil:
		return nil, explain(err, nil, id)
	case run.State != runs.StateQueued && run.Conversation == nil:
		return nil, exitWith(exitFailed, fmt.Errorf("run %s is no conversation: it was not submitted with --live --keep; "+
			"linesman logs %[1]s prints what it did", id))
	}
	return run, nil
}

// left says how the run stands that a person has left.
func (a *app) left(ctx context.Context, l *client.Client, run *api.Run) error {
	if !run.State.Final() {
		const stays = "The run stays open.\n\n    linesman chat --continue %s\n    linesman end %[1]s\n"
		_, err := fmt.Fprintf(a.stdout, stays, run.ID)
		return err
	}
	a.seen(ctx, l, run.ID)
	if _, err := fmt.Fprintf(a.stdout, "The run has ended: it is %s.\n", console.Word(string(run.State))); err != nil {
		return err
	}
	if of, _ := known.All().Find(run.Agent); of.Can(runs.CanFork) && run.Thread != "" {
		const copies = "To go on with a copy:\n\n    linesman submit --fork %s \"<prompt>\"\n"
		if _, err := fmt.Fprintf(a.stdout, copies, console.Word(run.Thread)); err != nil {
			return err
		}
	}
	return completed(run.State)
}

// pipe sends each line of stdin, and prints the answer to it. Run is nil for a new one.
func (c *chatCmd) pipe(ctx context.Context, a *app, l *client.Client, run *api.Run) error {
	next := linesOf(ctx, a.stdin)
	text, err := c.Text, error(nil)
	if text == "" {
		text, err = next()
	}
	for ; text != ""; text, err = next() {
		q := api.WaitRequest{Until: api.UntilInput}
		var sent api.Sent
		if run == nil {
			if run, err = c.start(ctx, l, "", text); err != nil {
				return err
			}
			fmt.Fprintf(a.stderr, "linesman: run %s\n", run.ID)
		} else {
			if sent, err = sendOnce(ctx, l, api.SendRequest{Run: run.ID, Text: text}); err != nil {
				return notOrdered(err, run.ID)
			}
			q.After = sent.Entry
		}
		q.Run = run.ID
		if err := a.waitUntil(ctx, l, q, c.WaitTimeout); err != nil {
			if sent.Run != "" { // else its id was said
				a.accepted(sent)
			}
			return err
		}
	}
	if err == nil && run == nil {
		err = exitWith(exitUsage, errors.New(`expected "<text>", or lines on stdin`))
	}
	return err
}

// linesOf returns a function that returns the next line of an input that is not blank, "" at its end, and stops waiting
// for it at the end of ctx.
func linesOf(ctx context.Context, in io.Reader) func() (string, error) {
	lines := make(chan string)
	read := bufio.NewScanner(in)
	read.Buffer(nil, runs.MaxMessage+2)
	go func() {
		defer close(lines)
		for read.Scan() {
			if strings.TrimSpace(read.Text()) == "" {
				continue
			}
			select {
			case lines <- read.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() (string, error) {
		select {
		case text, ok := <-lines:
			switch err := read.Err(); {
			case !ok && errors.Is(err, bufio.ErrTooLong):
				const why = "stdin: a line has more than %d KiB, the most that a message may have"
				return "", exitWith(exitUsage, fmt.Errorf(why, runs.MaxMessage>>10))
			case !ok && err != nil:
				return "", fmt.Errorf("stdin: %w", err)
			}
			return text, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
