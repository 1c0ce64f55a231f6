package runs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

func output(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/outputs", name))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// read parses a command's output without overwriting it.
func read(text string, failed bool) runs.Findings {
	return runs.ReadOutput([]byte(text), failed)
}

func at(file string, position ...int) runs.Location {
	l := runs.Location{File: file, Line: position[0]}
	if len(position) > 1 {
		l.Column = position[1]
	}
	return l
}

// The recorded outputs of test tools and their expected findings. README.md in
// the folder documents the origin of the files.
func TestOutputsOfRealTools(t *testing.T) {
	type locations = []runs.Location
	junk := "Cannot read properties of undefined (reading 'name')"
	table := map[string]struct {
		passed, failed, skipped int
		names                   []string
		line, errorType         string
		locations               locations
	}{
		"go-plain.txt": {1, 2, 0, []string{"TestTable", "TestTable/two_words"}, "--- FAIL: TestTable (0.00s)", "",
			locations{at("a_test.go", 15)}},
		"go-v.txt": {4, 2, 1, []string{"TestTable", "TestTable/two_words"}, "--- FAIL: TestTable (0.00s)", "",
			locations{at("a_test.go", 15), at("a_test.go", 21)}},
		"go-json.txt": {4, 2, 1, []string{"TestTable/two_words", "TestTable"}, "*", "",
			locations{at("a_test.go", 15), at("a_test.go", 21)}},
		"go-build.txt": {1, 1, 0, []string{"example.com/shop/c [build failed]"},
			"FAIL example.com/shop/c [build failed]", "", locations{at("c/c.go", 2, 24)}},
		"go-panic.txt": {0, 1, 0, []string{"TestNil"},
			"panic: assignment to entry in nil map [recovered, repanicked]", "",
			locations{at("/home/dev/project/c/c_test.go", 7)}},
		"go-plain-ok.txt": {1, 0, 0, nil, "", "", nil},
		"cargo.txt": {3, 1, 1, []string{"tests::wrong"},
			"thread 'tests::wrong' (26850) panicked at src/lib.rs:11:18:", "",
			locations{at("src/lib.rs", 11, 18)}},
		"cargo-error.txt": {-1, 0, 0, nil, "error[E0308]: mismatched types", "", locations{at("src/lib.rs", 1, 21)}},
		"node-tap.txt": {2, 2, 1, []string{"subtracts", "refuses junk"}, "error: '2 == 1'", "AssertionError",
			locations{at("/home/dev/project/sum.test.js", 4, 1), at("/home/dev/project/sum.test.js", 8, 3),
				at("/home/dev/project/sum.test.js", 6, 1)}},
		"node-spec.txt": {2, 2, 1, []string{"subtracts", "refuses junk"},
			"AssertionError [ERR_ASSERTION]: 2 == 1", "AssertionError",
			locations{at("/home/dev/project/sum.test.js", 4, 32), at("/home/dev/project/sum.test.js", 8, 53),
				at("sum.test.js", 4, 1), at("sum.test.js", 8, 3)}},
		"node-spec-color.txt": {2, 2, 1, []string{"subtracts", "refuses junk"},
			"AssertionError [ERR_ASSERTION]: 2 == 1", "AssertionError",
			locations{at("/home/dev/project/sum.test.js", 4, 32), at("/home/dev/project/sum.test.js", 8, 53),
				at("sum.test.js", 4, 1), at("sum.test.js", 8, 3)}},
		"node-crash.txt": {-1, 0, 0, nil, "TypeError: " + junk, "TypeError",
			locations{at("/home/dev/project/crash.js", 2, 15)}},
		"jest.txt": {3, 1, 1, []string{"parser › refuses junk"}, "TypeError: " + junk, "TypeError",
			locations{at("sum.test.js", 7, 55)}},
		"jest-color.txt": {3, 1, 1, []string{"parser › refuses junk"}, "TypeError: " + junk, "TypeError",
			locations{at("sum.test.js", 7, 55)}},
		"jest-ok.txt": {1, 0, 0, nil, "", "", nil},
		"mocha.txt": {2, 2, 1, []string{"refuses junk", "is slow"}, "TypeError: " + junk, "TypeError",
			locations{at("mocha/sum.spec.js", 6, 53), at("mocha/sum.spec.js", 7, 30)}},
		"mocha-color.txt": {2, 2, 1, []string{"refuses junk", "is slow"}, "TypeError: " + junk, "TypeError",
			locations{at("mocha/sum.spec.js", 6, 53), at("mocha/sum.spec.js", 7, 30)}},
		"vitest.txt": {2, 1, 1, []string{"sum.test.mjs > parser > refuses junk"}, "TypeError: " + junk,
			"TypeError", locations{at("sum.test.mjs", 6, 55)}},
		"vitest-color.txt": {2, 1, 1, []string{"sum.test.mjs > parser > refuses junk"},
			"TypeError: " + junk, "TypeError",
			locations{at("sum.test.mjs", 6, 55)}},
		"vitest-junit.txt": {2, 1, 1, []string{"parser > refuses junk"}, "*", "TypeError",
			locations{at("sum.test.mjs", 6, 55)}},
		"unittest.txt": {1, 2, 1, []string{"test_breaks (test_shop.Shop.test_breaks)",
			"test_wrong (test_shop.Shop.test_wrong)"}, "KeyError: 'name'", "KeyError",
			locations{at("/home/dev/project/test_shop.py", 12), at("/home/dev/project/test_shop.py", 9)}},
		"python-crash.txt": {-1, 0, 0, nil, "IndexError: list index out of range", "IndexError",
			locations{at("/home/dev/project/crash.py", 4), at("/home/dev/project/crash.py", 2)}},
		"pytest.txt": {2, 2, 1, []string{"tests/test_shop.py::test_wrong", "tests/test_shop.py::test_broken"},
			"E RuntimeError: no cart", "RuntimeError",
			locations{at("tests/test_shop.py", 21), at("tests/test_shop.py", 9)}},
		"pytest-quiet.txt": {3, 0, 1, nil, "", "", nil},
		"maven.txt": {2, 2, 1, []string{"com.example.CartTest.adds", "com.example.CartTest.breaks"},
			"java.lang.AssertionError: expected:<3> but was:<2>", "AssertionError",
			locations{at("CartTest.java", 12), at("CartTest.java", 18)}},
		"surefire-report.xml": {1, 1, 1, []string{"breaks<T>"}, "*", "NullPointerException",
			locations{at("CartTest.java", 18)}},
		"tsc.txt": {-1, 0, 0, nil, "src/cart.ts(42,15): error TS2322: Type 'string' is not assignable to type " +
			"'number'.", "",
			locations{at("src/cart.ts", 42, 15), at("src/shop.ts", 7, 1)}},
	}
	files, err := os.ReadDir("testdata/outputs")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := file.Name()
		want, ok := table[name]
		if !ok {
			if name != "README.md" {
				t.Errorf("%s is not in the table", name)
			}
			continue
		}
		t.Run(name, func(t *testing.T) {
			f := runs.ReadOutput(output(t, name), true)
			if want.passed < 0 {
				if f.Tests != nil {
					t.Errorf("tests %+v where there are none", f.Tests)
				}
			} else if tests := (runs.Tests{Passed: want.passed, Failed: want.failed, Skipped: want.skipped,
				FailedTests: append([]string{}, want.names...)}); f.Tests == nil ||
				!reflect.DeepEqual(*f.Tests, tests) {
				t.Errorf("tests %+v, want %+v", f.Tests, tests)
			}
			if f.Line != want.line && want.line != "*" {
				t.Errorf("line %q, want %q", f.Line, want.line)
			}
			if f.ErrorType != want.errorType {
				t.Errorf("type %q, want %q", f.ErrorType, want.errorType)
			}
			if !slices.Equal(f.Locations, want.locations) {
				t.Errorf("locations %+v, want %+v", f.Locations, want.locations)
			}
			if f := runs.ReadOutput(output(t, name), false); f.Line != "" || f.ErrorType != "" || f.Locations != nil {
				t.Errorf("of a command that did not fail: %+v", f)
			}
		})
	}
}

// MayHaveFindings misses no recorded output with findings, neither as plain text
// nor as a JSON string.
func TestMayHaveFindingsMissesNoRecordedOutput(t *testing.T) {
	files, err := filepath.Glob("testdata/outputs/*")
	if err != nil || len(files) == 0 {
		t.Fatal("no outputs", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		escaped := bounds.AppendString(nil, text)
		plain, quoted := runs.MayHaveFindings(text), runs.MayHaveFindings(escaped)
		if tests := runs.ReadOutput(text, false).Tests != nil; plain != quoted || tests && !plain {
			t.Errorf("%s: tests %v; found %v, as JSON %v", file, tests, plain, quoted)
		}
	}
	if runs.MayHaveFindings([]byte("The bypass failed to compass all; FAILURE --- a/x.go +++ ok, 3 files")) {
		t.Error("prose counts as findings")
	}
}

func TestTestsInOutputs(t *testing.T) {
	tests := func(passed, failed, skipped int, names ...string) *runs.Tests {
		return &runs.Tests{Passed: passed, Failed: failed, Skipped: skipped, FailedTests: append([]string{}, names...)}
	}
	goBad, pyGood := "--- FAIL: TestA (0.00s)\nFAIL\nFAIL\texample.com/a\t0.1s\nFAIL\n", "==== 3 passed in 0.01s ====\n"
	for _, c := range []struct {
		why, text string
		want      *runs.Tests
	}{
		{"nothing", "", nil},
		{"prose", "2 tests passed and 1 failed. Tests: none. ok\nFAIL\n--- a/x.go\n+++ b/x.go\n", nil},
		{"the newest tool wins", goBad + pyGood, tests(3, 0, 0)},
		{"the newest tool wins, the other way round", pyGood + goBad, tests(0, 1, 0, "TestA")},
		{"the newest run wins", "==== 1 failed, 2 passed in 0.01s ====\n" + pyGood, tests(3, 0, 0)},
		{"Windows line ends", "--- FAIL: TestA (0.00s)\r\nFAIL\texample.com/a\t0.1s\r\n", tests(0, 1, 0, "TestA")},
		{"a suite that does not load", "Test Suites: 1 failed, 1 total\nTests:       0 total\n", tests(0, 1, 0)},
		{"no tests to run", "ok  \texample.com/a\t0.1s [no tests to run]\n", tests(0, 0, 0)},
		{"a doubled name", "FAILED a.py::x - y\nFAILED a.py::x - z\n2 failed in 0.2s\n", tests(0, 2, 0, "a.py::x")},
		{"expected failures are none", "=== 1 passed, 1 xfailed, 1 xpassed in 0.20s ===", tests(1, 0, 0)},
		{"a long run of pytest", "=== 1 passed, 2 warnings in 3605.00s (1:00:05) ===", tests(1, 0, 0)},
		{"unittest, all well", "Ran 1 test in 0.001s\n\nOK\n", tests(1, 0, 0)},
		{"OK alone", "OK\n", nil},
		{"modules of Maven", "[INFO] Tests run: 3, Failures: 0, Errors: 0, Skipped: 1\n[INFO] Tests run: 2," +
			" Failures: 1, Errors: 0, Skipped: 0\n", tests(3, 1, 1)},
		{"numbers without end", "=== 99999999999999999999999999 passed in 0.1s ===", tests(1_000_000_000, 0, 0)},
		{"a secret in a name", "FAILED a.py::test[token=hunter22] - no\n1 failed in 0.2s\n",
			tests(0, 1, 0, "a.py::test[token="+runs.Redacted)},
	} {
		if got := read(c.text, false).Tests; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.why, got, c.want)
		}
	}
	var many strings.Builder
	for i := range 25 {
		fmt.Fprintf(&many, "--- FAIL: Test%d%s (0.00s)\n", i, strings.Repeat("é", 300))
	}
	got := read(many.String(), false).Tests
	if got == nil || got.Failed != 25 || len(got.FailedTests) != runs.MaxFailedTests {
		t.Fatalf("of 25 failed tests: %+v", got)
	}
	for _, name := range got.FailedTests {
		if bounds.StringSize(name) > 128 || !utf8.ValidString(name) || !strings.HasSuffix(name, "…") {
			t.Errorf("name of %d bytes: %q", len(name), name)
		}
	}
}

func TestDiffStat(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
	}{
		{" a.go | 3 ++-\n 1 file changed, 2 insertions(+), 1 deletion(-)\n", 3},
		{" 2 files changed, 1 insertion(+)\n", 1},
		{"[main 1a2b3c] message\n 9 files changed, 120 deletions(-)\n", 120},
		{" 1 file changed, 1 insertion(+)\n 1 file changed, 1 insertion(+)\n", -1}, // a history
		{"it had 12 insertions(+) in the end", -1},
		{"3 insertions", -1},
		{"", -1},
	} {
		got := int64(-1)
		if n := read(c.text, false).LinesChanged; n != nil {
			got = *n
		}
		if got != c.want {
			t.Errorf("%q: %d, want %d", c.text, got, c.want)
		}
	}
}

func TestLocations(t *testing.T) {
	for _, c := range []struct {
		text string
		want []runs.Location
	}{
		{"src/a.ts:12:5 - error", []runs.Location{at("src/a.ts", 12, 5)}},
		{"at f (/srv/app/b.js:7)", []runs.Location{at("/srv/app/b.js", 7)}},
		{"at file:///srv/app/b.mjs:7:2", []runs.Location{at("/srv/app/b.mjs", 7, 2)}},
		{`  File "app/größe.py", line 30, in f`, []runs.Location{at("app/größe.py", 30)}},
		{"./x.go:1: a\nx.go:1:9: b\nx.go:2: c", []runs.Location{at("x.go", 1, 9), at("x.go", 2)}},
		{"a/node_modules/b/c.js:1:2 /usr/local/go/src/os/file.go:1 /x/site-packages/y.py:2", nil},
		{"at java.base/java.util.List.get(List.java:10) at org.junit.Assert.fail(Assert.java:9)", nil},
		{"http://localhost:3000 12:30:45 readme.txt:3 .go:4 a.go:0 a.go: b.go", nil},
		{"a.c:1 b.c:1 c.c:1 d.c:1 e.c:1 f.c:1",
			[]runs.Location{at("a.c", 1), at("b.c", 1), at("c.c", 1), at("d.c", 1), at("e.c", 1)}},
		{strings.Repeat("x", 500) + ".go:3", nil},
		{"C:\\src\\a.cs:3", []runs.Location{at(`\src\a.cs`, 3)}},
	} {
		if got := read(c.text, true).Locations; !slices.Equal(got, c.want) {
			t.Errorf("%q: %+v, want %+v", c.text, got, c.want)
		}
	}
}

// The findings of any output are valid text within the limits, and the record
// stays within its limit.
func FuzzReadOutput(f *testing.F) {
	files, err := filepath.Glob("testdata/outputs/*")
	if err != nil || len(files) == 0 {
		f.Fatal("no outputs", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, true)
	}
	for _, text := range []string{"\x1b", "\x1b[", "\x1b]0;x", "\x1b[31m3 passed\x1b[0m in 0.1s", "(1,2):", "):",
		`", line 3`, "Error", "<testsuite><testcase name=\"", "\xff.go:1"} {
		f.Add([]byte(text), true)
	}
	f.Fuzz(func(t *testing.T, text []byte, failed bool) {
		r := runs.NewRecord("T-local-x", "codex")
		findings := runs.ReadOutput(text, failed)
		r.Line(runs.Facts{Command: &findings}, 1)
		checkBounds(t, r)
		code := 1
		r.End(runs.Exit{Reason: runs.ReasonExited, Code: &code}, 2)
		checkBounds(t, r)
	})
}

// checkBounds checks all limits of a record.
func checkBounds(t interface {
	Errorf(string, ...any)
}, r *runs.Record) {
	size := bounds.StringSize[string]
	if n := len(r.JSON()); n > runs.MaxRecord {
		t.Errorf("a record of %d bytes", n)
	}
	if utf8.RuneCountInString(r.Activity) > runs.MaxActivity || !utf8.ValidString(r.Activity) {
		t.Errorf("activity %q", r.Activity)
	}
	if s := r.Summary(); utf8.RuneCountInString(s) > runs.MaxSummary || s == "" || !utf8.ValidString(s) ||
		strings.ContainsAny(s, "\n\x00\x1b") {
		t.Errorf("summary %q", s)
	}
	if p := r.Progress; p != nil && (p.Percent < 0 || p.Percent > 100 || p.Percent == 100 &&
		r.State != runs.StateCompleted || p.Done > p.Total) {
		t.Errorf("progress %+v in state %s", p, r.State)
	}
	if f := r.Files; f != nil {
		for _, list := range [][]string{f.Modified, f.Added, f.Deleted} {
			if len(list) > runs.MaxPaths || list == nil {
				t.Errorf("%d paths in a list", len(list))
			}
		}
	}
	if tests := r.Tests; tests != nil {
		if tests.Passed < 0 || tests.Failed < 0 || tests.Skipped < 0 || tests.FailedTests == nil ||
			len(tests.FailedTests) > runs.MaxFailedTests {
			t.Errorf("tests %+v", tests)
		}
	}
	if c := r.ErrorContext(); c != nil {
		if c.Message == "" || len(c.Message) > runs.MaxErrorMessage+len("…") || len(c.Type) > 80 ||
			len(c.Locations) > runs.MaxLocations || len(c.FailedFiles) > runs.MaxLocations ||
			len(c.Suggestions) > runs.MaxSuggestions {
			t.Errorf("error context %+v", c)
		}
		for _, l := range c.Locations {
			if l.Line <= 0 || l.Column < 0 || size(l.File) > 160 || !utf8.ValidString(l.File) {
				t.Errorf("location %+v", l)
			}
		}
	}
}

// The time is linear, whatever repeats: else each of these outputs takes minutes.
func TestOutputsAreReadInLinearTime(t *testing.T) {
	for _, piece := range []string{"):", "(1):", ":1", "a.go:0", `", line `, "1 passed", "(", "\x1b["} {
		f := read(strings.Repeat(piece, 2<<20/len(piece)), true)
		if len(f.Locations) > 0 {
			t.Errorf("%q: %+v", piece, f.Locations)
		}
	}
}

// MayHaveFindings misses no output with findings.
func TestMayHaveFindingsAgreesWithReadOutput(t *testing.T) {
	pieces := rapid.SampledFrom([]string{
		"3 passed", "1 failed", ", ", " in 0.1s", "\n", "Tests: ", " total", "Tests  ", "(3)", "2 passing (1ms)",
		"1 pending", "ok  \tx\t0.1s", "--- FAIL: T (0s)",
		"FAIL\tx [build failed]", "test result: ok. 1 passed; 0 failed", "ℹ tests 3", "ℹ pass 3", "# tests 1",
		"# pass 1", "Ran 3 tests in 1s", "OK", "Tests run: 3, Failures: 1",
		`{"Action":"pass","Test":"T"}`, `<testsuite><testcase name="a">`, "1 insertion(+)", "2 deletions(-)", "1 error",
		"\x1b[1m", " ", "Test Suites: 1 failed, 1 total", "4 skipped",
	})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(pieces, 1, 8).Draw(t, "pieces"), "")
		f := read(text, false)
		if escaped := bounds.AppendString(nil, text); (f.Tests != nil || f.LinesChanged != nil) &&
			!runs.MayHaveFindings(escaped) {
			t.Fatalf("%q has %+v, but MayHaveFindings is false", text, f)
		}
	})
}
