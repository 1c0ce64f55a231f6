package console

import (
	"fmt"
	"io"
	"maps"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/linesman/linesman/runs"
)

// Renderer prints records for people. On a terminal it lays them out, in
// colour unless NO_COLOR is set, with a status line at the bottom; anywhere else every record is one [plain] line.
//
// It has no clock: times are those of the records, and of [Renderer.Tick]. It
// is for one goroutine.
type Renderer struct {
	out      io.Writer
	terminal bool
	color    bool
	width    func() int // cells of a terminal line

	first, now time.Time
	lastRun    string // the run that the last line was about
	tools      int
	tokens     int64                // of runs that threads no longer holds
	threads    map[string]int64     // tokens by run
	calls      map[callID]time.Time // tool calls without a result yet
	screen     *Screen              // with the status line
}

type callID struct{ run, id string }

// Bounds of the state of a Renderer. At the first it forgets the open calls
// and shows no durations for them; at the second it adds up the tokens.
const (
	maxCalls   = 4096
	maxThreads = 1024
)

// New returns a renderer that prints to out, and as on a terminal if out is
// one, or comes from [Screen.Pane]. Getenv looks up NO_COLOR and TERM.
func New(out io.Writer, getenv func(string) string) *Renderer {
	r := &Renderer{
		out: out, screen: &Screen{}, width: func() int { return 80 },
		threads: map[string]int64{}, calls: map[callID]time.Time{},
	}
	f, isFile := out.(*os.File)
	if p, ok := out.(*pane); ok {
		f, isFile, r.out, r.screen = p.file, true, p.file, p.Screen
	}
	if isFile && term.IsTerminal(int(f.Fd())) && getenv("TERM") != "dumb" {
		r.terminal = true
		r.color = getenv("NO_COLOR") == ""
		r.width = func() int {
			if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
				return w
			}
			return 80
		}
	}
	return r
}

// Write prints one record.
func (r *Renderer) Write(rec Record) error {
	v := look(rec)
	r.observe(&v)
	if !r.terminal {
		_, err := io.WriteString(r.out, plain(v))
		return err
	}
	var b strings.Builder
	r.writeRecord(&b, v)
	return r.screen.show(r.out, b.String(), r.statusLine())
}

// Tick moves the time of the status line, while nothing is written. On
// anything but a terminal it does nothing.
func (r *Renderer) Tick(now time.Time) error {
	if !r.terminal || !r.screen.shown() {
		return nil
	}
	r.now = now
	return r.screen.show(r.out, "", r.statusLine())
}

// Close removes the status line. The Renderer can be used after it.
func (r *Renderer) Close() error {
	return r.screen.show(r.out, "", "")
}

// observe counts, and pairs a tool's result with its call.
func (r *Renderer) observe(v *view) {
	if r.first.IsZero() {
		r.first = v.Time
	}
	if v.Time.After(r.now) {
		r.now = v.Time
	}
	if v.usage != (runs.Usage{}) {
		r.count(v.Run, v.usage.Input+v.usage.Output)
	}
	if v.kind == "completion" {
		r.forget(v.Run)
	}
	if v.tool == nil {
		return
	}
	id := callID{v.Run, v.tool.id()}
	began, open := r.calls[id]
	switch {
	case id.id == "":
		if v.kind == "tool_call" && v.tool.Phase == "start" {
			r.tools++ // it cannot be paired with its result
		}
	case v.kind == "tool_result":
		if !open {
			r.tools++ // a call whose event is missing
		} else if v.took = v.Time.Sub(began); v.took < 0 {
			v.took = 0
		}
		delete(r.calls, id)
	case !open:
		r.tools++
		if len(r.calls) >= maxCalls {
			clear(r.calls)
		}
		r.calls[id] = v.Time
	}
}

func (r *Renderer) count(run string, tokens int64) {
	if _, known := r.threads[run]; !known && len(r.threads) >= maxThreads {
		for _, n := range r.threads {
			r.tokens += n
		}
		clear(r.threads)
	}
	r.threads[run] = tokens
}

// forget drops what was kept for a run that has ended. Not every call gets a
// result.
func (r *Renderer) forget(run string) {
	maps.DeleteFunc(r.calls, func(id callID, _ time.Time) bool { return id.run == run })
	r.tokens += r.threads[run]
	delete(r.threads, run)
}

// statusLine is the status line, without a newline, in fewer cells than the
// terminal has: a line that wraps could not be erased.
func (r *Renderer) statusLine() string {
	tokens := r.tokens
	for _, n := range r.threads {
		tokens += n
	}
	took := ShortTime(r.now.Sub(r.first))
	line := fmt.Sprintf("%s | %d tools, %d running | %d tokens", took, r.tools, len(r.calls), tokens)
	if len(line) >= r.width() { // ASCII only
		line = line[:max(0, r.width()-1)]
	}
	return r.Paint(Dim, line)
}

// Terminal reports whether it prints as on a terminal.
func (r *Renderer) Terminal() bool { return r.terminal }

// OneLine returns words on one line, or each on a line of its own, below the second word of the
// first, if the terminal has not room for them. Without a terminal it is one line.
func (r *Renderer) OneLine(words []string) string {
	line := strings.Join(words, " ")
	if !r.terminal || cells(line) < r.width() {
		return line
	}
	first, _, _ := strings.Cut(line, " ")
	return strings.Join(words, "\n"+strings.Repeat(" ", len(first)+1))
}

// Paint returns s in a colour, one of the constants below or "" for none, where
// the renderer uses colours.
func (r *Renderer) Paint(color, s string) string {
	if !r.color || color == "" || s == "" {
		return s
	}
	return color + s + reset
}

// Colours of [Renderer.Paint].
const (
	reset  = "\x1b[0m"
	bold   = "\x1b[1m"
	Dim    = "\x1b[2m"
	Red    = "\x1b[31m"
	Green  = "\x1b[32m"
	Yellow = "\x1b[33m"
	cyan   = "\x1b[36m"
)
