package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

// once imports paths in this process, and returns the started and skipped
// runs.
func (l *fixture) once(again bool, paths ...string) (begun, skipped []string, err error) {
	var mu sync.Mutex
	err = l.w.Tail(l.t.Context(), TailSpec{
		Paths: paths, Agent: "codex", Once: true, Again: again,
		Began:   func(run, path string) { mu.Lock(); defer mu.Unlock(); begun = append(begun, run+" "+path) },
		Skipped: func(run, path string) { mu.Lock(); defer mu.Unlock(); skipped = append(skipped, run+" "+path) },
	})
	return begun, skipped, err
}

// imports is once for one path, and fails the test on an error. It returns the
// outputs of the started runs.
func (l *fixture) imports(again bool, path string) (outputs []string, skipped int) {
	l.t.Helper()
	begun, left, err := l.once(again, path)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, line := range begun {
		run, _, _ := strings.Cut(line, " ")
		outputs = append(outputs, l.output(run))
	}
	return outputs, len(left)
}

// However often a process that imports many files is killed, the last call
// leaves one complete run of each file and no open run. It has far fewer
// descriptors than files.
func TestKilledImportsImportEachFileOnce(t *testing.T) {
	l := newFixture(t)
	dir := t.TempDir()
	const files = 300
	var paths []string
	want := make(map[string]int)
	for i := range files {
		path := filepath.Join(dir, fmt.Sprint(i))
		text := fmt.Sprintf("file %d\n", i) + strings.Repeat("line\n", rand.IntN(20))
		write(t, path, text)
		paths, want[text] = append(paths, path), 1
	}
	for round := range 6 {
		// At the latest it is killed at an append that comes before the end, however late this goroutine is: all
		// files need three appends each.
		until := len(l.runIDs()) + files/10
		killed := l.process(nil, []string{"TEST_KILL_AT=120"}, "import", paths...)
		if round%2 == 0 {
			waitFor(t, "progress", func() bool {
				p, ok := lookup(killed.Process.Pid)
				return len(l.runIDs()) >= until || !ok || p.dead
			})
		} else {
			<-time.After(rand.N(30 * time.Millisecond)) // a random moment for the kill
		}
		kill(killed)
	}
	if len(l.runIDs()) == files {
		t.Error("no process was killed before the end")
	}
	last := l.process(nil, nil, "import", paths...)
	if err := last.Wait(); err != nil {
		t.Error(err)
	}
	for _, id := range l.runIDs() {
		want[l.output(id)]--
		if !l.ended(id) || strings.Count(l.kinds(id), "start") != 1 {
			t.Errorf("run %s: %s", id, l.kinds(id))
		}
	}
	for text, left := range want {
		if left != 0 {
			t.Errorf("%d runs of %.20q, want 1", 1-left, text)
		}
	}
	entries, err := os.ReadDir(l.root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries { // leftovers of directories are removed after a minute
		if runs.CheckID(e.Name()) == nil {
			t.Errorf("the directory of %s is left", e.Name())
		}
	}
}

// A kill right before and after each append, with a ledger and, as after a
// power failure, without one.
func TestImportKilledAtAnyAppendIsOneRun(t *testing.T) {
	for n := 1; n <= 4; n++ {
		for _, when := range []string{"before", "after"} {
			for _, lost := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s append %d, ledger lost %t", when, n, lost), func(t *testing.T) {
					l := newFixture(t)
					path := filepath.Join(t.TempDir(), "f")
					text := strings.Repeat("x", runs.MaxChunk) + "\ntwo\n"
					write(t, path, text)
					cmd := l.process(nil, []string{fmt.Sprint("TEST_KILL_AT=", n), "TEST_KILL_WHEN=" + when}, "import", path)
					if cmd.Wait() == nil {
						t.Fatal("the process was not killed")
					}
					for range 2 {
						if lost {
							_ = os.Remove(l.w.ledger.path)
						}
						if _, _, err := l.once(false, path); err != nil {
							t.Fatal(err)
						}
					}
					if ids := l.runIDs(); len(ids) != 1 || l.output(ids[0]) != text || !l.ended(ids[0]) || !l.empty() {
						t.Errorf("%d runs, summary %.40q", len(ids), l.summary())
					}
				})
			}
		}
	}
}

// An import that is killed and not called again is completed by the next
// worker.
func TestInterruptedImportIsAdopted(t *testing.T) {
	l := newFixture(t)
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "one\n")
	if l.process(nil, []string{"TEST_KILL_AT=2"}, "import", path).Wait() == nil {
		t.Fatal("the process was not killed")
	}
	write(t, path, "two\n")
	l.adopt()
	l.awaitSummary("one\n[eof]")
	waitFor(t, "the directory", l.empty)
	if outputs, _ := l.imports(false, path); !slices.Equal(outputs, []string{"two\n"}) {
		t.Errorf("the added lines: %q", outputs)
	}
}

// Even without the run directory and the ledger, an import resumes its log.
func TestImportWithoutItsDirectoryResumesItsLog(t *testing.T) {
	l := newFixture(t)
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "one\ntwo\n")
	if l.process(nil, []string{"TEST_KILL_AT=2"}, "import", path).Wait() == nil {
		t.Fatal("the process was not killed")
	}
	if err := os.RemoveAll(l.root); err != nil {
		t.Fatal(err)
	}
	if _, skipped := l.imports(false, path); skipped != 0 || l.summary() != "one\ntwo\n[eof]" {
		t.Errorf("summary %q, %d skipped", l.summary(), skipped)
	}
}

func TestImportedFileIsSkippedUntilItChanges(t *testing.T) {
	for _, test := range []struct {
		name   string
		before string
		do     func(t *testing.T, path string)
		want   []string // outputs of the second call
	}{
		{"unchanged", "one\n", func(*testing.T, string) {}, nil},
		{"touched", "one\n", func(t *testing.T, path string) {
			if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"renamed in its directory", "one\n", func(t *testing.T, path string) {
			if err := errors.Join(os.Rename(path, path+".1"), os.Symlink(path+".1", path)); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"empty", "", func(*testing.T, string) {}, nil},
		{"empty, then grown", "", func(t *testing.T, path string) { write(t, path, "one\n") }, []string{"one\n"}},
		{"grown", "one\n", func(t *testing.T, path string) { write(t, path, "two\n") }, []string{"two\n"}},
		{"grown in the middle of a line", "one\ntw", func(t *testing.T, path string) { write(t, path, "o\nthree\n") },
			[]string{"two\nthree\n"}},
		{"unfinished and unchanged", "one\ntw", func(*testing.T, string) {}, nil},
		{"replaced by as much", "one\n", func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("two\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, []string{"two\n"}},
		{"cut short", "one\ntwo\n", func(t *testing.T, path string) {
			if err := os.Truncate(path, 4); err != nil {
				t.Fatal(err)
			}
		}, []string{"one\n"}},
		{"changed at its end", strings.Repeat("long\n", 10000) + "one\n", func(t *testing.T, path string) {
			if err := errors.Join(os.Truncate(path, 50000)); err != nil {
				t.Fatal(err)
			}
			write(t, path, "two\n")
		}, []string{strings.Repeat("long\n", 10000) + "two\n"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newFixture(t)
			path := filepath.Join(t.TempDir(), "f")
			write(t, path, test.before)
			if outputs, _ := l.imports(false, path); !slices.Equal(outputs, []string{test.before}) {
				t.Fatalf("first %q", outputs)
			}
			test.do(t, path)
			outputs, skipped := l.imports(false, path)
			if !slices.Equal(outputs, test.want) || skipped != 1-len(test.want) {
				t.Errorf("second %.80q, %d skipped; want %.80q", outputs, skipped, test.want)
			}
			if outputs, skipped = l.imports(false, path); outputs != nil || skipped != 1 {
				t.Errorf("third %.80q, %d skipped", outputs, skipped)
			}
		})
	}
}

func TestAgainImportsUnchangedFiles(t *testing.T) {
	l := newFixture(t)
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "one\n")
	for range 3 {
		if outputs, _ := l.imports(true, path); !slices.Equal(outputs, []string{"one\n"}) {
			t.Errorf("imported %q", outputs)
		}
	}
	if outputs, skipped := l.imports(false, path); outputs != nil || skipped != 1 || len(l.runIDs()) != 3 {
		t.Errorf("imported %q, %d skipped, %d runs", outputs, skipped, len(l.runIDs()))
	}
}

// A file that was followed is then imported: each line is in one run.
func TestImportOfAFollowedFileEndsItsRun(t *testing.T) {
	l := newFixture(t)
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "one\n")
	stop := l.tail(path)
	l.awaitSummary("one\n")
	stop()
	write(t, path, "two\n")
	if outputs, _ := l.imports(false, path); !slices.Equal(outputs, []string{"one\ntwo\n"}) {
		t.Errorf("imported %q", outputs)
	}
	if outputs, skipped := l.imports(false, path); outputs != nil || skipped != 1 {
		t.Errorf("imported %q, %d skipped", outputs, skipped)
	}
}

func TestCancelledImportIsSkipped(t *testing.T) {
	l := newFixture(t)
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "one\n")
	if l.process(nil, []string{"TEST_KILL_AT=2"}, "import", path).Wait() == nil {
		t.Fatal("the process was not killed")
	}
	l.foreign(l.runIDs()[0], runs.Cancelled, runs.Remark{})
	for range 2 {
		l.imports(false, path)
		if l.summary() != "[cancelled]" || !l.empty() {
			t.Errorf("summary %q", l.summary())
		}
	}
}

// A run that was ended as lost keeps its output; the rest of the file becomes
// another run.
func TestImportThatEndedAsLostIsContinuedByAnother(t *testing.T) {
	for name, kill := range map[string]string{"before its output": "TEST_KILL_AT=2", "in the middle": "TEST_KILL_AT=3"} {
		t.Run(name, func(t *testing.T) {
			l := newFixture(t)
			path := filepath.Join(t.TempDir(), "f")
			first, second := strings.Repeat("x", runs.MaxChunk-1)+"\n", "two\n"
			write(t, path, first+second)
			if l.process(nil, []string{kill}, "import", path).Wait() == nil {
				t.Fatal("the process was not killed")
			}
			lost := runs.Entry{Kind: runs.Exited, Time: 1, Body: runs.Encode(runs.Exit{Reason: runs.ReasonLost})}
			log, err := l.logs.Open(t.Context(), "codex", l.runIDs()[0], runs.Mark{})
			if err := errors.Join(err, log.Append(t.Context(), lost)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				l.imports(false, path)
				var all []string
				for _, id := range l.runIDs() {
					all = append(all, l.output(id))
				}
				slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
				if len(all) != 2 || strings.Join(all, "") != first+second || !l.empty() {
					t.Errorf("%d runs with %d bytes", len(all), len(strings.Join(all, "")))
				}
			}
		})
	}
}

// Two concurrent processes with the same files import each file once.
func TestImportsAtTheSameTimeImportEachFileOnce(t *testing.T) {
	l := newFixture(t)
	dir := t.TempDir()
	var paths []string
	for i := range 40 {
		paths = append(paths, filepath.Join(dir, fmt.Sprint(i)))
		write(t, paths[i], fmt.Sprintln("file", i))
	}
	other := l.process(nil, nil, "import", paths...)
	_, _, err := l.once(false, paths...)
	if err := errors.Join(err, other.Wait()); err != nil {
		t.Fatal(err)
	}
	outputs := make(map[string]int)
	for _, id := range l.runIDs() {
		outputs[l.output(id)]++
	}
	if len(outputs) != len(paths) || len(l.runIDs()) != len(paths) {
		t.Errorf("%d runs of %d files", len(l.runIDs()), len(outputs))
	}
}

// The import fails while the ledger cannot be written. Later calls complete
// it, without a second run.
func TestImportWithoutALedgerFailsUntilThereIsOne(t *testing.T) {
	l := newFixture(t)
	dir := filepath.Join(t.TempDir(), "missing")
	l.w.ledger.path = filepath.Join(dir, "ledger")
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "one\n")
	for range 2 {
		if _, _, err := l.once(false, path); !errors.Is(err, fs.ErrNotExist) || l.summary() != "one\n[eof]" {
			t.Fatalf("summary %q, error %v", l.summary(), err)
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, skipped := l.imports(false, path); skipped != 1 || l.summary() != "one\n[eof]" || !l.empty() {
		t.Errorf("summary %q, %d skipped", l.summary(), skipped)
	}
}

// A file that is replaced after its run has ended in the log, but before the
// ledger has its line, is imported with its current content.
func TestFileReplacedAfterAKilledImportIsImported(t *testing.T) {
	l := newFixture(t)
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "one\n")
	if l.process(nil, []string{"TEST_KILL_AT=3", "TEST_KILL_WHEN=after"}, "import", path).Wait() == nil {
		t.Fatal("the process was not killed")
	}
	write(t, path+".new", "two\n")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if outputs, _ := l.imports(false, path); !slices.Equal(outputs, []string{"two\n"}) || len(l.runIDs()) != 2 ||
		!l.empty() {
		t.Errorf("imported %q, summary %q", outputs, l.summary())
	}
}

// Another process imports a file before this call does, and the file grows:
// each of its lines is in one run.
func TestFileImportedMeanwhileByAnotherProcessIsImportedOnce(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"has ended", "was killed", "still imports it"} {
		t.Run("the other "+other, func(t *testing.T) {
			l := newFixture(t)
			dir := t.TempDir()
			file := filepath.Join(dir, "file")
			write(t, file, "one\n")
			var paths []string // they keep all slots of the first call busy
			for i := range importSlots(limit.Cur) {
				paths = append(paths, filepath.Join(dir, fmt.Sprint(i)))
				write(t, paths[i], fmt.Sprint(i)) // each with another size or content
			}
			busy := make(chan struct{})
			l.logs.setBlocked(busy)
			errs := make(chan error, 2)
			start := func(w *Worker, paths ...string) {
				go func() { errs <- w.Tail(t.Context(), TailSpec{Paths: paths, Agent: "codex", Once: true}) }()
			}
			directories := func(want int) {
				waitFor(t, "run directories", func() bool {
					made, _ := filepath.Glob(filepath.Join(l.root, "T-*"))
					return len(made) == want
				})
			}
			start(l.w, append(paths, file)...)
			directories(len(paths))

			calls, stuck := 1, make(chan struct{})
			switch other {
			case "has ended":
				if err := l.process(nil, nil, "import", file).Wait(); err != nil {
					t.Fatal(err)
				}
			case "was killed":
				if l.process(nil, []string{"TEST_KILL_AT=2"}, "import", file).Wait() == nil {
					t.Fatal("the process was not killed")
				}
			default:
				w, err := New(Config{Root: l.root, Logs: &fileLogs{dir: l.logs.dir, blocked: stuck}, Name: "here"})
				if err != nil {
					t.Fatal(err)
				}
				start(w, file)
				calls++
				directories(len(paths) + 1)
			}
			write(t, file, "two\n")
			close(busy)
			waitFor(t, "a free slot", func() bool { return strings.Contains(l.summary(), "[eof]") })
			close(stuck)
			for range calls {
				if err := <-errs; err != nil {
					t.Error(err)
				}
			}
			var all []string
			for _, id := range l.runIDs() {
				if text := l.output(id); strings.HasSuffix(text, "\n") { // a run of the file
					all = append(all, strings.SplitAfter(text, "\n")...)
				}
			}
			slices.Sort(all)
			if text := strings.Join(all, ""); text != "one\ntwo\n" || !l.empty() {
				t.Errorf("lines in all runs: %q", text)
			}
		})
	}
}

// Equal files are imported separately, for any inode numbers.
func TestEqualFilesAreImportedEach(t *testing.T) {
	ids := make(map[string]int64)
	for _, base := range []int64{0, 1 << 21, 1 << 40, 1<<62 - 1} {
		for n := range int64(3) {
			for i, c := range []content{
				{File: inode{1, uint64(base + n)}}, {File: inode{uint64(base + n), 1}},
				{From: base + n}, {To: base + n}, {Agent: fmt.Sprint(base + n)}, {Before: fmt.Sprint(base + n)},
			} {
				if c.Worker = fmt.Sprint(i); ids[importID(c)] != 0 {
					t.Errorf("two imports have the id of %+v", c)
				}
				ids[importID(c)]++
			}
		}
	}
	l := newFixture(t)
	dir := t.TempDir()
	for i := range 3 {
		path := filepath.Join(dir, fmt.Sprint(i))
		write(t, path, "the same\n")
		if outputs, _ := l.imports(false, path); !slices.Equal(outputs, []string{"the same\n"}) {
			t.Errorf("file %d: imported %q", i, outputs)
		}
	}
}

// An import into one target, or as the output of one agent kind, does not
// count for another.
func TestImportCountsForOneTargetAndAgentKind(t *testing.T) {
	root, path := filepath.Join(t.TempDir(), "runs"), filepath.Join(t.TempDir(), "f")
	write(t, path, "one\n")
	logs := map[string]*fileLogs{"a": {dir: t.TempDir()}, "b": {dir: t.TempDir()}}
	for i, test := range []struct {
		target  string
		stores  []string
		agent   string
		skipped bool
	}{
		{"a", []string{"raw", "runs"}, "codex", false},
		{"a", []string{"raw", "runs"}, "codex", true},
		{"a", []string{"raw2", "runs"}, "codex", true}, // the second store still knows the run
		{"a", []string{"raw", "runs2"}, "codex", true},
		{"b", []string{"raw3", "runs3"}, "codex", false},
		{"b", []string{"raw3", "runs3"}, "codex", true},
		{"a", []string{"raw", "runs"}, "codex", true},
		{"a", []string{"raw", "runs"}, "codex_cloud", false},
		{"a", []string{"raw", "runs"}, "codex_cloud", true},
		{"a", []string{"raw", "runs"}, "codex", true},
	} {
		stores := func(context.Context) ([]string, error) { return test.stores, nil }
		w, err := New(Config{Root: root, Logs: logs[test.target], Name: "here", Stores: stores})
		if err != nil {
			t.Fatal(err)
		}
		skipped := false
		if err := w.Tail(t.Context(), TailSpec{
			Paths: []string{path}, Agent: test.agent, Once: true, Skipped: func(string, string) { skipped = true },
		}); err != nil || skipped != test.skipped {
			t.Errorf("import %d: skipped %t, want %t, error %v", i+1, skipped, test.skipped, err)
		}
	}
}

// A process that is killed while it compacts the ledger leaves no file
// permanently.
func TestInterruptedCompactionLeavesNothing(t *testing.T) {
	l := ledger{path: filepath.Join(t.TempDir(), "ledger"), max: 8 << 10}
	write(t, l.path+tmpSuffix, strings.Repeat(`{"dev":1,"inode":1}`+"\n", 1000))
	for i := range uint64(200) {
		if err := l.add(imported{inode: inode{1, i + 2}, Size: 1, Sum: "s", Run: "r"}); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(l.path))
	if err != nil || len(entries) != 1 || strings.Contains(contents(t, l.path), `"inode":1,`) {
		t.Errorf("files %v, error %v", entries, err)
	}
}

func TestLedgerIsBoundedAndKeepsTheNewest(t *testing.T) {
	l := ledger{path: filepath.Join(t.TempDir(), "ledger"), max: 8 << 10}
	const files = 500
	for i := range uint64(files) {
		if i%10 == 3 { // cut off by a power failure
			write(t, l.path, `{"dev":1,"ino`)
		}
		for _, n := range []uint64{i + 1, 1 << 20} { // the second one repeatedly
			if err := l.add(imported{inode: inode{1, n}, Size: int64(i), Sum: "s", Run: fmt.Sprint("r", i)}); err != nil {
				t.Fatal(err)
			}
		}
		if info, err := os.Stat(l.path); err != nil || info.Size() > l.max+200 {
			t.Fatalf("the ledger has %d bytes, error %v", info.Size(), err)
		}
	}
	index := ledgerIndex{ledger: &l, files: map[wanted]*imported{{file: inode{1, 1 << 20}}: nil}}
	for i := range uint64(20) {
		index.files[wanted{file: inode{1, files - i}}] = nil
	}
	defer index.close()
	for w := range index.files {
		file := w.file
		if last, err := index.last(file); err != nil || last == nil || file.Inode == 1<<20 && last.Size != files-1 {
			t.Errorf("inode %d: %+v, error %v", file.Inode, last, err)
		}
	}
}

// A failing compaction fails no import, appends no line twice, and is logged
// once. When it can succeed again, the ledger is compacted.
func TestLedgerThatCannotBeCompactedFailsNoImport(t *testing.T) {
	l := newFixture(t)
	l.w.ledger.max = 2 << 10
	path, dir := l.w.ledger.path, t.TempDir()
	if err := os.Mkdir(path+tmpSuffix, 0o700); err != nil {
		t.Fatal(err)
	}
	const files = 30
	for i := range files {
		file := filepath.Join(dir, fmt.Sprint(i))
		write(t, file, fmt.Sprintln(i))
		if outputs, _ := l.imports(false, file); len(outputs) != 1 || !l.empty() {
			t.Fatalf("file %d: %d runs, directory removed: %t", i, len(outputs), l.empty())
		}
	}
	if n := strings.Count(contents(t, path), `"run":`); n != files {
		t.Errorf("%d lines for %d files", n, files)
	}
	if n := l.lines.FilterMessageSnippet("compact").Len(); n != 1 {
		t.Errorf("logged %d times", n)
	}
	if err := os.Remove(path + tmpSuffix); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the compaction", func() bool {
		if err := l.w.ledger.add(imported{inode: inode{1, 1}, Sum: "s", Run: "r"}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		return err == nil && info.Size() <= l.w.ledger.max+200
	})
}

func TestMoreFilesThanDescriptorsAreRefused(t *testing.T) {
	l := newFixture(t)
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	lower := unix.Rlimit{Cur: min(before.Cur, 1024), Max: before.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lower); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	}()
	paths := make([]string, 300)
	for i := range paths {
		paths[i] = fmt.Sprint("/none/", i)
	}
	err := l.w.Tail(t.Context(), TailSpec{Paths: paths, Agent: "codex"})
	if !errors.Is(err, errTooMany) || !strings.Contains(err.Error(), "ulimit -n") {
		t.Errorf("error %v", err)
	}
}
