package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"go.uber.org/zap"

	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/cmd/startup"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/normalizer"
)

// app is what every command gets: the settings and the outside world. Data
// goes to stdout, all else to stderr.
type app struct {
	config         config.Config // empty for commands that need no settings
	log            *zap.Logger
	level          zap.AtomicLevel // of log
	sources        config.Sources  // of the settings
	dialer         *datadir.Dialer // connects to the server of the settings
	environ        []string
	file           string // of --config, if that was given
	stdin          io.Reader
	stdout, stderr io.Writer

	json  bool // print data as JSON, for programs
	quiet bool // log only warnings and errors, as other commands without the tag `logs`
}

// run is the whole program but for os.Exit: it returns the exit code.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 2 && args[0] == "shim" && !strings.HasPrefix(args[1], "-") { // the grammar of all is half of its start
		err := tellSignal(ctx, (&shimCmd{Dir: args[1]}).Run())
		if err != nil && err.Error() != "" {
			complain(stderr, err)
		}
		return exitCode(err)
	}
	call, mistakes := parse(args, stdout)
	if call.helped && mistakes == nil {
		return exitDone
	}

	var shared console.Screen
	stdout, stderr = shared.Pane(stdout), shared.Pane(stderr)
	a := &app{log: zap.NewNop(), environ: environ, file: call.file, stdin: stdin, stdout: stdout, stderr: stderr,
		json: call.json, sources: config.Sources{Flags: call.settings, File: call.file, Environ: environ}}
	if call.needsSettings {
		var err error
		a.config, err = config.Load(a.sources)
		if err == nil {
			err = datadir.CheckOwner(a.config.DataDir)
		}
		if err == nil && a.config.NATS == "" && call.sets("creds") { // those of a data directory are in it
			err = errors.New("--creds: needs --nats")
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
	if call.logsAll { // it runs for long
		startup.End()
		// What it prints may lose its reader, such as a `tee` that ends first at Ctrl-C: an error, not the end.
		broken := make(chan os.Signal, 1)
		signal.Notify(broken, syscall.SIGPIPE)
		defer signal.Stop(broken)
	}
	if call.needsSettings {
		a.log, a.level = daemon.NewLeveledLogger(a.config, stderr)
		levelGiven := a.getenv("LINESMAN_LOG_LEVEL") != "" || call.sets("log_level")
		if !levelGiven && (!call.logsAll || a.quiet) {
			a.log = a.log.WithOptions(zap.IncreaseLevel(zap.WarnLevel))
		}
	}
	a.dialer = &datadir.Dialer{Config: a.config, File: a.file, Environ: environ, Stderr: stderr, Log: a.log}

	err := tellSignal(ctx, call.run(ctx, a))
	if call.json {
		err = errors.Join(err, printRefusal(stdout, err))
	}
	if err != nil && err.Error() != "" {
		complain(stderr, err)
		if hint := datadir.Hint(err); hint != "" {
			complain(stderr, errors.New(hint))
		}
	}
	return exitCode(err)
}

// host is what package daemon builds from.
func (a *app) host() daemon.Config {
	return daemon.Config{
		Settings: a.config, Version: daemon.BuildOf(version).Version, Environ: a.environ, Log: a.log, Dialer: a.dialer,
		Level: a.level, Sources: a.sources, Reload: config.Load,
	}
}

// session calls do with a connection for starting runs and changing what is stored.
func (a *app) session(ctx context.Context, do func(*daemon.Session) error) error {
	s, err := daemon.Open(ctx, a.host())
	if err != nil {
		return err
	}
	defer s.Close()
	return do(s)
}

// ask calls do with a client for requests.
func (a *app) ask(ctx context.Context, do func(*client.Client) error) error {
	l, err := a.dialer.Client(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	return do(l)
}

// withRun calls do with a client and the id of the run that ref names, and explains its error.
// Flags are as of [explain].
func (a *app) withRun(
	ctx context.Context, ref runRef, flags map[string]string, do func(l *client.Client, run string) error,
) error {
	return a.ask(ctx, func(l *client.Client) error {
		run, err := resolveRun(ctx, l, string(ref))
		if err == nil {
			err = explain(do(l, run), flags, run)
		}
		return err
	})
}

// seen marks a run that has ended as seen, because a person opens it.
func (a *app) seen(ctx context.Context, l *client.Client, run string) {
	if err := l.Seen(ctx, run); err != nil {
		a.log.Debug("the run is not marked as seen", zap.String("run", run), zap.Error(err))
	}
}

// print prints data: as JSON, or for people.
func (a *app) print(data any, people func() error) error {
	if a.json {
		return console.PrintJSON(a.stdout, data)
	}
	return people()
}

// backend is that of an agent, or a mistake of the command line.
func (a *app) backend(kind agentKind) (normalizer.Backend, error) {
	if kind == auto {
		return nil, nil // not known yet
	}
	found, err := a.config.Table().Named(string(kind))
	if err != nil {
		return nil, exitWith(exitUsage, fmt.Errorf("--agent: %w", err))
	}
	return daemon.Scrubbed(a.config, found.Backend)[0], nil
}

// printer returns a printer of what runs do.
func (a *app) printer(asJSON bool) printer {
	return printer{Out: a.stdout, Err: a.stderr, Getenv: a.getenv, JSON: asJSON}
}

// shown returns a renderer of what people see on out.
func (a *app) shown(out io.Writer) *console.Renderer { return console.New(out, a.getenv) }

// getenv is the first value of a variable in the environment, or "".
func (a *app) getenv(name string) string {
	for _, one := range a.environ {
		if value, ok := strings.CutPrefix(one, name+"="); ok {
			return value
		}
	}
	return ""
}

// complain prints one line for each error that was joined into err. What does not show as itself, as in the name of a
// file, is an escape.
func complain(w io.Writer, err error) {
	for line := range strings.SplitSeq(flatNames(err, err.Error()), "\n") {
		if line != "" {
			fmt.Fprintf(w, "linesman: %s\n", console.Safe(line))
		}
	}
}

// flatNames returns the text of err with the names of files that have several lines on one.
func flatNames(err error, text string) string {
	switch e := any(err).(type) { // each error of the tree by itself
	case *fs.PathError:
		if strings.Contains(e.Path, "\n") {
			return strings.ReplaceAll(text, e.Path, console.Safe(e.Path))
		}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			text = flatNames(one, text)
		}
	case interface{ Unwrap() error }:
		return flatNames(e.Unwrap(), text)
	}
	return text
}
