package worker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	testfixture "github.com/linesman/linesman/test/fixture"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

// A worker is killed at each of its appends, before or after the entry is
// stored. The next worker must resume.
func TestWorkerKilledAtAnyAppendLosesAndDuplicatesNothing(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 5; n++ {
		for _, when := range []string{"before", "after"} {
			t.Run(fmt.Sprintf("%s append %d", when, n), func(t *testing.T) {
				l := newFixture(t)
				dir := t.TempDir()
				// Its first lines wait for each other's entries, so that there are as many, however late the worker is.
				spec := shell("r", "log="+filepath.Join(l.logs.dir, "r")+`
entries() { while [ "$(wc -l < $log)" -lt $1 ]; do sleep 0.01; done; }
echo started >> starts; echo one
echo warning >&2
entries 2
i=0; while [ $i -lt 20 ]; do echo $i; i=$((i+1)); [ $i -gt 2 ] || entries $((i+2)); sleep 0.01; done; exit 5`)
				spec.Dir = dir
				l.create(spec).Close()
				killed := l.process(nil, []string{"TEST_KILL_AT=" + strconv.Itoa(n), "TEST_KILL_WHEN=" + when}, "adopt")
				done := make(chan error, 1)
				go func() { done <- killed.Wait() }()
				var err error
				select {
				case err = <-done:
				case <-time.After(testfixture.Patience):
					_ = killed.Process.Kill()
					t.Fatalf("the worker does not end; log %q", l.kinds("r"))
				}
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("the worker was not killed: %v", err)
				}
				l.adopt()
				waitFor(t, "the end", func() bool { return l.ended("r") && l.empty() })
				if got := contents(t, filepath.Join(dir, "starts")); got != "started\n" {
					t.Errorf("started %d times", strings.Count(got, "\n"))
				}
				if want := "one\n" + numbers(0, 20); l.output("r") != want {
					t.Errorf("output %q, want %q", l.output("r"), want)
				}
				if ex := l.exit("r"); !sameExit(ex, runs.Exit{Reason: runs.ReasonExited, Code: code(5)}) {
					t.Errorf("exit %s", runs.Encode(ex))
				}
				if got := strings.Count(l.kinds("r"), string(runs.Started)); got != 1 {
					t.Errorf("%d start entries", got)
				}
			})
		}
	}
}

// Workers are killed at arbitrary moments, one after the other, while many
// agents run.
func TestKilledWorkersLoseAndDuplicateNothing(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := t.TempDir()
	const agents, lines = 8, 2000
	var ids []string
	for i := range agents {
		id := "r" + strconv.Itoa(i)
		ids = append(ids, id)
		spec := shell(id, fmt.Sprintf(`echo started >> starts-%s
i=0; while [ $i -lt %d ]; do echo $i; i=$((i+1)); [ $((i %% 100)) = 0 ] && sleep 0.05; done; :`, id, lines))
		spec.Dir = dir
		l.create(spec).Close()
	}
	total := func() (n int) {
		for _, id := range ids {
			n += len(l.output(id))
		}
		return n
	}
	whole := agents * len(numbers(0, lines))
	for round := range 6 { // each worker is killed after it has appended some more entries
		worker := l.process(nil, nil, "adopt")
		target := min(total()+(round+1)*300, whole) // agents continue where workers start slowly
		waitFor(t, "progress", func() bool { return total() >= target })
		kill(worker)
	}
	l.adopt()
	for _, id := range ids {
		waitFor(t, id, func() bool { return l.ended(id) })
		if got := contents(t, filepath.Join(dir, "starts-"+id)); got != "started\n" {
			t.Errorf("%s started %d times", id, strings.Count(got, "\n"))
		}
		if l.output(id) != numbers(0, lines) {
			t.Errorf("%s: output differs", id)
		}
		if ex := l.exit(id); !sameExit(ex, runs.Exit{Reason: runs.ReasonExited, Code: code(0)}) {
			t.Errorf("%s: exit %s", id, runs.Encode(ex))
		}
	}
	waitFor(t, "the directories", l.empty)
}

func numbers(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

// States that a kill, a power failure or a manual change can leave.
func TestAdoptResumesFromAnyState(t *testing.T) {
	t.Parallel()
	type step = func(t *testing.T, l *fixture, dir string)
	put := func(name, text string) step {
		return func(t *testing.T, l *fixture, dir string) { write(t, filepath.Join(dir, name), text) }
	}
	start := func(t *testing.T, l *fixture, dir string) { l.foreign("r", runs.Started, runs.Start{}) }
	ours := func(t *testing.T, l *fixture, dir string) {
		d, err := open(dir)
		if err != nil {
			t.Fatal(err)
		}
		d.mark.Begun = true
		if err := errors.Join(d.mark.save(), d.Close()); err != nil {
			t.Fatal(err)
		}
	}
	stored := func(text string) step {
		return func(t *testing.T, l *fixture, dir string) {
			log, err := l.logs.Open(t.Context(), "", "r", runs.Mark{})
			if err == nil {
				err = log.Append(t.Context(), runs.Entry{Kind: runs.Out, Offset: log.Mark().Out, Body: []byte(text)})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	const exit4 = `{"reason":"exited","code":4}`
	for _, test := range []struct {
		name   string
		spec   func(*Spec)
		do     []step
		log    string
		output string
		want   runs.Exit
	}{
		{"nothing done yet", nil, nil, "start out exit", "ran\n", runs.Exit{Reason: runs.ReasonExited, Code: code(0)}},
		{"start entry sent", nil, []step{ours, start}, "start out exit", "ran\n",
			runs.Exit{Reason: runs.ReasonExited, Code: code(0)}},
		{"attended", func(s *Spec) { s.Attended = true }, nil, "start exit", "", runs.Exit{Reason: runs.ReasonLost}},
		{"started, then the shim was gone", nil, []step{ours, start, put(startedFile, "")},
			"start exit", "", runs.Exit{Reason: runs.ReasonLost}},
		{"lost with output", nil,
			[]step{ours, start, put(startedFile, ""), put(outFile, "one\ntwo")},
			"start out exit", "one\ntwo", runs.Exit{Reason: runs.ReasonLost, Torn: true}},
		{"ended, nothing read", nil, []step{ours, start, put(startedFile, ""),
			put(outFile, "one\ntwo\n"), put(exitFile, exit4)},
			"start out exit", "one\ntwo\n", runs.Exit{Reason: runs.ReasonExited, Code: code(4)}},
		{"ended, some read", nil, []step{ours, start, stored("one\n"), put(startedFile, ""),
			put(outFile, "one\ntwo\n"), put(exitFile, exit4)},
			"start out exit", "one\ntwo\n", runs.Exit{Reason: runs.ReasonExited, Code: code(4)}},
		{"ended, all read", nil, []step{ours, start, stored("one\n"), put(startedFile, ""),
			put(outFile, "one\n"), put(exitFile, exit4)},
			"start out exit", "one\n", runs.Exit{Reason: runs.ReasonExited, Code: code(4)}},
		{"spool shorter than the log", nil, []step{ours, start, stored("one\ntwo\nthree\n"),
			put(startedFile, ""), put(outFile, "one\n"), put(exitFile, exit4)},
			"start out exit", "one\ntwo\nthree\n", runs.Exit{Reason: runs.ReasonExited, Code: code(4)}},
		{"mark is garbage", nil, []step{start, stored("one\n"), put(startedFile, ""),
			put(outFile, "one\ntwo\n"), put(exitFile, exit4),
			func(t *testing.T, l *fixture, dir string) {
				if err := os.WriteFile(filepath.Join(dir, markFile), []byte(strings.Repeat("?", markSize)), 0o600); err != nil {
					t.Fatal(err)
				}
			}},
			"start out exit", "one\ntwo\n", runs.Exit{Reason: runs.ReasonExited, Code: code(4)}},
		{"no mark", nil, []step{start, put(startedFile, ""), put(outFile, "one\n"),
			put(exitFile, exit4),
			func(t *testing.T, l *fixture, dir string) { os.Remove(filepath.Join(dir, markFile)) }},
			"start out exit", "one\n", runs.Exit{Reason: runs.ReasonExited, Code: code(4)}},
		{"exit is garbage", nil,
			[]step{ours, start, put(startedFile, ""), put(outFile, "one\n"), put(exitFile, "{")},
			"start out exit", "one\n", runs.Exit{Reason: runs.ReasonLost}},
		{"exit stored, directory left", nil,
			[]step{ours, start, put(startedFile, ""), put(exitFile, exit4),
				func(t *testing.T, l *fixture, dir string) {
					l.foreign("r", runs.Exited, runs.Exit{Reason: runs.ReasonExited, Code: code(4)})
				}},
			"start exit", "", runs.Exit{Reason: runs.ReasonExited, Code: code(4)}},
		{"cancelled before the start", nil, []step{ours, start,
			func(t *testing.T, l *fixture, dir string) { l.foreign("r", runs.Cancelled, runs.Remark{}) }},
			"start cancel exit", "", runs.Exit{Reason: runs.ReasonCancelled}},
		{"truncated meanwhile", nil, []step{ours, start, stored("one\ntwo\n"),
			func(t *testing.T, l *fixture, dir string) {
				d, err := open(dir)
				if err != nil {
					t.Fatal(err)
				}
				d.mark.Out.Head = []byte("one\ntwo\n")
				if err := errors.Join(d.mark.save(), d.Close()); err != nil {
					t.Fatal(err)
				}
			}, put(startedFile, ""), put(outFile, "three\nfour\nfive\n"), put(exitFile, exit4)},
			"start out exit", "one\ntwo\nthree\nfour\nfive\n", runs.Exit{Reason: runs.ReasonExited, Code: code(4)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newFixture(t)
			spec := shell("r", "echo ran")
			if test.spec != nil {
				test.spec(&spec)
			}
			d := l.create(spec)
			d.Close()
			for _, do := range test.do {
				do(t, l, d.Path())
			}
			l.adopt()
			waitFor(t, "the end", func() bool { return l.ended("r") && l.empty() })
			if l.kinds("r") != test.log || l.output("r") != test.output {
				t.Errorf("log %q with %q, want %q with %q", l.kinds("r"), l.output("r"), test.log, test.output)
			}
			if ex := l.exit("r"); !sameExit(ex, test.want) {
				t.Errorf("exit %s, want %s", runs.Encode(ex), runs.Encode(test.want))
			}
		})
	}
}

func TestShimStartsTheAgentAtMostOnce(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := t.TempDir()
	spec := shell("r", "echo ran >> ran")
	spec.Dir = dir
	d := l.create(spec)
	defer d.Close()
	var shims []*exec.Cmd
	for range 4 {
		cmd := exec.Command(os.Args[0], "shim", d.Path())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		shims = append(shims, cmd)
	}
	good := 0
	for _, cmd := range shims {
		if cmd.Wait() == nil {
			good++
		}
	}
	if got := contents(t, filepath.Join(dir, "ran")); got != "ran\n" || good != 1 {
		t.Errorf("%d shims of 4 started the agent, it ran %d times", good, strings.Count(got, "\n"))
	}
}

func TestStartIsClaimedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, want := range []bool{true, false, false} {
		if got, err := claimStart(dir); got != want || err != nil {
			t.Errorf("claimed %t, error %v; want %t", got, err, want)
		}
	}
}

func TestShimClosesInheritedFiles(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	spec := shell("r", "sleep 60")
	spec.Limits.Grace = testfixture.Patience
	d := l.create(spec)
	defer d.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command(os.Args[0], "shim", d.Path())
	cmd.ExtraFiles = []*os.File{w}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if n, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) { // while the agent runs
		t.Errorf("read %d bytes, error %v", n, err)
	}
	waitFor(t, "the agent", func() bool { return exists(filepath.Join(d.Path(), startedFile)) })
	if err := cmd.Process.Signal(unix.SIGTERM); err != nil { // as a container runtime does
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	ex, err := readExit(d.Path())
	if err != nil || ex == nil || !sameExit(*ex, runs.Exit{Reason: runs.ReasonCancelled, Signal: 15}) {
		t.Errorf("exit %v, error %v", ex, err)
	}
}
