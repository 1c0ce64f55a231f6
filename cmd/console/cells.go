package console

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Cells are the facts of a run as short texts, each safe and on one line, for a program that
// draws a table itself. "" is unknown.
type Cells struct {
	ID, State, Agent, Model, Title, Dir, Labels string

	Time   string // how long it has been running or waiting, or how long it took
	Doing  string // what a running run does, since when; place in the queue; why another one ended
	Ended  string // how long ago it ended, in whole minutes, hours or days
	Tokens string // input/output
	Plan   string // done/all
}

// CellsOf describes the state of a run at a time.
func CellsOf(run *api.Run, now time.Time) Cells {
	one := rowOf(run, now)
	c := Cells{
		ID: one.run, State: one.state, Agent: Word(run.Agent), Title: flat(run.Title), Doing: one.brief, Time: one.about,
		Labels: labels(run.Labels.Map()),
	}
	if run.Model != "" {
		c.Model = Word(run.Model)
	}
	if run.Dir != "" {
		c.Dir = shortDir(run.Dir)
	}
	if run.Tokens != nil {
		c.Tokens = tokenCounts(run.Tokens)
	}
	if p := run.Progress; p != nil && p.Total > 0 {
		c.Plan = fmt.Sprintf("%d/%d", p.Done, p.Total)
	}
	switch {
	case run.State.Final():
		c.Time, c.Ended, c.Doing = seconds(lasted(run)), age(now.Sub(time.UnixMilli(int64(run.EndedAt)))), flat(run.Reason)
	case run.State == runs.StateQueued:
		c.Time = seconds(now.UnixMilli() - int64(run.QueuedAt))
	case run.CancelRequested:
		c.Doing = "is being cancelled"
	default:
		c.Doing = one.activity
	}
	return c.grid()
}

// grid is [Grid] of all texts.
func (c Cells) grid() Cells {
	for _, s := range []*string{&c.Title, &c.Dir, &c.Labels, &c.Doing} {
		*s = Grid(*s)
	}
	return c
}

// Grid is a safe text without what terminals give different numbers of columns: joined emoji
// become single ones without a skin colour, and flags become letters.
func Grid(s string) string {
	odd := func(r rune) bool { return r == zwj || isStyle(r) || isTone(r) || isFlag(r) }
	if strings.IndexFunc(s, odd) < 0 {
		return s
	}
	var b strings.Builder
	symbol := false // the rune before is one
	for _, r := range s {
		switch {
		case isStyle(r), symbol && (r == zwj || isTone(r)):
			continue
		case isFlag(r):
			b.WriteRune('A' + r - firstFlag)
		default:
			b.WriteRune(r)
		}
		if !unicode.In(r, unicode.Mn, unicode.Me) {
			symbol = unicode.In(r, unicode.So)
		}
	}
	return b.String()
}

const (
	firstFlag = '\U0001f1e6' // A
	lastFlag  = '\U0001f1ff' // Z
)

func isFlag(r rune) bool  { return firstFlag <= r && r <= lastFlag }
func isTone(r rune) bool  { return '\U0001f3fb' <= r && r <= '\U0001f3ff' }
func isStyle(r rune) bool { return '\ufe00' <= r && r <= emojiStyle }

// Cut returns as much of a safe line as certainly fits into a number of columns, with … for the rest.
func Cut(line string, room int) string { return cut(line, room) }

// Flat is a text of an agent on one line, safe, without what [Grid] removes.
func Flat(text string) string { return Grid(flat(text)) }

// Elapsed is a duration in whole seconds for people: 40s, 1m02s, 3h05m.
func Elapsed(d time.Duration) string { return seconds(d.Milliseconds()) }

// age is how long ago something was, in one unit.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "<1m ago"
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	}
	return fmt.Sprintf("%dd ago", int(d.Hours()/24))
}
