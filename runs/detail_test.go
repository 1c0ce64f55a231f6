package runs_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// Texts within their limits are kept; of others, so much of the beginning and the end.
func TestDetailsAreLimited(t *testing.T) {
	numbers := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.Repeat("x", 9-len(string(rune('0'+i%10)))) + string(rune('0'+i%10)) + "\n")
		}
		return b.String()
	}
	long := numbers(10_000) // lines of ten bytes
	d := runs.Detail{
		Prompt: runs.Whole(long), Command: runs.Whole(long), Arguments: runs.Whole("{}"), Output: runs.Whole(long),
		Result: runs.Whole(long[:8<<10]), Stderr: runs.Whole(long), Tool: strings.Repeat("t", 300),
	}
	d.Limit(nil)
	for _, c := range []struct {
		name       string
		got        *runs.Excerpted
		head, tail int
		omitted    int
	}{
		{"prompt", d.Prompt, 16 << 10, 0, 100_000 - 16<<10},
		{"command", d.Command, 4 << 10, 0, 100_000 - 4<<10},
		{"arguments", d.Arguments, 2, 0, 0},
		{"output", d.Output, 2 << 10, 6140, 100_000 - 2<<10 - 6140},
		{"result", d.Result, 8 << 10, 0, 0},
		{"stderr", d.Stderr, 0, 4090, 100_000 - 4090},
	} {
		if len(c.got.Head) != c.head || len(c.got.Tail) != c.tail || c.got.Omitted != c.omitted ||
			!strings.HasPrefix(long, c.got.Head) && c.name != "arguments" || !strings.HasSuffix(long, c.got.Tail) {
			t.Errorf("%s: %d and %d bytes without %d, want %d and %d without %d", c.name, len(c.got.Head), len(c.got.Tail),
				c.got.Omitted, c.head, c.tail, c.omitted)
		}
	}
	if d.Tool != strings.Repeat("t", 253)+"…" {
		t.Errorf("tool %q", d.Tool)
	}
}

func TestFilesAndStepsAreCounted(t *testing.T) {
	var d runs.Detail
	for range 60 {
		f := runs.FileDetail{Path: "/a", Kind: "modified"}
		f.SetDiff("@@ -1 +1 @@\n-a\n+" + strings.Repeat("b", 10_000) + "\n")
		d.AddFile(f)
		d.AddStep(strings.Repeat("é", 1000), "in_progress")
	}
	d.AddFile(runs.FileDetail{})
	d.Limit(nil)
	if len(d.Files) != 50 || d.MoreFiles != 10 || len(d.Plan) != 50 || d.MoreSteps != 10 {
		t.Errorf("%d files and %d more, %d steps and %d more", len(d.Files), d.MoreFiles, len(d.Plan), d.MoreSteps)
	}
	diffs := 0
	for i, f := range d.Files {
		if *f.Added != 1 || *f.Removed != 1 || (f.Diff != nil) != (i < 3) {
			t.Errorf("file %d: +%d -%d, diff %v", i, *f.Added, *f.Removed, f.Diff != nil)
		}
		if f.Diff != nil {
			diffs += len(f.Diff.Head) + len(f.Diff.Tail)
		}
	}
	if diffs > 24<<10 {
		t.Errorf("%d bytes of diffs", diffs)
	}
	if step := d.Plan[0]; step.State != "active" || len(step.Text) > 400 || !strings.HasSuffix(step.Text, "é…") {
		t.Errorf("step %q, %d bytes", step.State, len(step.Text))
	}
}

func TestStatesOfSteps(t *testing.T) {
	var d runs.Detail
	for _, state := range []string{"completed", "done", "in_progress", "pending", "cancelled", ""} {
		d.AddStep("x", state)
	}
	want := []string{"done", "done", "active", "pending", "pending", "pending"}
	for i, step := range d.Plan {
		if step.State != want[i] {
			t.Errorf("step %d is %s, want %s", i, step.State, want[i])
		}
	}
}

func TestDiffsOfFiles(t *testing.T) {
	for _, c := range []struct {
		why            string
		set            func(f *runs.FileDetail)
		diff           string
		added, removed int
	}{
		{"hunks", func(f *runs.FileDetail) { f.SetDiff("@@ -1 +1,2 @@\n-a\n+b\n+c\n") },
			"@@ -1 +1,2 @@\n-a\n+b\n+c\n", 2, 1},
		{"header", func(f *runs.FileDetail) { f.SetDiff("--- a\n+++ b\n@@ -1 +1 @@\n--- x\n+++ y\n") },
			"--- a\n+++ b\n@@ -1 +1 @@\n--- x\n+++ y\n", 1, 1},
		{"no hunks", func(f *runs.FileDetail) { f.SetDiff("+a\n-b\n c") }, "+a\n-b\n c", 1, 1},
		{"change", func(f *runs.FileDetail) { f.SetChange("a\nb\nc\n", "a\nB\nc\n") }, "-b\n+B\n", 1, 1},
		{"new", func(f *runs.FileDetail) { f.SetChange("", "a\nb") }, "+a\n+b\n", 2, 0},
		{"two changes", func(f *runs.FileDetail) { f.SetChange("a", "b"); f.SetChange("c", "") }, "-a\n+b\n-c\n", 1, 2},
	} {
		var f runs.FileDetail
		c.set(&f)
		if f.Diff == nil || f.Diff.Head != c.diff || *f.Added != c.added || *f.Removed != c.removed {
			t.Errorf("%s: +%d -%d %+v", c.why, *f.Added, *f.Removed, f.Diff)
		}
	}
	var f runs.FileDetail
	if f.SetDiff(""); f.Diff != nil || f.Added != nil {
		t.Errorf("an empty diff becomes %+v", f)
	}
}

// Lines of a PEM block are redacted in a change that leaves its first line as it is.
func TestChangesInsidePEMBlocksAreRedacted(t *testing.T) {
	pem := func(line string) string {
		return "a\n-----BEGIN " + "RSA PRIVATE KEY-----\nMIIE\n" + line + "\nMIIF\n-----END " + "RSA PRIVATE KEY-----\nb\n"
	}
	var f runs.FileDetail
	f.SetChange(pem("Zq9Zq9"), pem("Zq8Zq8"))
	d := runs.Detail{Files: []runs.FileDetail{f}}
	d.Limit(nil)
	got := d.Files[0]
	if *got.Added != 1 || *got.Removed != 1 || got.Diff == nil || strings.Contains(got.Diff.Head, "Zq") {
		t.Errorf("got +%d -%d %+v", *got.Added, *got.Removed, got.Diff)
	}
}

// A line with many changes of one file takes linear time.
func TestManyChangesOfAFileAreBounded(t *testing.T) {
	const changes = 200_000
	var f runs.FileDetail
	for range changes {
		f.SetChange("abcdef", "ghijkl")
	}
	if n := len(f.Diff.Head); n > 2*runs.DetailWindow || f.Diff.Omitted+n != changes*16 || *f.Added != changes {
		t.Errorf("%d bytes, %d omitted, +%d", n, f.Diff.Omitted, *f.Added)
	}
}

// A secret at or near a cut is never shown in part, wherever the cut is.
func TestSecretsAtCutsAreRedacted(t *testing.T) {
	pem := "-----BEGIN " + "RSA PRIVATE KEY-----\n" + strings.Repeat("MIIEowIBAAKCAQEA\n", 90) +
		"-----END " + "RSA PRIVATE KEY-----"
	secrets := []string{
		"ghp_" + strings.Repeat("Zq9", 20), "password=" + strings.Repeat("Zq9", 40), "https://u:Zq9Zq9Zq9Zq9@host/", pem,
		"Bearer " + strings.Repeat("Zq9.", 100), "SCRUB-" + strings.Repeat("Zq9", 10),
	}
	scrub := func(s string) string {
		return strings.ReplaceAll(s, "SCRUB-"+strings.Repeat("Zq9", 10), "[SCRUBBED]")
	}
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.SampledFrom(secrets).Draw(t, "secret")
		size := rapid.SampledFrom([]int{3_000, 9_000, 20_000, 50_000, 200_000}).Draw(t, "size")
		cut := rapid.SampledFrom([]int{2 << 10, 4 << 10, 8 << 10, 16 << 10}).Draw(t, "cut")
		at := cut - rapid.IntRange(-10, len(secret)+10).Draw(t, "offset")
		if rapid.Bool().Draw(t, "from the end") {
			at = size - rapid.SampledFrom([]int{4 << 10, 6 << 10}).Draw(t, "tail") -
				rapid.IntRange(-10, len(secret)).Draw(t, "before the end")
		}
		at = min(max(at, 0), size)
		filler := strings.Repeat(rapid.SampledFrom([]string{"a b\n", "x ", "é \n", "token=1 "}).Draw(t, "filler"), size/2)
		text := strings.ToValidUTF8(filler[:at], "") + " " + secret + " " + strings.ToValidUTF8(filler[at:size], "")
		d := runs.Detail{
			Prompt: runs.Whole(text), Command: runs.Whole(text), Output: runs.Whole(text), Stderr: runs.Whole(text),
			Files: []runs.FileDetail{{Path: "/a", Kind: "added", Diff: runs.Whole(text)}},
		}
		d.Limit(scrub)
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"Zq9", "MIIEow", "AAKCAQEA"} {
			if i := strings.Index(string(b), part); i >= 0 {
				t.Fatalf("a part of the secret is shown: %q", b[max(i-60, 0):min(i+60, len(b))])
			}
		}
	})
}

// anyDetail returns a detail of any texts.
func anyDetail(t *rapid.T) *runs.Detail {
	text := func(name string) string {
		piece := rapid.SampledFrom([]string{"a", "\x00", "é\n", "\u2028", "<", "🚀", "\xff", "token=", `"`, "x\n",
			"sk-abcdefghijkl "}).Draw(t, name)
		return strings.Repeat(piece, rapid.SampledFrom([]int{0, 1, 50, 300, 5_000, 40_000}).Draw(t, name+" length"))
	}
	excerpt := func(name string) *runs.Excerpted {
		e := runs.Whole(text(name))
		if e != nil && rapid.IntRange(0, 3).Draw(t, name+" windows") == 0 {
			e.Tail, e.Omitted = text(name+" tail"), rapid.IntRange(1, 1<<40).Draw(t, name+" omitted")
		}
		return e
	}
	code := rapid.Int().Draw(t, "code")
	d := &runs.Detail{
		Prompt: excerpt("prompt"), Command: excerpt("command"), Tool: text("tool"), Server: text("server"),
		Arguments: excerpt("arguments"), Output: excerpt("output"), Result: excerpt("result"), Stderr: excerpt("stderr"),
		Text: excerpt("text"), ExitCode: &code,
	}
	f := runs.FileDetail{Path: text("path"), Kind: "modified", Diff: excerpt("diff"), Added: &code, Removed: &code}
	for range rapid.SampledFrom([]int{0, 1, 4, 70}).Draw(t, "files") {
		d.Files = append(d.Files, f)
	}
	step := runs.PlanStep{Text: text("step"), State: text("state")}
	for range rapid.SampledFrom([]int{0, 1, 4, 70}).Draw(t, "steps") {
		d.Plan = append(d.Plan, step)
	}
	return d
}

// A detail is in bounds, whatever its texts are, and limiting it again changes nothing.
func detailFits(t *rapid.T) {
	d := anyDetail(t)
	for i := range d.Files { // Limit changes what it points to
		if diff := d.Files[i].Diff; diff != nil {
			c := *diff
			d.Files[i].Diff = &c
		}
	}
	d.Limit(nil)
	b, err := json.Marshal(d)
	if err != nil || len(b) > runs.MaxDetail || !utf8.Valid(b) {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	again := new(runs.Detail)
	if err := json.Unmarshal(b, again); err != nil {
		t.Fatal(err)
	}
	if again.Limit(nil); !reflect.DeepEqual(again, d) {
		t.Fatalf("limited again:\n%+v\n%+v", again, d)
	}
}

func TestAnyDetailFits(t *testing.T) { rapid.Check(t, detailFits) }

func FuzzDetail(f *testing.F) {
	f.Add([]byte(strings.Repeat("0123456789", 400)))
	f.Fuzz(rapid.MakeFuzz(detailFits))
}

// Only the parts of a text that are kept are read.
func TestLimitDoesNotReadAllOfALongText(t *testing.T) {
	text := strings.Repeat("password=hunter2 \x01", 60<<20/18)
	canary, from := fixture.StartCanary(t), time.Now()
	d := runs.Detail{Output: runs.Whole(text), Prompt: runs.Whole(text)}
	d.Limit(nil)
	canary.Within("the limited detail was there", time.Since(from), 2*time.Second)
}
