// Package wire has what the dialects of several agents read in the same form: ids,
// usages, the elements of arrays, and the names of calls that are still open. It is
// pure.
package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
)

// ID returns the id in v: its trimmed text, or "" if v is no string. It is only valid as
// long as the line.
func ID(v scan.Value) string {
	if v.Len == 0 {
		return ""
	}
	return trimmed(v)
}

// trimmed is apart, so that ID is inlined: most lines have few of the ids.
func trimmed(v scan.Value) string {
	text := v.View()
	if first, last := text[0], text[len(text)-1]; ' ' < min(first, last) && max(first, last) < utf8.RuneSelf {
		return text
	}
	return strings.TrimSpace(text)
}

// Int32 sets into to the integer in v and returns it, or returns nil if v is none of 32 bits.
func Int32(v scan.Value, into *int32) *int32 {
	n, ok := v.Int()
	if !ok || n != int64(int32(n)) {
		return nil
	}
	*into = int32(n)
	return into
}

// Thread is the id of a thread that a dialect keeps. Its JSON is at most as long as
// [normalizer.MaxThread].
type Thread string

// Set sets the id, to [normalizer.TooLong] if it is too long to be kept.
func (t *Thread) Set(id string) {
	if bounds.StringSize(id) > normalizer.MaxThread {
		id = normalizer.TooLong
	}
	*t = Thread(id)
}

// Told sets the id to that in v, if it has one, and says so in out.
func (t *Thread) Told(v scan.Value, out *normalizer.Out) {
	id := ID(v)
	switch id {
	case "":
		return
	case string(*t):
		id = string(*t) // no copy
	default:
		id = strings.Clone(id)
		t.Set(id)
	}
	out.Session, out.Facts.Thread = id, id
}

// MarshalJSON encodes an id that is too long as true.
func (t Thread) MarshalJSON() ([]byte, error) {
	if string(t) == normalizer.TooLong {
		return []byte("true"), nil
	}
	return bounds.AppendString(nil, string(t)), nil
}

// UnmarshalJSON decodes the result of MarshalJSON.
func (t *Thread) UnmarshalJSON(text []byte) error {
	if string(text) == "true" {
		*t = Thread(normalizer.TooLong)
		return nil
	}
	return json.Unmarshal(text, (*string)(t))
}

// elements iterates over the elements of an array that was scanned before.
type elements struct {
	rest []byte // undecoded rest of the array
}

// ElementsOf returns an iterator over v. It has no elements if v is no array.
func ElementsOf(v scan.Value) elements {
	if v.Kind != scan.Array {
		return elements{}
	}
	return elements{v.Raw[1:]}
}

// Next returns the next element, false if there is none. It uses s, which must not
// be needed for the line any more.
func (e *elements) Next(s *scan.Scanner) (v scan.Value, ok bool) {
	for len(e.rest) > 0 {
		switch e.rest[0] {
		case ',', ' ', '\t', '\r', '\n':
			e.rest = e.rest[1:]
			continue
		case ']':
			return v, false
		}
		s.Reset(e.rest)
		s.First(&v)
		n := len(v.Raw)
		if v.IsString() {
			n += len(`""`)
		}
		if n == 0 {
			return v, false
		}
		e.rest = e.rest[n:]
		return v, true
	}
	return v, false
}

// NextObject returns the next element that is an object, and skips others.
func (e *elements) NextObject(s *scan.Scanner) (raw []byte, ok bool) {
	for {
		v, more := e.Next(s)
		if !more || v.Kind == scan.Object {
			return v.Raw, more
		}
	}
}

// Objects returns the number of the other elements that are objects, and ends the iteration.
func (e *elements) Objects() (n int) {
	depth, rest := 0, e.rest
	e.rest = nil
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '"':
			i += stringEnd(rest[i:])
		case '{':
			if depth == 0 {
				n++
			}
			depth++
		case '[':
			depth++
		case '}', ']':
			depth--
		}
	}
	return n
}

// stringEnd returns the offset of the last quote of the string at the beginning of b, which is valid.
func stringEnd(b []byte) int {
	for end := 1; ; end++ {
		k := bytes.IndexByte(b[end:], '"')
		if k < 0 { // impossible
			return len(b)
		}
		end += k
		from := end // after an even number of backslashes, this quote is not escaped
		for b[from-1] == '\\' {
			from--
		}
		if (end-from)%2 == 0 {
			return end
		}
	}
}

// NextPair returns two members of the next element that is an object, and skips others. It reads
// the element once.
func (e *elements) NextPair(s *scan.Scanner, first, second string) (a, b scan.Value, ok bool) {
	for {
		if len(e.rest) > 0 && e.rest[0] == ',' {
			e.rest = e.rest[1:]
		}
		if len(e.rest) > 0 && e.rest[0] == '{' {
			a, b = Pair(s, e.rest, first, second)
			e.rest = e.rest[s.Offset():]
			return a, b, true
		}
		if v, more := e.Next(s); !more {
			return a, b, false
		} else if v.Kind == scan.Object { // after white space
			a, b = Pair(s, v.Raw, first, second)
			return a, b, true
		}
	}
}

// Pair returns two members of an object that was scanned before. It uses s, which must not
// be needed for the line any more.
func Pair(s *scan.Scanner, raw []byte, first, second string) (a, b scan.Value) {
	s.Reset(raw)
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case first:
			s.First(&a)
		case second:
			s.First(&b)
		default:
			s.Skip()
		}
	}
	return a, b
}

// Counters reads integers by an allow-list of keys.
type Counters struct {
	Names []string // of the keys, in the order of publication; at most 8
	N     [8]int64
	read  [8]bool
	valid [8]bool
	any   bool
}

// Read reads the value of a key if the key is in the list, and reports whether it is. The
// first of duplicate keys counts.
func (c *Counters) Read(s *scan.Scanner, key []byte) bool {
	i := slices.IndexFunc(c.Names, func(name string) bool { return name == string(key) })
	if i < 0 {
		return false
	}
	if c.read[i] {
		s.Skip()
		return true
	}
	c.read[i] = true
	if n, ok := s.Value().Int(); ok {
		c.N[i], c.valid[i], c.any = n, true, true
	}
	return true
}

// Any reports whether a counter has a value.
func (c *Counters) Any() bool { return c.any }

// Sum returns the sum of counts: negative ones count as 0, and a sum that overflows is the
// largest count.
func Sum(counts ...int64) (sum int64) {
	for _, n := range counts {
		if n = max(n, 0); sum > math.MaxInt64-n {
			return math.MaxInt64
		}
		sum += n
	}
	return sum
}

// maxCost is the largest cost that is published.
const maxCost = 1e9

// Usage returns the data of a usage event of an agent: the counters, and beside them
// the cost under its own name if it is a number from 0 to 1e9. It is nil if there is
// neither.
func Usage(kind string, c *Counters, costName string, cost scan.Value) []byte {
	amount, hasCost := Cost(cost)
	if !c.any && !hasCost {
		return nil
	}
	b := append(make([]byte, 0, 256), `{"schema":"backend.`...)
	b = append(b, kind...)
	b = append(b, `.usage.v1","usage":{`...)
	comma := false
	for i, name := range c.Names {
		if !c.valid[i] {
			continue
		}
		if comma {
			b = append(b, ',')
		}
		comma = true
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, `":`...)
		b = strconv.AppendInt(b, c.N[i], 10)
	}
	b = append(b, '}')
	if hasCost {
		b = append(b, `,"`...)
		b = append(b, costName...)
		b = append(b, `":`...)
		b = strconv.AppendFloat(b, amount, 'g', -1, 64)
	}
	return append(b, '}')
}

// Cost returns the cost in v, false if v is no number from 0 to 1e9.
func Cost(v scan.Value) (amount float64, ok bool) {
	if v.Kind != scan.Number {
		return 0, false
	}
	amount, err := strconv.ParseFloat(string(v.Raw), 64)
	return amount, err == nil && 0 <= amount && amount <= maxCost
}

// Limits of the remembered calls.
const (
	maxCalls     = 64  // newest calls
	MaxCallBytes = 256 // of each field of a call
)

// Call is a call whose result has not been seen.
type Call struct {
	ID, Name string
	Path     string // of the file that it changes; [Tests]; or ""
}

// Tests is in place of the path of a call whose command runs tests, see [RunsTests].
const Tests = "(tests)"

// Memory remembers the [maxCalls] newest calls. The zero value is empty.
type Memory struct{ all []Call }

// Add remembers a copy of a call, as the newest. A call with the same id takes its place. A call
// whose id or name is empty or too long is not remembered; a path that is too long
// counts as none.
func (c *Memory) Add(call Call) {
	if call.ID == "" || call.Name == "" || len(call.ID) > MaxCallBytes || len(call.Name) > MaxCallBytes {
		return
	}
	if len(call.Path) > MaxCallBytes {
		call.Path = ""
	}
	call.ID, call.Name, call.Path = strings.Clone(call.ID), strings.Clone(call.Name), strings.Clone(call.Path)
	c.Take(call.ID)
	if len(c.all) == maxCalls {
		c.all = slices.Delete(c.all, 0, 1)
	}
	c.all = append(c.all, call)
}

// Take returns the call with an id, and forgets it. The zero Call is returned if it is
// not remembered.
func (c *Memory) Take(id string) Call {
	i := slices.IndexFunc(c.all, func(call Call) bool { return call.ID == id })
	if i < 0 {
		return Call{}
	}
	call := c.all[i]
	c.all = slices.Delete(c.all, i, i+1)
	return call
}

// IsZero reports whether no call is remembered.
func (c Memory) IsZero() bool { return len(c.all) == 0 }

// MarshalJSON encodes the calls as bytes in base64, so that no escape makes them
// longer: at most 68 KiB.
func (c Memory) MarshalJSON() ([]byte, error) {
	var b []byte
	for _, call := range c.all {
		for _, s := range []string{call.ID, call.Name, call.Path} {
			b = append(append(b, byte(len(s)>>8), byte(len(s))), s...)
		}
	}
	return json.Marshal(b)
}

// UnmarshalJSON decodes the result of MarshalJSON.
func (c *Memory) UnmarshalJSON(text []byte) error {
	var b []byte
	if err := json.Unmarshal(text, &b); err != nil {
		return err
	}
	c.all = nil
	for len(b) > 0 {
		var fields [3]string
		for i := range fields {
			if len(b) < 2 || len(b)-2 < int(b[0])<<8|int(b[1]) {
				return errors.New("the calls of a saved state are not valid")
			}
			n := int(b[0])<<8 | int(b[1])
			fields[i], b = string(b[2:2+n]), b[2+n:]
		}
		c.all = append(c.all, Call{fields[0], fields[1], fields[2]})
	}
	return nil
}

// Members reads the members of the next value, and reports whether it was read: it
// must be an object, and the first value under its key, which *seen remembers. read reads
// the value of a key, or returns false, and the value is skipped.
func Members(s *scan.Scanner, seen *bool, read func(key []byte) bool) bool {
	first := !*seen
	*seen = true
	if !first || !s.Object() {
		s.Skip()
		return false
	}
	for s.Next() {
		if !read(s.Key()) {
			s.Skip()
		}
	}
	return true
}

// False reports whether v is the literal false.
func False(v scan.Value) bool { return v.Kind == scan.Bool && v.Raw[0] == 'f' }

// True reports whether v is the literal true.
func True(v scan.Value) bool { return v.Kind == scan.Bool && v.Raw[0] == 't' }

// Blank reports whether a text has nothing but white space.
func Blank(text string) bool { return strings.TrimSpace(text) == "" }

// IsNew reports whether the state of a dialect is saved as that of a new one: each member has no value, or is
// empty. State is a pointer to a struct.
func IsNew(state any) bool {
	members := reflect.ValueOf(state).Elem()
	for i := range members.NumField() {
		switch m := members.Field(i); m.Kind() {
		case reflect.Slice, reflect.Map:
			if m.Len() > 0 {
				return false
			}
		default:
			zero, ok := m.Interface().(interface{ IsZero() bool })
			if ok && !zero.IsZero() || !ok && !m.IsZero() {
				return false
			}
		}
	}
	return true
}

// Restore sets the saved state of a dialect of an agent, which is of its kind. No JSON is
// the state of a new dialect.
func Restore[S any](kind string, text []byte, state *S) error {
	var none S
	*state = none
	if len(text) > 0 && json.Unmarshal(text, state) != nil {
		return errors.New(kind + ": the saved state is not valid")
	}
	return nil
}
