//go:build !race

package web

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dop251/goja"
)

// The race detector makes the engine eight times slower, and cannot find anything: an engine uses
// one goroutine. `make test` runs these tests without it.

// bundle has the unit tests of the page and all that they import. `make web` builds it from
// test/engine/units.ts with the settings of units.config.ts.
const bundle = "testdata/units.js"

// The unit tests of the page need no npm and no browser: they run in an engine that is written in
// Go, each file in its own. TestUnitsOfThePage of test/page runs the same files with vitest.
func TestUnits(t *testing.T) {
	source, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	program, err := goja.Compile(bundle, string(source), true)
	if err != nil {
		t.Fatal(err)
	}
	built := newEngine(t).load(t, program)
	if want := hash(t); built.Sources != want {
		t.Errorf("%s is built from other sources (%s) than those here (%s): run `make web`", bundle, built.Sources, want)
	}
	slices.Sort(built.Files)
	if want := testFiles(t); len(want) == 0 || !slices.Equal(built.Files, want) {
		t.Errorf("%s has the tests of %q, want those of %q: run `make web`", bundle, built.Files, want)
	}
	percent := debug.SetGCPercent(800) // the engine allocates a lot, and keeps little of it
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	for _, file := range built.Files {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t)
			e.run(t, e.load(t, program), file)
		})
	}
}

// The bundle runs tests of which each failure must be seen.
func TestFailuresOfUnitsAreReported(t *testing.T) {
	for script, want := range map[string]string{
		`(async () => {})()`:                                                  "",
		`(async () => { throw new Error('wrong') })()`:                        "Error: wrong",
		`new Promise((done) => host.later(() => done()))`:                     "",
		`new Promise((_, fail) => host.later(() => fail('late')))`:            "late",
		`new Promise(() => {})`:                                               "time passes only where the test advances it",
		`(async () => { void Promise.reject('ignored') })()`:                  "ignored",
		`(async () => { Promise.reject('handled').catch(() => {}) })()`:       "",
		`new Promise((done) => host.later(() => { done(); throw 'thrown' }))`: "thrown",
		`(async () => { const f = () => f() + 1; f() })()`:                    "at f", // an overflow
		`7`: "no promise",
	} {
		e := newEngine(t)
		_, err := e.await(e.vm.RunString(script))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", script, err, want)
		}
	}
}

// engine is a JavaScript engine with the host of test/engine/host.d.ts. Time passes only where a
// test advances it.
type engine struct {
	vm      *goja.Runtime
	now     time.Time
	later   []goja.Callable
	ignored map[*goja.Promise]bool // promises that were rejected, and whose result nothing asked for
}

func newEngine(t *testing.T) *engine {
	t.Helper()
	e := &engine{vm: goja.New(), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), ignored: map[*goja.Promise]bool{}}
	e.vm.SetFieldNameMapper(goja.UncapFieldNameMapper())
	e.vm.SetMaxCallStackSize(10_000)
	e.vm.SetRandSource(rand.New(rand.NewPCG(1, 2)).Float64)
	e.vm.SetTimeSource(func() time.Time { return e.now })
	e.vm.SetPromiseRejectionTracker(func(p *goja.Promise, operation goja.PromiseRejectionOperation) {
		if operation == goja.PromiseRejectionReject {
			e.ignored[p] = true
		} else {
			delete(e.ignored, p)
		}
	})
	if err := e.vm.Set("host", map[string]any{
		"later":   func(f goja.Callable) { e.later = append(e.later, f) },
		"setTime": func(ms int64) { e.now = time.UnixMilli(ms) },
		"read": func(name string) (string, error) {
			b, err := os.ReadFile(filepath.FromSlash(name))
			return string(b), err
		},
	}); err != nil {
		t.Fatal(err)
	}
	return e
}

// load runs the bundle, and returns what it has.
func (e *engine) load(t *testing.T, program *goja.Program) units {
	t.Helper()
	if _, err := e.vm.RunProgram(program); err != nil {
		t.Fatal(err)
	}
	var u units
	if err := e.vm.ExportTo(e.vm.Get("units"), &u); err != nil {
		t.Fatal(err)
	}
	return u
}

// units is what test/engine/units.ts provides.
type units struct {
	Sources string // the hash of its sources
	Files   []string
	Load    func(file string) (goja.Value, error) // promises the tests of a file
}

// run runs the tests of a file, in their order.
func (e *engine) run(t *testing.T, u units, file string) {
	loaded, err := e.await(u.Load(file))
	if err != nil {
		t.Fatal(err)
	}
	var tests []struct {
		Name string
		Run  func() (goja.Value, error)
	}
	if err := e.vm.ExportTo(loaded, &tests); err != nil {
		t.Fatal(err)
	}
	if len(tests) == 0 {
		t.Error("no tests")
	}
	for _, test := range tests {
		t.Run(test.Name, func(t *testing.T) {
			if _, err := e.await(test.Run()); err != nil {
				t.Error(err)
			}
		})
	}
}

// await returns the result of a promise that a call returned, after all that can run has run.
func (e *engine) await(v goja.Value, err error) (goja.Value, error) {
	defer clear(e.ignored)
	if err != nil {
		return nil, err
	}
	for len(e.later) > 0 {
		next := e.later[0]
		e.later = e.later[1:]
		if _, err := next(goja.Undefined()); err != nil {
			return nil, err
		}
	}
	promise, ok := v.Export().(*goja.Promise)
	if !ok {
		return nil, fmt.Errorf("%v is no promise", v)
	}
	switch promise.State() {
	case goja.PromiseStateRejected:
		return nil, errors.New(promise.Result().String())
	case goja.PromiseStatePending:
		return nil, errors.New("the promise stays pending: time passes only where the test advances it")
	}
	for p := range e.ignored {
		return nil, fmt.Errorf("a promise was rejected, and nothing handles it: %v", p.Result())
	}
	return promise.Result(), nil
}

// testFiles are the names of the files with tests, as the bundle has them.
func testFiles(t *testing.T) []string {
	var all []string
	for _, dir := range []string{"src", "test"} {
		walk(t, dir, func(name string) {
			if strings.HasSuffix(name, ".test.ts") || strings.HasSuffix(name, ".test.tsx") {
				all = append(all, name)
			}
		})
	}
	slices.Sort(all)
	return all
}

// hash is that of units.config.ts: of all files that the page and the bundle are built from.
func hash(t *testing.T) string {
	var lines []string
	for _, from := range []string{"index.html", "licenses.ts", "package-lock.json", "package.json", "public", "src",
		"test", "tsconfig.json", "units.config.ts", "vite.config.ts"} {
		walk(t, from, func(name string) {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, fmt.Sprintf("%s %x\n", name, sha256.Sum256(b)))
		})
	}
	slices.Sort(lines)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(lines, ""))))
}

// walk visits the files at or below a path. Snapshots are no sources: the tests read them when they run.
func walk(t *testing.T, from string, visit func(name string)) {
	err := fs.WalkDir(os.DirFS("."), from, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path.Base(name) == "__snapshots__":
			return fs.SkipDir
		case !d.IsDir():
			visit(name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
