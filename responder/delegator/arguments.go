package delegator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/runs"
)

// Limits of the arguments of a call.
const (
	MaxArguments = 1 << 20 // bytes of JSON
	MaxDepth     = 64      // arrays and objects inside each other in an object
	maxNames     = 64      // arguments; the longest list of parameters is half as long
	maxIssues    = 20      // that an answer lists
)

// arguments are those of one call, by the declared name of the parameter, and
// all that is wrong with them.
type arguments struct {
	params []param
	given  []given
	few    [4]given // what given begins with
	issues []issue
	more   int  // issues that are not listed
	broken bool // they are no object
	json   bool // an envelope is what the caller reads
	adcp   bool // it is that of AdCP
}

// given is one argument.
type given struct {
	param string // the declared name
	name  string // as the caller spelled it
	raw   string // as the caller wrote it
	value any    // string, int64, bool, json.RawMessage or []string; nil: a mistake
}

// issue is one mistake in the arguments.
type issue struct {
	Field   string `json:"field"` // the name that the caller used
	Problem string `json:"problem"`
	Meant   string `json:"did_you_mean,omitempty"`
}

func readArguments(params []param, raw json.RawMessage) *arguments {
	a := &arguments{params: params}
	a.given = a.few[:0]
	if a.broken = !a.object(raw); a.broken {
		a.asks(asksFor(raw, "json"), asksFor(raw, "adcp"))
		return a
	}
	for _, p := range params {
		if p.required && !a.has(p.name) {
			a.wrong(p.name, "is required")
		}
	}
	return a
}

// object reads the arguments, and reports whether they are an object.
func (a *arguments) object(raw json.RawMessage) bool {
	const whole = "arguments"
	switch {
	case len(raw) > MaxArguments:
		a.wrong(whole, "at most %d bytes, got %d", MaxArguments, len(raw))
		return false
	case len(bytes.TrimSpace(raw)) == 0:
		return true
	case !utf8.Valid(raw):
		a.wrong(whole, "must be UTF-8")
		return false
	case !valid(raw):
		a.wrong(whole, "must be JSON, not nested too deep")
		return false
	}
	if bytes.TrimSpace(raw)[0] != '{' {
		a.wrong(whole, "must be a JSON object")
		return false
	}
	n := 0
	gjson.ParseBytes(raw).ForEach(func(key, value gjson.Result) bool {
		if n++; n <= maxNames {
			a.argument(key.String(), value.Raw)
		}
		return n <= maxNames
	})
	if n > maxNames {
		a.wrong(whole, "at most %d names", maxNames)
		return false
	}
	return true
}

// valid reports whether raw is JSON. What is short is checked the quick way,
// which takes stack for each level.
func valid(raw []byte) bool {
	if len(raw) <= 4<<10 {
		return gjson.ValidBytes(raw)
	}
	return json.Valid(raw)
}

func (a *arguments) argument(name, raw string) {
	p := a.param(name)
	if p == nil {
		i := issue{Field: "arguments", Problem: "there is no parameter of one of the names"}
		if plainWord(name) {
			i = issue{Field: name, Problem: "is no parameter of this tool", Meant: nearest(a.params, name)}
			if i.Meant != "" {
				i.Problem += ": did you mean " + i.Meant + "?"
			}
		}
		a.add(i)
		return
	}
	if p.name == "format" {
		a.asks(says(raw, "json"), says(raw, "adcp"))
	}
	if before := a.found(p.name); before != nil {
		switch {
		case before.name == name:
			a.wrong(name, "is given twice")
		case !same(before.raw, raw):
			a.wrong(name, "is given as %s too, with another value", before.name)
		}
		return
	}
	value, problem := p.read(raw)
	if problem != "" {
		a.wrong(name, "%s", problem)
		value = nil
	}
	a.given = append(a.given, given{p.name, name, raw, value})
}

func (a *arguments) param(name string) *param {
	for i := range a.params {
		if name == a.params[i].name {
			return &a.params[i]
		}
	}
	for i := range a.params {
		if p := &a.params[i]; name != "" && name == alias(p.name) {
			return p
		}
	}
	return nil
}

func same(a, b string) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, []byte(a)) == nil && json.Compact(&y, []byte(b)) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

func (a *arguments) wrong(field, format string, args ...any) {
	a.add(issue{Field: field, Problem: fmt.Sprintf(format, args...)})
}

func (a *arguments) add(i issue) {
	if len(a.issues) >= maxIssues {
		a.more++
		return
	}
	a.issues = append(a.issues, i)
}

// refuse says what is wrong with a parameter, unless that was said of it already.
func (a *arguments) refuse(param, format string, args ...any) {
	field := a.spelled(param)
	for _, i := range a.issues {
		if i.Field == field {
			return
		}
	}
	a.wrong(field, format, args...)
}

// spelled is how the caller calls a parameter.
func (a *arguments) spelled(param string) string {
	if g := a.found(param); g != nil {
		return g.name
	}
	return param
}

// err is all that is wrong so far, as an error VALIDATION, or nil.
func (a *arguments) err() error {
	if len(a.issues) == 0 {
		return nil
	}
	first, message := a.issues[0], ""
	message = first.Field + ": " + first.Problem
	if n := len(a.issues) - 1 + a.more; n == 1 {
		message += " (and one more mistake)"
	} else if n > 1 {
		message += fmt.Sprintf(" (and %d more mistakes)", n)
	}
	return &failure{wireError: wireError{
		Code: codeValidation, Message: message,
		Details: details{Field: first.Field, Meant: first.Meant, Issues: a.issues, Unlisted: a.more},
	}}
}

// fields takes in what is wrong with a task or a request, by the names that
// the caller knows. What is no [runs.FieldError] comes back.
func (a *arguments) fields(err error, names map[string]string) error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		var rest []error
		for _, e := range joined.Unwrap() {
			rest = append(rest, a.fields(e, names))
		}
		return errors.Join(rest...)
	}
	var field *runs.FieldError
	if !errors.As(err, &field) {
		return err
	}
	name, known := names[field.Field]
	if !known {
		return err
	}
	a.refuse(name, "%s", field.Problem)
	return nil
}

func (a *arguments) text(name string) string {
	s, _ := a.value(name).(string)
	return s
}

func (a *arguments) number(name string) int64 {
	n, _ := a.value(name).(int64)
	return n
}

func (a *arguments) flag(name string) bool {
	b, _ := a.value(name).(bool)
	return b
}

func (a *arguments) raw(name string) json.RawMessage {
	r, _ := a.value(name).(json.RawMessage)
	return r
}

func (a *arguments) list(name string) []string {
	l, _ := a.value(name).([]string)
	return l
}

func (a *arguments) has(name string) bool { return a.found(name) != nil }

// found is what was given for a parameter, or nil.
func (a *arguments) found(param string) *given {
	for i := range a.given {
		if a.given[i].param == param {
			return &a.given[i]
		}
	}
	return nil
}

// value is what was given, else the default.
func (a *arguments) value(name string) any {
	if g := a.found(name); g != nil && g.value != nil {
		return g.value
	}
	for i := range a.params {
		if a.params[i].name == name {
			return a.params[i].def
		}
	}
	panic("delegator: no parameter " + name)
}

// asks notes the format that a caller wants. Who wants AdCP of a tool that does
// not speak it can read JSON, so that is what tells it so.
func (a *arguments) asks(json, adcp bool) {
	a.json = a.json || json || adcp
	if p := a.param("format"); adcp && p != nil && slices.Contains(p.words, "adcp") {
		a.adcp = true
	}
}

// asked finds a format in what is no object, or not JSON.
var asked = regexp.MustCompile(`"format"\s*:\s*"(json|adcp)"`)

// asksFor reports whether a caller whose arguments are broken speaks of a
// format all the same: then it gets it.
func asksFor(raw json.RawMessage, format string) bool {
	raw = raw[:min(len(raw), MaxArguments)]
	d := json.NewDecoder(bytes.NewReader(raw))
	t, err := d.Token()
	for whole := err == nil && t == json.Delim('{'); whole; {
		if !d.More() {
			if _, err := d.Token(); err == nil {
				return false
			}
			break
		}
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			break
		}
		if key == "format" && says(string(value), format) {
			return true
		}
	}
	m := asked.FindSubmatch(raw)
	return m != nil && string(m[1]) == format
}

func says(value, format string) bool {
	if value == `"`+format+`"` { // as most have it
		return true
	}
	return strings.Contains(strings.ToLower(value[:min(len(value), 256)]), format)
}
