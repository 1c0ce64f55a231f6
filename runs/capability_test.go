package runs_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
)

func TestFurtherDirectoriesAreRelativeToTheDirectoryOfTheTask(t *testing.T) {
	task := runs.Task{Attributes: runs.Attributes{Dir: "/srv/a"}, AddDirs: []string{
		"x", " ../b/./c ", "/etc//x/", "~/y", "$HOME", ".", "..",
	}}
	given := slices.Clone(task.AddDirs)
	before := task
	task.PlaceAddDirs()
	want := []string{"/srv/a/x", "/srv/b/c", "/etc/x", "/srv/a/~/y", "/srv/a/$HOME", "/srv/a", "/srv"}
	if !slices.Equal(task.AddDirs, want) || !slices.Equal(before.AddDirs, given) {
		t.Errorf("%q, from %q", task.AddDirs, before.AddDirs)
	}
}

func TestOptionsOfTasksAreChecked(t *testing.T) {
	long := strings.Repeat("x/", 4<<10)
	const path = ": must be a path of printable text, at most 1024 bytes"
	for name, c := range map[string]struct {
		set  func(*runs.Task)
		want string
	}{
		"none": {func(*runs.Task) {}, ""},
		"valid": {func(t *runs.Task) {
			t.AddDirs, t.Unboxed, t.Mode = []string{"a", "/b"}, new(true), runs.DangerFull
		}, ""},
		"no dirs": {func(t *runs.Task) { t.AddDirs = []string{} }, "addDirs: must be 1 to 16 directories, got 0"},
		"17 dirs": {func(t *runs.Task) { t.AddDirs = slices.Repeat([]string{"a"}, 17) },
			"addDirs: must be 1 to 16 directories, got 17"},
		"blank": {func(t *runs.Task) { t.AddDirs = []string{"a", " "} }, "addDirs.1" + path},
		"long":  {func(t *runs.Task) { t.AddDirs = []string{long} }, "addDirs.0" + path},
		"two lines": {func(t *runs.Task) { t.AddDirs = []string{"a\nb"} },
			"addDirs.0" + path},
		"another mode": {func(t *runs.Task) { t.Unboxed = new(true) },
			"externalSandbox: only in mode danger-full-access, which it implies"},
		"live": {func(t *runs.Task) { t.Live, t.AddDirs, t.Unboxed = true, []string{"a"}, new(false) },
			"live: not with externalSandbox: the protocol of live runs has no way for it"},
	} {
		task := runs.Task{Attributes: runs.Attributes{Agent: "crow", Mode: runs.ReadOnly, Dir: "/srv"}, Prompt: "x"}
		c.set(&task)
		got := ""
		if err := task.Check(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A program that names a flag of an option on stderr, prints nothing else and fails has refused it, in whatever pieces
// stderr is stored.
func TestAProgramThatRefusesAnOptionHasAReason(t *testing.T) {
	for _, c := range []struct {
		flags          []string
		stderr, stdout string
		code           int
		want           string
	}{
		{[]string{"--add-dir"}, "error: unexpected argument '--add-dir' found\n", "", 2, "option refused"},
		{[]string{"--x", "--add-dir"}, "-----add-dir", "", 1, "option refused"},
		{[]string{"--add-dir"}, "error: unexpected argument '--add-dirs'\n", "\n", 2, "option refused"},
		{[]string{"--add-dir"}, "error: unexpected argument '--add-di' found\n", "", 2, "exit status"},
		{[]string{"--add-dir"}, "--add-dir is old", `{"type":"x"}` + "\n", 2, "exit status"},
		{[]string{"--add-dir"}, "--add-dir is old", "", 0, "silent"},
		{nil, "error: unexpected argument '--add-dir' found\n", "", 2, "exit status"},
		{[]string{"--add dir"}, "--add dir", "", 2, "exit status"},
		{slices.Repeat([]string{"--a"}, 5), "--a", "", 2, "exit status"},
	} {
		for size := 1; size <= len(c.stderr); size++ {
			r := runs.NewRecord("T-local-x", "crow")
			r.Entry(runs.Entry{Kind: runs.Started, Time: 1, Body: runs.Encode(runs.Start{Source: "run", Flags: c.flags})})
			for at := 0; at < len(c.stderr); at += size {
				r.Entry(runs.Entry{Kind: runs.ErrOut, Time: 2, Offset: int64(at),
					Body: []byte(c.stderr[at:min(at+size, len(c.stderr))])})
			}
			if c.stdout != "" {
				r.Line(runs.Facts{}, 2)
				if c.stdout == "\n" {
					r.Blank++
				}
			}
			r.End(runs.Exit{Reason: runs.ReasonExited, Code: &c.code}, 3)
			if r.Reason != c.want {
				t.Errorf("%q in pieces of %d: %q, want %q", c.stderr, size, r.Reason, c.want)
			}
			if strings.Contains(string(r.JSON()), "unexpected") {
				t.Errorf("the record has a piece of stderr: %s", r.JSON())
			}
			if b := r.Brief(); c.want == "option refused" && (b.Cause != runs.OptionRefused || b.Hint == "") {
				t.Errorf("people read %q, %q", b.Cause, b.Hint)
			}
		}
	}
}
