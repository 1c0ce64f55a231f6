package scan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// kind is the JSON type of a [Value].
type kind uint8

// The kinds. Absent is the kind of the zero Value.
const (
	Absent kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// Value is one JSON value. It shares the memory of the line.
type Value struct {
	Raw     []byte // undecoded JSON; of a string without the quotes
	Len     int    // of a string: decoded length in bytes
	Kind    kind
	Escaped bool // the string has escapes: Raw is not its text
	// Odd reports that serde_json may write the value in another form: with fewer or shorter
	// escapes, other numbers, no white space.
	Odd bool
}

// IsString reports whether v is a string.
func (v Value) IsString() bool { return v.Kind == String }

// Append appends the decoded text of a string to dst. A lone surrogate becomes
// U+FFFD.
func (v Value) Append(dst []byte) []byte {
	if !v.Escaped {
		return append(dst, v.Raw...)
	}
	return decode(dst, v.Raw)
}

// Text returns the decoded text of a string, or "" for any other value.
func (v Value) Text() string {
	if v.Kind != String {
		return ""
	}
	if !v.Escaped {
		return string(v.Raw)
	}
	return string(v.Append(make([]byte, 0, v.Len)))
}

// View is Text without a copy, unless the string has escapes: the result is only valid as
// long as the line.
func (v Value) View() string {
	if v.Kind != String || v.Escaped {
		return v.Text()
	}
	return unsafe.String(unsafe.SliceData(v.Raw), len(v.Raw))
}

// Head returns the beginning of a string: at most n undecoded bytes that split no escape and no
// code point. Its Len is not set.
func (v Value) Head(n int) Value {
	v.Len = 0
	if n >= len(v.Raw) {
		return v
	}
	for n > 0 && !utf8.RuneStart(v.Raw[n]) {
		n--
	}
	for i := 0; ; {
		k := bytes.IndexByte(v.Raw[i:n], '\\')
		if k < 0 {
			break
		}
		size := 2
		if i += k; v.Raw[i+1] == 'u' {
			size = 6
		}
		if i+size > n {
			n = i
			break
		}
		i += size
	}
	v.Raw = v.Raw[:n:n]
	return v
}

// Cut splits a string: head is its longest beginning of at most limit decoded bytes that ends
// between two code points, and tail is the rest. Limit is at least the length of a code point.
func (v Value) Cut(limit int) (head, tail Value) {
	if v.Len <= limit {
		return v, Value{Kind: String}
	}
	i, n := 0, 0                                        // length of head, undecoded and decoded
	for v.Escaped && n+8 <= limit && len(v.Raw)-i > 8 { // in words, up to a long escape
		x := binary.LittleEndian.Uint64(v.Raw[i:]) ^ '\\'*ones
		stop := (x - ones) &^ x & (0x80 * ones)
		if stop == 0 {
			i, n = i+8, n+8
			continue
		}
		k := bits.TrailingZeros64(stop) / 8
		i, n = i+k, n+k
		if short[v.Raw[i+1]] == 0 {
			break
		}
		i, n = i+2, n+1
	}
	for i > 0 && !utf8.RuneStart(v.Raw[i]) { // a word can end in a code point
		i, n = i-1, n-1
	}
	for {
		plain := len(v.Raw) - i
		if k := bytes.IndexByte(v.Raw[i:], '\\'); v.Escaped && k >= 0 {
			plain = k
		}
		if n+plain > limit {
			plain = limit - n
			for plain > 0 && !utf8.RuneStart(v.Raw[i+plain]) {
				plain--
			}
			i, n = i+plain, n+plain
			break
		}
		i, n = i+plain, n+plain
		size, decoded := escape(v.Raw[i:])
		if n+decoded > limit {
			break
		}
		i, n = i+size, n+decoded
	}
	head, tail = v, v
	head.Raw, head.Len = v.Raw[:i:i], n
	tail.Raw, tail.Len = v.Raw[i:], v.Len-n
	return head, tail
}

// Equal reports whether v is a string with this decoded text.
func (v Value) Equal(text string) bool {
	if v.Kind != String || v.Len != len(text) {
		return false
	}
	if !v.Escaped {
		return string(v.Raw) == text
	}
	return v.Text() == text
}

// Int returns the value of a number without fraction and exponent that fits int64.
func (v Value) Int() (int64, bool) {
	if v.Kind != Number {
		return 0, false
	}
	n, err := strconv.ParseInt(string(v.Raw), 10, 64)
	return n, err == nil
}
