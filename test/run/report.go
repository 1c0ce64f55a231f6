package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/linesman/linesman/test/fixture"
)

// event is a line of go test -json; see go doc test2json and go help buildjson.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of what was built
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string
}

// maxKept bounds the output that is kept of a test, or of a package beside its
// tests, in case it fails: its first and its last part.
const maxKept = 64 << 10

// report prints the progress of several go test at once.
type report struct {
	mu       sync.Mutex
	out      io.Writer
	packages map[string]*result // that run
	builds   map[string]*kept   // output by import path
	ended    int
	passed   int
	broken   []string // packages that failed
	causes   []string // why a go test failed, if no package did
	skipped  reasons
	unclear  reasons             // tests that were inconclusive
	later    map[string][]string // tests by package that -more will run, while they are collected
}

// result is what is known of a package.
type result struct {
	tests  map[string]*kept // that run, or failed
	failed []string         // in the order in which they ended
	other  kept             // beside the tests
	passed int
	left   int     // skipped
	why    reasons // of them, what is not by intent
	cached bool
}

// newReport returns a report; with more, it collects the tests that only -more runs.
func newReport(out io.Writer, more bool) *report {
	r := &report{
		out: out, packages: map[string]*result{}, builds: map[string]*kept{}, skipped: reasons{}, unclear: reasons{},
	}
	if more {
		r.later = map[string][]string{}
	}
	return r
}

// collected ends the collecting, and returns by package the names of the tests.
func (r *report) collected() map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	later := r.later
	r.later = nil
	return later
}

func (r *report) failed() bool { return len(r.broken)+len(r.causes) > 0 }

// broke notes that a go test has failed.
func (r *report) broke(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.causes = append(r.causes, why)
}

// left notes a package of which no test is run.
func (r *report) left(pkg, why string) {
	r.skipped.add("package " + short(pkg) + ": " + fixture.Intended + why)
}

// line takes the next line of go test -json.
func (r *report) line(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e event
	if json.Unmarshal(b, &e) != nil { // of go itself
		fmt.Fprintf(r.out, "%s\n", b)
		return
	}
	switch e.Action {
	case "build-output":
		if r.builds[e.ImportPath] == nil {
			r.builds[e.ImportPath] = &kept{}
		}
		r.builds[e.ImportPath].add(e.Output)
	case "build-fail":
	default:
		p := r.packages[e.Package]
		if p == nil {
			p = &result{tests: map[string]*kept{}, why: reasons{}}
			r.packages[e.Package] = p
		}
		if e.Test != "" {
			r.test(p, e)
		} else {
			r.whole(p, e)
		}
	}
}

// test takes an event of a test.
func (r *report) test(p *result, e event) {
	if p.tests[e.Test] == nil {
		p.tests[e.Test] = &kept{}
	}
	switch e.Action {
	case "output":
		p.tests[e.Test].add(e.Output)
		return
	case "pass":
		p.passed++
	case "skip":
		r.reason(p, e.Package, e.Test, p.tests[e.Test].String())
	case "fail":
		p.failed = append(p.failed, e.Test)
		return
	default:
		return
	}
	delete(p.tests, e.Test)
}

var place = regexp.MustCompile(`^\s+\w+\.go:\d+: `)

// reason notes why a test was skipped: the line that t.Skip wrote.
func (r *report) reason(p *result, pkg, test, output string) {
	why := "no reason given"
	for line := range strings.Lines(output) {
		if at := place.FindString(line); at != "" {
			why = strings.TrimSpace(line[len(at):])
		}
	}
	figures, unclear := strings.CutPrefix(why, fixture.Inconclusive)
	if r.later != nil && strings.HasPrefix(why, fixture.Intended) {
		name, _, _ := strings.Cut(test, "/")
		r.later[pkg] = append(r.later[pkg], name)
		return
	}
	p.left++
	switch {
	case unclear:
		p.why.add(why)
		r.unclear.add(short(pkg) + " " + test + ": " + figures)
		return
	case strings.HasPrefix(why, "[rapid] "): // the last value that it drew
		why = "a seed of a fuzz target is too short for a case"
	case !strings.HasPrefix(why, fixture.Intended):
		p.why.add(why)
	}
	r.skipped.add(why)
}

// whole takes an event of a package.
func (r *report) whole(p *result, e event) {
	switch e.Action {
	case "output":
		p.cached = p.cached || strings.HasSuffix(e.Output, "\t(cached)\n")
		p.other.add(e.Output)
		return
	case "pass", "fail":
	case "skip": // it has no tests
		delete(r.packages, e.Package)
		return
	default:
		return
	}
	delete(r.packages, e.Package)
	r.ended++
	r.passed += p.passed
	word := "ok"
	if e.Action == "fail" {
		word = "FAIL"
		r.broken = append(r.broken, e.Package)
	}
	took := fmt.Sprintf("%.1f s", e.Elapsed)
	if p.cached {
		took = "cached"
	}
	left := ""
	if p.left > 0 {
		left = fmt.Sprintf(", %d not run", p.left)
	}
	fmt.Fprintf(r.out, "%-4s  %-28s %8s  %d tests%s\n", word, short(e.Package), took, p.passed+len(p.failed), left)
	for _, why := range p.why.lines() {
		fmt.Fprintln(r.out, "     ", why)
	}
	if e.Action == "fail" {
		r.failure(p, e)
	}
}

// failure prints what is known of a package that failed.
func (r *report) failure(p *result, e event) {
	for _, test := range p.failed {
		fmt.Fprint(r.out, p.tests[test])
		delete(p.tests, test)
	}
	for _, test := range slices.Sorted(maps.Keys(p.tests)) { // when the package ended
		fmt.Fprintf(r.out, "--- not ended: %s\n%s", test, p.tests[test])
	}
	if b := r.builds[e.FailedBuild]; b != nil {
		fmt.Fprint(r.out, b)
	}
	fmt.Fprint(r.out, &p.other)
}

// summary prints the end of the report.
func (r *report) summary(took time.Duration, how string) {
	unclear, skipped := r.unclear.sum(), r.skipped.sum()
	if unclear > 0 {
		fmt.Fprintf(r.out, "\ninconclusive on this machine (CONTRIBUTING.md#time):\n%s\n",
			strings.Join(r.unclear.lines(), "\n"))
	}
	if skipped > 0 {
		fmt.Fprintf(r.out, "\nnot run:\n%s\n", strings.Join(r.skipped.lines(), "\n"))
	}
	fmt.Fprintf(r.out, "\n%d packages in %v, %s: %d tests passed, %d packages failed, %d tests were inconclusive, "+
		"%d were not run\n", r.ended, took.Round(time.Second), how, r.passed, len(r.broken), unclear, skipped)
	for _, p := range r.broken {
		fmt.Fprintln(r.out, "FAIL ", short(p))
	}
	if len(r.broken) == 0 {
		for _, why := range r.causes {
			fmt.Fprintln(r.out, "FAIL ", why)
		}
	}
}

// reasons counts texts.
type reasons map[string]int

func (r reasons) add(why string) { r[why]++ }

func (r reasons) sum() (n int) {
	for _, times := range r {
		n += times
	}
	return n
}

// lines has a line for each text, the most frequent ones first.
func (r reasons) lines() (lines []string) {
	for _, why := range slices.SortedFunc(maps.Keys(r), func(a, b string) int {
		return cmp.Or(cmp.Compare(r[b], r[a]), cmp.Compare(a, b))
	}) {
		lines = append(lines, fmt.Sprintf("%5d  %s", r[why], why))
	}
	return lines
}

// kept is an output without its middle part where it is long.
type kept struct {
	head, tail []byte
	cut        bool
}

func (k *kept) add(s string) {
	if room := maxKept/2 - len(k.head); room > 0 && len(k.tail) == 0 {
		n := min(room, len(s))
		k.head, s = append(k.head, s[:n]...), s[n:]
	}
	k.tail = append(k.tail, s...)
	if over := len(k.tail) - maxKept; over > 0 {
		k.tail, k.cut = slices.Clone(k.tail[over+maxKept/2:]), true
	}
}

func (k *kept) String() string {
	cut := ""
	if k.cut {
		cut = "\n[…]\n"
	}
	return string(k.head) + cut + string(k.tail)
}

// short is the path of a package in this module.
func short(pkg string) string { return strings.TrimPrefix(pkg, module) }
