package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/console"
	"github.com/linesman/linesman/local"
)

// app is what every command gets: the settings and the outside world. Data
// goes to stdout, all else to stderr.
type app struct {
	config         config.Config // empty for commands that need no settings
	log            *zap.Logger
	levelGiven     bool // on the command line or in the environment
	environ        []string
	file           string // of --config, if that was given
	stdin          io.Reader
	stdout, stderr io.Writer

	lock       *os.File // of an `up`: the data directory's, until the process ends
	background bool     // an `up` that another command has started
	asks       bool     // a command that only reads or asks: it ends when its credentials are refused

	dialed sync.Once
	local  *local.Dialer // see dialer
}

// run is the whole program but for os.Exit: it returns the exit code.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	call, mistakes := parse(args, stdout)
	if call.helped && mistakes == nil {
		return exitDone
	}

	var shared console.Screen
	stdout, stderr = shared.Pane(stdout), shared.Pane(stderr)
	a := &app{log: zap.NewNop(), environ: environ, file: call.file, stdin: stdin, stdout: stdout, stderr: stderr}
	if call.needsSettings {
		var err error
		a.config, err = config.Load(config.Sources{Flags: call.settings, File: call.file, Environ: environ})
		if err == nil {
			err = local.CheckOwner(a.config.DataDir)
		}
		mistakes = errors.Join(mistakes, err)
	}
	if call.check != nil {
		mistakes = errors.Join(mistakes, call.check(a))
	}
	if mistakes != nil {
		complain(stderr, mistakes)
		fmt.Fprintf(stderr, "Run \"%s --help\" for more information.\n", call.name)
		return exitUsage
	}
	if call.needsSettings {
		a.log = newLogger(a.config, stderr)
		a.levelGiven = lookup(environ, "LINESMAN_LOG_LEVEL") != "" ||
			slices.ContainsFunc(call.settings, func(f config.Flag) bool { return f.Key == "log_level" })
	}

	err := tellSignal(ctx, call.run(ctx, a))
	if err != nil && err.Error() != "" {
		complain(stderr, err)
		if errors.Is(err, bus.ErrNoStream) {
			complain(stderr, errors.New("the streams are made by `linesman normalizer`: is one at work, with the same prefix?"))
		} else if cause := bus.Cause(err); !strings.Contains(err.Error(), cause) {
			complain(stderr, errors.New(cause))
		}
	}
	return exitCode(err)
}

// whisper is for commands that end by themselves, in somebody's terminal or
// script: unless a level was asked for, they log only what is wrong.
func (a *app) whisper() {
	if !a.levelGiven {
		a.log = a.log.WithOptions(zap.IncreaseLevel(zap.WarnLevel))
	}
}

// complain prints one line for each error that was joined into err.
func complain(w io.Writer, err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if line != "" {
			fmt.Fprintf(w, "linesman: %s\n", line)
		}
	}
}

// lookup is the first value of a variable in an environment, or "".
func lookup(environ []string, name string) string {
	for _, one := range environ {
		if value, ok := strings.CutPrefix(one, name+"="); ok {
			return value
		}
	}
	return ""
}
