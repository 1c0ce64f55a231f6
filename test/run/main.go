// Command run runs the tests of this module: it starts go test, prints a line
// for each package as it ends, and at the end what was tested, what was not,
// and why.
//
//	go run ./test/run [-all] [-count N] [-p N] [PACKAGE…]
//
// Without -all these are the tests that need only Go and depend on no timing,
// with the race detector where that is cheap; -all sets TEST_ALL, and adds what
// needs other programs or minutes, and the race detector for all packages of
// linesman that have goroutines. Without a C compiler there is no race detector,
// and the last line says so.
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
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"golang.org/x/sync/errgroup"
)

const module = "github.com/linesman/linesman/"

// The core has no goroutines (see TestNothingRunsConcurrentlyInTheCore).
var core = []string{"agent", "bounds", "normalizer", "runs"}

// The race detector makes tests that start a NATS server five to ten times as long, and takes
// long to compile a server and large libraries: only -all uses it there, and only make soak
// in tests that start whole programs.
var heavy = []string{
	"github.com/nats-io/nats-server/v2/server", "google.golang.org/grpc",
	"github.com/modelcontextprotocol/go-sdk/mcp", "charm.land/bubbletea/v2",
}

// The race detector is of no use in a JavaScript engine, which has one goroutine.
const engine = "github.com/dop251/goja"

// Packages that wait longest begin first.
var slowest = []string{"./test/e2e/...", "./test/...", "./worker/...", "./bus/..."}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "test/run:", err)
	}
	os.Exit(code)
}

// run returns the exit code: 1 if a test failed, 2 if the tests could not be
// started.
func run(ctx context.Context, args []string, out io.Writer) (int, error) {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	all := flags.Bool("all", false, "also what needs other programs or minutes")
	count := flags.Int("count", 0, "run each test so often; 0: once, and not again if nothing has changed")
	atOnce := runtime.GOMAXPROCS(0) // a container may have fewer processors than its machine
	if isSmall() {
		atOnce = 1
	}
	p := flags.Int("p", atOnce, "packages at a time in each go test; with -all one of those below test/")
	if err := flags.Parse(args); err != nil {
		return 2, nil // it was printed
	}
	packages, left, err := list(ctx, flags.Args(), *all)
	if err != nil {
		return 2, err
	}
	race, err := canRace(ctx)
	if err != nil {
		return 2, err
	}
	common := []string{"-json", "-vet=off", "-ldflags=-w", "-timeout=20m"}
	if *count > 0 {
		common = append(common, fmt.Sprintf("-count=%d", *count))
	}
	began, r, temporary := time.Now(), newReport(out), inMemory()
	for path, why := range left {
		r.left(path, why)
	}
	for _, system := range []bool{false, true} {
		var running errgroup.Group
		if isSmall() {
			running.SetLimit(1)
		}
		for _, pass := range passes(packages, race, *all) {
			if pass.system == system { // the others at once, if there is room: the tests of each wait now and then
				running.Go(func() error { return pass.run(ctx, slices.Concat(common, pass.atOnce(*p)), *all, temporary, r) })
			}
		}
		if err := running.Wait(); err != nil {
			return 2, err
		}
	}
	r.summary(time.Since(began), sayRace(race, *all))
	if r.failed() {
		return 1, nil
	}
	return 0, nil
}

// enough memory, in bytes, to compile and test several packages at once.
const enough = 4 << 30

// isSmall reports whether this machine, or container, has less memory than enough.
func isSmall() bool {
	for _, of := range []memlimit.Provider{memlimit.FromCgroup, memlimit.FromSystem} {
		if bytes, err := of(); err == nil && bytes < enough {
			return true
		}
	}
	return false
}

func sayRace(race, all bool) string {
	switch {
	case !race:
		return "without the race detector: there is no C compiler"
	case all:
		return "with the race detector, but for the core, and servers and large libraries in tests of whole programs"
	}
	return "with the race detector, but for the core, servers and large libraries"
}

// tested is a package.
type tested struct {
	path  string
	plain bool // without the race detector
}

// below is whether it is below test/: such tests start agents, browsers and clusters.
func (t tested) below() bool { return strings.HasPrefix(t.path+"/", module+"test/") }

// list returns packages, the slowest ones first. Without all, those of which no test
// would run are left out, with the reason of each, and need not be compiled.
func list(ctx context.Context, patterns []string, all bool) (packages []tested, left map[string]string, err error) {
	if len(patterns) == 0 {
		patterns = append(slices.Clone(slowest), "./...")
	}
	const files = `{{.ImportPath}}{{range .TestGoFiles}}{{"\t"}}{{$.Dir}}/{{.}}{{end}}` +
		`{{range .XTestGoFiles}}{{"\t"}}{{$.Dir}}/{{.}}{{end}}`
	out, err := command(ctx, append([]string{"list", "-f", files}, patterns...)...).Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w", explain(err))
	}
	left = map[string]string{}
	var paths []string
	for line := range strings.Lines(string(out)) {
		words := strings.Split(strings.TrimSpace(line), "\t")
		why, err := leftOut(words[1:])
		switch {
		case err != nil:
			return nil, nil, err
		case why != "" && !all:
			left[words[0]] = why
		case len(words) > 1: // go test would also compile what has no tests
			paths = append(paths, words[0])
		}
	}
	if len(paths) == 0 {
		return nil, left, nil
	}
	// What the test binary of a package has, a line each.
	const form = `{{.ImportPath}} {{join .Deps " "}}`
	out, err = command(ctx, append([]string{"list", "-test", "-f", form}, paths...)...).Output()
	if err != nil {
		return nil, nil, fmt.Errorf("go list: %w", explain(err))
	}
	plain := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		path, binary := strings.CutSuffix(words[0], ".test")
		if !binary {
			continue
		}
		has := func(dep string) bool { return slices.Contains(words, dep) }
		room, _, _ := strings.Cut(strings.TrimPrefix(path, module), "/")
		plain[path] = has(engine) || slices.Contains(core, room) ||
			slices.ContainsFunc(heavy, has) && (!all || room == "test" || room == "cmd")
	}
	for _, path := range paths {
		packages = append(packages, tested{path, plain[path]})
	}
	return packages, left, nil
}

var whole = regexp.MustCompile(`fixture\.(?:Main|SkipAll)\(m, "([^"]+)"`)

// leftOut returns why only -all runs any test of these files, which their TestMain says; ""
// if others do, too.
func leftOut(files []string) (string, error) {
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
	race     bool
	system   bool // comes last, with fewer tests at a time
}

// passes divides packages. With all, those below test/ have passes of their own.
func passes(packages []tested, race, all bool) []pass {
	ps := []pass{{}, {race: true}, {system: true}, {race: true, system: true}}
	for _, p := range packages {
		at := 0
		if race && !p.plain {
			at++
		}
		if all && p.below() {
			at += 2
		}
		ps[at].packages = append(ps[at].packages, p.path)
	}
	return slices.DeleteFunc(ps, func(p pass) bool { return len(p.packages) == 0 })
}

// atOnce returns the flags for how many packages, and tests of each, run at a time.
func (p pass) atOnce(packages int) []string {
	if p.system {
		packages = 1 // there are two such passes
	}
	return []string{fmt.Sprintf("-p=%d", packages), "-parallel=4"}
}

// run runs a go test, whose temporary files are in the given directory, if any: those of the system
// tests are always on the disk. The error is that it could not be started.
func (p pass) run(ctx context.Context, flags []string, all bool, temporary string, r *report) error {
	if p.race {
		flags = append(flags, "-race", "-gcflags=all=-d=checkptr=0") // checks of unsafe pointers take a tenth of the time
	}
	cmd := command(ctx, slices.Concat([]string{"test"}, flags, p.packages)...)
	cmd.Env = append(os.Environ(), "TEST_ALL="+on(all),
		"GOGC="+cmp.Or(os.Getenv("GOGC"), "200"),           // an eighth less time, of the compiler, too
		"GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"),    // else it sleeps for a second at the exit of each program
		"RAPID_SEED="+cmp.Or(os.Getenv("RAPID_SEED"), "1")) // the same random cases each time
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

func on(all bool) string {
	if all {
		return "1"
	}
	return ""
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
