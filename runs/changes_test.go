package runs

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A diff is what its notes say, whatever its texts hold, and each note is small.
func TestDiffIsReadFromItsNotes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := func(label string, most int) string {
			unit := rapid.SampledFrom([]string{"a", "\x01", "<", "é", "\U0001f600", "\n+", `"`}).Draw(t, label)
			return strings.Repeat(unit, rapid.IntRange(0, most).Draw(t, label+" times"))
		}
		want := Diff{
			Changes: Changes{
				Files: rapid.Int64Range(0, 1<<40).Draw(t, "files"), Truncated: rapid.Bool().Draw(t, "truncated"),
			},
			Patch: text("patch", 64<<10),
		}
		for i := range rapid.IntRange(0, 200).Draw(t, "listed") {
			want.Listed = append(want.Listed, DiffFile{Path: fmt.Sprint(i, text("path", 80)), Kind: "added"})
		}
		var r DiffReader
		record := NewRecord("r", "codex")
		r.Add(Entry{Kind: Note, Body: Encode(Remark{Reason: "idle"})})
		for _, body := range want.Notes("set") {
			if len(body) > maxDiffPart {
				t.Errorf("a note has %d bytes", len(body))
			}
			if r.Last() != nil {
				t.Error("an incomplete set counts")
			}
			record.Seq++
			r.Add(Entry{Kind: Note, Body: body})
			record.Entry(Entry{Kind: Note, Body: body})
		}
		if got := r.Last(); got == nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		c := want.Changes
		if c.Seq = 1; *record.Changes != c {
			t.Errorf("the record has %+v, want %+v", *record.Changes, c)
		}
	})
}

// The last set that is complete counts, and nothing that no worker writes.
func TestOnlyCompleteSetsCount(t *testing.T) {
	t.Parallel()
	large := Diff{Changes: Changes{Files: 1}, Patch: strings.Repeat("x", 2*maxDiffPart)}
	a, b := large.Notes("a"), Diff{Changes: Changes{Files: 2}}.Notes("b")
	for name, test := range map[string]struct {
		bodies [][]byte
		files  int64 // 0: none
	}{
		"nothing":             {nil, 0},
		"complete":            {a, 1},
		"cut off":             {a[:len(a)-1], 0},
		"two":                 {append(append([][]byte{}, a...), b...), 2},
		"one, one cut off":    {append(append([][]byte{}, b...), a[:1]...), 2},
		"cut off, then again": {append(append([][]byte{}, a[:1]...), a...), 1},
		"without its first":   {a[1:], 0},
		"with a gap":          {[][]byte{a[0], a[2]}, 0},
		"another in between":  {[][]byte{a[0], b[0], a[1]}, 2},
		"no JSON":             {[][]byte{[]byte("{"), []byte("null"), []byte(`{"reason":"diff"}`)}, 0},
	} {
		var r DiffReader
		for _, body := range test.bodies {
			r.Add(Entry{Kind: Note, Body: body})
			r.Add(Entry{Kind: Out, Body: body})
		}
		if got := r.Last(); (got != nil) != (test.files != 0) || got != nil && got.Files != test.files {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestForeignNumbersOfChangesAreRefused(t *testing.T) {
	t.Parallel()
	r := NewRecord("r", "codex")
	for _, body := range []string{
		"", "{", "[]", `{"reason":"idle","diff":{"part":1}}`, `{"reason":"diff","diff":{"part":2}}`, `{"reason":"diff","diff":7}`,
	} {
		if r.Entry(Entry{Kind: Note, Body: []byte(body)}); r.Changes != nil {
			t.Errorf("%q gives %+v", body, r.Changes)
		}
	}
	r.Entry(Entry{Kind: Note, Body: []byte(
		`{"reason":"diff","diff":{"part":1,"files":-1,"added":-2,"raw_seq":9,"reason":"a long text"}}`)})
	if want := (Changes{Reason: SnapshotFailed}); *r.Changes != want {
		t.Errorf("got %+v, want %+v", *r.Changes, want)
	}
}
