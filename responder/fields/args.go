// Package fields reads the arguments of a call, a JSON object, by a table of
// parameters: types, limits, aliases and defaults. It collects everything that
// is wrong with them. It does not know what a parameter means.
//
//	table of Param, JSON ──▶ Read ──▶ Args ──▶ values, or one error with all issues
//
// The one rule: no value of a caller is quoted in an error, except short words
// of plain ASCII.
package fields

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/api"
)

// Limits of the arguments of a call.
const (
	maxArguments = 1 << 20 // bytes of JSON
	maxDepth     = 64      // nesting of arrays and objects in an object
	maxNames     = 64      // arguments; the longest table of parameters has half as many
	maxIssues    = 20      // that an answer lists
)

// Whole is the field of an issue with the arguments as a whole.
const Whole = "arguments"

// Args are the arguments of one call, by the declared names of parameters, and
// everything that is wrong with them.
type Args struct {
	params   []Param
	given    []given
	few      [4]given // backing of given for short calls
	issues   []api.Issue
	unlisted int  // issues beyond maxIssues
	broken   bool // they are no object
	json     bool // the caller reads an envelope
	adcp     bool // that of AdCP
}

// given is one argument.
type given struct {
	param string // the declared name
	name  string // as the caller spelled it
	raw   string // as the caller wrote it
	value any    // string, int64, bool, json.RawMessage or []string; nil: a mistake
}

// Preset is an argument that comes from another place than the object, such as
// a path or a header. The object must not have another value for it.
type Preset struct{ Name, Value string }

// Read reads the arguments of a call; no bytes are an empty object. What is
// wrong is in [Args.Err].
func Read(params []Param, raw json.RawMessage, presets ...Preset) *Args {
	a := &Args{params: params}
	a.given = a.few[:0]
	for _, p := range presets {
		value, err := json.Marshal(p.Value)
		if err != nil {
			panic("fields: " + err.Error()) // a string
		}
		a.argument(p.Name, string(value))
	}
	if a.broken = !a.object(raw); a.broken {
		a.asks(asksFor(raw, "json"), asksFor(raw, "adcp"))
		return a
	}
	for _, p := range params {
		if p.Required && !a.Has(p.Name) {
			a.Wrong(p.Name, "is required")
		}
	}
	return a
}

// Broken reports whether the arguments are no object: nothing else is known then.
func (a *Args) Broken() bool { return a.broken }

// JSON reports whether the caller reads an envelope, of v3.6 or AdCP.
func (a *Args) JSON() bool { return a.json }

// ADCP reports whether the caller reads the envelope of AdCP.
func (a *Args) ADCP() bool { return a.adcp }

// object reads the arguments, and reports whether they are an object.
func (a *Args) object(raw json.RawMessage) bool {
	switch {
	case len(raw) > maxArguments:
		a.Wrong(Whole, "at most %d bytes, got %d", maxArguments, len(raw))
		return false
	case len(bytes.TrimSpace(raw)) == 0:
		return true
	case !utf8.Valid(raw):
		a.Wrong(Whole, "must be UTF-8")
		return false
	case !valid(raw):
		a.Wrong(Whole, "must be JSON, not nested too deep")
		return false
	}
	if bytes.TrimSpace(raw)[0] != '{' {
		a.Wrong(Whole, "must be a JSON object")
		return false
	}
	n := len(a.given) // presets are arguments, too
	gjson.ParseBytes(raw).ForEach(func(key, value gjson.Result) bool {
		if n++; n <= maxNames {
			a.argument(key.String(), value.Raw)
		}
		return n <= maxNames
	})
	if n > maxNames {
		a.Wrong(Whole, "at most %d names", maxNames)
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

func (a *Args) argument(name, raw string) {
	p := a.param(name)
	if p == nil {
		i := api.Issue{Field: Whole, Problem: "there is no parameter of one of the names"}
		if plainWord(name) {
			i = api.Issue{Field: name, Problem: "is no parameter of this tool", Meant: nearest(a.params, name)}
			if i.Meant != "" {
				i.Problem += ": did you mean " + i.Meant + "?"
			}
		}
		a.add(i)
		return
	}
	if p.Name == "format" {
		a.asks(says(raw, "json"), says(raw, "adcp"))
	}
	if before := a.found(p.Name); before != nil {
		switch {
		case before.name == name:
			a.Wrong(name, "is given twice")
		case !same(before.raw, raw):
			a.Wrong(name, "is given as %s too, with another value", before.name)
		}
		return
	}
	value, problem := p.read(raw)
	if problem != "" {
		a.Wrong(name, "%s", problem)
		value = nil
	}
	a.given = append(a.given, given{p.Name, name, raw, value})
}

func (a *Args) param(name string) *Param {
	for i := range a.params {
		if name == a.params[i].Name {
			return &a.params[i]
		}
	}
	for i := range a.params {
		if p := &a.params[i]; name != "" && name == alias(p.Name) {
			return p
		}
	}
	return nil
}

func same(a, b string) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, []byte(a)) == nil && json.Compact(&y, []byte(b)) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// Wrong adds an issue.
func (a *Args) Wrong(field, format string, args ...any) {
	a.add(api.Issue{Field: field, Problem: fmt.Sprintf(format, args...)})
}

func (a *Args) add(i api.Issue) {
	if len(a.issues) >= maxIssues {
		a.unlisted++
		return
	}
	a.issues = append(a.issues, i)
}

// Refuse adds an issue with a parameter, unless it has one already.
func (a *Args) Refuse(param, format string, args ...any) {
	field := a.Spelled(param)
	for _, i := range a.issues {
		if i.Field == field {
			return
		}
	}
	a.Wrong(field, format, args...)
}

// Spelled is the name that the caller uses for a parameter.
func (a *Args) Spelled(param string) string {
	if g := a.found(param); g != nil {
		return g.name
	}
	return param
}

// Err is everything that is wrong so far, as one error [api.Validation] with the
// names that the caller used, or nil.
func (a *Args) Err() error {
	if len(a.issues) == 0 {
		return nil
	}
	e := api.Invalid(a.issues[0].Field, a.issues[0].Problem)
	e.Issues, e.Unlisted = a.issues, a.unlisted
	return e
}

// Adopt adds the issues of an error [api.Validation], whose fields have the
// names of package api, under the parameters that they come from. Any other
// error is returned with the names that the caller knows.
func (a *Args) Adopt(err error, params map[string]string) error {
	if err == nil {
		return nil
	}
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.Validation || len(e.Issues) == 0 {
		return a.Name(err, params)
	}
	for _, i := range e.Rename(params).Issues {
		a.Refuse(i.Field, "%s", i.Problem)
	}
	return nil
}

// Name returns an error with the names of parameters: those that the caller
// uses where a parameter is wrong, else the declared ones.
func (a *Args) Name(err error, params map[string]string) error {
	var e *api.Error
	if !errors.As(err, &e) {
		return err
	}
	e = e.Rename(params)
	if e.Code != api.Validation && e.Code != api.Ended {
		return e
	}
	e.Field = a.Spelled(e.Field)
	for i := range e.Issues {
		e.Issues[i].Field = a.Spelled(e.Issues[i].Field)
	}
	return e
}

// All are the arguments as they were written, by the declared names.
func (a *Args) All() iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		for _, g := range a.given {
			if !yield(g.param, json.RawMessage(g.raw)) {
				return
			}
		}
	}
}

// Declares reports whether there is a parameter of this declared name.
func (a *Args) Declares(name string) bool {
	return slices.ContainsFunc(a.params, func(p Param) bool { return p.Name == name })
}

// The values of parameters: what was given, else the default.

// Text returns the value of a text or a choice.
func (a *Args) Text(name string) string {
	s, _ := a.value(name).(string)
	return s
}

// Number returns the value of an integer.
func (a *Args) Number(name string) int64 {
	n, _ := a.value(name).(int64)
	return n
}

// Flag returns the value of a boolean.
func (a *Args) Flag(name string) bool {
	b, _ := a.value(name).(bool)
	return b
}

// Raw returns the value of an object, as it was written.
func (a *Args) Raw(name string) json.RawMessage {
	r, _ := a.value(name).(json.RawMessage)
	return r
}

// List returns the value of names.
func (a *Args) List(name string) []string {
	l, _ := a.value(name).([]string)
	return l
}

// Has reports whether an argument was given for a parameter.
func (a *Args) Has(name string) bool { return a.found(name) != nil }

// found is what was given for a parameter, or nil.
func (a *Args) found(param string) *given {
	for i := range a.given {
		if a.given[i].param == param {
			return &a.given[i]
		}
	}
	return nil
}

// value is what was given, else the default.
func (a *Args) value(name string) any {
	if g := a.found(name); g != nil && g.value != nil {
		return g.value
	}
	for i := range a.params {
		if a.params[i].Name == name {
			return a.params[i].Default
		}
	}
	return nil // there is no such parameter
}

// asks notes the format that a caller wants. Who wants AdCP of a tool that does
// not speak it can read JSON, so that is what tells it so.
func (a *Args) asks(json, adcp bool) {
	a.json = a.json || json || adcp
	if p := a.param("format"); adcp && p != nil && slices.Contains(p.Words, "adcp") {
		a.adcp = true
	}
}

// asked finds a format in what is no object, or not JSON.
var asked = regexp.MustCompile(`"format"\s*:\s*"(json|adcp)"`)

// asksFor reports whether a caller whose arguments are broken speaks of a
// format all the same: then it gets it.
func asksFor(raw json.RawMessage, format string) bool {
	raw = raw[:min(len(raw), maxArguments)]
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
