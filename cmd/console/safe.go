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
	for {
		n := fit(line, width)
		rows = append(rows, line[:n])
		if line = line[n:]; line == "" {
			return rows
		}
	}
}

// fit returns how many bytes of a line fit into a number of cells: at least one rune, and
// no more than maxBytes, whatever marks the runes have.
func fit(line string, width int) int {
	used := 0
	for i, r := range line {
		used += cellsOf(r)
		if i > 0 && (used > width || i > maxBytes(width)) {
			return i
		}
	}
	return len(line)
}

// maxBytes is the maximum length of a row of some cells, in bytes.
func maxBytes(width int) int { return 64 + 16*max(width, 0) }

// cells is how many columns a terminal may give a safe line.
func cells(line string) (n int) {
	for _, r := range line {
		n += cellsOf(r)
	}
	return n
}

// cut returns as much of a safe line as fits into a number of cells, with … for the rest.
func cut(line string, room int) string {
	switch {
	case cells(line) <= room && len(line) <= maxBytes(room):
		return line
	case room < 1:
		return ""
	case room == 1:
		return "…"
	}
	if line = line[:fit(line, room-1)]; cells(line) > room-1 { // one wide rune
		line = ""
	}
	return strings.TrimRight(line, " ") + "…"
}

// cutStart is [cut] that leaves out the beginning.
func cutStart(line string, room int) string {
	over := cells(line) - room
	if over <= 0 {
		return line
	}
	for i, r := range line {
		if over < 0 { // there is a cell for the …
			return "…" + line[i:]
		}
		over -= cellsOf(r)
	}
	return "…"
}

// wrap is [fold] that cuts at blanks if possible.
func wrap(line string, width int) []string {
	var rows []string
	for {
		n := fit(line, width)
		if n == len(line) {
			return append(rows, line)
		}
		row := line[:n]
		if at := strings.LastIndexByte(row, ' '); line[n] != ' ' && strings.TrimSpace(row[:at+1]) != "" {
			row = row[:at+1]
		}
		line = strings.TrimPrefix(line[len(row):], " ")
		rows = append(rows, strings.TrimRight(row, " "))
	}
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
