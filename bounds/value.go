package bounds

import (
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

// The errors of [AppendValue] and [ValueSize]. They never quote the input.
var (
	// ErrSyntax reports bytes that are not exactly one JSON value.
	ErrSyntax = errors.New("not one JSON value")
	// ErrUTF8 reports a JSON string with bytes that are not valid UTF-8.
	ErrUTF8 = errors.New("JSON string is not UTF-8")
	// ErrDepth reports a value nested deeper than MaxDepth.
	ErrDepth = errors.New("JSON value nested too deep")
	// ErrRange reports a number too large for a 64-bit float.
	ErrRange = errors.New("JSON number out of range")
)

// AppendValue appends raw, one JSON value with optional white space around it,
// in the format of serde_json: compact; strings as in [AppendString]; integers
// that fit int64 or uint64 unchanged; every other number, including -0, as the
// nearest float64 in its shortest form: 1.0, 100.0, 1e16, 1.5e-7. A lone
// surrogate escape becomes U+FFFD.
//
// Keys keep their order. A duplicate key is kept; serde_json would drop it.
//
// The input can be untrusted: time and memory are linear in its length, and the
// stack depth is limited by [MaxDepth]. On an error AppendValue returns dst
// unchanged. dst and raw must not overlap.
func AppendValue(dst, raw []byte) ([]byte, error) {
	e := editor{raw: raw, dst: dst, build: true}
	if err := e.edit(); err != nil {
		return dst, err
	}
	return append(e.dst, raw[e.copied:]...), nil
}

// ValueSize returns the number of bytes that [AppendValue] appends for raw, and
// the same errors, without building the result. It allocates only for a number
// of more than 32 characters.
func ValueSize(raw []byte) (int, error) {
	e := editor{raw: raw}
	if err := e.edit(); err != nil {
		return 0, err
	}
	return len(raw) + e.delta, nil
}

// An editor reads a JSON value and replaces the parts that the result writes
// differently: white space, unnecessary escapes, some numbers. Most agents print
// compact JSON, so most of a value is copied in one piece.
type editor struct {
	raw    []byte
	delta  int    // size of the result minus size of raw, so far; often negative
	build  bool   // build the result; else compute delta only
	dst    []byte // the result for raw[:copied]
	copied int
}

func (e *editor) edit() error {
	i, err := e.value(e.skipSpace(0), 0)
	if err != nil {
		return err
	}
	if e.skipSpace(i) != len(e.raw) {
		return ErrSyntax
	}
	return nil
}

// value reads the value at i, which is nested depth levels deep. Like all
// methods below, it returns the offset of the end.
func (e *editor) value(i, depth int) (int, error) {
	switch e.at(i) {
	case '"':
		return e.text(i)
	case '{':
		return e.object(i, depth)
	case '[':
		return e.array(i, depth)
	case 't':
		return e.literal(i, "true")
	case 'f':
		return e.literal(i, "false")
	case 'n':
		return e.literal(i, "null")
	default:
		return e.number(i)
	}
}

func (e *editor) object(i, depth int) (int, error) {
	if depth == MaxDepth {
		return 0, ErrDepth
	}
	i = e.skipSpace(i + 1)
	if e.at(i) == '}' {
		return i + 1, nil
	}
	for {
		if e.at(i) != '"' {
			return 0, ErrSyntax
		}
		var err error
		if i, err = e.text(i); err != nil {
			return 0, err
		}
		i = e.skipSpace(i)
		if e.at(i) != ':' {
			return 0, ErrSyntax
		}
		if i, err = e.value(e.skipSpace(i+1), depth+1); err != nil {
			return 0, err
		}
		i = e.skipSpace(i)
		switch e.at(i) {
		case ',':
			i = e.skipSpace(i + 1)
		case '}':
			return i + 1, nil
		default:
			return 0, ErrSyntax
		}
	}
}

func (e *editor) array(i, depth int) (int, error) {
	if depth == MaxDepth {
		return 0, ErrDepth
	}
	i = e.skipSpace(i + 1)
	if e.at(i) == ']' {
		return i + 1, nil
	}
	for {
		var err error
		if i, err = e.value(i, depth+1); err != nil {
			return 0, err
		}
		i = e.skipSpace(i)
		switch e.at(i) {
		case ',':
			i = e.skipSpace(i + 1)
		case ']':
			return i + 1, nil
		default:
			return 0, ErrSyntax
		}
	}
}

func (e *editor) literal(i int, word string) (int, error) {
	end := i + len(word)
	if end > len(e.raw) || string(e.raw[i:end]) != word {
		return 0, ErrSyntax
	}
	return end, nil
}

// text reads a string. It copies the short escapes, which are the common case.
func (e *editor) text(i int) (int, error) {
	i++
	from, ascii := i, true
	for {
		n, a := unescapedPrefix(e.raw[i:])
		ascii = ascii && a
		i += n
		switch e.at(i) {
		case '"':
			if !ascii && !utf8.Valid(e.raw[from:i]) {
				return 0, ErrUTF8
			}
			return i + 1, nil
		case '\\':
			var err error
			if i, err = e.escape(i); err != nil {
				return 0, err
			}
		default: // a control character, or the end
			return 0, ErrSyntax
		}
	}
}

func (e *editor) escape(i int) (int, error) {
	switch e.at(i + 1) {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return i + 2, nil
	case '/':
		e.replace(i, i+2, []byte{'/'})
		return i + 2, nil
	}
	r, ok := e.unicodeEscape(i)
	if !ok {
		return 0, ErrSyntax
	}
	end := i + 6
	if utf16.IsSurrogate(r) {
		// Half of a surrogate pair is U+FFFD; the next character is separate.
		low, _ := e.unicodeEscape(end)
		if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
			end += 6
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
	return end, nil
}

// unicodeEscape decodes the escape \uXXXX at i. ok is false if there is none.
func (e *editor) unicodeEscape(i int) (r rune, ok bool) {
	if len(e.raw)-i < 6 || e.raw[i] != '\\' || e.raw[i+1] != 'u' {
		return 0, false
	}
	for _, c := range e.raw[i+2 : i+6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// skipSpace removes the white space at i and returns its end.
func (e *editor) skipSpace(i int) int {
	if e.at(i) > ' ' {
		return i
	}
	end := i
	for end < len(e.raw) && (e.raw[end] == ' ' || e.raw[end] == '\n' || e.raw[end] == '\t' || e.raw[end] == '\r') {
		end++
	}
	if end > i {
		e.replace(i, end, nil)
	}
	return end
}

// replace replaces raw[from:to] by text. Calls must be in ascending order.
func (e *editor) replace(from, to int, text []byte) {
	e.delta += len(text) - (to - from)
	if e.build {
		e.dst = append(append(e.dst, e.raw[e.copied:from]...), text...)
		e.copied = to
	}
}

// at returns the byte at i, or 0 after the end. No token contains a 0, so the
// end of the input never matches a token.
func (e *editor) at(i int) byte {
	if i < len(e.raw) {
		return e.raw[i]
	}
	return 0
}
