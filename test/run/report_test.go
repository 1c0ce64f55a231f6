package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// play gives lines of go test -json to a report, and returns what it prints.
func play(t *testing.T, lines ...string) (string, *report) {
	t.Helper()
	var out strings.Builder
	r := newReport(&out, false)
	r.left(module+"test/chaos", "sieges take minutes")
	for _, line := range lines {
		r.line([]byte(line))
	}
	r.summary(61500*time.Millisecond, "with the race detector")
	return out.String(), r
}

func in(pkg string, rest string) string {
	return `{"Time":"2026-01-01T00:00:00Z","Package":"github.com/linesman/linesman/` + pkg + `",` + rest + `}`
}

func TestReportTellsWhatWasTestedAndWhatWasNot(t *testing.T) {
	got, r := play(t,
		in("bus", `"Action":"start"`),
		in("bus", `"Action":"run","Test":"TestA"`),
		in("worker", `"Action":"start"`),
		in("bus", `"Action":"output","Test":"TestA","Output":"    a_test.go:1: some log\n"`),
		in("bus", `"Action":"pass","Test":"TestA","Elapsed":1.5`),
		in("bus", `"Action":"output","Test":"TestB/sub","Output":"    b_test.go:12: only make test-all: needs tmux\n"`),
		in("bus", `"Action":"output","Test":"TestB/sub","Output":"    --- SKIP: TestB/sub (0.00s)\n"`),
		in("bus", `"Action":"skip","Test":"TestB/sub","Elapsed":0`),
		in("bus", `"Action":"output","Output":"PASS\n"`),
		in("bus", `"Action":"pass","Elapsed":12.34`),
		in("bounds", `"Action":"pass","Test":"TestC","Elapsed":0`),
		in("bounds", `"Action":"output","Output":"ok  \tgithub.com/linesman/linesman/bounds\t(cached)\n"`),
		in("bounds", `"Action":"pass","Elapsed":0`),
		in("worker", `"Action":"output","Test":"TestT","Output":"    t_test.go:9: inconclusive on this machine: the end after 9s, the limit is 2s; timers up to 1s late\n"`),
		in("worker", `"Action":"skip","Test":"TestT","Elapsed":0`),
		in("worker", `"Action":"pass","Elapsed":3`),
		in("top", `"Action":"output","Test":"TestT","Output":"    t_test.go:9: tmux is not installed\n"`),
		in("top", `"Action":"skip","Test":"TestT","Elapsed":0`),
		in("top", `"Action":"pass","Elapsed":3`),
		in("web/dist", `"Action":"output","Output":"?   \tweb/dist\t[no test files]\n"`),
		in("web/dist", `"Action":"skip","Elapsed":0`),
	)
	const want = `ok    bus                            12.3 s  1 tests, 1 not run
ok    bounds                         cached  1 tests
ok    worker                          3.0 s  0 tests, 1 not run
          1  inconclusive on this machine: the end after 9s, the limit is 2s; timers up to 1s late
ok    top                             3.0 s  0 tests, 1 not run
          1  tmux is not installed

inconclusive on this machine (CONTRIBUTING.md#time):
    1  worker TestT: the end after 9s, the limit is 2s; timers up to 1s late

not run:
    1  only make test-all: needs tmux
    1  package test/chaos: only make test-all: sieges take minutes
    1  tmux is not installed

4 packages in 1m2s, with the race detector: 2 tests passed, 0 packages failed, 1 tests were inconclusive, 3 were not run
`
	if got != want || r.failed() {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestReportPrintsWhatFailed(t *testing.T) {
	got, r := play(t,
		in("bus", `"Action":"run","Test":"TestA"`),
		in("bus", `"Action":"output","Test":"TestA","Output":"    a_test.go:1: it is wrong\n"`),
		in("bus", `"Action":"output","Test":"TestOK","Output":"    a_test.go:2: never printed\n"`),
		in("bus", `"Action":"pass","Test":"TestOK","Elapsed":0`),
		in("bus", `"Action":"fail","Test":"TestA","Elapsed":0`),
		in("bus", `"Action":"output","Test":"TestHangs","Output":"    a_test.go:3: begun\n"`),
		in("bus", `"Action":"output","Output":"panic: test timed out\n"`),
		in("bus", `"Action":"fail","Elapsed":1`),
		`{"ImportPath":"x","Action":"build-output","Output":"# x\n"}`,
		`{"ImportPath":"x","Action":"build-output","Output":"x.go:1:1: syntax error\n"}`,
		`{"ImportPath":"x","Action":"build-fail"}`,
		in("api", `"Action":"fail","Elapsed":0,"FailedBuild":"x"`),
		`go: downloading something`,
	)
	const want = `FAIL  bus                             1.0 s  2 tests
    a_test.go:1: it is wrong
--- not ended: TestHangs
    a_test.go:3: begun
panic: test timed out
FAIL  api                             0.0 s  0 tests
# x
x.go:1:1: syntax error
go: downloading something

not run:
    1  package test/chaos: only make test-all: sieges take minutes

2 packages in 1m2s, with the race detector: 1 tests passed, 2 packages failed, 0 tests were inconclusive, 1 were not run
FAIL  bus
FAIL  api
`
	if got != want || !r.failed() {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A test that prints without end fills no memory.
func TestKeptOutputIsBounded(t *testing.T) {
	var k kept
	k.add("first\n")
	for i := range 100_000 {
		k.add(fmt.Sprintf("line %d\n", i))
	}
	s := k.String()
	if len(s) > 2*maxKept || !strings.HasPrefix(s, "first\n") || !strings.HasSuffix(s, "line 99999\n") ||
		!strings.Contains(s, "\n[…]\n") {
		t.Errorf("%d bytes: %.40q…%q", len(s), s, s[max(0, len(s)-40):])
	}
	k = kept{}
	for i := range 6000 { // as much as is kept
		k.add(fmt.Sprintf("%09d\n", i))
	}
	for i := range 6000 {
		if !strings.Contains(k.String(), fmt.Sprintf("%09d\n", i)) {
			t.Fatalf("line %d of 6000 is missing", i)
		}
	}
}

// What -more runs are the packages and tests that were left out before, by their names, and nothing
// a second time but with the race detector.
func TestNothingIsRunTwiceInTheSameWay(t *testing.T) {
	t.Chdir("../..")
	const whole = "[[runs bus responder/natsapi agent/codex web worker test/run test/e2e]]"
	for _, c := range []struct {
		race bool
		more string
		want [3]string
	}{
		{true, "", [3]string{whole, "[]", "[]"}},
		{true, "all", [3]string{
			whole, "[+race[bus responder/natsapi worker]]",
			"[[test/cells] [agent/codex test/run test/e2e]TestA,TestB,TestC,TestD]",
		}},
		{true, "commit", [3]string{
			whole, "[+race[responder/natsapi]]",
			"[[test/cells] [bus agent/codex test/run test/e2e]TestA,TestB,TestC,TestD,TestF]",
		}},
		{false, "", [3]string{whole, "[]", "[]"}},
		{false, "all", [3]string{
			whole, "[]",
			"[[test/cells] [bus responder/natsapi agent/codex test/run test/e2e]TestA,TestB,TestC,TestD,TestE,TestF]",
		}},
	} {
		packages, err := list(t.Context(), []string{
			"./runs", "./bus", "./responder/natsapi", "./agent/codex", "./web", "./worker", "./test/run", "./test/cells",
			"./test/e2e",
		}, c.more != "")
		if err != nil {
			t.Fatal(err)
		}
		names := map[string][]string{
			"agent/codex": {"TestC"}, "test/e2e": {"TestA", "TestB", "TestA"}, "test/run": {"TestD"},
			"responder/natsapi": {"TestE"}, "bus": {"TestF"},
		}
		for path, tests := range names {
			names[module+path] = tests
		}
		for i, ps := range [][]pass{
			basic(packages), again(packages, c.race, c.more), leftOut(packages, c.race, c.more, names),
		} {
			var got []string
			for _, p := range ps {
				text := strings.ReplaceAll(fmt.Sprint(p.packages), module, "") + strings.Join(p.tests(), ",")
				if p.race {
					text = "+race" + text
				}
				if p.system != (i == 2) || (p.more != "") != (i > 0) {
					t.Errorf("%+v: %+v", c, p)
				}
				got = append(got, text)
			}
			if fmt.Sprint(got) != c.want[i] {
				t.Errorf("%v %q: pass %d is %s, want %s", c.race, c.more, i, got, c.want[i])
			}
		}
	}
}

// With -more, a test that make test leaves out is not reported as such: its name is kept, until it
// is run, and left out of each commit, perhaps.
func TestTestsThatComeLaterAreKeptByName(t *testing.T) {
	var out strings.Builder
	r := newReport(&out, true)
	skip := func(pkg, test, why string) {
		r.line([]byte(in(pkg, `"Action":"output","Test":"`+test+`","Output":"    b_test.go:12: `+why+`\n"`)))
		r.line([]byte(in(pkg, `"Action":"skip","Test":"`+test+`"`)))
	}
	skip("bus", "TestA", "only make test-all: floods a server")
	skip("bus", "TestB/one", "only make test-all: needs tmux")
	skip("bus", "TestC", "no reason of ours")
	r.line([]byte(in("bus", `"Action":"pass"`)))
	if got := fmt.Sprint(r.collected()); got != "map[github.com/linesman/linesman/bus:[TestA TestB]]" {
		t.Error(got)
	}
	skip("bus", "TestA", "only make test-all: starts a slow agent")
	r.line([]byte(in("bus", `"Action":"pass"`)))
	if text := out.String(); r.skipped.sum() != 2 || strings.Count(text, "1 not run") != 2 {
		t.Errorf("%v\n%s", r.skipped, text)
	}
}

// The reason why a package is left out is read from its source: each is written so that it
// is found.
func TestReasonsOfPackagesAreFound(t *testing.T) {
	found := 0
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") || filepath.Dir(path) == filepath.Join("..", "run") {
			return err
		}
		text, err := os.ReadFile(path)
		calls := strings.Count(string(text), "fixture.Main(") + strings.Count(string(text), "fixture.SkipAll(")
		none := strings.Count(string(text), `fixture.Main(m, ""`)
		if n := len(whole.FindAll(text, -1)); n != calls-none {
			t.Errorf("%s: %d of %d reasons are found", path, n, calls-none)
		} else {
			found += n
		}
		return err
	})
	if err != nil || found == 0 {
		t.Errorf("%d reasons, error %v", found, err)
	}
}

// Without a C compiler there is no race detector.
func TestRaceDetectorNeedsACompiler(t *testing.T) {
	for _, c := range []struct {
		name, cc, cgo string
		want          bool
	}{
		{"no such compiler", "/no/such/compiler", "1", false},
		{"cgo is off", "go", "0", false},
		{"with flags", "go -m64", "1", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("CC", c.cc)
			t.Setenv("CGO_ENABLED", c.cgo)
			if got, err := canRace(t.Context()); got != c.want || err != nil {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	if said := sayRace(false, everything); !strings.Contains(said, "without the race detector: there is no C compiler") {
		t.Error(said)
	}
}
