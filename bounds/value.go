package bounds

import (
	"errors"
	"unicode/utf16"
	"unicode/utf8"
)

// What [AppendValue] and [ValueSize] refuse. The errors never quote the input.
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
// as serde_json would write it after decoding: compact, strings as by
// [AppendString], integers within int64 or uint64 as they are, and every other
// number, -0 too, as the nearest float64 in its shortest form: 1.0, 100.0,
// 1e16, 1.5e-7. A lone surrogate escape becomes U+FFFD.
//
// Keys keep their order, and a key that comes twice stays twice; serde_json
// would keep one.
//
// The input need not be trusted: time and memory grow with its length, and the
// stack with its nesting, up to [MaxDepth]. On an error dst comes back as it
// was. dst and raw must not overlap.
func AppendValue(dst, raw []byte) ([]byte, error) {
	e := editor{raw: raw, dst: dst, writes: true}
	if err := e.edit(); err != nil {
		return dst, err
	}
	return append(e.dst, raw[e.done:]...), nil
}

// ValueSize returns how many bytes [AppendValue] adds for raw, and the same
// errors, without building them. It does not allocate, except for a number that
// is written with more than 32 characters.
func ValueSize(raw []byte) (int, error) {
	e := editor{raw: raw}
	if err := e.edit(); err != nil {
		return 0, err
	}
	return len(raw) + e.grown, nil
}

// An editor reads a JSON value and notes where the result differs from it:
// white space, escapes that are not needed, numbers laid out otherwise. What
// an agent prints is compact as a rule, so most of a value is copied in one
// piece, or not looked at again when only the size is wanted.
type editor struct {
	raw    []byte
	grown  int    // how much longer than raw the result is so far; often negative
	writes bool   // whether the result is built
	dst    []byte // the result for raw[:done]
	done   int
}

func (e *editor) edit() error {
	i, err := e.value(e.space(0), 0)
	if err != nil {
		return err
	}
	if e.space(i) != len(e.raw) {
		return ErrSyntax
	}
	return nil
}

// value reads the value at i that lies in depth others, and returns where it
// ends, as all readers below do.
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
	i = e.space(i + 1)
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
		i = e.space(i)
		if e.at(i) != ':' {
			return 0, ErrSyntax
		}
		if i, err = e.value(e.space(i+1), depth+1); err != nil {
			return 0, err
		}
		i = e.space(i)
		switch e.at(i) {
		case ',':
			i = e.space(i + 1)
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
	i = e.space(i + 1)
	if e.at(i) == ']' {
		return i + 1, nil
	}
	for {
		var err error
		if i, err = e.value(i, depth+1); err != nil {
			return 0, err
		}
		i = e.space(i)
		switch e.at(i) {
		case ',':
			i = e.space(i + 1)
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

// text reads a string. Its escapes are the short ones as a rule, which are
// written as they came.
func (e *editor) text(i int) (int, error) {
	i++
	from, ascii := i, true
	for {
		n, a := plain(e.raw[i:])
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
	r, ok := e.unit(i)
	if !ok {
		return 0, ErrSyntax
	}
	end := i + 6
	if utf16.IsSurrogate(r) {
		// Half a pair is U+FFFD, and what follows it stands for itself.
		low, _ := e.unit(end)
		if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
			end += 6
		}
	}
	var scratch [6]byte
	with := scratch[:0]
	if r < utf8.RuneSelf {
		with = appendEscaped(with, byte(r))
	} else {
		with = utf8.AppendRune(with, r)
	}
	e.replace(i, end, with)
	return end, nil
}

// unit decodes the escape \uXXXX at i; ok is false if there is none.
func (e *editor) unit(i int) (r rune, ok bool) {
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

// space leaves out the white space at i and returns where it ends.
func (e *editor) space(i int) int {
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

// replace puts with in the place of raw[from:to]. Calls go from left to right.
func (e *editor) replace(from, to int, with []byte) {
	e.grown += len(with) - (to - from)
	if e.writes {
		e.dst = append(append(e.dst, e.raw[e.done:from]...), with...)
		e.done = to
	}
}

// at returns the byte at i, and 0 past the end: no token has a 0, so what
// looks for one sees the end as a mistake.
func (e *editor) at(i int) byte {
	if i < len(e.raw) {
		return e.raw[i]
	}
	return 0
}
