// Package top shows the runs of linesman in a terminal, live: the list of them, and the timeline
// of one. It asks package client for what it shows, and stores nothing; all texts of agents are
// made safe by package console.
//
//	client ──▶ feed ──▶ model ──▶ screen
//	           details ─┘ ▲
//	                      keys
//
// The model is a function of its messages: it reads no clock and no terminal. It formats only
// the rows on the screen, and those of the run that is open once. A look at the runs is one
// request a second, whatever their number; older ones are loaded when they are wanted: see feed.
package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/console"
)

// Config is the terminal of the caller.
type Config struct {
	Stdin, Stdout any // files, or panes of a [console.Screen]
	Environ       []string
	Getenv        func(string) string
	Filter        string // of the list, as it is typed
	Inside        bool   // the caller is a program of an agent, which must not answer questions
}

// redraws is the maximum number of them in a second.
const redraws = 10

// errNoTerminal reports that the screen cannot be drawn.
var errNoTerminal = errors.New("linesman top needs a terminal: use `linesman ls` for the list of runs, " +
	"and `linesman logs` for what a run did")

// Check returns [errNoTerminal] unless stdin and stdout are a terminal that can move its cursor.
func (c Config) Check() error {
	switch term := c.Getenv("TERM"); {
	case console.TerminalOf(c.Stdin) == nil || console.TerminalOf(c.Stdout) == nil:
		return errNoTerminal
	case term == "dumb" || term == "":
		return fmt.Errorf("%w (TERM is %q)", errNoTerminal, term)
	}
	return nil
}

// Run shows the runs until the user quits, or ctx ends. It restores the terminal in any case,
// after a panic too. Call Check before.
func Run(ctx context.Context, svc Service, c Config) error {
	if err := allowed(ctx, svc); err != nil {
		return err
	}
	color := c.Getenv("NO_COLOR") == ""
	options := []tea.ProgramOption{
		tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithFPS(redraws), tea.WithEnvironment(c.Environ),
		tea.WithInput(io.Reader(console.TerminalOf(c.Stdin))), tea.WithOutput(io.Writer(console.TerminalOf(c.Stdout))),
	}
	if color { // the sequences are those that every terminal with colours has
		options = append(options, tea.WithColorProfile(colorprofile.ANSI))
	}
	m := newModel(ctx, svc, color, time.Now())
	m.inside = c.Inside
	m.filter(c.Filter)
	_, err := tea.NewProgram(m, options...).Run()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("terminal: %w", err)
	}
	return nil
}

// allowed reports whether the credentials permit what this package cannot do without. Any other
// error is shown on the screen, because it can end.
func allowed(ctx context.Context, svc Service) error {
	_, err := ask(ctx, func(ctx context.Context) (any, error) {
		_, overview := svc.Overview(ctx, api.OverviewRequest{Limit: 1})
		_, list := svc.List(ctx, api.List{Limit: 1})
		return nil, errors.Join(overview, list)
	})
	if errors.Is(err, client.ErrDenied) || errors.Is(err, client.ErrRefused) {
		return fmt.Errorf("linesman top lists runs by requests to a responder, which is for operators; "+
			"a subscriber can use `linesman events --follow`: %w", err)
	}
	return nil
}
