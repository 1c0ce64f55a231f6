package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
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
