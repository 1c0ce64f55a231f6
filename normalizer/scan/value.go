package scan

import "strconv"

// Kind is the JSON type of a [Value].
type Kind uint8

// The kinds. Absent is the kind of the zero Value.
const (
	Absent Kind = iota
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
	Kind    Kind
	Escaped bool // the string has escapes: Raw is not its text
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
