package api

import "bytes"

// breaks are characters that JSON allows in strings, and that some readers of lines take for the end
// of one: U+0085, U+2028 and U+2029.
var breaks = []struct{ raw, escaped []byte }{
	{[]byte("\u0085"), []byte(`\u0085`)}, {[]byte("\u2028"), []byte(`\u2028`)}, {[]byte("\u2029"), []byte(`\u2029`)},
}

// OneLine returns JSON with the same value, and without characters that a reader of lines may take for the
// end of a line, but for the line breaks of ASCII. It returns body itself if there are none.
func OneLine(body []byte) []byte {
	for _, b := range breaks {
		if bytes.Contains(body, b.raw) {
			body = bytes.ReplaceAll(body, b.raw, b.escaped)
		}
	}
	return body
}
