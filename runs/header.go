package runs

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Text returns the header as one line of JSON.
func (h Header) Text() string { return string(encode(h)) }

// Words are texts that many headers share: directories, models, workers. Its zero value shares nothing.
type Words map[string]string

// maxWords bounds [Words]: texts that come later are not shared.
const maxWords = 4096

func (w Words) of(text string) string {
	if have, ok := w[text]; ok || text == "" {
		return have
	}
	text = strings.Clone(text)
	if w != nil && len(w) < maxWords {
		w[text] = text
	}
	return text
}

var errHeader = errors.New("not the header of a run")

// ParseHeader parses the result of [Header.Text], several times as fast as package json, and keeps
// nothing of text. What it does not know is read by package json.
func ParseHeader(text string, words Words) (Header, error) {
	r := headerReader{rest: text, words: words}
	r.header()
	if r.bad || r.rest != "" {
		return decodeHeader(text)
	}
	if CheckID(r.h.ID) != nil {
		return Header{}, errHeader
	}
	return r.h, nil
}

// decodeHeader is not a part of ParseHeader because of its pointer, which would move the reader to the heap.
func decodeHeader(text string) (Header, error) {
	var h Header
	if json.Unmarshal([]byte(text), &h) != nil || CheckID(h.ID) != nil {
		return Header{}, errHeader
	}
	return h, nil
}

// headerReader reads JSON as package json writes it: without white space. Anything else is bad.
type headerReader struct {
	h     Header
	rest  string
	bad   bool
	words Words

	// Texts of one run alone are copied together.
	own   [10]ownText
	count int
	size  int
}

type ownText struct {
	field own
	text  string
}

// own is a field with a text of one run.
type own uint8

const (
	ownID own = iota
	ownTitle
	ownThread
	ownForkedFrom
	ownContinues
	ownActivity
	ownAnswer
	ownCause
	ownHint
	ownLabels
)

func (r *headerReader) header() {
	for key := r.open(); key != ""; key = r.next() {
		h := &r.h
		switch key {
		case "run":
			r.keep(ownID)
		case "agent":
			h.Agent = r.words.of(r.text())
		case "state":
			h.State = State(r.words.of(r.text()))
		case "title":
			r.keep(ownTitle)
		case "source":
			h.Source = r.words.of(r.text())
		case "threadId":
			r.keep(ownThread)
		case "forkedFrom":
			r.keep(ownForkedFrom)
		case "workingDir":
			h.Dir = r.words.of(r.text())
		case "worker":
			h.Worker = r.words.of(r.text())
		case "queue":
			h.Queue = r.words.of(r.text())
		case "cancelRequested":
			h.CancelRequested = r.flag()
		case "reason":
			h.Reason = r.words.of(r.text())
		case "continues":
			r.keep(ownContinues)
		case "queuedAt":
			h.QueuedAt = r.time()
		case "startedAt":
			h.StartedAt = r.time()
		case "activeAt":
			h.ActiveAt = r.time()
		case "endedAt":
			h.EndedAt = r.time()
		case "progress":
			r.bad = r.bad || h.Progress != nil // package json reads what is there twice
			h.Progress = new(r.todo())
		case "activity":
			r.keep(ownActivity)
		case "doing":
			r.bad = r.bad || h.Doing != nil
			h.Doing = new(r.doing())
		case "tokens":
			r.bad = r.bad || h.Tokens != nil
			h.Tokens = new(r.spend())
		case "mode":
			h.Mode = Mode(r.words.of(r.text()))
		case "model":
			h.Model = r.words.of(r.text())
		case "agentVersion":
			h.Version = r.words.of(r.text())
		case "times":
			h.Times = Times(r.words.of(r.text()))
		case "changed":
			r.bad = r.bad || h.Changed != nil
			h.Changed = new(r.changed())
		case "answer":
			r.keep(ownAnswer)
		case "cause":
			r.keep(ownCause)
		case "hint":
			r.keep(ownHint)
		case "tests":
			r.bad = r.bad || h.Tested != nil
			h.Tested = new(r.tested())
		case "costUsd":
			r.bad = r.bad || h.Cost != nil
			h.Cost = new(r.decimal())
		case "labels":
			r.labels()
		case "turn":
			h.Turn = r.int()
		case "seq":
			h.Seq = r.unsigned()
		case "work":
			h.Work = r.unsigned()
		case "asked":
			h.Asked = r.flag()
		case "steps":
			r.bad = r.bad || h.Steps != nil
			h.Steps = new(r.steps())
		default:
			r.bad = true
		}
	}
	r.copy()
}

// keep reads a text of one run.
func (r *headerReader) keep(field own) { r.keepText(field, r.text()) }

func (r *headerReader) keepText(field own, text string) {
	for _, have := range r.own[:r.count] {
		r.bad = r.bad || have.field == field
	}
	if r.bad {
		return
	}
	r.own[r.count] = ownText{field, text}
	r.count++
	r.size += len(text)
}

// copy sets the kept texts.
func (r *headerReader) copy() {
	if r.bad {
		return
	}
	var b strings.Builder
	b.Grow(r.size)
	for _, o := range r.own[:r.count] {
		b.WriteString(o.text)
	}
	all := b.String()
	for _, o := range r.own[:r.count] {
		text := all[:len(o.text)]
		all = all[len(o.text):]
		switch o.field {
		case ownID:
			r.h.ID = text
		case ownTitle:
			r.h.Title = text
		case ownThread:
			r.h.Thread = text
		case ownForkedFrom:
			r.h.ForkedFrom = text
		case ownContinues:
			r.h.Continues = text
		case ownActivity:
			r.h.Activity = text
		case ownAnswer:
			r.h.Answer = text
		case ownCause:
			r.h.Cause = text
		case ownHint:
			r.h.Hint = text
		case ownLabels:
			r.h.Labels = Labels(text)
		}
	}
}

func (r *headerReader) todo() (t Todo) {
	for key := r.open(); key != ""; key = r.next() {
		switch key {
		case "completedSteps":
			t.Done = r.int()
		case "totalSteps":
			t.Total = r.int()
		default:
			r.bad = true
		}
	}
	return t
}

func (r *headerReader) steps() (p Progress) {
	for key := r.open(); key != ""; key = r.next() {
		switch key {
		case "percent":
			p.Percent = r.int()
		case "completed_steps":
			p.Done = r.int()
		case "total_steps":
			p.Total = r.int()
		default:
			r.bad = true
		}
	}
	return p
}

func (r *headerReader) doing() (d Doing) {
	for key := r.open(); key != ""; key = r.next() {
		switch key {
		case "phase":
			d.Phase = Phase(r.words.of(r.text()))
		case "tool":
			d.Tool = r.words.of(r.text())
		case "attempt":
			d.Attempt = r.int()
		case "of":
			d.Of = r.int()
		case "nextAt":
			d.NextAt = r.time()
		case "since":
			d.Since = r.time()
		default:
			r.bad = true
		}
	}
	return d
}

func (r *headerReader) spend() (s Spend) {
	for key := r.open(); key != ""; key = r.next() {
		switch key {
		case "input":
			s.Input = r.number()
		case "output":
			s.Output = r.number()
		default:
			r.bad = true
		}
	}
	return s
}

func (r *headerReader) changed() (c Changed) {
	for key := r.open(); key != ""; key = r.next() {
		switch key {
		case "files":
			c.Files = r.number()
		case "in":
			c.In = ChangedIn(r.words.of(r.text()))
		case "added":
			c.Added = r.number()
		case "removed":
			c.Removed = r.number()
		default:
			r.bad = true
		}
	}
	return c
}

func (r *headerReader) tested() (t TestCount) {
	for key := r.open(); key != ""; key = r.next() {
		switch key {
		case "passed":
			t.Passed = r.int()
		case "failed":
			t.Failed = r.int()
		default:
			r.bad = true
		}
	}
	return t
}

func (r *headerReader) labels() {
	labels := map[string]string{}
	for key := r.open(); key != ""; key = r.next() {
		labels[key] = r.text()
	}
	r.keepText(ownLabels, string(LabelsOf(labels)))
}

// open reads the begin of an object with a member, and returns the member's key; "" if it cannot.
func (r *headerReader) open() string {
	r.take('{')
	return r.key()
}

// next returns the key of the next member; "" at the end.
func (r *headerReader) next() string {
	if !r.bad && r.rest != "" && r.rest[0] == ',' {
		r.rest = r.rest[1:]
		return r.key()
	}
	r.take('}')
	return ""
}

func (r *headerReader) key() string {
	key := r.text()
	r.take(':')
	if r.bad = r.bad || key == ""; r.bad {
		return ""
	}
	return key
}

func (r *headerReader) take(c byte) {
	if r.bad = r.bad || r.rest == "" || r.rest[0] != c; !r.bad {
		r.rest = r.rest[1:]
	}
}

// text reads a string, which is part of the header where it has no escape.
func (r *headerReader) text() string {
	if r.take('"'); r.bad {
		return ""
	}
	end := strings.IndexByte(r.rest, '"')
	if end < 0 {
		r.bad = true
		return ""
	}
	text := r.rest[:end]
	if strings.IndexByte(text, '\\') < 0 {
		r.rest = r.rest[end+1:]
		for i := range len(text) {
			r.bad = r.bad || text[i] < ' '
		}
		r.bad = r.bad || !utf8.ValidString(text)
		return text
	}
	for end < len(r.rest) && r.rest[end] == '"' && escaped(r.rest[:end]) {
		n := strings.IndexByte(r.rest[end+1:], '"')
		if n < 0 {
			r.bad = true
			return ""
		}
		end += n + 1
	}
	var unescaped string
	r.bad = json.Unmarshal([]byte(`"`+r.rest[:end]+`"`), &unescaped) != nil
	r.rest = r.rest[end+1:]
	return unescaped
}

// escaped reports whether what follows text is escaped.
func escaped(text string) bool {
	n := len(text) - len(strings.TrimRight(text, `\`))
	return n%2 == 1
}

// number reads an integer.
func (r *headerReader) number() int64 {
	end := 0
	for end < len(r.rest) && (r.rest[end] == '-' || '0' <= r.rest[end] && r.rest[end] <= '9') {
		end++
	}
	text := r.rest[:end]
	r.rest = r.rest[end:]
	n, err := strconv.ParseInt(text, 10, 64)
	digits := strings.TrimPrefix(text, "-")
	r.bad = r.bad || err != nil || digits[0] == '0' && text != "0"
	return n
}

func (r *headerReader) unsigned() uint64 {
	n := r.number()
	r.bad = r.bad || n < 0
	return uint64(n)
}

func (r *headerReader) int() int { return int(r.number()) }

// decimal reads a number. Package json knows its form.
func (r *headerReader) decimal() (n float64) {
	end := strings.IndexAny(r.rest, ",}")
	r.bad = r.bad || end < 0 || json.Unmarshal([]byte(r.rest[:max(end, 0)]), &n) != nil
	r.rest = r.rest[max(end, 0):]
	return n
}

func (r *headerReader) flag() bool {
	rest, is := strings.CutPrefix(r.rest, "true")
	if !is {
		var isFalse bool
		rest, isFalse = strings.CutPrefix(r.rest, "false")
		r.bad = r.bad || !isFalse
	}
	r.rest = rest
	return is
}

func (r *headerReader) time() Time {
	at, err := ParseTime(r.text())
	r.bad = r.bad || err != nil
	return at
}
