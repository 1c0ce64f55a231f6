package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	testfixture "github.com/linesman/linesman/test/fixture"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/runs"
)

// The test binary is also the program of the shims, and of the workers that
// are killed.
func TestMain(m *testing.M) {
	if os.Getenv(sweepVariable) != "" {
		sweepFor = testfixture.Patience
	}
	if len(os.Args) > 2 {
		switch role := os.Args[1]; role {
		case "player":
			if err := play(os.Args[2], os.Args[3:]); err != nil {
				os.Exit(1)
			}
			return
		case "shim", "agent", "adopt", "live", "pipe", "tail", "import", "sessions":
			if err := act(role, os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				if errors.Is(err, ErrNotNeeded) {
					os.Exit(NotNeeded)
				}
				os.Exit(1)
			}
			return
		}
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // the shims, which exit often
	testfixture.VerifyGoroutines(m)
}

func act(role string, args []string) error {
	if part := map[string]func(string) error{"shim": feedingShim, "agent": talk}[role]; part != nil {
		return part(args[0])
	}
	ctx := context.Background()
	logs := &fileLogs{dir: args[1]}
	logs.killAt, _ = strconv.Atoi(os.Getenv("TEST_KILL_AT"))
	logs.killAfter, logs.lossy = os.Getenv("TEST_KILL_WHEN") == "after", os.Getenv("TEST_LOSSY") != ""
	w, err := New(Config{
		Root: args[0], Logs: logs, Shim: []string{os.Args[0], "shim"}, Name: "here", Diff: os.Getenv("TEST_DIFF") != "",
	})
	if err != nil {
		return err
	}
	patient(w)
	switch role {
	case "live":
		w.cfg.Agents, w.lookEvery = players, 20*time.Millisecond
	case "pipe":
		d, err := Create(args[0], Spec{Run: "piped", Attributes: runs.Attributes{Agent: "codex"}, Source: runs.SourcePipe})
		if err != nil {
			return err
		}
		done := make(chan error, 1)
		go func() { done <- Pipe(ctx, os.Stdin, d) }()
		_, err = w.Run(d).Drive(ctx)
		return errors.Join(err, <-done)
	case "import":
		limit := unix.Rlimit{Cur: 64, Max: 64}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			return err
		}
		return w.Tail(ctx, TailSpec{Paths: args[2:], Agent: "codex", Once: true})
	case "sessions":
		spec := sessionsSpec(args[2])
		spec.Since, spec.Idle = time.Hour, 300*time.Millisecond
		return w.Sessions(ctx, spec)
	case "tail":
		return w.Tail(ctx, TailSpec{Paths: args[2:], Agent: "codex"})
	}
	return w.Adopt(ctx)
}

// fileLogs keeps each raw log in a file, each entry as a line with its fields and the length of
// its body, the body, and the end of a line. The length of the file fences writers in other
// processes.
type fileLogs struct {
	dir       string
	killAt    int  // kill this process at this append, counted from 1
	killAfter bool // after the entry is stored, else before

	mu      sync.Mutex
	count   int
	opened  int
	lossy   bool                                      // a log may lose entries
	expired uint64                                    // entries that nobody can read any more
	stored  func(e runs.Entry)                        // after each append
	away    atomic.Int32                              // how often the connection was lost and restored
	blocked chan struct{}                             // Open and Append wait until it is closed
	hook    func(l *fileLog, e runs.Entry) runs.Entry // before each append
}

func (l *fileLogs) Open(ctx context.Context, _, run string, m runs.Mark) (Log, error) {
	l.mu.Lock()
	l.opened++
	blocked := l.blocked
	l.mu.Unlock()
	if err := wait(ctx, blocked); err != nil {
		return nil, err
	}
	log := &fileLog{logs: l, path: filepath.Join(l.dir, run), mark: m, away: l.away.Load()}
	entries, size := readLog(log.path)
	log.size = size
	if m.Seq > uint64(len(entries)) {
		if !l.lossy {
			return nil, errors.New("the mark is ahead of the log")
		}
		log.lost()
		return log, nil
	}
	for i, e := range entries[m.Seq:] {
		log.mark = log.mark.After(e, m.Seq+uint64(i)+1)
	}
	return log, nil
}

// opens returns how often a log was opened.
func (l *fileLogs) opens() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opened
}

func (l *fileLogs) setBlocked(c chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocked = c
}

// wait waits until blocked is closed, or not at all if it is nil.
func wait(ctx context.Context, blocked <-chan struct{}) error {
	if blocked == nil {
		return nil
	}
	select {
	case <-blocked:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type fileLog struct {
	logs *fileLogs
	path string
	size int64
	mark runs.Mark
	away int32 // see fileLogs
}

func (l *fileLog) Mark() runs.Mark { return l.mark }

func (l *fileLog) Append(ctx context.Context, e runs.Entry) error {
	l.logs.mu.Lock()
	l.logs.count++
	kill := l.logs.count == l.logs.killAt
	blocked, hook := l.logs.blocked, l.logs.hook
	l.logs.mu.Unlock()
	if kill && !l.logs.killAfter {
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	if err := wait(ctx, blocked); err != nil {
		return err
	}
	if hook != nil {
		e = hook(l, e)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := files.Lock(f); err != nil {
		return err
	}
	if info, err := f.Stat(); err == nil && info.Size() < l.size && l.logs.lossy {
		l.lost()
		return runs.ErrMoved
	}
	others, more := readLogFrom(f, l.size)
	if more != 0 {
		for _, other := range others {
			l.mark = l.mark.After(other, l.mark.Seq+1)
		}
		l.size += more
		return runs.ErrMoved
	}
	entry := fileEntry(e)
	if err := f.Truncate(l.size); err != nil { // the rest of an entry that a kill cut off
		return err
	}
	if _, err := f.WriteAt(entry, l.size); err != nil {
		return err
	}
	l.size += int64(len(entry))
	l.mark = l.mark.After(e, l.mark.Seq+1)
	if l.logs.stored != nil {
		l.logs.stored(e)
	}
	if kill {
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	return nil
}

// fileEntry is an entry as it is in the file.
func fileEntry(e runs.Entry) []byte {
	return fmt.Appendf(nil, "%s %d %d %d\n%s\n", e.Kind, e.Time, e.Offset, len(e.Body), e.Body)
}

// lost reads a log that has lost entries.
func (l *fileLog) lost() {
	var entries []runs.Entry
	entries, l.size = readLog(l.path)
	l.mark = runs.Mark{At: max(l.mark.At, 1)}
	for i, e := range entries {
		l.mark = l.mark.After(e, uint64(i)+1)
	}
}

func (l *fileLog) Entries(_ context.Context, after uint64, each func(seq uint64, e runs.Entry) error) error {
	entries, _ := readLog(l.path)
	for after = max(after, l.logs.expired); after < l.mark.Seq; after++ {
		if after >= uint64(len(entries)) { // it was lost meanwhile
			l.lost()
			return runs.ErrMoved
		}
		if err := each(after+1, entries[after]); err != nil {
			return err
		}
	}
	return nil
}

func (l *fileLog) Reconnected() bool { return l.away != l.logs.away.Load() }

func (l *fileLog) Look(context.Context) (moved bool, err error) {
	l.away = l.logs.away.Load()
	entries, size := readLog(l.path)
	for ; l.mark.Seq < uint64(len(entries)); moved = true {
		l.mark = l.mark.After(entries[l.mark.Seq], l.mark.Seq+1)
	}
	l.size = max(l.size, size)
	return moved, nil
}

// readLog returns the entries of a log and their size in bytes.
func readLog(path string) (entries []runs.Entry, size int64) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0
	}
	defer f.Close()
	return readLogFrom(f, 0)
}

// readLogFrom is readLog for the entries after an offset: a writer that knows its log
// reads no entry again, which would take most of the time of these tests.
func readLogFrom(f *os.File, from int64) (entries []runs.Entry, size int64) {
	body, err := io.ReadAll(io.NewSectionReader(f, from, math.MaxInt64-from))
	if err != nil {
		return nil, 0
	}
	for {
		line, rest, whole := bytes.Cut(body, []byte{'\n'})
		words := strings.Fields(string(line))
		if !whole || len(words) != 4 {
			return entries, size
		}
		var numbers [3]int64
		for i, word := range words[1:] {
			if numbers[i], err = strconv.ParseInt(word, 10, 64); err != nil {
				return entries, size
			}
		}
		at := numbers[2]
		if at >= int64(len(rest)) {
			return entries, size
		}
		e := runs.Entry{Kind: runs.Kind(words[0]), Time: numbers[0], Offset: numbers[1], Body: rest[:at:at]}
		entries = append(entries, e)
		size += int64(len(line)) + 1 + at + 1
		body = rest[at+1:]
	}
}

// fixture is a root, its raw logs and a worker in this process.
type fixture struct {
	t     *testing.T
	root  string
	logs  *fileLogs
	w     *Worker
	lines *observer.ObservedLogs
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	core, lines := observer.New(zap.InfoLevel)
	l := &fixture{t: t, root: filepath.Join(t.TempDir(), "runs"), logs: &fileLogs{dir: t.TempDir()}, lines: lines}
	w, err := New(Config{
		Root: l.root, Logs: l.logs, Shim: []string{os.Args[0], "shim"}, Name: "here", Log: zap.New(core),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.adoptEvery, w.tailPause, w.settle = 200*time.Millisecond, 200*time.Millisecond, 200*time.Millisecond
	w.lookEvery = 20 * time.Millisecond
	patient(w)
	l.w = w
	t.Cleanup(func() { testfixture.EndShims(l.root) })
	t.Cleanup(func() { // the shims of ended runs are about to exit
		waitFor(t, "the shims", func() bool {
			w.reap()
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.exitingShims) == 0
		})
	})
	return l
}

// shell returns a run of a shell script.
func shell(run, script string) Spec {
	return Spec{
		Run: run, Attributes: runs.Attributes{Agent: "codex", Dir: "/"}, Source: runs.SourceRun, Argv: []string{"/bin/sh",
			"-c", script}, Env: []string{"PATH=" + os.Getenv("PATH")}, Limits: Limits{Grace: 2 * time.Second},
	}
}

func (l *fixture) create(spec Spec) *Dir {
	l.t.Helper()
	d, err := Create(l.root, spec)
	if err != nil {
		l.t.Fatal(err)
	}
	return d
}

// drive drives a new run to its end.
func (l *fixture) drive(spec Spec) runs.Exit {
	l.t.Helper()
	ex, err := l.w.Run(l.create(spec)).Drive(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	return ex
}

// begun drives a new run in the background, and returns when its output
// contains want.
func (l *fixture) begun(spec Spec, want string) (*Run, <-chan result) {
	l.t.Helper()
	r, done := l.driven(l.t.Context(), l.create(spec))
	l.await(spec.Run, want)
	return r, done
}

// driven drives the run of d in the background.
func (l *fixture) driven(ctx context.Context, d *Dir) (*Run, <-chan result) {
	r := l.w.Run(d)
	done := make(chan result, 1)
	go func() {
		ex, err := r.Drive(ctx)
		done <- result{ex, err}
	}()
	return r, done
}

type result struct {
	runs.Exit
	err error
}

// patient gives a worker the time that a busy machine may need.
func patient(w *Worker) {
	for _, limit := range []*time.Duration{&w.usageTime, &w.takeTime, &w.compareTime, &w.closeTime, &w.startTime} {
		*limit = testfixture.Patience
	}
}

func (l *fixture) await(run, want string) {
	l.t.Helper()
	waitFor(l.t, "output "+want, func() bool { return strings.Contains(l.output(run), want) })
}

// prints waits until the output of a run contains want, and reports that; false: the run ended without it,
// because a limit was too short for a busy machine.
func (l *fixture) prints(run, want string) bool {
	l.t.Helper()
	has := func() bool { return strings.Contains(l.output(run), want) }
	waitFor(l.t, "output "+want+", or the end", func() bool { return has() || l.ended(run) })
	return has()
}

// longer multiplies limits by four, for a repetition of what a busy machine was too slow for. It returns false,
// and leaves them, if one would exceed a minute, or none is set: such limits suffice, and the test judges.
func longer(limits ...*time.Duration) bool {
	var most time.Duration
	for _, d := range limits {
		most = max(most, *d)
	}
	if most == 0 || 4*most > time.Minute {
		return false
	}
	for _, d := range limits {
		*d *= 4
	}
	return true
}

func (l *fixture) entries(run string) []runs.Entry {
	entries, _ := readLog(filepath.Join(l.logs.dir, run))
	return entries
}

// output joins the stdout in the log, and fails the test unless each byte is
// there once.
func (l *fixture) output(run string) string {
	l.t.Helper()
	var all bytes.Buffer
	for i, e := range l.entries(run) {
		if e.Kind != runs.Out {
			continue
		}
		if e.Offset != int64(all.Len()) {
			l.t.Fatalf("entry %d has offset %d after %d bytes", i+1, e.Offset, all.Len())
		}
		if len(e.Body) == 0 || len(e.Body) > runs.MaxChunk {
			l.t.Fatalf("entry %d has %d bytes", i+1, len(e.Body))
		}
		all.Write(e.Body)
	}
	return all.String()
}

// kinds lists the kinds of the entries, consecutive output only once.
func (l *fixture) kinds(run string) string {
	var kinds []string
	for _, e := range l.entries(run) {
		if k := string(e.Kind); len(kinds) == 0 || kinds[len(kinds)-1] != k {
			kinds = append(kinds, k)
		}
	}
	return strings.Join(kinds, " ")
}

// exit returns the exit in the log, and fails the test unless it is the last
// and only one.
func (l *fixture) exit(run string) runs.Exit {
	l.t.Helper()
	entries := l.entries(run)
	var ex runs.Exit
	for i, e := range entries {
		if (e.Kind == runs.Exited) != (i == len(entries)-1) {
			l.t.Fatalf("log of %s: %s", run, l.kinds(run))
		}
		if e.Kind == runs.Exited {
			if err := json.Unmarshal(e.Body, &ex); err != nil {
				l.t.Fatal(err)
			}
		}
	}
	if len(entries) == 0 {
		l.t.Fatalf("log of %s is empty", run)
	}
	return ex
}

func (l *fixture) ended(run string) bool {
	entries := l.entries(run)
	return len(entries) > 0 && entries[len(entries)-1].Kind == runs.Exited
}

// adopt runs Adopt in this process until the test ends.
func (l *fixture) adopt() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.w.Adopt(ctx) }()
	l.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			l.t.Error(err)
		}
	})
}

// empty reports whether there is no run directory left.
func (l *fixture) empty() bool {
	entries, err := os.ReadDir(l.root)
	return errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0
}

// process starts a role of this binary in a new process.
func (l *fixture) process(stdin io.Reader, env []string, role string, args ...string) *exec.Cmd {
	l.t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{role, l.root, l.logs.dir}, args...)...)
	cmd.Stdin, cmd.Stderr = stdin, os.Stderr
	cmd.Env = append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	return cmd
}

// kill kills a process that this test started, with SIGKILL.
func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	pause := 5 * time.Millisecond // less often, the longer it takes: what is looked at may be large
	deadline := time.After(testfixture.Patience)
	for !ok() {
		select {
		case <-time.After(pause):
			pause = min(pause+pause/4, 25*time.Millisecond)
		case <-deadline:
			t.Fatalf("waited too long for %s", what)
		}
	}
}

func (l *fixture) has(message string) bool { return l.lines.FilterMessageSnippet(message).Len() > 0 }

func contents(t *testing.T, path string) string {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(body)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func code(n int) *int { return &n }

func sameExit(a, b runs.Exit) bool { return string(runs.Encode(a)) == string(runs.Encode(b)) }
