package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.uber.org/zap"

	"github.com/linesman/linesman/config"
)

// app is what every command gets: the settings and the outside world. Data
// goes to stdout, all else to stderr.
type app struct {
	config         config.Config // empty for commands that need no settings
	log            *zap.Logger
	environ        []string
	stdin          io.Reader
	stdout, stderr io.Writer
}

// run is the whole program but for os.Exit: it returns the exit code.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	call, mistakes := parse(args, stdout)
	if call.helped && mistakes == nil {
		return exitDone
	}

	a := &app{log: zap.NewNop(), environ: environ, stdin: stdin, stdout: stdout, stderr: stderr}
	if call.needsSettings {
		var err error
		a.config, err = config.Load(config.Sources{Flags: call.settings, File: call.file, Environ: environ})
		mistakes = errors.Join(mistakes, err)
	}
	if mistakes != nil {
		complain(stderr, mistakes)
		fmt.Fprintf(stderr, "Run \"%s --help\" for more information.\n", call.name)
		return exitUsage
	}
	if call.needsSettings {
		a.log = newLogger(a.config, stderr)
	}

	err := call.run(ctx, a)
	if err != nil && err.Error() != "" {
		complain(stderr, err)
	}
	return exitCode(err)
}

// complain prints one line for each error that was joined into err.
func complain(w io.Writer, err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if line != "" {
			fmt.Fprintf(w, "linesman: %s\n", line)
		}
	}
}
