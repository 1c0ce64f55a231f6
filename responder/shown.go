package responder

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/aymanbagabas/go-udiff"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

// What people are shown of a question.

const (
	maxShown = 256 << 10        // bytes of JSON of its texts: all of it fits into a message
	maxDiffs = 4 * acp.MaxAsked // bytes of all diffs
)

// room is what is left for the texts of a question, in bytes of JSON.
type room struct {
	left int
	cut  bool // a text did not fit
}

// text returns a text as it is visible; its beginning if it has more than most bytes, or there is no room for it.
func (r *room) text(s string, most int) string {
	if s == "" {
		return ""
	}
	if most = min(most, r.left); most <= 0 {
		r.cut = true
		return ""
	}
	begin := s[:bounds.Cut(s, most)] // what is visible is no shorter
	whole := visible(begin)
	shown := whole[:bounds.Cut(whole, most)]
	if len(runs.Encode(shown)) > r.left {
		shown = shown[:bounds.Cut(shown, r.left/6)] // a byte is at most six of JSON
	}
	r.left -= len(runs.Encode(shown))
	r.cut = r.cut || len(begin) < len(s) || len(shown) < len(whole)
	return shown
}

// question is what the request asks, for people.
func (q *request) question(record *runs.Record) api.Question {
	a, all := &q.asks, &room{left: maxShown}
	out := api.Question{
		Run: record.ID, ID: q.ID, Kind: q.Kind, Agent: record.Agent, RunTitle: record.Title,
		Asked: runs.Time(q.At), Due: runs.Time(q.Due), Model: record.Model, Tool: a.Tool, Digest: q.digest,
		Dir: all.text(record.Dir, maxShown), Title: all.text(a.Title, maxShown), Command: all.text(a.Command, maxShown),
		Input: all.text(a.Input, maxShown), Text: all.text(a.Text, maxShown),
	}
	for _, o := range a.Options {
		if o.Lasts() && !q.always {
			continue
		}
		out.Options = append(out.Options, api.QuestionOption{ID: o.ID, Kind: o.Kind, Name: all.text(o.Name, maxShown)})
	}
	if len(a.Fields) > 0 && len(a.Fields) <= acp.MaxAsked { // else it is read apart
		out.Fields = readable(gjson.ParseBytes(a.Fields))
		if all.left -= len(runs.Encode(out.Fields)); all.left < 0 {
			out.Fields, all.cut = nil, true
		}
	}
	out.Cut = a.Cut || a.Kind == "" || all.cut
	diffs := maxDiffs
	for _, f := range a.Files {
		all.cut = false
		file := api.QuestionFile{Path: all.text(f.Path, maxShown)}
		if all.cut {
			out.Cut = true
			break
		}
		if f.Change && diffs > 0 {
			file.Diff = all.text(diffOf(f), min(acp.MaxAsked, diffs))
			diffs -= len(file.Diff)
		} else if f.Change {
			all.cut = true
		}
		out.Files, out.Cut = append(out.Files, file), out.Cut || all.cut
	}
	return out
}

// diffOf returns a change in unified form, without the names of the files.
func diffOf(f acp.AskedFile) string {
	diff := udiff.Unified("a", "b", f.Old, f.New)
	return strings.TrimPrefix(diff, "--- a\n+++ b\n")
}

// visible returns a text with each character that shows nothing, or moves what is around it, as its code.
func visible(s string) string {
	hidden := func(c rune) bool {
		return c != '\n' && c != '\t' && c != ' ' && c != '\u3000' &&
			unicode.In(c, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zs, unicode.Zl, unicode.Zp)
	}
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, c := range s {
		if hidden(c) {
			fmt.Fprintf(&b, "⟨U+%04X⟩", c)
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}
