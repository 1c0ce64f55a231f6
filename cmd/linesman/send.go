package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/runs"
)

type sendCmd struct {
	Run_    runRef `arg:"" name:"run" help:"${run}"`
	Text    string `arg:"" optional:"" help:"The message, at most 256 KiB. \"-\" reads it from stdin."`
	File    string `placeholder:"FILE" help:"The message is in this file."`
	Now     bool   `help:"Cancel the turn that runs, and send this message first. Otherwise it waits for its turn."`
	Edit    string `placeholder:"ID" help:"Replace the text of a message that waits."`
	Remove  string `placeholder:"ID" help:"Take back a message that waits."`
	Release bool   `help:"Send what is held since a turn was not completed."`
	List    bool   `help:"Print the messages that wait."`
	Wait    bool   `help:"Wait until the agent has ended its turn, or asks, and print what it said. Exit code 1: the turn was not completed; 5: a question is open."`
	jsonFlag
}

// check refuses flags that do not fit together.
func (c *sendCmd) check() error {
	ways := 0
	for _, given := range []bool{c.Edit != "", c.Remove != "", c.Release, c.List, c.Now} {
		if given {
			ways++
		}
	}
	text, takes := c.Text != "" || c.File != "", c.Remove == "" && !c.Release && !c.List
	switch {
	case ways > 1:
		return errors.New("--now, --edit, --remove, --release and --list: at most one of them")
	case c.Text != "" && c.File != "":
		return errors.New("TEXT: not with --file, which has it")
	case takes && !text:
		return errors.New(`expected "<text>", "-" to read it from stdin, or --file FILE`)
	case !takes && c.Wait:
		return errors.New("--wait: not with --remove, --release and --list")
	case !takes && text:
		return errors.New("TEXT: not with --remove, --release and --list")
	}
	return nil
}

func (c *sendCmd) Run(ctx context.Context, a *app) error {
	if err := c.check(); err != nil {
		return exitWith(exitUsage, err)
	}
	if c.List {
		return c.list(ctx, a)
	}
	q := api.SendRequest{Message: c.Edit}
	if c.Now {
		q.When = runs.WhenNow
	}
	if c.Text != "" || c.File != "" {
		var err error
		if q.Text, err = readPrompt(ctx, a.stdin, c.Text, c.File); err != nil {
			from := "TEXT"
			if c.File != "" {
				from = "--file"
			}
			return exitWith(exitUsage, fmt.Errorf("%s: %w", from, err))
		}
	}
	if c.Wait {
		return a.withRun(ctx, c.Run_, nil, func(l *client.Client, run string) error {
			q.Run = run
			do := sendOnce
			if c.Edit != "" {
				do = api.OpEdit.Call
			}
			sent, err := do(ctx, l, q)
			if err != nil {
				return notOrdered(err, run)
			}
			a.accepted(sent)
			return a.waitUntil(ctx, l, api.WaitRequest{Run: run, Until: api.UntilInput, After: sent.Entry}, 0)
		})
	}
	return a.order(ctx, c.Run_, func(l *client.Client, run string) (api.Sent, error) {
		q.Run = run
		switch {
		case c.Remove != "":
			return api.OpUnsend.Call(ctx, l, api.MessageRequest{Run: run, Message: c.Remove})
		case c.Release:
			return api.OpRelease.Call(ctx, l, api.RunRequest{Run: run})
		case c.Edit != "":
			return api.OpEdit.Call(ctx, l, q)
		}
		return sendOnce(ctx, l, q)
	})
}

// sendOnce sends a message, and once more with the same key if it got no answer: it is sent once all the same.
func sendOnce(ctx context.Context, svc api.Caller, q api.SendRequest) (api.Sent, error) {
	q.Key = rand.Text()
	sent, unknown, err := client.Repeat(func() (api.Sent, error) { return api.OpSend.Call(ctx, svc, q) })
	if unknown {
		said := notOrdered(err, q.Run)
		err = exitWith(exitCode(said), fmt.Errorf("it is not known whether the message was accepted: %w", said))
	}
	return sent, err
}

// accepted says beside the output that a message was accepted: the wait for its turn may fail.
func (a *app) accepted(sent api.Sent) { fmt.Fprintf(a.stderr, "linesman: %s\n", console.Sent(sent)) }

func (c *sendCmd) list(ctx context.Context, a *app) error {
	return a.withRun(ctx, c.Run_, nil, func(l *client.Client, run string) error {
		all, err := api.OpMessages.Call(ctx, l, api.RunRequest{Run: run})
		if err != nil {
			return err
		}
		return a.print(all, func() error { return a.shown(a.stdout).Messages(all) })
	})
}

// order carries out a request about a live run, and prints what became of it.
func (a *app) order(ctx context.Context, ref runRef, do func(l *client.Client, run string) (api.Sent, error)) error {
	return a.withRun(ctx, ref, nil, func(l *client.Client, run string) error {
		sent, err := do(l, run)
		if err != nil {
			return notOrdered(err, run)
		}
		return a.print(sent, func() error {
			_, err := fmt.Fprintln(a.stdout, console.Sent(sent))
			return err
		})
	})
}

// notOrdered is the error of a request about a live run: that it does not fit the state of the run is no mistake in the
// command line.
func notOrdered(err error, run string) error {
	var e *api.Error
	if errors.As(err, &e) && e.Code == api.Conflict {
		return exitWith(exitFailed, refuse(errors.New(ofRun(run, e.Message)), e))
	}
	return explain(err, map[string]string{"text": "TEXT", "message": "ID"}, run)
}

type setCmd struct {
	Run_  runRef `arg:"" name:"run" help:"${run}"`
	Mode  mode   `placeholder:"MODE" help:"What the agent may do, at most what its task allows: read-only, workspace-write or danger-full-access."`
	Model string `placeholder:"MODEL" help:"Model of the agent."`
	jsonFlag
}

func (c *setCmd) Run(ctx context.Context, a *app) error {
	if c.Mode == "" && c.Model == "" {
		return exitWith(exitUsage, errors.New("expected --mode or --model"))
	}
	return a.order(ctx, c.Run_, func(l *client.Client, run string) (api.Sent, error) {
		return api.OpSet.Call(ctx, l, api.SetRequest{Run: run, Mode: runs.Mode(c.Mode), Model: c.Model})
	})
}

type endCmd struct {
	Run_ runRef `arg:"" name:"run" help:"${run}"`
	jsonFlag
}

func (c *endCmd) Run(ctx context.Context, a *app) error {
	return a.order(ctx, c.Run_, func(l *client.Client, run string) (api.Sent, error) {
		return api.OpEnd.Call(ctx, l, api.RunRequest{Run: run})
	})
}
