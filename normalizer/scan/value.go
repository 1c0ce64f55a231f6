package scan

// Kind is the JSON type of a [Value].
type Kind uint8

// The kinds. Absent is that of the zero Value.
const (
	Absent Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// Value is one JSON value, in place.
type Value struct {
	Raw     []byte // a string: what stands between the quotes; else the value as written
	Len     int    // a string: its length in bytes once decoded
	Kind    Kind
	Escaped bool // a string with escapes: Raw is not its text
}

// IsString reports whether v is a string.
func (v Value) IsString() bool { return v.Kind == String }

// Append appends the text of a string to dst. A lone surrogate becomes U+FFFD.
func (v Value) Append(dst []byte) []byte {
	if !v.Escaped {
		return append(dst, v.Raw...)
	}
	return decode(dst, v.Raw)
}

// Text is the text of a string, and "" for any other value.
func (v Value) Text() string {
	if v.Kind != String {
		return ""
	}
	if !v.Escaped {
		return string(v.Raw)
	}
	return string(v.Append(make([]byte, 0, v.Len)))
}

// Equal reports whether v is a string whose text is text.
func (v Value) Equal(text string) bool {
	if v.Kind != String || v.Len != len(text) {
		return false
	}
	if !v.Escaped {
		return string(v.Raw) == text
	}
	return v.Text() == text
}

// Int is the value of a number that is written as an integer and fits int64.
func (v Value) Int() (n int64, ok bool) {
	raw := v.Raw
	if v.Kind != Number || len(raw) == 0 {
		return 0, false
	}
	negative := raw[0] == '-'
	if negative {
		raw = raw[1:]
	}
	if len(raw) == 0 || len(raw) > 19 {
		return 0, false
	}
	var u uint64
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
		u = u*10 + uint64(c-'0')
	}
	switch {
	case negative && u <= 1<<63:
		return -int64(u), true
	case !negative && u < 1<<63:
		return int64(u), true
	}
	return 0, false
}
