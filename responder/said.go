package responder

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

// What is asked as text, and answered by one: for surfaces that have nothing else.

// QuestionText is a question in full. What the agent says is on one line, or indented, so that it cannot pass for
// another part of the text.
func QuestionText(q *api.Question) string {
	var b strings.Builder
	put := func(label, text string) {
		if text != "" {
			b.WriteString(Labelled(label, text) + "\n")
		}
	}
	if q.Kind == api.KindPermission {
		fmt.Fprintf(&b, "The agent %s asks for permission, in run %s.\n", q.Agent, q.Run)
	} else {
		fmt.Fprintf(&b, "The agent %s asks, in run %s.\n", q.Agent, q.Run)
	}
	put("Run", q.RunTitle)
	put("Title", q.Title)
	put("Tool", OneLine(q.Tool))
	put("Directory", q.Dir)
	put("Command", q.Command)
	put("Input", q.Input)
	put("Text", q.Text)
	for _, f := range q.Files {
		put("File", f.Path)
		put("Change", f.Diff)
	}
	for _, o := range q.Options {
		put("Option", optionText(o))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Labelled is a text of an agent behind a label. Several lines are below it, indented, so that none can pass for a label.
func Labelled(label, text string) string {
	if strings.Contains(text, "\n") {
		return label + ":\n    " + strings.ReplaceAll(text, "\n", "\n    ")
	}
	return label + ": " + text
}

// QueryText is a question in full, and how [AnswerOf] understands its answer. If it has more than most bytes, it is
// shortened, and the question is cut.
func QueryText(q *api.Question, most int) string {
	asked := *q
	asked.Options = nil // they are numbered
	text, answers := QuestionText(&asked), answersText(q)
	if len(text)+len(answers) > most {
		q.Cut = true
		answers = answersText(q)
		text = text[:bounds.Cut(text, most-len(answers))]
	}
	return text + "\n" + answers
}

func answersText(q *api.Question) string {
	switch f := fieldsOf(q); {
	case hidden(q) && q.Kind == api.KindPermission:
		return "This is not all of it: it can be allowed elsewhere only. Answer no to deny it."
	case hidden(q):
		return "This is not all of it: it can be filled in elsewhere only. Answer decline or cancel."
	case q.Kind == api.KindPermission && numeric(q):
		return "Answer yes or no, or with the id of an option:" + numbered(f.choices(q), "%[2]s: %[3]s")
	case q.Kind == api.KindPermission:
		return "Answer yes or no, or with an option, its id or its number:" + numbered(f.choices(q), "%[1]d. %[3]s, id %[2]s")
	case f.choice != "" && f.simple:
		return "Answer with a choice or its number, decline or cancel:" + numbered(f.choices(q), "%[1]d. %[3]s")
	case f.simple:
		return "Answer with the " + OneLine(f.kind) + " " + OneLine(f.text) + ", decline or cancel."
	}
	return "Answer with a JSON object of this schema, decline or cancel: " + visible(string(q.Fields))
}

// hidden reports whether a question is not shown in full: no text allows it.
func hidden(q *api.Question) bool { return q.Cut || q.Digest == "" }

func numbered(choices []choice, form string) string {
	var b strings.Builder
	for i, c := range choices {
		fmt.Fprintf(&b, "\n    "+form, i+1, c.value, c.name)
	}
	return b.String()
}

// OneLine is a text of an agent as part of a line, which it cannot end: at most 500 bytes.
func OneLine(s string) string {
	const most = 500
	s = strings.Join(strings.Fields(visible(s)), " ")
	if len(s) > most {
		s = s[:bounds.Cut(s, most)] + "…"
	}
	return s
}

func optionText(o api.QuestionOption) string {
	return OneLine(cmp.Or(o.Name, o.ID)) + " (" + OneLine(o.Kind) + ")"
}

// choice is something that can be answered: the id of an option, or a value of a field, and what people read.
type choice struct{ value, name string }

// numeric reports whether an id or a name of an option could be meant by a number.
func numeric(q *api.Question) bool {
	is := func(text string) bool {
		_, err := strconv.Atoi(strings.TrimSpace(text))
		return err == nil
	}
	return slices.ContainsFunc(q.Options, func(o api.QuestionOption) bool { return is(o.ID) || is(o.Name) })
}

// AnswerOf returns the answer to a question of a live run that is meant by a text; false: none is. Of a permission it
// is the id or the name of an option, its number, or a word that allows or denies: a word decides by the kind of an
// option, whatever the agent calls it. Of a form it is decline, cancel, a JSON object, a choice or its number if one
// field has choices, else the text of the only other field.
func AnswerOf(q *api.Question, text string) (a api.AnswerRequest, fits bool) {
	a = api.AnswerRequest{Request: q.Run, Question: q.ID, Digest: q.Digest} // the answer is for nothing else
	text = strings.TrimSpace(text)
	if q.Kind == api.KindForm {
		switch strings.ToLower(text) {
		case runs.Decline, "cancel":
			a.Option = strings.ToLower(text)
			return a, true
		}
		a.Content = fieldsOf(q).content(text)
		return a, a.Content != nil && !hidden(q)
	}
	a.Option = optionOf(q, text)
	rejects := a.Option == "deny" || slices.ContainsFunc(q.Options, func(o api.QuestionOption) bool {
		return o.ID == a.Option && strings.HasPrefix(o.Kind, "reject_")
	})
	misnamed := slices.ContainsFunc(q.Options, func(o api.QuestionOption) bool {
		return o.ID == a.Option && isMisnamed(o.ID, o.Kind)
	})
	return a, a.Option != "" && !misnamed && (rejects || !hidden(q))
}

// words are those that allow or deny.
var words = map[string]string{"yes": "allow", "y": "allow", "ok": "allow", "allow": "allow",
	"no": "deny", "n": "deny", "deny": "deny", "reject": "deny"}

// optionOf returns the id of an option, or deny if no option rejects; "": the text means none.
func optionOf(q *api.Question, text string) string {
	prefix := map[string]string{"allow": "allow_", "deny": "reject_"}[words[strings.ToLower(text)]]
	var once, named []api.QuestionOption
	for _, o := range q.Options {
		agrees := prefix == "" || strings.HasPrefix(o.Kind, prefix)
		switch {
		case o.ID == text && agrees:
			return o.ID
		case prefix != "" && (strings.EqualFold(o.ID, text) || strings.EqualFold(o.Name, text)) && !agrees:
			return ""
		case strings.EqualFold(o.Name, text):
			named = append(named, o)
		}
		if prefix != "" && o.Kind == prefix+"once" {
			once = append(once, o)
		}
	}
	number, err := strconv.Atoi(text)
	switch {
	case len(named) == 1:
		return named[0].ID
	case len(once) == 1:
		return once[0].ID
	case prefix == "reject_" && len(once) == 0 && !slices.ContainsFunc(q.Options, isDeny):
		return "deny"
	case err == nil && number > 0 && number <= len(q.Options) && !numeric(q):
		return q.Options[number-1].ID
	}
	return ""
}

func isDeny(o api.QuestionOption) bool { return o.ID == "deny" }

// fields is what a text can mean in a form.
type fields struct {
	choice string // the only field with choices; "": there is none, or there are several
	list   bool   // it takes several of them
	all    []choice
	text   string // the only other field, with its type
	kind   string
	simple bool // a text is enough
}

// fieldsOf reads the form of a question.
func fieldsOf(q *api.Question) (f fields) {
	type values struct {
		Type  string
		Enum  []string
		OneOf []struct{ Const, Title string }
		AnyOf []struct{ Const, Title string }
		Items *values
	}
	var form struct{ Properties map[string]values }
	if q.Kind != api.KindForm || json.Unmarshal(q.Fields, &form) != nil {
		return f
	}
	choices, texts := 0, 0
	for name, v := range form.Properties {
		of := v
		if v.Items != nil {
			of = *v.Items
		}
		var all []choice
		for _, one := range of.Enum {
			all = append(all, choice{value: one})
		}
		for _, one := range append(of.OneOf, of.AnyOf...) {
			all = append(all, choice{one.Const, one.Title})
		}
		switch {
		case len(all) > 0:
			choices, f.choice, f.list, f.all = choices+1, name, v.Items != nil, all
		default:
			texts, f.text, f.kind = texts+1, name, v.Type
		}
	}
	if choices > 1 {
		f.choice, f.all = "", nil
	}
	if texts > 1 {
		f.text = ""
	}
	f.simple = choices == 1 && texts <= 1 || choices == 0 && texts == 1
	return f
}

// choices are those of the field, or the options of a permission, to be read.
func (f fields) choices(q *api.Question) (all []choice) {
	for _, c := range f.all {
		all = append(all, choice{OneLine(c.value), OneLine(cmp.Or(c.name, c.value))})
	}
	for _, o := range q.Options {
		all = append(all, choice{OneLine(o.ID), optionText(o)})
	}
	return all
}

// content returns the content of a form that a text means; nil: it means none.
func (f fields) content(text string) json.RawMessage {
	if strings.HasPrefix(text, "{") {
		var object map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &object) != nil {
			return nil
		}
		return json.RawMessage(text)
	}
	if !f.simple || text == "" {
		return nil
	}
	if f.choice != "" {
		parts := []string{text}
		if f.list {
			parts = strings.Split(text, ",")
		}
		var chosen []string
		for _, part := range parts {
			if value, is := chosenOf(f.all, strings.TrimSpace(part)); is {
				chosen = append(chosen, value)
			}
		}
		switch {
		case len(chosen) < len(parts):
		case f.list:
			return runs.Encode(map[string][]string{f.choice: chosen})
		default:
			return runs.Encode(map[string]string{f.choice: chosen[0]})
		}
	}
	switch word := words[strings.ToLower(text)]; {
	case f.text == "":
		return nil
	case f.kind == "string":
		return runs.Encode(map[string]string{f.text: text})
	case f.kind == "boolean" && word != "":
		return runs.Encode(map[string]bool{f.text: word == "allow"})
	case f.kind != "boolean" && json.Valid([]byte(text)) && !bytes.ContainsAny([]byte(text), "{["):
		return runs.Encode(map[string]json.RawMessage{f.text: json.RawMessage(text)})
	}
	return nil
}

// chosenOf returns the value of a choice by itself, its name or its number.
func chosenOf(all []choice, text string) (string, bool) {
	for _, c := range all {
		if c.value == text {
			return c.value, true
		}
	}
	for _, c := range all {
		if strings.EqualFold(c.name, text) || strings.EqualFold(c.value, text) {
			return c.value, true
		}
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 || number > len(all) {
		return "", false
	}
	return all[number-1].value, true
}
