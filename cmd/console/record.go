package console

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/linesman/linesman/api"
)

// timeFormat is RFC 3339 with milliseconds, for times in UTC.
const timeFormat = "2006-01-02T15:04:05.000Z"

// Record is one message of the event stream with what correlates it: an event
// or, as the last one of a run, a completion.
type Record struct {
	Seq        uint64    // of the message in the stream; 0 where there is none
	Time       time.Time // when the line was written; for a tail or a pipe when it was read
	Agent, Run string
	Line       uint64 // of the run's output, from 1; 0 when no line made it
	Part       int    // counts the events of that line, from 1
	Event      json.RawMessage
	Completion json.RawMessage
}

// Kind returns the kind of the event as subjects spell it, and its message, if
// it has one. Both are an agent's: see [Safe].
func (r Record) Kind() (kind, message string) {
	v := look(r)
	return v.kind, v.message
}

// WriteJSON prints one record as a line of JSON, which is a contract. The event's own bytes stay as
// they are stored, but for white space between them, and escapes on a terminal.
func WriteJSON(w io.Writer, r Record) error {
	line, err := appendJSON(nil, r)
	if err == nil {
		_, err = w.Write(JSONFor(w, line))
	}
	if err != nil {
		return fmt.Errorf("record %d of run %s: %w", r.Seq, r.Run, err)
	}
	return nil
}

// appendJSON appends the line of a record. There is one for each event that is followed: encoding/json needs
// several times as long.
func appendJSON(line []byte, r Record) (_ []byte, err error) {
	line = append(strconv.AppendUint(append(line, `{"seq":`...), r.Seq, 10), `,"time":"`...)
	line = append(r.Time.UTC().AppendFormat(line, timeFormat), `"`...)
	for _, field := range []struct{ name, text string }{{`,"agent":`, r.Agent}, {`,"run":`, r.Run}} {
		if line, err = jsontext.AppendQuote(append(line, field.name...), field.text); err != nil {
			return nil, err
		}
	}
	line = strconv.AppendUint(append(line, `,"line":`...), r.Line, 10)
	line = strconv.AppendInt(append(line, `,"part":`...), int64(r.Part), 10)
	for _, field := range []struct {
		name string
		body json.RawMessage
	}{{`,"event":`, r.Event}, {`,"completion":`, r.Completion}} {
		if len(field.body) == 0 {
			continue
		}
		line = append(line, field.name...)
		body := jsontext.Value(append(line[len(line):], field.body...))
		if err := body.Compact(); err != nil {
			return nil, err
		}
		line = append(line, body...)
	}
	return append(line, '}', '\n'), nil
}

// PrintJSON prints a value as JSON, on one line.
func PrintJSON(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(JSONFor(w, b.Bytes()))
	return err
}

// JSONFor is JSON as it is printed to w. On a terminal all that does not show
// as itself is escaped, as by [Safe]: control characters, bidirectional
// overrides and the like. Elsewhere it is one line for every reader. The value is the
// same.
func JSONFor(w io.Writer, body []byte) []byte {
	if _, terminal := w.(*pane); terminal {
		return EscapeJSON(body)
	}
	return api.OneLine(body)
}

// JSON prints JSON on a terminal, indented, with all that does not show as itself as an escape.
func (r *Renderer) JSON(text string) error {
	var b bytes.Buffer
	if json.Indent(&b, []byte(text), "", "  ") != nil {
		var rows strings.Builder
		r.text(&rows, "", "", text)
		_, err := io.WriteString(r.out, rows.String())
		return err
	}
	_, err := r.out.Write(append(EscapeJSON(b.Bytes()), '\n'))
	return err
}

// EscapeJSON is JSON with all that does not show as itself as an escape. The value is the same.
func EscapeJSON(body []byte) []byte {
	out := make([]byte, 0, len(body))
	for len(body) > 0 {
		r, n := utf8.DecodeRune(body)
		switch {
		case r < ' ', showsItself(r) && !(r == utf8.RuneError && n == 1): // JSON has controls between its tokens alone
			out = append(out, body[:n]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		body = body[n:]
	}
	return out
}

// PrintQuestion prints a request that waits for an answer from outside as JSON,
// which is a contract: without what only a question of a live run has.
func PrintQuestion(w io.Writer, q api.Question) error {
	return PrintJSON(w, struct {
		api.Question
		ID       *string `json:"id,omitempty"`
		Kind     *string `json:"kind,omitempty"`
		RunTitle *string `json:"runTitle,omitempty"`
	}{Question: q})
}

// ticker has a status line: a [Renderer] or a [Timeline].
type ticker interface {
	Tick(now time.Time) error
	Close() error
}

// Follow calls print with each item until there are no more, and returns how many
// there were. Meanwhile it moves the time of the status line of r. It returns at the
// end of ctx, even while the items wait for their source.
func Follow[T any](
	ctx context.Context, r ticker, items iter.Seq2[T, error], print func(T) error,
) (n int, err error) {
	defer func() { err = cmp.Or(err, r.Close()) }() // that of Close can be the same
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	read := make(chan T, 64) // fewer changes between goroutines
	var failed error         // to be read once read is closed
	go func() {
		defer close(read)
		for item, err := range items {
			if failed = err; err != nil {
				return
			}
			select {
			case read <- item:
			case <-ctx.Done():
				return
			}
		}
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case item, more := <-read:
			if !more {
				return n, failed
			}
			n++
			err = print(item)
		case <-ctx.Done():
			return n, nil
		case now := <-tick.C:
			err = r.Tick(now)
		}
		if err != nil {
			return n, err
		}
	}
}
