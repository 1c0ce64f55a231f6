package responder

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/internal/lazy"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/runs"
)

// Limits of the extensions of a submission.
const (
	maxExtensions     = 16
	maxExtensionBytes = 128 << 10 // of their JSON
)

// Fields of a request that only this package names, see [api.FieldPrompt].
const (
	fieldAddDirs        = "addDirs"
	fieldExtensions     = "extensions"
	fieldNonInteractive = "nonInteractive"
	fieldTitle          = "title"
)

// option is an option of submissions that is an extension of the Universal Agent API, too.
type option struct {
	id, field string
	gated     bool // as an option, too, it is only for agents with the capability
	value     func(q *api.Submission) any
	// read reads the value of an extension. If it is not valid, wrong is where: "" is the whole.
	read func(q *api.Submission, raw json.RawMessage) (wrong string, ok bool)
}

// options are all of them. A value that is not given is nil.
var options = []option{
	{runs.CanModel, "model", false, func(q *api.Submission) any { return given(q.Model, q.Model != "") },
		func(q *api.Submission, raw json.RawMessage) (string, bool) {
			ok := decoded(raw, &q.Model)
			q.Model = strings.TrimSpace(q.Model)
			return "", ok && q.Model != ""
		}},
	{runs.CanResume, api.FieldResume, true, func(q *api.Submission) any { return given(q.Resume, q.Resume != nil) },
		func(q *api.Submission, raw json.RawMessage) (string, bool) { return readThread(&q.Resume, raw) }},
	{runs.CanFork, api.FieldFork, true, func(q *api.Submission) any { return given(q.Fork, q.Fork != nil) },
		func(q *api.Submission, raw json.RawMessage) (string, bool) { return readThread(&q.Fork, raw) }},
	{runs.CanAddDirs, fieldAddDirs, true, func(q *api.Submission) any { return given(q.AddDirs, q.AddDirs != nil) },
		readAddDirs},
	{runs.CanNotAsk, fieldNonInteractive, true,
		func(q *api.Submission) any { return given(q.NonInteractive, q.NonInteractive != nil) },
		func(q *api.Submission, raw json.RawMessage) (string, bool) {
			return "", decoded(raw, &q.NonInteractive)
		}},
	{runs.CanUnboxed, "externalSandbox", true, func(q *api.Submission) any { return given(q.Unboxed, q.Unboxed != nil) },
		func(q *api.Submission, raw json.RawMessage) (string, bool) { return "", decoded(raw, &q.Unboxed) }},
}

func given(value any, is bool) any {
	if !is {
		return nil
	}
	return value
}

// decoded reads a value that is not null.
func decoded(raw json.RawMessage, to any) bool {
	return string(raw) != "null" && json.Unmarshal(raw, to) == nil
}

// readThread reads {"selector": "last"}, or {"selector": "id", "id": "..."}.
func readThread(to **api.ThreadRef, raw json.RawMessage) (wrong string, ok bool) {
	var members map[string]json.RawMessage
	if !decoded(raw, &members) || !decoded(raw, to) {
		return "", false
	}
	for name := range members {
		if name != "selector" && name != "id" {
			return "", false
		}
	}
	r := *to
	switch r.ID = strings.TrimSpace(r.ID); r.Selector {
	case api.SelectLast:
		_, has := members["id"]
		return "", !has
	case api.SelectID:
		return ".id", r.ID != ""
	}
	return ".selector", false
}

// readAddDirs reads {"dirs": [...]}.
func readAddDirs(q *api.Submission, raw json.RawMessage) (wrong string, ok bool) {
	var members map[string]json.RawMessage
	var dirs []json.RawMessage
	if !decoded(raw, &members) || len(members) != 1 || members["dirs"] == nil {
		return "", false
	}
	if !decoded(members["dirs"], &dirs) || len(dirs) == 0 || len(dirs) > runs.MaxAddDirs {
		return ".dirs", false
	}
	q.AddDirs = make([]string, len(dirs))
	for i := range dirs {
		ok := decoded(dirs[i], &q.AddDirs[i])
		q.AddDirs[i] = strings.TrimSpace(q.AddDirs[i])
		if n := len(q.AddDirs[i]); !ok || n == 0 || n > runs.MaxAddDir {
			return ".dirs[" + strconv.Itoa(i) + "]", false
		}
	}
	return "", true
}

// extended returns a submission with the values of its extensions as options.
func extended(q api.Submission) (all api.Submission, m mistakes) {
	all = q
	for _, o := range options {
		raw, is := q.Extensions[o.id]
		if !is {
			continue
		}
		var of api.Submission
		wrong, ok := o.read(&of, raw)
		m.when(!ok, fieldExtensions, "invalid "+o.id+wrong)
		if before := o.value(&q); ok && before != nil && !reflect.DeepEqual(before, o.value(&of)) {
			m.when(true, o.field, "is given as an extension too, with another value")
		} else if ok {
			_, _ = o.read(&all, raw)
		}
	}
	return all, m
}

// fixed returns an error of a submission in which mistakes of extensions have the texts that their contract fixes.
func fixed(q api.Submission, err error) error {
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e.Code != api.Validation || len(q.Extensions) == 0 {
		return err
	}
	var m mistakes
	for _, i := range e.AllIssues() {
		field, at, _ := strings.Cut(i.Field, ".")
		for _, o := range options {
			if o.field != field || q.Extensions[o.id] == nil || o.value(&q) != nil {
				continue
			}
			i.Field, i.Problem = fieldExtensions, "invalid "+o.id
			if o.id == runs.CanAddDirs {
				i.Problem += ".dirs"
			}
			if at != "" {
				i.Problem += "[" + at + "]"
			}
		}
		m.when(true, i.Field, i.Problem)
	}
	return m.err()
}

// plainID is the form of an id that an error may quote.
var plainID = lazy.Regexp(`^[a-z][a-z0-9_.]{0,99}$`)

// checkCapabilities refuses a submission whose agent, or all workers of the queue, lack the capability for one of its
// options or extensions: the first one that is missing.
func (s *Service) checkCapabilities(q api.Submission) error {
	size := 0
	for id, raw := range q.Extensions {
		size += len(id) + len(raw)
	}
	if len(q.Extensions) > maxExtensions || size > maxExtensionBytes {
		return api.Invalid(fieldExtensions, fmt.Sprintf("at most %d, and %d bytes", maxExtensions, maxExtensionBytes))
	}
	fields := map[string]string{} // by what is needed
	for id := range q.Extensions {
		fields[id] = fieldExtensions
	}
	for _, o := range options {
		if o.gated && o.value(&q) != nil {
			fields[o.id] = o.field
		}
	}
	t := s.task(q)
	a, known := s.cfg.Agents.Find(t.Agent)
	if len(fields) == 0 || !known {
		return nil
	}
	needs := slices.Sorted(maps.Keys(fields))
	missing := func(id, why string) error {
		e := &api.Error{Code: api.Unsupported, Field: fields[id], Agent: a.Kind(), Capability: id}
		if !plainID().MatchString(id) {
			id, e.Capability = "an extension without the form of an id", ""
		}
		e.Message = why + ": " + id
		return e
	}
	has := a.Capabilities(a.AbleIf...)
	for _, id := range needs {
		isOption := slices.ContainsFunc(options, func(o option) bool { return o.id == id })
		if !isOption || !slices.Contains(has, id) {
			return missing(id, a.Name+" does not have the capability")
		}
	}
	for _, id := range t.Needs() {
		if t.Live && !slices.Contains(a.AbleLive, id) {
			return missing(id, "live runs do not have the capability, as their protocol has no way for it")
		}
	}
	workers := slices.DeleteFunc(s.table.Workers(), func(w runtable.Worker) bool {
		return w.Queue != cmp.Or(q.Queue, s.cfg.Queue)
	})
	for n := range needs { // the first that no worker has together with those before it
		some := slices.ContainsFunc(workers, func(w runtable.Worker) bool {
			can := w.Capabilities[a.Kind()]
			return !slices.ContainsFunc(needs[:n+1], func(id string) bool { return !slices.Contains(can, id) })
		})
		if len(workers) > 0 && !some {
			return missing(needs[n], "no worker of the queue has "+a.Name+" with the capability")
		}
	}
	return nil
}

// checkOptions adds the mistakes in options, and between them. Those of tasks are found later.
func checkOptions(m *mistakes, q *api.Submission) {
	for i, dir := range q.AddDirs[:min(len(q.AddDirs), runs.MaxAddDirs)] {
		m.when(len(strings.TrimSpace(dir)) > runs.MaxAddDir, fieldAddDirs+"."+strconv.Itoa(i),
			fmt.Sprintf("at most %d bytes", runs.MaxAddDir))
	}
	asks := q.NonInteractive != nil && !*q.NonInteractive
	m.when(q.IsUnboxed() && asks, fieldNonInteractive, "must not be false with externalSandbox")
	m.when(q.IsUnboxed() && q.Mode != "" && q.Mode != runs.DangerFull, "mode",
		fmt.Sprintf("must be absent or %s with externalSandbox", runs.DangerFull))
	m.when(q.NonInteractive != nil && q.Ask != nil && asks != *q.Ask, fieldNonInteractive, "contradicts ask")
}
