package runs_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
)

func TestCommandsThatRunTestsByWayOfOthers(t *testing.T) {
	for command, want := range map[string]bool{
		"make test": true, "make -C sub check": true, "make -j4 unit-test": true, "cd a && make test": true,
		"/bin/bash -lc 'make test'": true, "sh -c \"just test\"": true, "npm run test:unit": true, "yarn test": true,
		"pnpm --filter x test": true, "./gradlew :app:test": true, "mvn -q test": true, "tox -e check": true,
		"nox -s test": true, "task test": true, "make build\nmake test": true, "FOO=1 make test": true,

		"make": false, "make build": false, "make latest": false, "make checkout": false, "cmake test": false,
		"pytest": false, "go test ./...": false, "cat test": false, "make; cat test": false, "make | grep check": false,
		"make build && ls test": false, "echo remake test": false, "test -f make": false, "": false, "makefile test": false,
	} {
		if got := runs.RunsTests([]byte(command)); got != want {
			t.Errorf("%q: %v, want %v", command, got, want)
		}
	}
}

// Behind such a command a line of nothing but totals counts, near the end, and only if no test program is
// known by its own summary. Behind others it may be prose.
func TestLinesOfTotals(t *testing.T) {
	far := strings.Repeat("x\n", 200)
	for _, c := range []struct {
		output                  string
		totals                  bool
		passed, failed, skipped int // -1: none
	}{
		{"ok\n12 passed, 1 failed, 2 skipped\n", true, 12, 1, 2},
		{"  \x1b[32m12 passed\x1b[0m  \nmake: *** [test] Error 1\n", true, 12, 0, 0},
		{"3 passed, 2 skipped", true, 3, 0, 2},
		{"1 passed\n2 passed, 3 failed\n", true, 2, 3, 0},
		{"=== 7 passed in 0.03s ===\n12 passed\n", true, 7, 0, 0},
		{"12 passed\n" + far[2:], true, 12, 0, 0},

		{"12 passed, 1 failed\n", false, -1, 0, 0},
		{"12 passed\n" + far, true, -1, 0, 0},
		{"2 failed, 12 passed\n", true, -1, 0, 0},
		{"12 passed, 2 skipped, 1 failed\n", true, -1, 0, 0},
		{"12 passed, 3 passed\n", true, -1, 0, 0},
		{"12 passed.\n", true, -1, 0, 0},
		{"12 passed, 1 failed, \n", true, -1, 0, 0},
		{"all 12 passed\n", true, -1, 0, 0},
		{"12 passed the test\n", true, -1, 0, 0},
		{" passed\n", true, -1, 0, 0},
		{"1 failed\n", true, -1, 0, 0},
	} {
		f := runs.ReadParts([]byte(c.output), runs.Parts{Summaries: true, Totals: c.totals})
		switch {
		case f.Tests == nil:
			if c.passed >= 0 {
				t.Errorf("%.60q: nothing, want %+v", c.output, c)
			}
		case c.passed < 0, f.Tests.Passed != c.passed, f.Tests.Failed != c.failed, f.Tests.Skipped != c.skipped,
			f.Tests.FailedTests == nil:
			t.Errorf("%.60q: %+v, want %+v", c.output, f.Tests, c)
		}
	}
}
