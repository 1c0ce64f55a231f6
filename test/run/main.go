// Command run runs the tests of this module: it starts go test, prints a line
// for each package as it ends, and at the end what was tested, what was not,
// and why.
//
//	go run ./test/run [-more all|commit] [-count N] [-p N] [PACKAGE…]
//
// These are first the tests that need only Go and depend on no timing, with the
// race detector where that is cheap. With -more it then runs what they left
// out, which needs other programs or minutes, and the tests of packages with a
// server again, with the race detector: all of that, or the part of it that is
// run for each commit. What has passed and not changed is not run again.
// Without a C compiler there is no race detector, and the last line says so.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/test/fixture"
)

const module = "github.com/linesman/linesman/"

// These, and packages below them, have nothing that runs concurrently: see TestNothingRunsConcurrently.
var sequential = []string{
	"agent", "api", "bounds", "cmd/setup", "config", "internal/files", "live", "normalizer", "runs",
	"telemetry/spans", "test/bench/corpus", "worker/launch", "worker/sessionlog", "worker/snapshot",
}

// The package in which NATS, a normalizer, a run table and concurrent requests work together, and whose
// tests are short, is tested with the race detector for each commit, and all
// that have goroutines by make test-all, but for tests that start whole programs: those by make soak.
// It makes tests that start a NATS server two to ten times as long.
const racedEachCommit = "responder/natsapi"

// The race detector is of no use in a JavaScript engine, which has one goroutine.
const engine = "github.com/dop251/goja"

// Packages that wait longest begin first.
var slowest = []string{"./test/page", "./worker", "./test/e2e/...", "./cmd/linesman", "./bus/...", "./test/..."}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := 2, fixture.Isolate()
	if err == nil {
		code, err = run(ctx, os.Args[1:], os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "test/run:", err)
	}
	os.Exit(code)
}

// What -more adds, which is the value of TEST_ALL.
const (
	everything = "all"
	eachCommit = "commit" // see [fixture.Whole]
)

// run returns the exit code: 1 if a test failed, 2 if the tests could not be
// started.
func run(ctx context.Context, args []string, out io.Writer) (int, error) {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	var more string
	flags.Func("more", "also what needs other programs or minutes: all, or commit for a part", func(set string) error {
		if more = set; set != everything && set != eachCommit {
			return errors.New("it is all or commit")
		}
		return nil
	})
	count := flags.Int("count", 0, "run each test so often; 0: once, and not again if nothing has changed")
	atOnce := runtime.GOMAXPROCS(0) + 1 // a container may have fewer processors than its machine; tests also wait
	if isSmall() {
		atOnce = 1
	}
	p := flags.Int("p", atOnce, "packages at a time in each go test")
	if err := flags.Parse(args); err != nil {
		return 2, nil // it was printed
	}
	// Tests write there. Some tests read the whole module, and are run again if its directory changes.
	for _, dir := range []string{"bin/test", "bin/page"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return 2, err
		}
	}
	packages, err := list(ctx, flags.Args(), more != "")
	if err != nil {
		return 2, err
	}
	race, err := canRace(ctx)
	if err != nil {
		return 2, err
	}
	common := []string{"-json", "-vet=off", "-ldflags=-s -w", "-timeout=1h", "-parallel=4"}
	if *count > 0 {
		common = append(common, fmt.Sprintf("-count=%d", *count))
	}
	began, r, temporary := time.Now(), newReport(out, more != ""), inMemory()
	for _, p := range packages {
		if p.why != "" && more == "" {
			r.left(p.path, p.why)
		}
	}
	stages := []func() []pass{
		func() []pass { return basic(packages) },
		func() []pass {
			return slices.Concat(again(packages, race, more), leftOut(packages, race, more, r.collected()))
		},
	}
	for _, stage := range stages {
		var running errgroup.Group
		running.SetLimit(2) // the tests of each wait now and then
		if isSmall() {
			running.SetLimit(1)
		}
		for _, pass := range stage() {
			running.Go(func() error { return pass.run(ctx, common, *p, temporary, r) })
		}
		if err := running.Wait(); err != nil {
			return 2, err
		}
	}
	r.summary(time.Since(began), sayRace(race, more))
	if r.failed() {
		return 1, nil
	}
	return 0, nil
}

// enough memory, in bytes, to compile and test several packages at once.
const enough = 4 << 30

// total is how many bytes this machine, or container, has.
func total() uint64 {
	least := uint64(math.MaxInt64)
	for _, of := range []memlimit.Provider{memlimit.FromCgroup, memlimit.FromSystem} {
		if bytes, err := of(); err == nil {
			least = min(least, bytes)
		}
	}
	return least
}

// isSmall reports whether it has less memory than enough.
func isSmall() bool { return total() < enough }

// collector are the settings of the garbage collector, of the compiler and of the tests: GOGC is how much garbage, in
// per cent of what is used, there may be. Where there is little memory, a program collects earlier when it uses half.
func collector() []string {
	gogc := "400"
	var limit []string
	if isSmall() {
		gogc, limit = "200", []string{"GOMEMLIMIT=" + cmp.Or(os.Getenv("GOMEMLIMIT"), strconv.FormatUint(total()/2, 10))}
	}
	return append(limit, "GOGC="+cmp.Or(os.Getenv("GOGC"), gogc)) // an eighth less time
}

func sayRace(race bool, more string) string {
	switch {
	case more == "":
		return "without the race detector, which make test-all uses"
	case !race:
		return "without the race detector: there is no C compiler"
	case more == eachCommit:
		return racedEachCommit + " with the race detector"
	}
	return "with the race detector, but for packages without goroutines, and tests of whole programs"
}

// tested is a package.
type tested struct {
	path  string
	why   string // the reason why only -more runs any of its tests; "": others do, too
	again string // which -more runs it again, with the race detector: eachCommit is also in everything; "": none
}

// list returns packages, the slowest ones first. Without more, those of which no test
// would run need not be compiled, and nothing but their reason is known.
func list(ctx context.Context, patterns []string, more bool) (packages []tested, err error) {
	if len(patterns) == 0 {
		patterns = append(slices.Clone(slowest), "./...")
	}
	const files = `{{.ImportPath}}{{range .TestGoFiles}}{{"\t"}}{{$.Dir}}/{{.}}{{end}}` +
		`{{range .XTestGoFiles}}{{"\t"}}{{$.Dir}}/{{.}}{{end}}`
	out, err := command(ctx, append([]string{"list", "-f", files}, patterns...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", explain(err))
	}
	var paths []string
	for line := range strings.Lines(string(out)) {
		words := strings.Split(strings.TrimSpace(line), "\t")
		if len(words) == 1 { // go test would also compile what has no tests
			continue
		}
		why, err := reason(words[1:])
		if err != nil {
			return nil, err
		}
		packages = append(packages, tested{path: words[0], why: why})
		if why == "" || more {
			paths = append(paths, words[0])
		}
	}
	if len(paths) == 0 {
		return packages, nil
	}
	// What the test binary of a package has, a line each.
	const form = `{{.ImportPath}} {{join .Deps " "}}`
	out, err = command(ctx, append([]string{"list", "-test", "-f", form}, paths...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", explain(err))
	}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		path, binary := strings.CutSuffix(words[0], ".test")
		if !binary {
			continue
		}
		has := func(dep string) bool { return slices.Contains(words, dep) }
		room, _, _ := strings.Cut(strings.TrimPrefix(path, module), "/")
		at := slices.IndexFunc(packages, func(p tested) bool { return p.path == path })
		program := room == "test" || short(path) == "cmd/linesman"
		switch {
		case has(engine) || isSequential(short(path)) || program:
		case short(path) == racedEachCommit:
			packages[at].again = eachCommit
		default:
			packages[at].again = everything
		}
	}
	return packages, nil
}

func isSequential(name string) bool {
	return slices.ContainsFunc(sequential, func(s string) bool { return name == s || strings.HasPrefix(name, s+"/") })
}

var whole = regexp.MustCompile(`fixture\.(?:Main|SkipAll)\(m, "([^"]+)"`)

// reason returns why only -more runs any test of these files, which their TestMain says.
func reason(files []string) (string, error) {
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		if found := whole.FindSubmatch(text); found != nil {
			return string(found[1]), nil
		}
	}
	return "", nil
}

// canRace reports whether programs can be built with the race detector, which
// needs cgo.
func canRace(ctx context.Context) (bool, error) {
	out, err := command(ctx, "env", "CC", "CGO_ENABLED").Output()
	if err != nil {
		return false, fmt.Errorf("go env: %w", explain(err))
	}
	cc, enabled, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	words := strings.Fields(cc)
	if len(words) == 0 || enabled == "0" {
		return false, nil
	}
	_, err = exec.LookPath(words[0])
	return err == nil, nil
}

// pass is one go test.
type pass struct {
	packages []string
	names    []string // of the tests that run, some of them more than once; none: all
	race     bool
	more     string // what -more adds is run, too
	system   bool   // tests of whole programs, whose temporary files are on the disk
	alone    bool   // one package at a time: those of whole programs are late if there are more at once
}

// basic has the tests that need only Go.
func basic(packages []tested) []pass {
	var p pass
	for _, t := range packages {
		if t.why == "" {
			p.packages = append(p.packages, t.path)
		}
	}
	return nonEmpty([]pass{p})
}

// isAgain reports whether a package is tested with the race detector, too.
func (t tested) isAgain(race bool, more string) bool {
	return race && t.again != "" && (more == everything || more == t.again)
}

// again has the packages that are tested with the race detector, too.
func again(packages []tested, race bool, more string) []pass {
	p := pass{race: true, more: more, alone: true}
	for _, t := range packages {
		if t.isAgain(race, more) {
			p.packages = append(p.packages, t.path)
		}
	}
	return nonEmpty([]pass{p})
}

// leftOut has what basic leaves out and again does not have: whole packages, and tests of the
// others by their names.
func leftOut(packages []tested, race bool, more string, names map[string][]string) []pass {
	if more == "" {
		return nil
	}
	whole, named := pass{more: more, system: true}, pass{more: more, system: true, alone: true}
	for _, t := range packages {
		switch tests := names[t.path]; {
		case t.isAgain(race, more):
		case t.why != "":
			whole.packages = append(whole.packages, t.path)
		case len(tests) > 0:
			named.packages, named.names = append(named.packages, t.path), append(named.names, tests...)
		}
	}
	return nonEmpty([]pass{whole, named})
}

// nonEmpty are the passes that have packages.
func nonEmpty(ps []pass) []pass {
	return slices.DeleteFunc(ps, func(p pass) bool { return len(p.packages) == 0 })
}

// tests are the names, each once.
func (p pass) tests() []string { return slices.Compact(slices.Sorted(slices.Values(p.names))) }

// run runs a go test, whose temporary files are in the given directory, if any. The error is that
// it could not be started.
func (p pass) run(ctx context.Context, flags []string, atOnce int, temporary string, r *report) error {
	if p.alone {
		atOnce = 1
	} else if p.system {
		atOnce = max(atOnce-1, 1)
	}
	flags = append(slices.Clone(flags), fmt.Sprintf("-p=%d", atOnce))
	if p.race {
		flags = append(flags, "-race", "-gcflags=all=-d=checkptr=0") // checks of unsafe pointers take a tenth of the time
	}
	if names := p.tests(); len(names) > 0 {
		flags = append(flags, "-run=^("+strings.Join(names, "|")+")$")
	}
	cmd := command(ctx, slices.Concat([]string{"test"}, flags, p.packages)...)
	cmd.Env = append(os.Environ(), "TEST_ALL="+p.more,
		"GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"),    // else it sleeps for a second at the exit of each program
		"RAPID_SEED="+cmp.Or(os.Getenv("RAPID_SEED"), "1")) // the same random cases each time
	cmd.Env = append(cmd.Env, collector()...)
	if temporary != "" && !p.system {
		cmd.Env = append(cmd.Env, "TMPDIR="+temporary)
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.line(bytes.TrimSuffix(line, []byte("\n")))
		}
		if err != nil {
			break // what it is, Wait says
		}
	}
	if err := cmd.Wait(); err != nil {
		r.broke(fmt.Sprintf("go test -race=%v: %v", p.race, err)) // if no package failed, this says why it ended
	}
	return nil
}

// command is a go command that ends with this one: its tests clean up when they
// are interrupted.
func command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	return cmd
}

// explain adds what a command wrote to stderr.
func explain(err error) error {
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		return fmt.Errorf("%w\n%s", err, exit.Stderr)
	}
	return err
}
