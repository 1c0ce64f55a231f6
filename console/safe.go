package console

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Safe makes a string of an agent harmless on one line of a terminal or a
// log: control characters, escape sequences, line and paragraph separators,
// bidirectional overrides and all else that does not show as itself is written
// as an escape. Joiners stay, scripts and emoji need them.
func Safe(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !showsItself(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s { // invalid bytes come as U+FFFD
		switch {
		case showsItself(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}

// showsItself reports whether a terminal shows a rune, and does nothing else.
func showsItself(r rune) bool { return unicode.IsGraphic(r) || r == zwnj || r == zwj }

const (
	zwnj       = '\u200c'
	zwj        = '\u200d'
	emojiStyle = '\ufe0f'
)

// Word is [Safe] for a field that blanks would break, and shortened: no
// honest name or id is longer than maxWord runes.
func Word(s string) string {
	if s == "" {
		return "-"
	}
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return '_'
		}
		return r
	}, s)
	if utf8.RuneCountInString(s) > maxWord {
		s = string([]rune(s)[:maxWord]) + "…"
	}
	return Safe(s)
}

const maxWord = 80

// fold cuts a safe line into rows of at most width cells, so that no text can
// leave its column: a line that the terminal wraps would continue at the margin.
// The number of cells is an upper bound, so that a row is rather too short.
func fold(line string, width int) []string {
	var rows []string
	start, cells := 0, 0
	for i, r := range line {
		w := cellsOf(r)
		if cells+w > width && i > start {
			rows = append(rows, line[start:i])
			start, cells = i, 0
		}
		cells += w
	}
	return append(rows, line[start:])
}

// cellsOf is how many columns a terminal may give a rune: none to marks that
// join the previous one, one to certainly narrow ones, two to the rest.
func cellsOf(r rune) int {
	switch {
	case r == emojiStyle:
		return 1 // it can widen the rune before
	case unicode.In(r, unicode.Mn, unicode.Me), r == zwnj, r == zwj:
		return 0
	case r < 0x1100, r >= 0x1e00 && r < 0x2300, r >= 0x2500 && r < 0x25fd: // the last: boxes and blocks
		return 1
	default:
		return 2
	}
}
