package v36

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/internal/lazy"
)

// page is an answer as markdown. Text of agents and callers is written to it
// through [plain], [code], [link] and block, which escape or fence it.
type page struct{ b strings.Builder }

func (p *page) String() string { return strings.TrimRight(p.b.String(), "\n") + "\n" }

// heading starts the page, or a section of it. Title is a constant.
func (p *page) heading(title string) {
	mark := "## "
	if p.b.Len() > 0 {
		p.gap()
		mark = "### "
	}
	p.b.WriteString(mark + title + "\n\n")
}

func (p *page) line(s string) { p.b.WriteString(s + "\n") }

func (p *page) item(s string) { p.b.WriteString("- " + s + "\n") }

// gap ends the last line with exactly one empty line.
func (p *page) gap() {
	if s := p.b.String(); s != "" && !strings.HasSuffix(s, "\n\n") {
		p.b.WriteByte('\n')
	}
}

// facts writes an item for each name and value, unless the value is empty.
func (p *page) facts(pairs ...string) {
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			p.item("**" + pair[0] + "**: " + pair[1])
		}
	}
}

// block writes text unchanged, in a fence that the text cannot close.
func (p *page) block(title, language, text string) {
	p.heading(title)
	p.b.WriteString(fenced(printable(text), language))
}

func (p *page) partial(x *partialResults) {
	if x.Output != "" {
		p.block("Output (end)", "", x.Output)
	}
	p.events(x.Events)
}

func (p *page) events(all []json.RawMessage) {
	if len(all) == 0 {
		return
	}
	var b strings.Builder
	for _, e := range all {
		b.Write(e)
		b.WriteByte('\n')
	}
	p.block("Last events", "json", b.String())
}

// fenced returns text in a fence that the text cannot close.
func fenced(text, language string) string {
	fence := strings.Repeat("`", max(3, longest(text, '`')+1))
	return fence + language + "\n" + strings.TrimRight(text, "\n") + "\n" + fence + "\n"
}

// plain returns s as text on one line, with markup escaped.
func plain(s string) string {
	return markup().ReplaceAllString(oneLine(s), `\$0`)
}

var markup = lazy.Regexp("[\\\\`*\\[\\]<>|]")

// code returns s as code on one line; "" is unchanged.
func code(s string) string {
	s = oneLine(s)
	if s == "" {
		return ""
	}
	fence := strings.Repeat("`", longest(s, '`')+1)
	if len(fence) > 1 {
		return fence + " " + s + " " + fence
	}
	return fence + s + fence
}

// link returns a URL as a link, or as code if it is not a valid URL.
func link(url string) string {
	if url == "" || !strings.HasPrefix(url, "https://") || strings.ContainsAny(url, " <>\"'`\\()[]\n\r\t") {
		return code(url)
	}
	return "<" + url + ">"
}

// oneLine replaces each run of white space and control characters in s by one
// space.
func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }),
		" ")
}

// printable removes the control characters that a terminal interprets.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsControl(c) && c != '\n' && c != '\t' {
			return unicode.ReplacementChar
		}
		return c
	}, s)
}

// longest returns the length of the longest run of c in s.
func longest(s string, c byte) int {
	most, now := 0, 0
	for i := range len(s) {
		if s[i] != c {
			now = 0
			continue
		}
		now++
		most = max(most, now)
	}
	return most
}

// stream names the state that the page is based on.
func (p *page) stream(b *api.Basis) {
	if b != nil {
		p.gap()
		p.line("As of stream sequence " + number(b.Seq) + ", " + b.At.String())
	}
}

func number[N int | int64 | uint64](n N) string { return strconv.FormatInt(int64(n), 10) }

func seconds(n int64) string { return number(n) + " s" }

// count is a number as the value of a fact; "" for 0.
func count(n int) string {
	if n == 0 {
		return ""
	}
	return number(n)
}

// optional is a number that may be missing, as the value of a fact.
func optional(n *int) string {
	if n == nil {
		return ""
	}
	return number(*n)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
