package wire

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/runs"
)

func TestMembersOfObjects(t *testing.T) {
	v := Root([]byte(` {"a":{"b":7,"b":8},"s":"{\"a\":1}","l":[1],"a":2}`))
	if n, _ := At(v, "a", "b").Int(); n != 7 {
		t.Errorf("the first of duplicate keys is %d", n)
	}
	for _, path := range [][]string{{"x"}, {"s", "a"}, {"l", "0"}, {"a", "b", "c"}} {
		if got := At(v, path...); got.Kind != scan.Absent {
			t.Errorf("%v is %s", path, got.Raw)
		}
	}
	if n, _ := At(Object(v)["a"], "b").Int(); n != 7 || len(Object(v)) != 3 {
		t.Errorf("members %v", Object(v))
	}
	many := Root([]byte(`{` + strings.Repeat(`"x":1,`, 10) + `"y":2}`))
	if len(Object(many)) != 2 || len(Object(Root([]byte(`[1]`)))) != 0 || len(Object(scan.Value{})) != 0 {
		t.Error("the members of other values")
	}
}

// An excerpt has the beginning and the end of a text, whatever its escapes are, and counts the
// bytes between them.
func TestExcerptsAreTheEndsOfTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"\n", "\\", `"`, "é", "🚀", "\x01", "n", "u0041",
			"\u2028", "a b"}), 1, 5).Draw(t, "pieces"), "")
		text := strings.Repeat(piece, rapid.SampledFrom([]int{0, 1, 1_000, 30_000}).Draw(t, "times"))
		e := Excerpt(Root(bounds.AppendString(nil, text)))
		switch {
		case text == "":
			if e != nil {
				t.Fatalf("an empty text becomes %+v", e)
			}
		case e.Omitted == 0:
			if e.Head != text || e.Tail != "" {
				t.Fatalf("%d bytes of %d", len(e.Head), len(text))
			}
		default:
			if !strings.HasPrefix(text, e.Head) || !strings.HasSuffix(text, e.Tail) || !utf8.ValidString(e.Head+e.Tail) ||
				len(e.Head)+len(e.Tail)+e.Omitted != len(text) || min(len(e.Head), len(e.Tail)) < runs.DetailWindow-4 {
				t.Fatalf("%d and %d bytes without %d of %d", len(e.Head), len(e.Tail), e.Omitted, len(text))
			}
		}
	})
}

func TestExcerptsOfOtherValues(t *testing.T) {
	for json, want := range map[string]string{
		`null`: "", `{}`: "", `[]`: "", `""`: "", `7`: "7", `true`: "true", `{"a":1}`: `{"a":1}`, `["x"]`: `["x"]`,
	} {
		got := ""
		if e := Excerpt(Root([]byte(json))); e != nil {
			got = e.Head
		}
		if got != want {
			t.Errorf("%s: %q, want %q", json, got, want)
		}
	}
	e := Excerpt(Root([]byte(`["` + strings.Repeat("é", 200_000) + `"]`)))
	if e.Omitted < 300_000 || !strings.HasPrefix(e.Head, `["é`) || !strings.HasSuffix(e.Tail, `é"]`) {
		t.Errorf("%d bytes are left out", e.Omitted)
	}
}

func TestCommandsAreShownWithoutTheirShell(t *testing.T) {
	for json, want := range map[string]string{
		`"make"`: "make", `"/bin/bash -lc 'go test ./...'"`: "go test ./...", `["bash","-lc","make all"]`: "make all",
		`["/bin/sh","-c","x"]`: "x", `["make","all"]`: "make all", `["python3","-c","x"]`: "python3 -c x",
	} {
		if e := Command(Root([]byte(json))); e == nil || e.Head != want {
			t.Errorf("%s: %+v, want %q", json, e, want)
		}
	}
	for _, json := range []string{`7`, `{}`, `[]`, `null`, `""`} {
		if e := Command(Root([]byte(json))); e != nil {
			t.Errorf("%s: %+v", json, e)
		}
	}
}
