// Package bounds owns the size rules of the event envelope: the limit of each
// field, how a longer value is truncated, split or dropped, and how many bytes
// a JSON value has when it is written. It imports only the standard library,
// keeps no state, and reads no clock and no file.
//
//	channel     over MaxChannel    → null, never truncated
//	message     over MaxMessage    → Truncate: ends with Suffix
//	text        over MaxText       → Split: several events
//	final text  over MaxFinalText  → Truncate: ends with Suffix
//	data        over MaxData       → Dropped
//
// Limits count bytes of UTF-8. Text is measured after decoding, data after
// serialization in the format of Rust's serde_json, because the contract of the
// envelope counts in this way. The measured bytes are always the written bytes:
// [AppendString] and [Encode] write exactly the number of bytes that
// [StringSize] and [ValueSize] return.
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
	MaxData      = 65536 // of serialized data
	MaxFinalText = 65536 // of the final text of a completion, Suffix included
)

// Suffix marks the end of a truncated text. Its bytes count against the limit.
const Suffix = ellipsis + "(truncated)"

const ellipsis = "…"

// Dropped is the JSON value that replaces data over [MaxData].
const Dropped = `{"dropped":{"reason":"oversize"}}`

// Truncate returns s if it has at most limit bytes. Otherwise it returns
// [Suffix] after the longest prefix of s that leaves room for it and ends
// between two code points. If limit is 14 bytes or less, which is no more than
// Suffix itself, the result is "…", or "" if limit is less than 3 bytes.
//
// The result has at most limit bytes. A truncated result shares no memory with
// s. If s is valid UTF-8, the result is too.
func Truncate(s string, limit int) string {
	switch {
	case len(s) <= limit:
		return s
	case limit > len(Suffix):
		return s[:boundary(s, limit-len(Suffix))] + Suffix
	case limit >= len(ellipsis):
		return ellipsis
	default:
		return ""
	}
}

// Split yields consecutive parts of s. Each part has at most limit bytes, is as
// long as possible, and ends between two code points. The concatenated parts
// equal s. No part is empty, except that "" has one empty part. A code point
// longer than limit, possible only if limit is less than 4, is one part.
//
// The parts share the memory of s.
func Split(s string, limit int) iter.Seq[string] {
	return func(yield func(string) bool) {
		rest := s
		for len(rest) > limit && rest != "" {
			n := Cut(rest, limit)
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

// Cut returns the length of the longest prefix of s that has at most limit
// bytes and ends between two code points. It returns 0 only for "": if the
// first code point is longer than limit, Cut returns the length of that code
// point, so that a loop over Cut always terminates.
func Cut(s string, limit int) int {
	if n := boundary(s, limit); n > 0 {
		return n
	}
	_, n := utf8.DecodeRuneInString(s)
	return n
}

// boundary returns the largest n <= limit at which s can be cut without
// splitting a code point, or 0 if there is none. It searches back over at most
// one code point: if no code point starts there, s is not valid UTF-8 at this
// offset, and boundary returns limit.
func boundary(s string, limit int) int {
	if limit >= len(s) {
		return len(s)
	}
	for n := limit; n > 0 && n > limit-utf8.UTFMax; n-- {
		if utf8.RuneStart(s[n]) {
			return n
		}
	}
	if limit < utf8.UTFMax {
		return 0
	}
	return limit
}
