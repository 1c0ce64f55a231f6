// Command report measures linesman from outside and inside, and prints a table of what was
// measured, beside what is to be reached. It measures as users run it: whole processes over
// loopback, on ports that the system selects. References run in the same minute, and what counts
// are ratios to them. Rows of a single process come from Go benchmarks of the packages.
//
//	make bench                  the whole table: about 12 minutes
//	make bench BENCH=latency    rows whose text or source matches a regular expression
//	make bench QUICK=1          fewer rounds and smaller inputs: about 3 minutes
//
// It also writes all metrics as JSON. The exit code is 0 whether targets are met or not: a
// busy machine is not an error. It is 1 if a measurement failed, for example because events were
// missing.
//
// Where the time goes: a line of mix takes 16.5 us of CPU time in one process, 2.5 to 3 times Z. The server stores
// EVENTS one message after the other, in one goroutine: 6.5 us, of which 3 for the copy to linesman.live and 1.2 for a
// write of each message; that limits small lines. The fold takes 4 to 5, the server's reading 1.9, its RAW 1.6, garbage
// collection 1.3, publishing 1.1, the worker 0.7.
//
// What gave nothing, beside what decisions 12 and 47 reject: status in the goroutine of the subscription, fold and
// publish in two goroutines, a fence only on the first event of a burst; more variants of the scanner (runs of bytes,
// multibyte characters, masks of words), 1 to 10 % slower; persist_mode async for EVENTS, which saves a write a message
// and loses acknowledged events at a kill; GOGC=400, 13 % more CPU time; GOMEMLIMIT of 250 MiB, less than half the
// rate.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/term"

	"github.com/linesman/linesman/test/fixture"
)

// oldVersion is the commit that the import of one file is compared with.
const oldVersion = "f76b5bc"

// metrics are values by name; the unit is at the end of the name.
type metrics map[string]float64

// scenario measures whole processes.
type scenario func(context.Context, *harness) (metrics, error)

// harness is where scenarios run: programs, files, and how much is measured.
type harness struct {
	dir                    string // removed at the end, with the processes of its programs
	linesman, self, server string
	env                    []string
	say                    func(format string, args ...any)
	cells                  int
	warmUp                 input

	rounds      int           // of everything that is compared, in turn
	lines       int           // of small; mix has a quarter of them
	copies      int           // of each recording
	runs        int           // at once
	memoryBytes int           // of a file
	memoryWait  time.Duration // for memory to be released
	latency     time.Duration // how long lines are written at a rate
}

func (h *harness) size(quick bool) {
	h.rounds, h.lines, h.copies, h.runs = 3, 200_000, 12, 1000
	h.memoryBytes, h.memoryWait, h.latency = 200_000_000, time.Minute, 10*time.Second
	if quick {
		h.rounds, h.lines, h.copies = 1, 120_000, 6
		h.memoryBytes, h.memoryWait, h.latency = 60_000_000, 20*time.Second, 4*time.Second
	}
}

func main() {
	fixture.RunGuard()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "serve":
		return serve(ctx, args[1])
	case len(args) == 5 && args[0] == "publish":
		return publish(ctx, args[1], args[2], args[3], args[4])
	case len(args) == 3 && args[0] == "read":
		return read(ctx, args[1], args[2])
	}
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	selected := flags.String("rows", ".", "measure only rows whose text or source matches this regular expression")
	quick := flags.Bool("quick", false, "fewer rounds and smaller inputs")
	out := flags.String("json", "", "also write all metrics to this file")
	date := flags.String("date", "", "date of the report")
	commit := flags.String("commit", "", "version that is measured")
	if err := flags.Parse(args); err != nil {
		return err
	}
	match, err := regexp.Compile(*selected)
	if err != nil {
		return err
	}
	r := report{Date: *date, Commit: *commit, Quick: *quick, Machine: thisMachine(), Metrics: metrics{}}
	h := &harness{say: progress(os.Stderr)}
	h.size(*quick)
	failed := h.measure(ctx, match, &r)
	if *out != "" {
		b, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(*out, append(b, '\n'), 0o644); err != nil {
			return err
		}
	}
	return errors.Join(r.print(os.Stdout), failed, ctx.Err())
}

// progress returns a function that reports progress, if w is a terminal.
func progress(w *os.File) func(string, ...any) {
	if !term.IsTerminal(int(w.Fd())) {
		return func(string, ...any) {}
	}
	return func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
}

// measure fills the rows that match. The error joins those of all measurements that failed.
func (h *harness) measure(ctx context.Context, match *regexp.Regexp, r *report) (err error) {
	needed := map[string]bool{}
	for _, row := range rows {
		if match.MatchString(row.what) || match.MatchString(row.source) {
			r.rows = append(r.rows, row)
			name, _, _ := strings.Cut(row.source, "/")
			needed[name] = true
		}
	}
	var failures []error
	keep := func(name string, m metrics, err error) {
		maps.Copy(r.Metrics, m)
		if err != nil && ctx.Err() == nil {
			failures = append(failures, fmt.Errorf("%s: %w", name, err))
		}
	}
	for _, b := range benchmarks {
		if needed[b.name] && ctx.Err() == nil {
			h.say("%s of %s", b.name, b.pkg)
			m, err := b.run(ctx, r.Quick)
			keep(b.name, m, err)
		}
	}
	if !slices.ContainsFunc(scenarios, func(s namedScenario) bool { return needed[s.name] }) {
		return errors.Join(failures...)
	}
	guard, err := h.build(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, guard.Stop()) }()
	for _, s := range scenarios {
		if !needed[s.name] || ctx.Err() != nil {
			continue
		}
		h.say("%s", s.name)
		m, err := s.run(ctx, h)
		named := metrics{}
		for metric, value := range m {
			named[s.name+" "+metric] = value
		}
		keep(s.name, named, err)
	}
	return errors.Join(failures...)
}

// build makes the directory with the programs. The guard removes it, even if this process
// is killed.
func (h *harness) build(ctx context.Context) (guard *fixture.Guard, err error) {
	if h.dir, err = os.MkdirTemp("", "linesman-bench-"); err != nil {
		return nil, err
	}
	if guard, err = fixture.StartGuard(h.dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, guard.Stop())
		}
	}()
	in := func(name string) string { return filepath.Join(h.dir, name) }
	h.linesman, h.self, h.server = in("linesman"), in("report"), in("nats-server")
	h.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "XDG_DATA_HOME=" + in("share"), "XDG_CONFIG_HOME=" + in("config"),
		"LINESMAN_BACKGROUND_START=false", "LINESMAN_LOG_LEVEL=error",
	}
	if err := copySelf(h.self); err != nil {
		return nil, err
	}
	if err := fixture.Build(h.dir, "github.com/nats-io/nats-server/v2"); err != nil {
		return nil, err
	}
	if err := build(ctx, ".", h.linesman); err != nil {
		return nil, err
	}
	h.warmUp, err = h.input([]byte("{\"type\":\"turn.started\"}\n"), 1)
	return guard, err
}

// copySelf copies the program of this process, for references that are processes of their own.
func copySelf(to string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	return os.WriteFile(to, program, 0o700)
}

// build builds linesman as a release.
func build(ctx context.Context, source, program string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./cmd/linesman")
	cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// machine describes where the report is from.
type machine struct {
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu"`
	System string `json:"system"`
	Go     string `json:"go"`
	Server string `json:"nats_server"`
}

func thisMachine() machine {
	m := machine{
		Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Server: server.VERSION,
	}
	info, _ := os.ReadFile("/proc/cpuinfo") // not on every system
	for line := range strings.Lines(string(info)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(value)
			break
		}
	}
	return m
}
