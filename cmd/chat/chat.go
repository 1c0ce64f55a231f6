// Package chat is a conversation with a live run in a terminal: what the agent does is printed as it comes, and stays
// in the terminal's own history; below it are what waits, what is asked, and a field for the next message. It asks a
// responder for what it shows, and stores nothing; all texts of agents are made safe by package console.
//
//	details ──▶ rows above ──▶ terminal
//	state, questions, queue ──▶ model ──▶ the last rows
//	                            ▲
//	                            keys ──▶ messages, answers
//
// The model is a function of its messages: it reads no clock and no terminal.
package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/cmd/console"
)

// Config is a conversation, and the terminal of the caller.
type Config struct {
	Stdin, Stdout any // files, or panes of a [console.Screen]
	Environ       []string
	Getenv        func(string) string
	Inside        bool // the caller is a program of an agent, which must not answer questions

	Run  *api.Run // nil: Start begins one with the first message
	Text string   // the first message to Run; "": none
	// Start submits a run with an id. With one that it was called with before it returns that run.
	Start func(ctx context.Context, id, text string) (*api.Run, error)
	About string // that run, in a few words
}

// Fits reports whether stdin and stdout are a terminal that can move its cursor.
func (c Config) Fits() bool {
	term := c.Getenv("TERM")
	return console.TerminalOf(c.Stdin) != nil && console.TerminalOf(c.Stdout) != nil && term != "dumb" && term != ""
}

// redraws is the maximum number of them in a second.
const redraws = 30

// Run converses until the user leaves, the run ends or ctx ends, and returns the last known state of the run; nil: none
// was begun. It restores the terminal in any case. Call Fits before.
func Run(ctx context.Context, svc api.Caller, c Config) (*api.Run, error) {
	color := c.Getenv("NO_COLOR") == ""
	out := &output{File: console.TerminalOf(c.Stdout), drawn: make(chan struct{})}
	options := []tea.ProgramOption{
		tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithFPS(redraws), tea.WithEnvironment(c.Environ),
		tea.WithInput(io.Reader(console.TerminalOf(c.Stdin))), tea.WithOutput(out),
	}
	if color { // the sequences are those that every terminal with colours has
		options = append(options, tea.WithColorProfile(colorprofile.ANSI))
	}
	m := newModel(ctx, svc, c, color, time.Now())
	m.drawing = out.drawn
	_, err := tea.NewProgram(m, options...).Run()
	switch {
	case ctx.Err() != nil:
		return m.run, ctx.Err()
	case err != nil:
		return m.run, fmt.Errorf("terminal: %w", err)
	}
	return m.run, m.fatal
}

// output is a terminal that tells when the first rows are drawn. What is printed above them sooner would leave a gap,
// as if they filled the screen.
type output struct {
	*os.File
	once  sync.Once
	drawn chan struct{} // closed then
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.File.Write(b)
	if strings.Contains(string(b), ansi.SetModeBracketedPaste) { // is part of the first rows
		o.once.Do(func() { close(o.drawn) })
	}
	return n, err
}

// away reports whether a request got no answer, and may get one later.
func away(err error) bool {
	var e *api.Error
	return errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &e) && e.Retryable && (e.Code == api.Unavailable || e.Code == api.TooMany)
}
