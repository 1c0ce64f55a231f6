// Package bounds holds the size rules of the event envelope: how long a field
// may be, what becomes of a longer one, and how long a JSON value is once it is
// written. It is a leaf: it imports only the standard library, keeps no state,
// and reads no clock and no file.
//
//	channel     over MaxChannel    → null (the caller asks ChannelFits)
//	message     over MaxMessage    → Message: cut, with Suffix
//	text        over MaxText       → Split: several events
//	final text  over MaxFinalText  → FinalText: cut, with Suffix
//	data        over MaxData       → Dropped
//
// Limits count bytes of UTF-8. Text is measured as decoded, data as serialized,
// and serialized means as Rust's serde_json writes it, since that is how the
// envelope's contract counts. The one rule here: the bytes that are measured
// are the bytes that are written. [AppendString] and [AppendValue] write what
// [StringSize] and [ValueSize] count.
package bounds

import (
	"iter"
	"unicode/utf8"
)

// The limits of one event, in bytes. A value of exactly the limit fits.
const (
	MaxChannel   = 128   // of a channel
	MaxMessage   = 4096  // of a message, Suffix included
	MaxText      = 65536 // of one part of a text
	MaxData      = 65536 // of data as serialized
	MaxFinalText = 65536 // of a completion's final text, Suffix included
)

// MaxDepth is how many arrays and objects may lie inside each other in a value
// that is still read. It is the limit of encoding/json.
const MaxDepth = 10000

// Suffix ends a text that was truncated. It counts against the limit.
const Suffix = ellipsis + "(truncated)"

const ellipsis = "…"

// Dropped is the JSON that stands in for data over [MaxData].
const Dropped = `{"dropped":{"reason":"oversize"}}`

// ChannelFits reports whether s may be an event's channel. One that does not
// fit is left out whole, never cut.
func ChannelFits(s string) bool {
	return len(s) <= MaxChannel
}

// Message returns s cut to [MaxMessage] as [Truncate] does.
func Message(s string) string {
	return Truncate(s, MaxMessage)
}

// FinalText returns s cut to [MaxFinalText] as [Truncate] does.
func FinalText(s string) string {
	return Truncate(s, MaxFinalText)
}

// Truncate returns s if it has at most bound bytes. Otherwise it returns the
// longest prefix of s that ends between two code points and leaves room for
// [Suffix], then Suffix. Where the bound has no room for more than Suffix
// (14 bytes or less), the result is "…", and "" where it has none for that.
//
// The result never has more than bound bytes, shares no memory with s when it
// was cut, and is valid UTF-8 if s is.
func Truncate(s string, bound int) string {
	switch {
	case len(s) <= bound:
		return s
	case bound > len(Suffix):
		return s[:border(s, bound-len(Suffix))] + Suffix
	case bound >= len(ellipsis):
		return ellipsis
	default:
		return ""
	}
}

// Split yields s in parts of at most bound bytes, each as long as it can be
// and ending between two code points. Joined, the parts are s again. No part
// is empty, except that "" has one empty part. A code point wider than the
// bound, possible only for a bound below 4, is a part of its own.
//
// The parts share the memory of s.
func Split(s string, bound int) iter.Seq[string] {
	return func(yield func(string) bool) {
		rest := s
		for len(rest) > bound && rest != "" {
			n := Cut(rest, bound)
			if !yield(rest[:n]) {
				return
			}
			rest = rest[n:]
		}
		if rest != "" || s == "" {
			yield(rest)
		}
	}
}

// Cut returns the length of the longest prefix of s that has at most bound
// bytes and ends between two code points. It is 0 only for "": a first code
// point wider than the bound is given whole, so that whoever cuts in a loop
// comes to an end.
func Cut(s string, bound int) int {
	if n := border(s, bound); n > 0 {
		return n
	}
	_, n := utf8.DecodeRuneInString(s)
	return n
}

// DataFits reports whether compact, data as it will be written, is short
// enough. Data that is not gives way to [Dropped] whole.
func DataFits(compact []byte) bool {
	return len(compact) <= MaxData
}

// border returns the largest n up to bound at which s can be cut without
// splitting a code point; 0 if there is none. It looks back over one code point
// at most: where none begins in so many bytes there is no UTF-8 to preserve,
// and the cut is at bound.
func border(s string, bound int) int {
	if bound >= len(s) {
		return len(s)
	}
	for n := bound; n > 0 && n > bound-utf8.UTFMax; n-- {
		if utf8.RuneStart(s[n]) {
			return n
		}
	}
	if bound < utf8.UTFMax {
		return 0
	}
	return bound
}
