package codexcloud

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/runs"
)

func TestRefAcceptsIDsAndURLs(t *testing.T) {
	const id = "task_e_68c0b3b2f0d48321a4a0f8a7c1b2c3d4"
	for s, want := range map[string]string{
		id:                                      id,
		" " + id:                                id,
		"task_b_1":                              "task_b_1",
		"https://chatgpt.com/codex/tasks/" + id: id,
		"https://chatgpt.com/codex/tasks/" + id + "/":             id,
		"https://chatgpt.com/codex/tasks/" + id + "?tab=diff#top": id,
		"chatgpt.com/codex/tasks/" + id:                           id,
		"https://chat.openai.com/codex/tasks/" + id:               id,
		"https://chatgpt-staging.com/codex/tasks/" + id:           id,
		"https://chatgpt.com/g/x/codex/tasks/" + id:               id,
		"":                                       "",
		"T-cloud-0m5abcdefgh":                    "",
		"T-local-0m5abcdefgh":                    "",
		"-rf":                                    "",
		"--help":                                 "",
		"a b":                                    "",
		"task.e":                                 "",
		"http://chatgpt.com/codex/tasks/" + id:   "",
		"https://evil.example/codex/tasks/" + id: "",
		"https://chatgpt.com.evil.example/codex/tasks/" + id:            "",
		"https://user@chatgpt.com/codex/tasks/" + id:                    "",
		"https://chatgpt.com/codex/tasks/":                              "",
		"https://chatgpt.com/codex/tasks/a%2Fb":                         "",
		"https://chatgpt.com/" + id:                                     "",
		"https://chatgpt.com/codex/tasks/-x":                            "",
		"https://chatgpt.com/codex/tasks/" + strings.Repeat("x", 129):   "",
		"file:///codex/tasks/" + id:                                     "",
		"https://chatgpt.com/codex/tasks/../../codex/tasks/" + id + "x": id + "x",
	} {
		got, ok := Ref(s)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %v; want %q", s, got, ok, want)
		}
	}
}

func TestStatusIsDecidedByItsFirstLine(t *testing.T) {
	for _, c := range []struct {
		out  string
		want answer
		ok   bool
	}{
		{"[PENDING] Mend it\nowner/repo  •  2m ago\nno diff\n", answer{status: "pending", title: "Mend it",
			environment: "owner/repo"}, true},
		{"[READY] x\nowner/repo  •  2m ago\n+12/-3 • 2 files\n", answer{status: "ready", title: "x",
			environment: "owner/repo", files: 2, added: 12, removed: 3}, true},
		{"[READY] x\r\ne  •  now\r\n+1/-0 • 1 file\r\n", answer{status: "ready", title: "x", environment: "e", files: 1,
			added: 1}, true},
		{"[APPLIED] x\n2m ago\n+1/-0 • 1 file\n", answer{status: "applied", title: "x", files: 1, added: 1}, true},
		{"[ERROR] \ne  •  now\nno diff", answer{status: "error", environment: "e"}, true},
		{"[\x1b[32mREADY\x1b[0m] x\n\x1b[2me\x1b[0m  •  now\n\x1b[32m+1\x1b[0m/\x1b[31m-2\x1b[0m  •  3 \x1b[2mfile\x1b[0ms\n",
			answer{status: "ready", title: "x", environment: "e", files: 3, added: 1, removed: 2}, true},
		// a title of several lines
		{"[PENDING] one\n[READY] two\n+9/-9 • 9 files\ne  •  2m ago\nno diff\n", answer{status: "pending", title: "one",
			environment: "e"}, true},
		{"[READY] [ERROR] x\na  •  b  •  now\nno diff\n", answer{status: "ready", title: "[ERROR] x", environment: "a  •  b"},
			true},
		{"[READY]", answer{status: "ready"}, true},
		{"[READY] x\ne  •  now\n+9999999999/-1 • 1 file\n", answer{status: "ready", title: "x", environment: "e"}, true},
		{"", answer{}, false},
		{"\n[READY] x\n", answer{}, false},
		{"READY] x\n", answer{}, false},
		{"[ready] x\n", answer{}, false},
		{"[QUEUED] x\n", answer{}, false},
		{"Error: no\n[READY] x\n", answer{}, false},
		{"[READY x\n", answer{}, false},
	} {
		if got, ok := readStatus([]byte(c.out)); ok != c.ok || got != c.want {
			t.Errorf("%q:\n got %+v, %v\nwant %+v, %v", c.out, got, ok, c.want, c.ok)
		}
	}
}

func TestListOfUnknownFormIsRefused(t *testing.T) {
	good := `{"tasks":[{"id":"task_1","url":"u","title":"t","status":"ready","updated_at":"2026-11-21T14:13:59Z","environment_id":null,` +
		`"environment_label":"e","summary":{"files_changed":1,"lines_added":2,"lines_removed":3},"is_review":false,"attempt_total":1},` +
		`{"id":"-x","status":"ready"},{"id":"task_2","status":"queued"},{"id":"task_3","status":"pending","environment_label":null,"summary":{}}],"cursor":"20"}`
	p, ok := readPage(output{stdout: []byte(good)})
	if !ok || len(p.tasks) != 2 || p.cursor != "20" ||
		p.tasks["task_1"] != (answer{"ready", "t", "e", 1, 2, 3}) || p.tasks["task_3"] != (answer{status: "pending"}) {
		t.Errorf("%+v, %v", p, ok)
	}
	if p, ok := readPage(output{stdout: []byte(`{"tasks":[],"cursor":null}`)}); !ok || p.cursor != "" {
		t.Errorf("%+v, %v", p, ok)
	}
	for _, o := range []output{
		{}, {stdout: []byte("No tasks found.")}, {stdout: []byte("[]")}, {stdout: []byte("{}")}, {stdout: []byte("null")},
		{stdout: []byte(good), cut: true}, {stdout: []byte(good), exit: 1}, {stdout: []byte(good + good)},
		{stdout: []byte(`{"tasks":{}}`)},
	} {
		if p, ok := readPage(o); ok {
			t.Errorf("%.60q, exit %d, cut %v: %+v", o.stdout, o.exit, o.cut, p)
		}
	}
}

func TestDiffCountsFilesAndLines(t *testing.T) {
	for name, c := range map[string]struct {
		diff           string
		files          []fileChange
		added, removed int
	}{
		"none": {"", []fileChange{}, 0, 0},
		"all kinds": {`diff --git a/parse.go b/parse.go
index 111..222 100644
--- a/parse.go
+++ b/parse.go
@@ -1,3 +1,4 @@ func f() {
 same
-old
+new
+++ more
 same
@@ -10 +11 @@
--- old
+new
diff --git a/new.txt b/new.txt
new file mode 100644
--- /dev/null
+++ b/new.txt
@@ -0,0 +1 @@
+x
\ No newline at end of file
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1,2 +0,0 @@
-x
-diff --git a/no b/no
diff --git a/old name b/new name
similarity index 100%
rename from old name
rename to new name
diff --git a/empty b/empty
new file mode 100644
index 000..e69
diff --git a/logo.png b/logo.png
index 1..2 100644
Binary files a/logo.png and b/logo.png differ
diff --git "a/h\303\251.txt" "b/h\303\251.txt"
--- "a/h\303\251.txt"
+++ "b/h\303\251.txt"
@@ -1 +1 @@
-a
+b
`, []fileChange{
			{"parse.go", "update"}, {"new.txt", "add"}, {"gone", "delete"}, {"new name", "update"},
			{"empty", "add"}, {"logo.png", "update"}, {"hé.txt", "update"},
		}, 5, 5},
		"without git": {"--- a/x.c\t2026-01-01\n+++ b/x.c\t2026-01-02\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ " +
			"b/y.c\n@@ -0,0 +1,2 @@\n+1\n+2\n",
			[]fileChange{{"x.c", "update"}, {"y.c", "add"}}, 3, 1},
		"with carriage returns": {"diff --git a/x b/x\r\n--- a/x\r\n+++ b/x\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n",
			[]fileChange{{"x", "update"}}, 1, 1},
		"no diff at all": {"The task did nothing.\n+1\n-1\n@@ x\n", []fileChange{}, 0, 0},
		"a path with b/ in it": {"diff --git a/a b/c b/a b/c\nold mode 100644\nnew mode 100755\n",
			[]fileChange{{"a b/c", "update"}}, 0, 0},
		"changed modes": {"diff --git a/x b/x\nold mode 100644\nnew mode 100755\ndiff --git a/y b/y\nold mode 100755\n" +
			"new mode 100644\nindex 1..2\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-a\n+b\ndeleted lines\nnew ones\n",
			[]fileChange{{"x", "update"}, {"y", "update"}}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := readDiff([]byte(c.diff))
			if !slices.Equal(s.files, c.files) || s.added != c.added || s.removed != c.removed || s.unlisted != 0 {
				t.Errorf("got %+v, want %v +%d -%d", s, c.files, c.added, c.removed)
			}
		})
	}
}

func TestDiffOfManyFilesIsBounded(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		path := strings.Repeat("d/", i) + "f"
		b.WriteString("diff --git a/" + path + " b/" + path + "\nnew file mode 100644\n")
	}
	s := readDiff([]byte(b.String()))
	if len(s.files) == 0 || len(s.files) > maxFiles || s.size > maxFileBytes || len(s.files)+s.unlisted != 1000 {
		t.Errorf("%d files, %d unlisted, %d bytes", len(s.files), s.unlisted, s.size)
	}
	if line := encodeDiff([]byte(b.String()), true); bytes.Index(line, []byte(`,"diff":"`)) > runs.MaxChunk-1024 {
		t.Errorf("the diff begins at byte %d", bytes.Index(line, []byte(`,"diff":"`)))
	}
}

// TestDiffLineSurvivesAKillAnywhere: whatever the diff is, its line is one
// line of JSON, and between two of its chunks it can always be closed.
func TestDiffLineSurvivesAKillAnywhere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SampledFrom([]string{"a", "\\", "\\\\", "\"", "\n", "\x00", "é", "𝄞", "\xff", "\u2028", "+x\n",
			"\\u00", "\\n"})
		var diff []byte
		for range rapid.IntRange(0, 6).Draw(t, "stretches") {
			diff = append(diff, strings.Repeat(piece.Draw(t, "piece"), rapid.IntRange(1, 60_000).Draw(t, "times"))...)
			diff = append(diff, piece.Draw(t, "between")...)
		}
		line := encodeDiff(diff, true)
		if !bytes.Equal(line, encodeDiff(diff, true)) {
			t.Fatal("not the same again")
		}
		check := func(line []byte, wantAll bool) {
			var l struct {
				Type      string
				Diff      string
				Truncated bool
			}
			if !utf8.Valid(line) || bytes.IndexByte(line, '\n') != len(line)-1 || json.Unmarshal(line, &l) != nil ||
				l.Type != "cloud.diff" {
				t.Fatalf("%d bytes are no line", len(line))
			}
			whole := strings.ToValidUTF8(string(diff), "\uFFFD")
			if !strings.HasPrefix(whole, l.Diff) || len(l.Diff) > maxDiff || (l.Diff != whole) && !l.Truncated || wantAll &&
				l.Truncated && len(whole) <= maxDiff {
				t.Fatalf("%d of %d bytes, truncated: %v", len(l.Diff), len(whole), l.Truncated)
			}
		}
		check(line, true)
		for at := 0; at < len(line); {
			n := chunk(line[at:])
			if n <= 0 || n > runs.MaxChunk {
				t.Fatalf("a chunk of %d bytes", n)
			}
			at += n
			if at < len(line) {
				check(append(bytes.Clone(line[:at]), closing(line[:at])...), false)
			}
		}
	})
}

func TestBrokenLineIsEnded(t *testing.T) {
	for _, begun := range []string{"{", "garbage", `{"type":"cloud.diff","files":[`, `{"type":"cloud.status","title":"x`,
		`{"type":"cloud.diff","files":[],"diff":"\`} {
		if got := string(closing([]byte(begun))); got != "\n" {
			t.Errorf("%q is closed by %q", begun, got)
		}
	}
}

func TestViewDoesNotDependOnChunks(t *testing.T) {
	t.Parallel()
	log := `{"type":"cloud.submitted","id":"task_1","url":"u"}` + "\n" + `{"type":"cloud.submitted","id":"task_2"}` +
		"\nx\n" +
		`{"type":"cloud.status","status":"pending"}` + "\n" + `{"type":"cloud.status","status":"queued"}` + "\n" +
		`{"type":"cloud.diff","diff":""}` + "\n" + `{"type":"cloud.status","status":"ready"}` + "\n" + `{"type":"cloud`
	want := view{id: "task_1", status: "ready", differ: true, begun: []byte(`{"type":"cloud`)}
	rapid.Check(t, func(t *rapid.T) {
		var v view
		for rest := []byte(log); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "bytes")
			v.take(rest[:n])
			rest = rest[n:]
		}
		if v.id != want.id || v.status != want.status || v.differ != want.differ || !bytes.Equal(v.begun, want.begun) {
			t.Errorf("got %+v", v)
		}
	})
}

func TestFailureHasASuggestion(t *testing.T) {
	for _, c := range []struct {
		stderr     string
		exit       int
		reason     string
		suggestion string
		general    bool
	}{
		{"Not signed in. Please run 'codex login' to sign in with ChatGPT, then re-run 'codex cloud'.\n", 1,
			reasonNotSignedIn, "codex login", true},
		{"Error: 401 Unauthorized", 1, reasonNotSignedIn, "codex login", true},
		{"Not inside a trusted directory and --skip-git-repo-check was not specified.", 1, reasonNotGit, "git init", true},
		{"connect ECONNREFUSED 1.2.3.4", 1, reasonNetwork, "network", true},
		{"Error: error sending request for url (https://chatgpt.com/)", 1, reasonNetwork, "network", true},
		{"failed: 429 Too Many Requests", 1, reasonRateLimit, "Wait", true},
		{"EACCES: /root/.codex", 1, reasonPermission, "permissions", false},
		{"Error: operation timed out", 1, reasonSlow, "split", true},
		{"Error: No diff available for task task_e_1; it may still be running.", 1, reasonNoDiff, "", false},
		{"Error: environment 'x' not found; run `codex cloud` to list available environments", 1, reasonNotFound,
			"environment", false},
		{"Error: GET https://x failed: 404 Not Found", 1, reasonNotFound, "task id", false},
		{"error: unexpected argument '--limit' found", 2, reasonUsage, "Update", true},
		{"what\nError: it broke\nmore", 1, reasonExit, "Error: it broke", false},
		{"", 7, reasonExit, "", false},
		{"", 0, reasonUnreadable, "version", false},
	} {
		f := call{args: []string{"status"}}.failed(output{exit: c.exit, stderr: []byte(c.stderr)})
		if f.Reason != c.reason || !strings.Contains(f.Suggestion, c.suggestion) || c.suggestion == "" &&
			f.Suggestion != "" || f.general() != c.general {
			t.Errorf("%q: %+v, general: %v", c.stderr, f, f.general())
		}
		if f.Exit != c.exit || f.Stderr != strings.TrimSpace(c.stderr) || f.Command != "status" {
			t.Errorf("%q: %+v", c.stderr, f)
		}
	}
	for _, reason := range []string{reasonPermission, reasonTimeout} { // a list is of no single task
		if f := (&Failure{Command: "list", Reason: reason}); !f.general() {
			t.Errorf("%v is not general", f)
		}
	}
}

func TestStderrIsShortAndClean(t *testing.T) {
	stderr := "WARNING: proceeding, even though\n\x1b[33mwarning:\x1b[0m old\nfirst\x00\nStack backtrace:\n   0: " +
		"a\n             at /rustc/x.rs:1\n\n10: b\nsecond \xff\n"
	f := call{args: []string{"list"}}.failed(output{exit: 1, stderr: []byte(stderr)})
	if f.Stderr != "first\nsecond \uFFFD" {
		t.Errorf("%q", f.Stderr)
	}
	f = call{args: []string{"list"}}.failed(output{exit: 1,
		stderr: []byte("start" + strings.Repeat("é", 1000) + "the end")})
	if len(f.Stderr) > maxFailureText || !utf8.ValidString(f.Stderr) || !strings.HasSuffix(f.Stderr, "éthe end") {
		t.Errorf("%d bytes: %q", len(f.Stderr), f.Stderr)
	}
}

func TestCredentialsAreHidden(t *testing.T) {
	for _, s := range []string{"Error: Authorization: Bearer S3CR3Tabcdef", "failed at https://user:S3CR3T@host/x",
		`Error: {"access_token":"S3CR3T"}`, "error sk-proj-S3CR3Tabcdefgh"} {
		f := call{args: []string{"list"}}.failed(output{exit: 1, stderr: []byte(s)})
		if strings.Contains(f.Stderr+f.Suggestion, "S3CR3T") || !strings.Contains(f.Stderr, "[redacted]") {
			t.Errorf("%q becomes %+v", s, f)
		}
	}
	const page = "Error: GET https://chatgpt.com/codex/tasks/task_e_1"
	if f := (call{args: []string{"list"}}).failed(output{exit: 1, stderr: []byte(page)}); f.Stderr != page {
		t.Errorf("%q becomes %q", page, f.Stderr)
	}
}

// FuzzAnswers: whatever the program prints, reading it ends, and gives what a
// line can hold.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte("[READY] x\nowner/repo  •  2m ago\n+12/-3 • 2 files\n"))
	f.Add([]byte(`{"tasks":[{"id":"task_1","title":"t","status":"ready","summary":{"files_changed":1}}],"cursor":"20"}`))
	f.Add([]byte("diff --git \"a/\\303\" \"b/\\303\"\nnew file mode\n--- a\n+++ \"\n@@ -1,9 +1,9 @@\n-x\n"))
	f.Add([]byte("warning: x\nStack backtrace:\n 0: x\nError: y"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if a, ok := readStatus(b); ok {
			if line := encodeStatus(a); !utf8.Valid(line) || len(line) > 8<<10 || !json.Valid(line) ||
				bytes.Count(line, []byte{'\n'}) != 1 {
				t.Errorf("%q", line)
			}
		}
		if p, ok := readPage(output{stdout: b}); ok {
			for id, a := range p.tasks {
				if runs.CheckCloudTask(id) != nil || !json.Valid(encodeStatus(a)) {
					t.Errorf("%q: %+v", id, a)
				}
			}
		}
		if line := encodeDiff(b, true); !json.Valid(line) || !utf8.Valid(line) {
			t.Errorf("%q", line)
		}
		failure := call{args: []string{"list"}}.failed(output{exit: 1, stderr: b})
		if len(failure.Stderr) > maxFailureText || !utf8.ValidString(failure.Stderr) || len(failure.Suggestion) > 300 {
			t.Errorf("%+v", failure)
		}
	})
}

func TestScratchOfKilledCallsIsRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old, young, other := filepath.Join(dir, "call-1"), filepath.Join(dir, "call-2"), filepath.Join(dir, "keep")
	for _, d := range []string{old, young, other} {
		if err := os.MkdirAll(filepath.Join(d, "x"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * time.Hour)
	for _, d := range []string{old, other} {
		if err := os.Chtimes(d, past, past); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := New(Config{Command: []string{"codex"}, Scratch: dir, Logs: newMemLogs()}); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(dir + "/*")
	if err != nil || !slices.Equal(left, []string{young, other}) {
		t.Errorf("left: %q, %v", left, err)
	}
}
