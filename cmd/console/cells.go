package console

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Cells are the facts of a run as short texts, each safe and on one line. "" is unknown.
type Cells struct {
	ID, State, Agent, Model, Title, Dir, Labels string

	Time   string // how long it has been running or waiting, or how long it took
	Doing  string // what a running run does, since when; place in the queue; why another one ended
	Ended  string // how long ago it ended, in whole minutes, hours or days
	Tokens string // input/output
	Plan   string // done/all

	source string // session, unless it is a task

	ago, took, opened string // of a run that has ended: as Ended, in seconds; Time in words; seen or new
}

// CellsOf describes the state of a run at a time.
func CellsOf(run *api.Run, now time.Time) Cells {
	c := Cells{
		ID: Word(run.ID), State: stateWord(run, now), Title: flat(run.Title), Dir: Safe(run.Dir),
		Labels: labels(run.Labels.Map()), Time: seconds(now.UnixMilli() - int64(begun(run))),
	}
	if run.Agent != "" {
		c.Agent = Word(run.Agent)
	}
	if run.Model != "" {
		c.Model = Word(run.Model)
	}
	if run.Source == runs.SourceSession {
		c.source = "session"
	}
	if n := run.Tokens; n != nil {
		c.Tokens = ShortNumber(n.Input) + "/" + ShortNumber(n.Output)
	}
	if p := run.Progress; p != nil && p.Total > 0 {
		c.Plan = fmt.Sprintf("%d/%d", p.Done, p.Total)
	}
	switch {
	case run.State.Final():
		c.Time, c.Doing, c.opened = seconds(lasted(run)), flat(run.Reason), "seen"
		c.Ended, c.ago = age(now.Sub(time.UnixMilli(int64(run.EndedAt)))), Ago(run.EndedAt, now)
		c.took = "took " + c.Time
		if run.Unseen {
			c.opened = "new"
		}
	case run.State == runs.StateQueued:
		if c.Doing = "next"; position(run) > 0 {
			c.Doing = behind(position(run))
		}
	default:
		words := []string{doing(run, now), Safe(run.Activity)}
		if run.WorkerLost {
			words = append([]string{"lost: worker " + silent(run)}, words...)
		}
		c.Doing = joined(words...)
	}
	return c
}

// joined are the texts that are known.
func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), "  ")
}

// Now is what a run does, or how long ago it ended and why.
func (c Cells) Now() string {
	switch {
	case c.Ended == "":
		return strings.Replace(c.Doing, " for ", " ", 1)
	case c.Doing == "":
		return c.Ended
	}
	return c.Ended + ", " + c.Doing
}

// plain has the facts as a line has them that is not cut: Time is how long ago a run ended, or its
// place in the queue.
func (c Cells) plain() Cells {
	switch {
	case c.opened != "":
		c.Time = c.ago
	case c.State == string(runs.StateQueued):
		c.Time, c.Doing = c.Doing, ""
	}
	c.Agent = strings.TrimSpace(c.Agent + " " + c.source)
	return c
}

// steps is Plan in words.
func (c Cells) steps() string {
	if c.Plan == "" {
		return ""
	}
	return strings.Replace(c.Plan, "/", " of ", 1) + " steps"
}

// labels are labels as KEY=VALUE, sorted, without the trace context, which is for machines.
func labels(all map[string]string) string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if key != runs.LabelTraceparent {
			words = append(words, flat(key)+"="+flat(all[key]))
		}
	}
	return strings.Join(words, " ")
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

// Cut returns as much of a safe line as certainly fits into a number of columns, with … for the rest,
// without what [Grid] removes.
func Cut(line string, room int) string { return cut(Grid(line), room) }

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
