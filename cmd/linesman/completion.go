package main

import (
	"context"
	"embed"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon/datadir"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (c *completionCmd) Run(a *app) error {
	script, err := completionScripts.ReadFile("completion/" + c.Shell)
	if err == nil {
		_, err = a.stdout.Write(script)
	}
	return err
}

// completionScripts ask the binary itself, so that they need no change when the
// grammar changes. If it has no answer, the shell offers files.
//
//go:embed completion
var completionScripts embed.FS

// completeCmd answers the scripts: one candidate a line, with its description
// after a tab.
type completeCmd struct {
	Words []string `arg:"" optional:"" help:"The words after linesman; the last is being typed."`
}

func (c *completeCmd) Run(ctx context.Context, a *app) error {
	k, err := newParser(&grammar{}, io.Discard, func(int) {})
	if err != nil {
		return err
	}
	words := c.Words
	if len(words) > 1 && words[0] == "help" {
		words = words[1:]
	}
	all := candidates(k.Model.Node, words, func(v *kong.Value) []string {
		switch v.Target.Type() {
		case reflect.TypeFor[runRef]():
			return a.offered(ctx, words[:len(words)-1], recent)
		case reflect.TypeFor[questionRef]():
			return a.offered(ctx, words[:len(words)-1], asked)
		}
		return choices(v)
	})
	_, err = io.WriteString(a.stdout, strings.Join(append(all, ""), "\n"))
	return err
}

// recentRuns limits a completion of runs.
const recentRuns = 30

// recentTime is how long a completion asks the server; then there is nothing: a person waits.
var recentTime = 100 * time.Millisecond

// offered is what find returns of the server that the settings name. It starts none, and there is nothing if anything
// fails.
func (a *app) offered(
	ctx context.Context, words []string, find func(context.Context, *client.Client) []string,
) (found []string) {
	ctx, cancel := context.WithTimeout(ctx, recentTime)
	defer cancel()
	if n := len(words); n > 0 && strings.HasPrefix(words[n-1], "--") { // the flag of the run
		words = words[:n-1]
	}
	call, _ := parse(words, io.Discard)
	set, err := config.Load(config.Sources{Flags: call.settings, File: call.file, Environ: a.environ})
	if set.Background.Start = false; err != nil || datadir.CheckOwner(set.DataDir) != nil {
		return nil
	}
	l, err := (&datadir.Dialer{Config: set, Environ: a.environ, Stderr: io.Discard, Log: zap.NewNop()}).Client(ctx)
	if err != nil {
		return nil
	}
	defer l.Close()
	return find(ctx, l)
}

// recent are the newest runs, with their states and titles.
func recent(ctx context.Context, l *client.Client) (found []string) {
	page, _ := l.List(ctx, api.List{Limit: recentRuns})
	for _, run := range page.Runs {
		found = append(found, run.ID+"\t"+console.Safe(strings.TrimSpace(string(run.State)+"  "+run.Title)))
	}
	return found
}

// asked are the open questions, with their titles.
func asked(ctx context.Context, l *client.Client) (found []string) {
	open, _ := l.Questions(ctx, api.QuestionsRequest{})
	for _, q := range open.Requests {
		found = append(found, console.Word(q.Run)+"/"+console.Word(q.ID)+"\t"+console.Asks(q))
	}
	return found
}

// choices are the values that a flag or an argument can have, if they can be
// listed.
func choices(v *kong.Value) []string {
	if v.Enum != "" {
		return v.EnumSlice()
	}
	if names := listed[v.Target.Type()]; names != nil {
		return names
	}
	for _, s := range config.Settings() {
		if s.Key == v.Tag.Get("setting") {
			return s.Choices
		}
	}
	return nil
}
