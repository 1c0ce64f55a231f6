package delegator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

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
	values map[string]any    // string, int64, bool, json.RawMessage or []string
	given  map[string]string // how the caller spelled a parameter
	issues []issue
	more   int  // issues that are not listed
	broken bool // they are no object
}

// issue is one mistake in the arguments.
type issue struct {
	Field   string `json:"field"` // the name that the caller used
	Problem string `json:"problem"`
	Meant   string `json:"did_you_mean,omitempty"`
}

func readArguments(params []param, raw json.RawMessage) *arguments {
	a := &arguments{params: params, values: map[string]any{}, given: map[string]string{}}
	if a.broken = !a.object(raw); a.broken {
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
	case !json.Valid(raw):
		a.wrong(whole, "must be JSON, not nested too deep")
		return false
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		a.wrong(whole, "must be a JSON object")
		return false
	}
	first := map[string]json.RawMessage{}
	for n := 0; d.More(); n++ {
		key, err := d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		name, ok := key.(string)
		if err != nil || !ok { // it was valid a moment ago
			a.wrong(whole, "must be a JSON object")
			return false
		}
		if n >= maxNames {
			a.wrong(whole, "at most %d names", maxNames)
			return false
		}
		a.argument(name, value, first)
	}
	return true
}

func (a *arguments) argument(name string, value json.RawMessage, first map[string]json.RawMessage) {
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
	if before, twice := first[p.name]; twice {
		switch spelled := a.given[p.name]; {
		case spelled == name:
			a.wrong(name, "is given twice")
		case !same(before, value):
			a.wrong(name, "is given as %s too, with another value", spelled)
		}
		return
	}
	first[p.name], a.given[p.name] = value, name
	v, problem := p.read(value)
	if problem != "" {
		a.wrong(name, "%s", problem)
		return
	}
	a.values[p.name] = v
}

func (a *arguments) param(name string) *param {
	for i := range a.params {
		if p := &a.params[i]; name == p.name || name != "" && name == alias(p.name) {
			return p
		}
	}
	return nil
}

func same(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// read is the value of a parameter, or what is wrong with it.
func (p *param) read(raw json.RawMessage) (v any, problem string) {
	raw = bytes.TrimSpace(raw)
	switch p.kind {
	case text, choice:
		var s string
		if raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
			return nil, "must be a string"
		}
		if p.kind == choice {
			return p.word(s)
		}
		return s, p.text(s)
	case integer:
		if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
			return nil, "must be a number"
		}
		f, err := strconv.ParseFloat(string(raw), 64)
		switch {
		case err != nil && !errors.Is(err, strconv.ErrRange):
			return nil, "must be a number"
		case f < float64(p.least) || f > float64(p.most):
			return nil, fmt.Sprintf("must be %d to %d", p.least, p.most)
		case f != math.Trunc(f):
			return nil, "must be a whole number"
		}
		return int64(f), ""
	case boolean:
		if s := string(raw); s == "true" || s == "false" {
			return s == "true", ""
		}
		return nil, "must be true or false"
	case object:
		if raw[0] != '{' {
			return nil, "must be an object"
		}
		if depth(raw) > MaxDepth {
			return nil, fmt.Sprintf("must not be nested deeper than %d", MaxDepth)
		}
		return json.RawMessage(raw), ""
	}
	var list []string
	if raw[0] != '[' {
		return nil, "must be an array of strings"
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	_, _ = d.Token()
	for d.More() {
		t, err := d.Token()
		s, ok := t.(string)
		if err != nil || !ok {
			return nil, "must be an array of strings"
		}
		if int64(len(list)) == p.most {
			return nil, fmt.Sprintf("at most %d names", p.most)
		}
		list = append(list, s)
	}
	return list, ""
}

func (p *param) word(s string) (any, string) {
	for _, word := range p.words {
		if s == word {
			return s, ""
		}
	}
	problem := oneOf(p.words)
	if plainWord(s) {
		problem += ", not " + s
	}
	return nil, problem
}

func (p *param) text(s string) string {
	control := func(c rune) bool {
		return unicode.IsControl(c) && !(p.lines && (c == '\n' || c == '\r' || c == '\t'))
	}
	switch n := int64(utf8.RuneCountInString(s)); {
	case p.chars > 0 && n > p.chars:
		return fmt.Sprintf("at most %d characters, got %d", p.chars, n)
	case p.most > 0 && int64(len(s)) > p.most:
		return fmt.Sprintf("at most %d bytes, got %d", p.most, len(s))
	case strings.TrimSpace(s) == "":
		return "must not be blank"
	case strings.ContainsRune(s, 0):
		return "must be text without NUL"
	case p.chars == 0 && strings.ContainsFunc(s, control):
		return "must be text without control characters"
	}
	return ""
}

// depth is how deep valid JSON is nested.
func depth(raw []byte) int {
	now, deepest, quoted := 0, 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
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
	if name := a.given[param]; name != "" {
		return name
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

func (a *arguments) has(name string) bool { return a.given[name] != "" }

// value is what was given, else the default.
func (a *arguments) value(name string) any {
	if v, ok := a.values[name]; ok {
		return v
	}
	for i := range a.params {
		if a.params[i].name == name {
			return a.params[i].def
		}
	}
	panic("delegator: no parameter " + name)
}

// asked finds a format in what is no object, or not JSON.
var asked = regexp.MustCompile(`"format"\s*:\s*"json"`)

// wantsJSON reports whether the answer is to be the envelope. Where the format
// is no format, or the arguments are broken, a caller that speaks of JSON gets JSON.
func wantsJSON(raw json.RawMessage) bool {
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
		if key == "format" && bytes.Contains(bytes.ToLower(value[:min(len(value), 256)]), []byte("json")) {
			return true
		}
	}
	return asked.Match(raw)
}
