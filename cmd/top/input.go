package top

import (
	"strings"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/cmd/console"
)

// input is a line that is being typed, at the bottom of the screen.
type input struct {
	label, hint, text string
	to                string   // a message for this run; "": what the screen searches
	fork              *api.Run // it is the task of a run that begins with a copy of the thread of this one
	id                string   // idempotency key of the message, or id of that run
	sent              string   // the text that may have been sent with it
}

type inputState int

const (
	inputOpen inputState = iota
	inputDone            // enter
	inputLeft            // escape
)

// maxInput bounds what is searched, in bytes.
const maxInput = 200

func (i *input) key(k tea.KeyPressMsg) inputState {
	switch k.String() {
	case "enter":
		return inputDone
	case "esc":
		return inputLeft
	case "backspace", "ctrl+h":
		_, n := utf8.DecodeLastRuneInString(i.text)
		i.text = i.text[:len(i.text)-n]
	case "ctrl+u":
		i.text = ""
	case "ctrl+w":
		i.text = i.text[:strings.LastIndexByte(strings.TrimRight(i.text, " "), ' ')+1]
	default:
		return i.add(k.Text)
	}
	return inputOpen
}

// add appends a text, on one line.
func (i *input) add(text string) inputState {
	text = strings.NewReplacer("\r", " ", "\n", " ", "\t", " ").Replace(text)
	limit := maxInput
	if i.to != "" {
		limit = maxMessage
	}
	if len(i.text)+len(text) <= limit {
		i.text += text
	}
	return inputOpen
}

// line is what the screen shows of it: its end, if it has more than room columns.
func (i *input) line(room int) string {
	text := console.Grid(console.Safe(i.text))
	if over := width(i.label) + width(text) - room; over > 0 {
		text = ansi.TruncateLeftWc(text, over+1, "…")
	}
	return i.label + text
}
