package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
)

// rowsOfQuestion is how many rows of each text of a question are printed in a list.
const rowsOfQuestion = 12

// Questions prints questions, and how to answer them. On a terminal each is a block, and with whole anywhere, with
// nothing of its texts left out. Else it is a line:
//
//	RUN/QUESTION  AGENT  TOOL or KIND  AGO  DUE  TITLE
func (r *Renderer) Questions(all []api.Question, whole bool) error {
	var b strings.Builder
	now, most := time.Now(), rowsOfQuestion
	if whole {
		most = math.MaxInt
	}
	for i, q := range all {
		if !r.terminal && !whole {
			due := cmp.Or(DueText(q, now), "no time limit")
			fmt.Fprintf(&b, "%s/%s  %s  %s  %s  %s  %s\n", Word(q.Run), Word(q.ID), Word(q.Agent),
				Word(cmp.Or(q.Tool, q.Kind)), Ago(q.Asked, now), due, Asks(q))
			continue
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		r.row(&b, bold, "── ", cmp.Or(flat(q.RunTitle), Word(q.Run)))
		facts := []string{Word(q.Run) + "/" + Word(q.ID), Word(q.Agent)}
		if q.Dir != "" {
			facts = append(facts, safeLine(q.Dir))
		}
		r.row(&b, Dim, "   ", strings.Join(append(facts, "asked "+Ago(q.Asked, now)), ", "))
		r.asked(&b, q, most, false)
		if due := DueText(q, now); due != "" {
			r.row(&b, Yellow, "   ", due)
		}
		b.WriteString("   " + r.Paint(bold, AnswerLine(q)) + "\n") // whole, to be copied
	}
	_, err := io.WriteString(r.out, b.String())
	return err
}

// QuestionRows returns all that a question asks as rows of at most so many columns, its options with numbers.
func QuestionRows(q api.Question, width int, color bool) []string {
	t := NewRows(width, color, TimelineOptions{})
	var b strings.Builder
	t.r.asked(&b, q, math.MaxInt, true)
	return rowsOf(&b)
}

// asked writes what a question asks, at most so many rows of each text.
func (r *Renderer) asked(b *strings.Builder, q api.Question, most int, numbers bool) {
	say := func(color func(line string) string, mark, text string) {
		if text == "" {
			return
		}
		left := most
		for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
			var part strings.Builder
			r.row(&part, color(line), mark, safeLine(line))
			rows := strings.SplitAfter(strings.TrimSuffix(part.String(), "\n"), "\n")
			if left -= len(rows); left < 0 {
				r.row(b, Dim, mark, "… the rest: linesman questions "+Word(q.Run)+"/"+Word(q.ID))
				return
			}
			b.WriteString(part.String())
		}
	}
	plain := func(string) string { return "" }
	strong := func(string) string { return bold }
	title := q.Title
	if q.Tool != "" {
		title = strings.TrimSuffix(q.Tool+": "+title, ": ")
	}
	say(strong, "? ", cmp.Or(title, q.Kind))
	say(plain, "│ ", q.Prompt)
	say(plain, "│ ", q.Command)
	say(plain, "│ ", q.Input)
	say(plain, "┊ ", q.Text)
	for _, f := range q.Files {
		say(strong, "▸ ", cmp.Or(f.Path, "a file"))
		say(patchColor, "│ ", f.Diff)
	}
	for _, field := range fieldsOf(q.Fields) {
		say(plain, "   ", field)
	}
	if q.Cut {
		r.row(b, Yellow, "! ", "not shown in full: linesman questions "+Word(q.Run)+"/"+Word(q.ID)+" --whole")
	}
	for i, o := range q.Options {
		number := ""
		if numbers && i < 9 {
			number = fmt.Sprintf("%d  ", i+1)
		}
		r.row(b, "", "   ", fmt.Sprintf("%s%s  %s (%s)", number, Word(o.ID), flat(o.Name), Word(o.Kind)))
	}
}

// fieldsOf describes the fields of a form, each on a line.
func fieldsOf(schema json.RawMessage) (lines []string) {
	if len(schema) == 0 {
		return nil
	}
	type choices struct {
		Enum  []any         `json:"enum"`
		OneOf []titledValue `json:"oneOf"`
		AnyOf []titledValue `json:"anyOf"` // of the items of a list
	}
	var form struct {
		Properties map[string]struct {
			Type        any     `json:"type"`
			Title       string  `json:"title"`
			Description string  `json:"description"`
			Items       choices `json:"items"` // of a list
			MinItems    int     `json:"minItems"`
			MaxItems    int     `json:"maxItems"`
			choices
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if json.Unmarshal(schema, &form) != nil || len(form.Properties) == 0 {
		return []string{string(schema)}
	}
	for _, name := range slices.Sorted(maps.Keys(form.Properties)) {
		f := form.Properties[name]
		line := flat(name) + "  " + flat(fmt.Sprint(cmp.Or[any](f.Type, "any")))
		if slices.Contains(form.Required, name) {
			line += ", required"
		}
		if about := joined(flat(f.Title), flat(f.Description)); about != "" {
			line += ": " + about
		}
		for _, one := range f.OneOf {
			f.Enum = append(f.Enum, one)
		}
		for _, one := range f.Items.AnyOf {
			f.Items.Enum = append(f.Items.Enum, one)
		}
		if len(f.Enum) > 0 {
			line += "; one of " + flat(fmt.Sprint(f.Enum))
		}
		if len(f.Items.Enum) > 0 {
			line += "; any of " + flat(fmt.Sprint(f.Items.Enum))
		}
		if f.MinItems > 0 {
			line += fmt.Sprintf(", at least %d", f.MinItems)
		}
		if f.MaxItems > 0 {
			line += fmt.Sprintf(", at most %d", f.MaxItems)
		}
		lines = append(lines, line)
	}
	return lines
}

// titledValue is a choice of a form.
type titledValue struct {
	Const any    `json:"const"`
	Title string `json:"title"`
}

func (v titledValue) String() string {
	if text := fmt.Sprint(v.Const); v.Title == "" || v.Title == text {
		return text
	}
	return fmt.Sprintf("%v (%s)", v.Const, v.Title)
}

// maxAsks is how many cells of a title are printed on one line.
const maxAsks = 120

// Asks is what a question asks, on one safe line: its title, or the kind of its tool.
func Asks(q api.Question) string {
	return cut(cmp.Or(flat(q.Title), flat(q.Prompt), flat(q.Tool), flat(q.Kind)), maxAsks)
}

// DueText says when a question is denied without an answer; "": never.
func DueText(q api.Question, now time.Time) string {
	what := map[string]string{api.KindPermission: "denied", api.KindForm: "cancelled"}[q.Kind]
	left := time.UnixMilli(int64(q.Due)).Sub(now)
	switch {
	case q.Due == 0:
		return ""
	case left <= 0:
		return cmp.Or(what, "ended") + " now"
	}
	return cmp.Or(what, "ended") + " in " + Elapsed(left) + " unless answered"
}

// Choose returns the option of a permission that a key is for: "a" is the one that allows once, "d" the one that
// rejects once, a digit the one of that number. Sure: it needs no confirmation. Why says why the key is for none;
// without an id and without that, there is nothing to say.
func Choose(q api.Question, key string) (o api.QuestionOption, sure bool, why string) {
	of := func(kind string) (some []api.QuestionOption) {
		for _, o := range q.Options {
			if o.Kind == kind {
				some = append(some, o)
			}
		}
		return some
	}
	kind := map[string]string{"a": "allow_once", "d": "reject_once"}[key]
	fit := of(kind)
	n := int(key[0] - '1')
	switch {
	case q.Cut || q.Kind != api.KindPermission:
		return o, false, "in a shell: " + AnswerLine(q)
	case kind == "" && n >= len(q.Options):
		return o, false, ""
	case kind == "":
		o = q.Options[n]
	case len(fit) == 1:
		o = fit[0]
	case len(fit) == 0 && key == "d":
		return api.QuestionOption{ID: "deny", Kind: kind}, true, ""
	default:
		return o, false, fmt.Sprintf("%d options are of the kind %s: choose one by its number", len(fit), kind)
	}
	return o, !strings.HasSuffix(o.Kind, "_always") && len(of(o.Kind)) == 1, ""
}

// AnswerLine is the command that answers a question, or shows it in full if it must be seen before. Pasted into a shell
// as it is, it allows nothing.
func AnswerLine(q api.Question) string {
	ref := Word(q.Run) + "/" + Word(q.ID)
	of := func(kind string) (n int) {
		for _, o := range q.Options {
			if o.Kind == kind {
				n++
			}
		}
		return n
	}
	switch {
	case q.Cut:
		return "linesman questions " + ref + " --whole"
	case q.Kind == api.KindText:
		return "linesman answer " + ref + " TEXT"
	case q.Kind == api.KindForm:
		return "linesman answer " + ref + " decline, or --content '{…}'"
	case of("allow_once") != 1:
		return "linesman answer " + ref + " OPTION"
	}
	return "linesman answer " + ref + " allow (or deny)"
}
