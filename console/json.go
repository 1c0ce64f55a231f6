package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/linesman/linesman/api"
)

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
// overrides and the like. The value is the same.
func JSONFor(w io.Writer, body []byte) []byte {
	if _, terminal := w.(*pane); terminal {
		return escapeJSON(body)
	}
	return body
}

func escapeJSON(body []byte) []byte {
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
// which is a contract.
func PrintQuestion(w io.Writer, q api.Question) error {
	moment := func(t api.Time) string {
		if t == 0 {
			return ""
		}
		return time.UnixMilli(int64(t)).UTC().Format(time.RFC3339)
	}
	return PrintJSON(w, struct {
		Run     string `json:"task_id"`
		Request string `json:"request_id,omitempty"`
		Agent   string `json:"agent_name,omitempty"`
		Phase   string `json:"phase,omitempty"`
		Asked   string `json:"asked_at"`
		Due     string `json:"due_at,omitempty"`
		Prompt  string `json:"prompt,omitempty"`
		Model   string `json:"model,omitempty"`
	}{q.Run, q.Request, q.Agent, q.Phase, moment(q.Asked), moment(q.Due), q.Prompt, q.Model})
}
