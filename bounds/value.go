package bounds

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// The errors of [Encode] and [ValueSize]. They never quote the input.
var (
	errUTF8  = errors.New("JSON string is not UTF-8")
	errRange = errors.New("JSON number out of range") // too large for a 64-bit float
)

// Encode returns v as JSON in the format of serde_json: compact; strings as in
// [AppendString]; integers that fit int64 or uint64 unchanged; every other
// number, including -0, as the nearest float64 in its shortest form: 1.0, 100.0,
// 1e16, 1.5e-7. A lone surrogate escape becomes U+FFFD.
//
// Keys keep their order. A duplicate key is kept; serde_json would drop it.
func Encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return appendValue(nil, buf.Bytes())
}

// appendValue appends raw, one valid JSON value with optional white space around
// it, in the format of [Encode]. On an error it returns dst unchanged. dst and
// raw must not overlap.
func appendValue(dst, raw []byte) ([]byte, error) {
	e := editor{raw: raw, dst: dst, build: true}
	if e.edit(); e.err != nil {
		return dst, e.err
	}
	return append(e.dst, raw[e.copied:]...), nil
}

// ValueSize returns the number of bytes of raw, one valid JSON value, in the
// format of [Encode]. The time is linear. It allocates only for a number of
// more than 32 characters.
func ValueSize(raw []byte) (int, error) {
	e := editor{raw: raw}
	if e.edit(); e.err != nil {
		return 0, e.err
	}
	return len(raw) + e.delta, nil
}

// An editor reads a valid JSON value and replaces the parts that the result
// writes differently: white space, unnecessary escapes, some numbers. Most agents
// print compact JSON, so most of a value is copied in one piece.
type editor struct {
	raw    []byte
	delta  int    // size of the result minus size of raw, so far; often negative
	build  bool   // build the result; else compute delta only
	dst    []byte // the result for raw[:copied]
	copied int
	err    error
}

// edit needs no nesting: only strings, numbers and white space can change.
func (e *editor) edit() {
	for i := 0; i < len(e.raw) && e.err == nil; {
		switch c := e.raw[i]; {
		case c == '"':
			i = e.text(i + 1)
		case c <= ' ':
			i = e.space(i)
		case c == '-' || '0' <= c && c <= '9':
			i = e.number(i)
		default:
			i++
		}
	}
}

// space removes the white space at i. Like the methods below, it returns the
// offset of the end.
func (e *editor) space(i int) int {
	end := i + 1
	for end < len(e.raw) && e.raw[end] <= ' ' {
		end++
	}
	e.replace(i, end, nil)
	return end
}

// text reads the string that begins at i, after its opening quote. It copies the
// short escapes, which are the common case.
func (e *editor) text(i int) int {
	for from, ascii := i, true; ; {
		n, a := unescapedPrefix(e.raw[i:])
		ascii = ascii && a
		if i += n; e.at(i) == '\\' {
			i = e.escape(i)
			continue
		}
		if !ascii && !utf8.Valid(e.raw[from:i]) {
			e.err = errUTF8
		}
		return i + 1
	}
}

func (e *editor) escape(i int) int {
	switch e.at(i + 1) {
	case '/':
		e.replace(i, i+2, []byte{'/'})
		return i + 2
	case 'u':
	default:
		return min(i+2, len(e.raw))
	}
	r, end := e.hex(i), min(i+6, len(e.raw))
	if utf16.IsSurrogate(r) {
		// Half of a surrogate pair is U+FFFD; the next character is separate.
		low := rune(0)
		if e.at(end) == '\\' && e.at(end+1) == 'u' {
			low = e.hex(end)
		}
		if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
			end = min(end+6, len(e.raw))
		}
	}
	var scratch [6]byte
	text := scratch[:0]
	if r < utf8.RuneSelf {
		text = appendEscaped(text, byte(r))
	} else {
		text = utf8.AppendRune(text, r)
	}
	e.replace(i, end, text)
	return end
}

// hex returns the value of the four hexadecimal digits of the escape \uXXXX at i.
func (e *editor) hex(i int) (r rune) {
	for k := i + 2; k < i+6; k++ {
		c := e.at(k)
		if c > '9' {
			c += 9 // the low four bits of 'A' and 'a' are 1
		}
		r = r<<4 | rune(c&15)
	}
	return r
}

// number reads a number. It reformats every number that serde_json does not
// store as an integer.
func (e *editor) number(i int) int {
	from, integer := i, true
	for ; i < len(e.raw); i++ {
		if c := e.raw[i]; c == '.' || c|0x20 == 'e' || c == '+' {
			integer = false
		} else if c != '-' && (c < '0' || c > '9') {
			break
		}
	}
	if integer && isInteger(e.raw[from:i]) {
		return i
	}
	f, err := strconv.ParseFloat(string(e.raw[from:i]), 64)
	if err != nil {
		e.err = errRange
		return i
	}
	var scratch [32]byte
	e.replace(from, i, appendFloat(scratch[:0], f))
	return i
}

// replace replaces raw[from:to] by text. Calls must be in ascending order.
func (e *editor) replace(from, to int, text []byte) {
	e.delta += len(text) - (to - from)
	if e.build {
		e.dst = append(append(e.dst, e.raw[e.copied:from]...), text...)
		e.copied = to
	}
}

// at returns the byte at i, or 0 after the end.
func (e *editor) at(i int) byte {
	if i < len(e.raw) {
		return e.raw[i]
	}
	return 0
}

// isInteger reports whether serde_json stores literal, an integer without
// leading zeros, as an integer: it fits int64 or uint64 and is not -0.
func isInteger(literal []byte) bool {
	digits, negative := bytes.CutPrefix(literal, []byte{'-'})
	switch len(digits) {
	case 20: // strings of digits of the same length compare like numbers
		return !negative && string(digits) <= "18446744073709551615"
	case 19:
		return !negative || string(digits) <= "9223372036854775808"
	default:
		return len(digits) < 19 && string(literal) != "-0"
	}
}

// appendFloat appends f, which is finite, in the format of Rust's ryu: the
// shortest digits that identify f, always with a decimal point or an exponent.
// It uses no exponent if 1e-5 <= |f| < 1e16. It appends at most 24 bytes.
func appendFloat(dst []byte, f float64) []byte {
	start := len(dst)
	if size := math.Abs(f); size == 0 || 1e-5 <= size && size < 1e16 {
		dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
		if bytes.IndexByte(dst[start:], '.') < 0 {
			dst = append(dst, ".0"...)
		}
		return dst
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64) // d.ddde±dd
	exponentAt := start + bytes.IndexByte(dst[start:], 'e') + 1
	exponent, _ := strconv.Atoi(string(dst[exponentAt:]))
	return strconv.AppendInt(dst[:exponentAt], int64(exponent), 10)
}
