package worker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	testfixture "github.com/linesman/linesman/test/fixture"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/runs"
)

// talk is an agent that prints each line of stdin that is valid JSON, as it was. It ends at
// the end of stdin, and at a line "end". It does not read before there is the file wait.
func talk(wait string) error {
	for !exists(wait) {
		time.Sleep(time.Millisecond)
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if json.Valid(line) {
			_, _ = os.Stdout.Write(line)
		}
		if err != nil || string(line) == `"end"`+"\n" {
			return nil
		}
	}
}

// feedingShim is a shim that ends with SIGKILL before a write of its feeder: TEST_KILL_FEED counts them from 1.
func feedingShim(dir string) error {
	left, _ := strconv.Atoi(os.Getenv("TEST_KILL_FEED"))
	beforeFeeding = func() {
		if left--; left == 0 {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		}
	}
	return Shim(dir)
}

// conversation is a live run, and all lines for its process.
type conversation struct {
	*fixture
	d     *Dir
	s     *spawned // without a shim of its own
	wait  string   // the agent reads when there is this file
	begun bool
	lines []byte
	sent  int // bytes of lines
	made  int // lines
}

func converse(t *testing.T) *conversation {
	t.Helper()
	return newFixture(t).converse()
}

func (l *fixture) converse() *conversation {
	l.t.Helper()
	c := &conversation{fixture: l, wait: filepath.Join(l.root, "r", "wait")}
	spec := shell("r", "")
	spec.Argv, spec.Live, spec.Limits.Grace = []string{os.Args[0], "agent", c.wait}, true, testfixture.Patience
	c.d = l.create(spec)
	l.t.Cleanup(func() { c.d.Close() })
	c.s = c.process(1)
	write(l.t, c.wait, "")
	return c
}

// process makes the directory of a process.
func (c *conversation) process(n int) *spawned {
	c.t.Helper()
	if err := c.d.makeProcess(n); err != nil {
		c.t.Fatal(err)
	}
	return &spawned{
		dir: c.d, path: c.d.processDir(n), shim: []string{os.Args[0], "shim"}, log: zap.NewNop(),
		out: &stream{}, err: &stream{},
	}
}

// say adds lines with so many bytes each for the agent, and sends them.
func (c *conversation) say(sizes ...int) {
	c.t.Helper()
	for _, size := range sizes {
		c.lines = fmt.Appendf(c.lines, "{\"n\":%d,\"x\":\"%s\"}\n", c.made, strings.Repeat("y", size))
		c.made++
	}
	if err := c.send(); err != nil {
		c.t.Fatal(err)
	}
}

// send sends the lines that were not sent.
func (c *conversation) send() error {
	err := c.s.send(int64(c.sent), c.lines[c.sent:])
	if err == nil {
		c.sent = len(c.lines)
	}
	return err
}

// startShim starts a shim; the second one takes over. It ends itself at a write of the feeder; 0: it does not.
func (c *conversation) startShim(killAt int) *exec.Cmd {
	c.t.Helper()
	cmd := exec.Command(os.Args[0], "shim", c.s.path)
	cmd.Env = append(os.Environ(), "TEST_KILL_FEED="+strconv.Itoa(killAt))
	cmd.Stdin = strings.NewReader(string(runs.Encode(shimConfig{Adopt: c.begun})))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.begun = true
	return cmd
}

// killed waits for the end of a shim, which must be SIGKILL.
func (c *conversation) killed(shim *exec.Cmd) {
	c.t.Helper()
	var exit *exec.ExitError
	if err := shim.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		c.t.Fatalf("the shim was not killed: %v; log %q", err, contents(c.t, c.s.file(shimLogFile)))
	}
}

// fed returns what the file fed has.
func (c *conversation) fed() fed {
	c.t.Helper()
	f, err := os.Open(c.s.file(fedFile))
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	at, err := readFed(f)
	if err != nil {
		c.t.Fatal(err)
	}
	return at
}

// taken waits until the agent has taken all lines, and compares them.
func (c *conversation) taken() {
	c.t.Helper()
	all := fed{At: int64(len(c.lines)), Phase: phaseIdle}
	waitFor(c.t, "the agent", func() bool {
		at := c.fed()
		at.N = 0
		info, err := os.Stat(c.s.file(outFile))
		return err == nil && info.Size() >= int64(len(c.lines)) && at == all
	})
	if contents(c.t, c.s.file(outFile)) != string(c.lines) {
		c.t.Fatalf("the agent has not taken each of %d lines once and in order", c.made)
	}
}

// One agent survives all shims: between two of them nobody else has its stdin open, and it reads no end.
func TestFeederKilledAtAnyWriteLosesAndDuplicatesNothing(t *testing.T) {
	t.Parallel()
	const most = 5 + 6 + 5              // writes for three lines: of the second, the body takes two
	for _, again := range []int{2, 3} { // of the next shim: it has ended a torn line, or not even saved that
		t.Run(strconv.Itoa(again), func(t *testing.T) {
			t.Parallel()
			c := converse(t)
			for n := 1; n <= most; n++ {
				c.say(0, feedBuffer, 1)
				c.killed(c.startShim(n))
				if n+again <= most { // else it may have less to write
					c.killed(c.startShim(again))
				}
				shim := c.startShim(0)
				c.taken()
				kill(shim)
			}
		})
	}
}

// Shims are killed at arbitrary moments while the agent is fed. TEST_ROUNDS is how many.
func TestKilledFeedersLoseAndDuplicateNothing(t *testing.T) {
	t.Parallel()
	rounds, _ := strconv.Atoi(os.Getenv("TEST_ROUNDS"))
	rounds = max(rounds, 12)
	random := rand.New(rand.NewPCG(1, 2))
	c := converse(t)
	for range rounds {
		for range 20 {
			c.say(random.IntN(100), random.IntN(3*feedBuffer))
		}
		shim := c.startShim(0)
		at := c.fed()
		target := at.N + uint64(random.IntN(100))
		if left := uint64(bytes.Count(c.lines[at.At:], []byte("\n"))); target > at.N+3*left-3 {
			target = at.N
		}
		waitFor(t, "progress", func() bool { return c.fed().N >= target })
		kill(shim)
	}
	c.startShim(0)
	c.taken()
	t.Logf("%d shims killed, %d lines, %d bytes", rounds, c.made, len(c.lines))
}

func TestLongLinesWaitForASlowAgent(t *testing.T) {
	t.Parallel()
	c := converse(t)
	if err := os.Remove(c.wait); err != nil {
		t.Fatal(err)
	}
	c.say(1<<20, 10, 2<<20)
	c.say(slices.Repeat([]int{5}, 2000)...)
	c.startShim(0)
	waitFor(t, "the feeder", func() bool { return c.fed().Phase == phaseBody })
	write(t, c.wait, "")
	c.taken()
}

// The worker side: each process has a start, shims and an exit of its own, as a run has.
func TestProcessesOfALiveRunAreSupervised(t *testing.T) {
	t.Parallel()
	c := converse(t)
	ended := func() (ex *runs.Exit) {
		waitFor(t, "the exit", func() bool {
			var err error
			if ex, err = c.s.ended(time.Now()); err != nil {
				t.Fatal(err)
			}
			return ex != nil
		})
		return ex
	}
	shim := func(before int) (pid int) {
		waitFor(t, "a shim", func() bool {
			_, err := c.s.ended(time.Now())
			pid, _ = strconv.Atoi(contents(t, c.s.file(shimFile)))
			busy, herr := files.Held(c.s.file(shimFile))
			return err == nil && herr == nil && busy && pid != 0 && pid != before && c.s.agentAlive()
		})
		return pid
	}
	c.say(10)
	first := shim(0)
	c.taken()
	if err := unix.Kill(first, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.say(20)
	shim(first)
	c.taken()
	c.s.stop()
	if ex := ended(); ex.Reason != runs.ReasonCancelled {
		t.Errorf("the first process: exit %s", runs.Encode(ex))
	}
	c.say(30) // too late: no other process gets it

	c.s, c.lines, c.sent = c.process(2), nil, 0
	if ex, err := readExit(c.s.path, c.d.mark.Keys...); ex != nil || err != nil {
		t.Errorf("a new process has the exit %v, error %v", ex, err)
	}
	c.say(40)
	shim(0)
	c.taken()
	c.lines = append(c.lines, `"end"`+"\n"...)
	c.say()
	if ex := ended(); !sameExit(*ex, runs.Exit{Reason: runs.ReasonExited, Code: code(0)}) {
		t.Errorf("the second process: exit %s", runs.Encode(ex))
	}
	entries, err := os.ReadDir(c.d.path)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{markFile, ownerFile, "p1", "p2", specFile, "wait"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("the run directory has %q, want %q", names, want)
	}
	if got := contents(t, c.d.processDir(1)+"/"+outFile); strings.Count(got, "\n") != 2 {
		t.Errorf("the first process took %d lines, want 2", strings.Count(got, "\n"))
	}
}

// alone returns a feeder without a shim, and the stdin of an agent: what it reads is all that is there.
func (c *conversation) alone() (f *feeder, read func() string) {
	c.t.Helper()
	stdin, err := openPipe(c.s.file(stdinFile), unix.O_RDWR|unix.O_NONBLOCK)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { unix.Close(stdin) })
	return c.feeder(), func() string {
		buf := make([]byte, 1<<20)
		n, err := unix.Read(stdin, buf)
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			c.t.Fatal(err)
		}
		return string(buf[:max(n, 0)])
	}
}

func (c *conversation) feeder() *feeder {
	f := newFeeder(c.s.path)
	c.t.Cleanup(f.close)
	return f
}

func TestPartOfALineIsNotFed(t *testing.T) {
	t.Parallel()
	c := converse(t)
	f, read := c.alone()
	const line = `{"a":1}` + "\n"
	for i := range len(line) {
		if err := c.s.send(int64(i), []byte(line[i:i+1])); err != nil {
			t.Fatal(err)
		}
		want := ""
		if i == len(line)-1 {
			want = line
		}
		if !f.feed(time.Now()) || read() != want {
			t.Errorf("after %d bytes: not %q", i+1, want)
		}
		if f.pause < time.Hour {
			t.Errorf("after %d bytes: looks again after %v, although nothing is due", i+1, f.pause)
		}
	}
	for at, ok := range map[int64]bool{0: true, 3: true, 8: true, 9: false} { // again, and beyond the end
		if err := c.s.send(at, []byte(line[min(at, 8):])); (err == nil) != ok {
			t.Errorf("at offset %d: error %v", at, err)
		}
	}
	if got := contents(t, c.s.file(inFile)); got != line {
		t.Errorf("the file has %q, want %q", got, line)
	}
}

func TestAgentThatDoesNotReadIsEnded(t *testing.T) {
	t.Parallel()
	c := converse(t)
	f, read := c.alone()
	now := time.Now()
	wait := func(d time.Duration, want bool) {
		t.Helper()
		if now = now.Add(d); f.feed(now) != want {
			t.Errorf("after %v: %t", d, !want)
		}
	}
	wait(10*feedTimeout, true) // nothing is due
	c.say(1 << 20)
	wait(10*feedTimeout, true)
	wait(feedTimeout-1, true)
	read()
	wait(1, true)
	wait(feedTimeout-1, true)
	if f.pause > feedPauses {
		t.Errorf("looks again after %v", f.pause)
	}
	wait(1, false)
	if err := os.Remove(c.s.file(stdinFile)); err != nil {
		t.Fatal(err)
	}
	f = c.feeder() // that of another shim
	wait(feedTimeout, true)
	wait(feedTimeout, false)
	if err := os.Truncate(c.s.file(inFile), 10); err != nil { // within the line that is fed
		t.Fatal(err)
	}
	f = c.feeder()
	wait(0, true)
	wait(feedTimeout, false)
}

// Each write of the file fed may be cut off, and both slots may be gone.
func TestTornSlotIsNoDoubt(t *testing.T) {
	t.Parallel()
	const line = `{"n":0,"x":"yyy"}` + "\n"
	for _, test := range []struct {
		phase   phase // the last one
		written string
		damage  func(slots []byte, last int)
		then    string // what the next shim writes
	}{
		{phaseIdle, "", nil, line},
		{phaseBody, "", nil, torn + line},
		{phaseBody, line[:5], nil, torn + line},
		{phaseEnd, line[:len(line)-1], nil, "\n"},
		{phaseEnd, line, nil, "\n"},
		{phaseBody, "", tear, line},
		{phaseEnd, line[:len(line)-1], tear, torn + line},
		{phaseIdle, line, tear, "\n"},
		{phaseBody, "", wipe, ""},
	} {
		t.Run(fmt.Sprintf("%s after %d bytes", test.phase, len(test.written)), func(t *testing.T) {
			c := converse(t)
			c.say(3)
			_, read := c.alone()
			states := []fed{{N: 2, Phase: phaseBody}, {N: 3, Phase: phaseEnd}, {N: 4, At: int64(len(line)), Phase: phaseIdle}}
			last := slices.IndexFunc(states, func(f fed) bool { return f.Phase == test.phase })
			if test.phase == phaseIdle && test.written == "" {
				last = -1
			}
			slots := newFed()
			for _, state := range states[:last+1] {
				slot, at, err := state.slot()
				if err != nil {
					t.Fatal(err)
				}
				copy(slots[at:], slot[:])
			}
			if test.damage != nil {
				test.damage(slots, last%2)
			}
			if err := os.WriteFile(c.s.file(fedFile), slots, 0o600); err != nil {
				t.Fatal(err)
			}
			c.feeder().feed(time.Now())
			if got := read(); got != test.then {
				t.Errorf("the next shim writes %q, want %q", got, test.then)
			}
			if test.then != "" && c.fed().At != int64(len(line)) {
				t.Errorf("fed %+v", c.fed())
			}
		})
	}
}

// tear cuts off the write of a slot; wipe that of both.
func tear(slots []byte, last int) { copy(slots[last*fedSize:], "{\"n\":999,") }
func wipe(slots []byte, last int) { clear(slots) }

func TestDirectoriesOfLiveRunsAndOthersAreDistinguished(t *testing.T) {
	t.Parallel()
	c := converse(t)
	plain := c.create(shell("plain", "true"))
	defer plain.Close()
	if err := plain.makeProcess(1); err != nil {
		t.Fatal(err)
	}
	for dir, valid := range map[string]bool{
		c.s.path: true, c.d.path: false, plain.path: true, plain.processDir(1): false, c.root: false,
	} {
		if _, err := specOf(dir); (err == nil) != valid {
			t.Errorf("%s: error %v", dir, err)
		}
	}
	for name, spec := range map[string]Spec{
		"no process": {Source: runs.SourcePipe},
	} {
		spec.Run, spec.Live, spec.Attributes = "other", true, runs.Attributes{Agent: "codex", Dir: "/"}
		if _, err := Create(c.root, spec); err == nil {
			t.Errorf("a live run with %s was created", name)
		}
	}
}

// BenchmarkFeed measures lines of 200 bytes to an agent that only reads them.
func BenchmarkFeed(b *testing.B) {
	dir := b.TempDir()
	if err := makeProcessFiles(filepath.Join(dir, "p1")); err != nil {
		b.Fatal(err)
	}
	s := &spawned{path: filepath.Join(dir, "p1")}
	stdin, err := openPipe(s.file(stdinFile), unix.O_RDWR)
	if err != nil {
		b.Fatal(err)
	}
	defer unix.Close(stdin)
	f := newFeeder(s.path)
	defer f.close()
	line := []byte(strings.Repeat("x", 199) + "\n")
	buf := make([]byte, 1<<16)
	b.SetBytes(int64(len(line)))
	at := int64(0)
	for b.Loop() {
		if err := s.send(at, line); err != nil {
			b.Fatal(err)
		}
		f.feed(time.Now())
		if n, err := unix.Read(stdin, buf); n != len(line) || err != nil {
			b.Fatal(n, err)
		}
		at += int64(len(line))
	}
}
