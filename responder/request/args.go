package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/internal/lazy"
	"github.com/linesman/linesman/responder"
)

// Limits of the arguments of a call.
const (
	maxArguments = 1 << 20 // bytes of JSON
	maxTask      = 8 << 20 // the same with a prompt of any length, which may take six times its size
	maxDepth     = 64      // nesting of arrays and objects in an object
	maxNames     = 64      // arguments; the longest table of parameters has half as many
	maxIssues    = 20      // that an answer lists
)

// Whole is the field of an issue with the arguments as a whole.
const Whole = "arguments"

// Args are the arguments of one call, by the declared names of parameters, and
// all mistakes in them.
type Args struct {
	params   []Param
	given    []given
	issues   []api.Issue
	unlisted int        // issues beyond maxIssues
	refused  *api.Error // comes before all issues
	broken   bool       // they are not an object
	json     bool       // the caller reads an envelope
	adcp     bool       // the envelope of AdCP
	release  string
	unserved string // the version field that names a release which is not served; "": none

	more   responder.Subscription // what is registered by it; nil: nothing
	beside map[string]string      // what is part of the request beside the arguments; nil: nothing
	done   *api.Submitted         // the outcome of the same request before; nil: not known
	run    string                 // what names the thread to resume, for the hash; "": the thread
}

// given is one argument.
type given struct {
	param string // the declared name
	name  string // as the caller spelled it
	raw   string // as the caller wrote it
	value any    // string, int64, bool, json.RawMessage or []string; nil: a mistake

	preset bool
}

// Preset is an argument from elsewhere than the object, such as a path or a
// header. The object must not have a different value for it.
type Preset struct{ Name, Value string }

// Read reads the arguments of a call; no bytes are an empty object. [Args.Err]
// has the mistakes.
func Read(params []Param, raw json.RawMessage, presets ...Preset) *Args {
	a := &Args{params: params}
	for _, p := range presets {
		a.argument(p.Name, string(encode(p.Value)))
	}
	for i := range a.given {
		a.given[i].preset = true
	}
	if a.broken = !a.object(raw); a.broken {
		a.asks(asksFor(raw, "json"), asksFor(raw, "adcp"))
		a.envelope()
		return a
	}
	a.envelope()
	for _, p := range params {
		if p.Required && !a.Has(p.Name) {
			a.Wrong(p.Name, "is required")
		}
	}
	return a
}

// Beside sets what is part of the request beside its arguments: another one with the same key is a conflict.
// More is what is registered by it.
func (a *Args) Beside(config map[string]string, more responder.Subscription) {
	a.beside, a.more = config, more
}

// Of sets the run whose thread is resumed. It is part of the request, and the thread is not: a run that is removed
// tells none.
func (a *Args) Of(run string) { a.run = run }

// Broken reports whether the arguments are not an object. Then they have no values.
func (a *Args) Broken() bool { return a.broken }

// JSON reports whether the caller reads an envelope, of v3.6 or AdCP.
func (a *Args) JSON() bool { return a.json }

// ADCP reports whether the caller reads the envelope of AdCP.
func (a *Args) ADCP() bool { return a.adcp }

// object reads the arguments, and reports whether they are an object.
func (a *Args) object(raw json.RawMessage) bool {
	limit := maxArguments
	isLong := func(p Param) bool { return p.Name == longTaskParam.Name && p.Max == longTaskParam.Max }
	if slices.ContainsFunc(a.params, isLong) || a.declares(otherParams.Name) {
		limit = maxTask
	}
	switch {
	case len(raw) > limit:
		a.Wrong(Whole, "at most %d bytes, got %d", limit, len(raw))
		return false
	case len(bytes.TrimSpace(raw)) == 0:
		return true
	case !utf8.Valid(raw):
		a.Wrong(Whole, "must be UTF-8")
		return false
	case !json.Valid(raw):
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

func (a *Args) argument(name, raw string) {
	p := a.param(name)
	if p == nil && a.declares(otherParams.Name) {
		return
	}
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
		case before.repeated(raw):
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
	a.given = append(a.given, given{param: p.Name, name: name, raw: raw, value: value})
}

// repeated reports whether g is a preset, and raw the same text.
func (g *given) repeated(raw string) bool {
	is, _ := readString(g.raw)
	s, ok := readString(raw)
	return g.preset && ok && s == is
}

func (a *Args) param(name string) *Param {
	if name == otherParams.Name {
		return nil
	}
	i := slices.IndexFunc(a.params, func(p Param) bool { return name == p.Name })
	if i < 0 && name != "" {
		i = slices.IndexFunc(a.params, func(p Param) bool { return name == alias(p.Name) })
	}
	if i < 0 {
		return nil
	}
	return &a.params[i]
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

// Refuse adds an issue of a parameter, unless the parameter has one.
func (a *Args) Refuse(param, format string, args ...any) {
	field := a.Spelled(param)
	if !slices.ContainsFunc(a.issues, func(i api.Issue) bool { return i.Field == field }) {
		a.Wrong(field, format, args...)
	}
}

// Spelled returns the name that the caller used for a parameter.
func (a *Args) Spelled(param string) string {
	if g := a.found(param); g != nil {
		return g.name
	}
	return param
}

// Err returns all mistakes so far as one [api.Validation] error, with the names
// that the caller used, or nil. A release of AdCP that is not served, and an option that
// the agent does not have, come before all mistakes: the error is [api.Unsupported].
func (a *Args) Err() error {
	if err := a.CheckRelease(); err != nil {
		return err
	}
	if a.refused != nil {
		return a.Name(a.refused)
	}
	if len(a.issues) == 0 {
		return nil
	}
	e := api.Invalid(a.issues[0].Field, a.issues[0].Problem)
	e.Issues, e.Unlisted = a.issues, a.unlisted
	return e
}

// adopt adds the issues of an error [api.Validation] of the service under the
// parameters that they come from. Any other error adds the issue otherwise.
func (a *Args) adopt(err error, otherwise string) {
	var e *api.Error
	switch {
	case err == nil:
	case errors.As(err, &e) && e.Code == api.Unsupported:
		a.refused = e
	case errors.As(err, &e) && e.Code == api.Validation && len(e.Issues) > 0:
		for _, i := range a.rename(e).Issues {
			a.Refuse(i.Field, "%s", i.Problem)
		}
	default:
		a.Wrong(Whole, "%s", otherwise)
	}
}

// Name returns an error of the service with the names of parameters: as the
// caller spelled them where a parameter is wrong, else as they are declared.
func (a *Args) Name(err error) error {
	var e *api.Error
	if !errors.As(err, &e) {
		return err
	}
	e = a.rename(e)
	if e.Field == "task_id" && a.declares("taskId") {
		e.Field = "taskId"
	}
	if e.Code != api.Validation && e.Code != api.Ended {
		return e
	}
	e.Field = a.Spelled(e.Field)
	for i := range e.Issues {
		e.Issues[i].Field = a.Spelled(e.Issues[i].Field)
	}
	return e
}

// rename returns an error with the names of parameters. The thread is that of resume, or without a
// parameter for it that of the context.
func (a *Args) rename(e *api.Error) *api.Error {
	e = e.Rename(map[string]string{"request": Whole})
	if a.Has(resumeParam.Name) {
		e = e.Rename(map[string]string{api.FieldThread: resumeParam.Name})
	}
	if a.declares("run") || a.declares("prompt") || a.declares("directory") {
		return e.Rename(agentToolNames)
	}
	e = e.Rename(toolNames)
	if !a.declares("threadId") {
		e = e.Rename(map[string]string{"threadId": ContextID})
	}
	return e
}

// declares reports whether there is a parameter of this declared name.
func (a *Args) declares(name string) bool {
	return slices.ContainsFunc(a.params, func(p Param) bool { return p.Name == name })
}

// The values of parameters: the argument, else the default.

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

// Names returns the value of names.
func (a *Args) Names(name string) []string {
	l, _ := a.value(name).([]string)
	return l
}

// Has reports whether an argument was given for a parameter.
func (a *Args) Has(name string) bool { return a.found(name) != nil }

// found returns the argument of a parameter, or nil.
func (a *Args) found(param string) *given {
	for i := range a.given {
		if a.given[i].param == param {
			return &a.given[i]
		}
	}
	return nil
}

// value returns the argument, else the default.
func (a *Args) value(name string) any {
	if g := a.found(name); g != nil && g.value != nil {
		return g.value
	}
	if p := a.param(name); p != nil {
		return p.Default
	}
	return nil
}

// asks records the requested format. A caller that requests AdCP of a tool without
// it can read JSON, so it gets JSON.
func (a *Args) asks(json, adcp bool) {
	a.json = a.json || json || adcp
	if p := a.param("format"); adcp && p != nil && slices.Contains(p.Words, "adcp") {
		a.adcp = true
	}
}

// asked finds a format in arguments that cannot be read.
var asked = lazy.Regexp(`"format"\s*:\s*"(json|adcp)"`)

// asksFor reports whether arguments that cannot be read name a format.
func asksFor(raw json.RawMessage, format string) bool {
	if top := gjson.GetBytes(raw, "format"); top.Exists() {
		return says(top.Raw, format)
	}
	m := asked().FindSubmatch(raw[:min(len(raw), maxArguments)])
	return m != nil && string(m[1]) == format
}

func says(value, format string) bool {
	return strings.Contains(strings.ToLower(value[:min(len(value), 256)]), format)
}
