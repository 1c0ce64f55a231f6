package wire

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/runs"
)

// Root returns a line that was scanned before as a value.
func Root(line []byte) scan.Value {
	var s scan.Scanner
	s.Reset(line)
	return s.Value()
}

// At returns the member of an object at a path of keys, which was scanned before. It is
// absent if there is no such member. The first of duplicate keys counts.
func At(v scan.Value, path ...string) scan.Value {
	var s scan.Scanner
	for _, key := range path {
		if v.Kind != scan.Object {
			return scan.Value{}
		}
		s.Reset(v.Raw)
		v = scan.Value{}
		for ok := s.Object(); ok && s.Next(); {
			if string(s.Key()) == key {
				v = s.Value()
				break
			}
			s.Skip()
		}
	}
	return v
}

// Object returns the members of an object that was scanned before, by their keys, in one pass:
// at most maxMembers. The first of duplicate keys counts.
func Object(v scan.Value) map[string]scan.Value {
	members := map[string]scan.Value{}
	var s scan.Scanner
	s.Reset(v.Raw)
	for ok := v.Kind == scan.Object && s.Object(); ok && s.Next() && len(members) < maxMembers; {
		key := string(s.Key())
		if _, again := members[key]; again {
			s.Skip()
			continue
		}
		members[key] = s.Value()
	}
	return members
}

// maxMembers is the number of members of an object that are read for a detail.
const maxMembers = 256

// Either returns the first of some values that is a string or a number, an object or a list.
func Either(values ...scan.Value) scan.Value {
	for _, v := range values {
		if v.Kind > scan.Bool && (v.Len > 0 || !v.IsString()) {
			return v
		}
	}
	return scan.Value{}
}

// Each calls f with the elements of an array that was scanned before.
func Each(list scan.Value, f func(v scan.Value)) {
	var s scan.Scanner
	for elements := ElementsOf(list); ; {
		v, more := elements.Next(&s)
		if !more {
			return
		}
		f(v)
	}
}

// EachMember calls f with the members of an object that was scanned before.
func EachMember(object scan.Value, f func(key string, v scan.Value)) {
	var s scan.Scanner
	s.Reset(object.Raw)
	for ok := object.Kind == scan.Object && s.Object(); ok && s.Next(); {
		key := string(s.Key())
		f(key, s.Value())
	}
}

// Excerpt returns a text for a detail, or another value as JSON. Of a long text it has only
// the parts that [runs.Detail.Limit] needs. It is nil if the value has no content.
func Excerpt(v scan.Value) *runs.Excerpted {
	const window = runs.DetailWindow
	switch raw := v.Raw; {
	case v.Kind <= scan.Null, len(raw) == 0, string(raw) == "{}", string(raw) == "[]":
		return nil
	case !v.IsString():
		if len(raw) <= 4*window {
			return runs.Whole(string(raw))
		}
		return &runs.Excerpted{
			Head: strings.ToValidUTF8(string(raw[:window]), ""), Omitted: len(raw) - 2*window,
			Tail: strings.ToValidUTF8(string(raw[len(raw)-window:]), ""),
		}
	case v.Len <= 4*window:
		return runs.Whole(v.Text())
	default:
		e := &runs.Excerpted{
			Head: string(decode(nil, raw[:cut(raw, 6*window)], v.Escaped)),
			Tail: string(decode(nil, raw[whole(raw, len(raw)-6*window):], v.Escaped)),
		}
		e.Head = e.Head[:min(len(e.Head), window)]
		e.Tail = e.Tail[max(len(e.Tail)-window, 0):]
		e.Head, e.Tail = strings.ToValidUTF8(e.Head, ""), strings.ToValidUTF8(e.Tail, "")
		e.Omitted = v.Len - len(e.Head) - len(e.Tail)
		return e
	}
}

// Text returns a text, at most about n bytes of its beginning.
func Text(v scan.Value, n int) string { return string(Head(nil, v, n)) }

// whole returns the first offset from i on where raw, the inside of a JSON string, can be
// cut without splitting an escape or a code point.
func whole(raw []byte, i int) int {
	const longest = len(`\u0000`)
	for i = max(i, 0); i < len(raw); i++ {
		if !utf8.RuneStart(raw[i]) {
			continue
		}
		slash := bytes.LastIndexByte(raw[max(i-longest+1, 0):i], '\\')
		if slash < 0 {
			return i
		}
		if raw[i] == '\\' {
			before := i
			for before > 0 && raw[before-1] == '\\' {
				before--
			}
			if (i-before)%2 == 0 {
				return i
			}
		}
	}
	return len(raw)
}

// Command returns a command for a detail without the shell that runs it: a text, or a list
// of arguments.
func Command(v scan.Value) *runs.Excerpted {
	if v.IsString() {
		return script(Excerpt(v))
	}
	var args []string
	size := 0
	Each(v, func(arg scan.Value) {
		if size <= runs.DetailWindow {
			args = append(args, Text(arg, runs.DetailWindow))
			size += arg.Len
		}
	})
	if len(args) == 3 && strings.HasSuffix(args[0], "sh") && strings.HasPrefix(args[1], "-") {
		return runs.Whole(args[2])
	}
	return runs.Whole(strings.Join(args, " "))
}

func script(e *runs.Excerpted) *runs.Excerpted {
	if e != nil {
		e.Head = string(normalizer.WithoutShell([]byte(e.Head)))
	}
	return e
}

// Plan adds the steps of a to-do list, whose texts are under a key and whose states are
// under "status".
func Plan(d *runs.Detail, list scan.Value, key string) {
	Each(list, func(step scan.Value) {
		if step.Kind == scan.Object {
			d.AddStep(Text(At(step, key), runs.DetailWindow), At(step, "status").Text())
		}
	})
}

// maxChange is how much of a text that replaces another one is read for a diff, in bytes.
const maxChange = runs.DetailWindow

// Change adds to the diff of a file that one text replaces another one. The line counts
// are left out if a text is too long to be read.
func Change(f *runs.FileDetail, old, replacement scan.Value) {
	f.SetChange(Text(old, maxChange), Text(replacement, maxChange))
	if max(len(old.Raw), len(replacement.Raw)) > maxChange {
		f.Added, f.Removed = nil, nil
	}
}

// Diff sets the diff of a file. Of a long one, the line counts are left out.
func Diff(f *runs.FileDetail, v scan.Value) {
	if e := Excerpt(v); e != nil && e.Omitted > 0 {
		f.Diff = e
	} else if e != nil {
		f.SetDiff(e.Head)
	}
}
