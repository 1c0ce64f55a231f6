package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"

	"github.com/alecthomas/kong"

	"github.com/linesman/linesman/config"
)

// invocation is a parsed command line.
type invocation struct {
	name          string // "linesman events"
	helped        bool   // help was asked for, and printed
	needsSettings bool
	logsAll       bool // else only warnings and errors, unless a level was set
	json          bool // --json was given
	settings      []config.Flag
	file          string // of --config
	check         func(a *app) error
	run           func(ctx context.Context, a *app) error
}

// sets reports whether a flag sets a setting.
func (c *invocation) sets(key string) bool {
	return slices.ContainsFunc(c.settings, func(f config.Flag) bool { return f.Key == key })
}

// checker is a command that has more to check than each flag by itself: how
// they go together, and with the settings. The error reports all mistakes.
type checker interface{ check(a *app) error }

// parse reads the command line. The error reports all mistakes at once; the
// invocation then has what could be read nevertheless. Help goes to stdout.
func parse(args []string, stdout io.Writer) (invocation, error) {
	call := invocation{name: "linesman", needsSettings: true}
	if len(args) == 0 {
		return call, errors.New("which command?")
	}

	exit := func(int) { call.helped = true }
	kctx := call.readCommand(args, stdout, exit)
	whole, err := kctx != nil, error(nil)
	if !whole && !call.helped {
		kctx, whole, err = parseAll(args, func() (*kong.Kong, error) { return newParser(&grammar{}, stdout, exit) },
			&call.helped)
	}
	if call.helped {
		return call, err
	}
	call.read(kctx)
	if whole && kctx.Selected() != nil {
		if c, ok := kctx.Selected().Target.Addr().Interface().(checker); ok {
			call.check = c.check
		}
	}
	return call, err
}

// readCommand reads a command line by the grammar of its command alone. It returns nil if that is not possible: the
// command line begins with a flag, asks for help, or has a mistake, which the whole grammar explains.
func (call *invocation) readCommand(args []string, stdout io.Writer, exit func(int)) *kong.Context {
	g := commandAlone(args[0])
	if g == nil || slices.Contains(args, "--help") || slices.Contains(args, "-h") {
		return nil
	}
	k, err := kong.New(g, kong.Name("linesman"), kong.Writers(stdout, io.Discard), kong.Exit(exit),
		kong.PostBuild(func(k *kong.Kong) error { return setHelp(k, func(string) string { return "" }) }))
	if err != nil {
		return nil
	}
	kctx, err := k.Parse(args)
	if err != nil || call.helped {
		return nil
	}
	return kctx
}

func newParser(g any, stdout io.Writer, exit func(int)) (*kong.Kong, error) {
	return kong.New(g,
		kong.Name("linesman"),
		kong.Writers(stdout, io.Discard),
		kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, FlagsLast: true, NoAppDescFormat: true, WrapUpperBound: 100}),
		kong.ExplicitGroups([]kong.Group{{Key: "settings", Title: "Settings:"}}),
		kong.PostBuild(addHelp),
	)
}

// read reads a trace, as far as it goes.
func (call *invocation) read(kctx *kong.Context) {
	if kctx == nil {
		return
	}
	for _, p := range kctx.Path {
		switch {
		case p.Command != nil:
			call.name += " " + p.Command.Name
			call.needsSettings = p.Command.Tag.Get("settings") != "none"
			call.logsAll = p.Command.Tag.Has("logs")
		case p.Flag != nil:
			value, _ := kctx.FlagValue(p.Flag).(string)
			if no, is := kctx.FlagValue(p.Flag).(bool); is { // --no-daemon negates its setting
				value = strconv.FormatBool(!no)
			}
			if list, is := kctx.FlagValue(p.Flag).([]string); is { // all of them, at each of them
				value = config.List(list).String()
			}
			if key := p.Flag.Tag.Get("setting"); key != "" {
				call.settings = append(call.settings, config.Flag{Key: key, Value: value, Name: "--" + p.Flag.Name})
			} else if p.Flag.Name == "config" {
				call.file = value
			}
			call.json = call.json || p.Flag.Name == "json"
		}
	}
	call.run = func(ctx context.Context, a *app) error {
		kctx.BindTo(ctx, (*context.Context)(nil))
		return kctx.Run(a)
	}
}
