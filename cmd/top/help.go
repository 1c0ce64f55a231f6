package top

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/linesman/linesman/cmd/console"
)

// binding is a key and what it does. The footer has the short form, if there is one.
type binding struct{ keys, short, does string }

var listKeys = []binding{
	{"↑↓", "move", "k j, page up and down, space, g G: move"},
	{"⏎", "open", "o l →: open the run"},
	{"/", "filter", "show only some runs: " + filterHelp + "; esc shows all"},
	{"c", "cancel", "cancel the run, after a confirmation"},
	{"s", "sort", "sort by need, newest, activity, tokens, title"},
	{"?", "help", "explain the keys"},
	{"q", "quit", "quit; runs continue"},
	{"f", "", "open the run at its end, and follow it"},
	{"a d", "", "show what the run asks; there, the same keys answer"},
	{"m", "", "send a message to the agent of a run with --keep"},
	{"x", "", "cancel the turn of such a run, after a confirmation"},
	{"F", "", "start a run that begins with a copy of the thread, in the same mode"},
	{"y", "", "show the id of the run, and copy it"},
}

var runKeys = []binding{
	{"esc", "back", "q h ←: back to the list"},
	{"f", "follow", "follow the run, or stop following it"},
	{"t", "show", "show all, texts, tools, or errors only"},
	{"/", "search", "search; n N: next and previous match"},
	{"c", "cancel", "cancel the run, after a confirmation"},
	{"?", "help", "explain the keys"},
	{"e", "expand", "show texts, outputs and all events in full, or briefly"},
	{"d", "diffs", "show or hide the diffs of changed files"},
	{"m", "message", "send a message to the agent of a run with --keep"},
	{"x", "", "cancel the turn of such a run, after a confirmation"},
	{"F", "", "start a run that begins with a copy of the thread, in the same mode"},
	{"a", "", "load all of a long run, not only its newest items"},
	{"⇥", "", "show what the run asks; a and d do so, too, while it asks"},
	{"↑↓", "", "k j, page up and down, space, g G: scroll"},
	{"y", "", "show the id of the run, and copy it"},
}

var questionKeys = []binding{
	{"a", "allow", "allow it this time, if one option does that"},
	{"d", "deny", "deny it this time"},
	{"1-9", "choose", "choose an option; some have to be confirmed"},
	{"⇥", "timeline", "show the timeline of the run; ⇥ again: the question"},
	{"esc", "back", "q h ←: back to the list; the question stays open"},
	{"c", "cancel", "cancel the run, after a confirmation"},
	{"?", "help", "explain the keys"},
	{"↑↓", "", "k j, page up and down, space, g G: scroll"},
	{"m x", "", "send a message to the agent of a run with --keep; cancel its turn"},
	{"y", "", "show the name of the question, and copy it"},
}

// keys is the line of keys at the bottom: as many of the first ones as fit.
func (m *model) keys(all []binding, room int) string {
	line := ""
	for _, b := range all {
		room -= width(b.keys) + len(b.short) + 3
		if b.short == "" || room < 0 {
			break
		}
		line += m.style.in(bold, b.keys) + " " + m.style.in(console.Dim, b.short) + "  "
	}
	return strings.TrimRight(line, " ")
}

// helpRows explain the keys of the view below.
func (m *model) helpRows() []string {
	title, keys := "linesman top: the list of runs", listKeys
	notes := "Order by need: needs you, working, queued, ended and not opened (*), failed, lost; then the newest."
	switch {
	case m.run != nil && m.run.question != nil:
		title, keys, notes = "linesman top: a question", questionKeys, "Keys answer from 0.3 seconds after a question has "+
			"appeared, and allow only what was read to its end. Forms, and what is not shown in full, are answered by "+
			"\"linesman answer\"."
	case m.run != nil:
		title, keys, notes = "linesman top: a run", runKeys, "The times on the left are since the start of the run."
	}
	rows := []string{m.style.in(bold, console.Cut(title, m.width-1)), ""}
	for _, b := range keys {
		name := fill(b.keys, 5)
		for line := range strings.SplitSeq(m.wrap(b.does, 8), "\n") {
			rows, name = append(rows, "  "+name+line), fill("", 5)
		}
	}
	rows = append(append(rows, ""), strings.Split(m.wrap(notes, 1), "\n")...)
	return append(rows, "", m.style.in(console.Dim, console.Cut("Any key closes this page.", m.width-1)))
}

// wrap cuts a text into lines, beside so many columns that are in use.
func (m *model) wrap(text string, used int) string {
	return ansi.WrapWc(text, max(m.width-used, 8), "")
}
