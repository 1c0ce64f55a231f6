package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linesman/linesman/test/bench/corpus"
)

// The trickle: of the followed files, the silent ones have a line each, and a fifth of the others gets one ten times
// a second; every five seconds a task, and an import of files of ten lines.
const trickling, silent, imported, importLines = 500, 1000, 25, 10

// trickle is `up`, a `tail` that follows files, and what is written.
type trickle struct {
	*site
	lines   [][]byte // that are written
	files   []string
	written []int // lines, by file
	imports int
	ended   chan error // of the import that runs; nil: there is none
	began   time.Time
	samples []sample
}

// sample is what there is at one moment. Bytes are those of RAW, EVENTS and RUNS, and of all
// other files in the data directory.
type sample struct {
	up, tail                   usage
	runs                       int64 // in RUNS
	rawBytes, eventBytes       int64
	runBytes, other, published int64
}

// usage is what a process has. heap are the bytes that were reachable at its last garbage
// collection.
type usage struct{ resident, heap, descriptors, threads int64 }

func (p *process) usage() usage {
	return usage{p.resident(), p.heap(), int64(p.descriptors()), int64(p.threads())}
}

var traced = regexp.MustCompile(`(?m)^gc \d+ @.*->(\d+) MB, \d+ MB goal`)

// heap reads the log of a process that was started with GODEBUG=gctrace=1.
func (p *process) heap() int64 {
	p.t.Helper()
	said := p.said()
	all := traced.FindAllStringSubmatch(said[max(0, len(said)-64<<10):], -1)
	if len(all) == 0 {
		return 0
	}
	mib, err := strconv.ParseInt(all[len(all)-1][1], 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return mib << 20
}

// goroutines ends the process and returns how many goroutines it had.
func (p *process) goroutines() int {
	p.t.Helper()
	from := len(p.said())
	p.signal(syscall.SIGQUIT)
	<-p.ended
	return strings.Count(p.said()[from:], "\ngoroutine ")
}

// TestTrickleStaysFlat keeps `up` under a trickle, as long as -chaos.soak says. The streams are
// so small that they soon remove as much as they store. From the middle to the end, memory
// grows by no more than the runs that RUNS has need, and descriptors and threads do not grow.
// In the end every line of the followed files was normalized.
func TestTrickleStaysFlat(t *testing.T) {
	if *soak == 0 {
		t.Skip("it takes minutes: -chaos.soak=8h, as `make trickle` does")
	}
	t.Setenv("GODEBUG", "gctrace=1")
	l := &trickle{
		site: newSite(t, drawn(t, 0),
			"[raw]\nmax_bytes = '64MiB'\n[events]\nmax_bytes = '128MiB'\n[runs]\nmax_bytes = '6MiB'"),
		lines: corpus.Lines(corpus.Small(1000)), written: make([]int, trickling+silent),
	}
	path := filepath.Join(l.dir, "linesman.toml")
	settings, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(settings), "'debug'", "'info'", 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.data = []string{filepath.Join(l.dir, "data")}
	l.begin("up")
	l.follow()
	server := l.server()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	every := max(*soak/50, 2*time.Second)
	l.began = time.Now()
	for i := 0; time.Since(l.began) < *soak; i++ {
		for k := i % 5; k < trickling; k += 5 {
			l.append(k)
		}
		if i%50 == 0 {
			l.submit("talk", "lines=20", "pace=5")
			l.importFiles()
		}
		if time.Since(l.began) >= every*time.Duration(len(l.samples)+1) {
			l.sample(server)
		}
		<-tick.C
	}
	l.compare()
	l.finish(server)
}

// follow starts `tail` with all files.
func (l *trickle) follow() {
	for i := range trickling + silent {
		l.files = append(l.files, filepath.Join(l.dir, fmt.Sprintf("followed-%d.jsonl", i)))
		l.append(i)
	}
	tail := start(l.t, filepath.Join(l.dir, "home"), l.log("tail"), l.at(l.data[0], "tail", l.files...)...)
	l.roles["tail"] = tail
	for _, file := range l.files {
		tail.await(0, " "+file+"\n")
	}
}

// append writes a line to a followed file.
func (l *trickle) append(k int) {
	l.t.Helper()
	f, err := os.OpenFile(l.files[k], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.Write(slices.Concat(l.lines[l.written[k]%len(l.lines)], []byte{'\n'}))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.written[k]++
}

// importFiles waits for the import before this one, and starts one of new files.
func (l *trickle) importFiles() {
	l.t.Helper()
	l.imported()
	dir := filepath.Join(l.dir, "imports", strconv.Itoa(l.imports))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		l.t.Fatal(err)
	}
	args := l.at(l.data[0], "tail", "--once")
	for i := range imported {
		file := filepath.Join(dir, fmt.Sprintf("%d.jsonl", i))
		text := fmt.Appendf(nil, `{"type":"thread.started","thread_id":"import-%d-%d"}`+"\n", l.imports, i)
		for n := range importLines - 1 {
			text = append(append(text, l.lines[n]...), '\n')
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			l.t.Fatal(err)
		}
		args = append(args, file)
	}
	l.imports++
	l.ended = make(chan error, 1)
	go func() {
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), "HOME="+filepath.Join(l.dir, "home"), "GODEBUG=")
		said, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, said)
		}
		l.ended <- errors.Join(err, os.RemoveAll(dir))
	}()
}

// imported waits for the import that runs.
func (l *trickle) imported() {
	l.t.Helper()
	if l.ended == nil {
		return
	}
	if err := <-l.ended; err != nil {
		l.t.Fatal(err)
	}
	l.ended = nil
}

// sample measures and logs a line.
func (l *trickle) sample(server Server) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 10*time.Second)
	defer cancel()
	bytes := func(name string) (bytes, messages, last int64) {
		js := server.Inside
		if name == l.names.Events() {
			js = server.Public
		}
		s, err := js.Stream(ctx, name)
		if err != nil {
			l.t.Fatal(err)
		}
		have := s.CachedInfo().State
		return int64(have.Bytes), int64(have.Msgs), int64(have.LastSeq)
	}
	m := sample{up: l.roles["up"].usage(), tail: l.roles["tail"].usage()}
	m.rawBytes, _, _ = bytes(l.names.Raw())
	m.eventBytes, _, m.published = bytes(l.names.Events())
	m.runBytes, m.runs, _ = bytes(stream(l.names.Runs()))
	err := filepath.WalkDir(l.data[0], func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.Name() == "jetstream" {
			return fs.SkipDir
		}
		if info, gone := os.Lstat(path); gone == nil && !info.IsDir() {
			m.other += info.Size()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		l.t.Fatal(err)
	}
	if len(l.samples) == 0 {
		l.t.Log("time  runs-ended events in-RUNS | up: MiB heap files threads | tail: MiB heap files threads | " +
			"MiB: RAW EVENTS RUNS other-files")
	}
	l.samples = append(l.samples, m)
	mib := func(n int64) string { return fmt.Sprintf("%.1f", float64(n)/(1<<20)) }
	of := func(u usage) string {
		return fmt.Sprint(mib(u.resident), " ", mib(u.heap), " ", u.descriptors, " ", u.threads)
	}
	l.t.Log(time.Since(l.began).Round(time.Second), l.imports*imported+l.made, m.published, m.runs, "|", of(m.up), "|",
		of(m.tail), "|", mib(m.rawBytes), mib(m.eventBytes), mib(m.runBytes), mib(m.other))
}

// compare compares the medians of the last fifth with those of the third one.
func (l *trickle) compare() {
	l.t.Helper()
	if *soak < 10*time.Minute {
		l.t.Logf("%v are too short to compare: the caches still grow", *soak)
		return
	}
	n := len(l.samples)
	median := func(part []sample, of func(sample) int64) int64 {
		var all []int64
		for _, m := range part {
			all = append(all, of(m))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	grown := func(what string, most int64, of func(sample) int64) int64 {
		l.t.Helper()
		middle, last := median(l.samples[n*2/5:n*3/5], of), median(l.samples[n*4/5:], of)
		l.t.Logf("%s: %d in the middle, %d at the end", what, middle, last)
		if last > middle+most {
			l.t.Errorf("%s grows by %d, more than %d", what, last-middle, most)
		}
		return last - middle
	}
	const slack, blocks = 16 << 20, 16 << 20 // the server keeps one block of a stream, 8 MiB, more or less
	kept := 4 << 10 * max(0, grown("runs in RUNS", 1<<40, func(m sample) int64 { return m.runs }))
	grown("memory of up", slack+blocks+kept, func(m sample) int64 { return m.up.resident })
	grown("heap of up", slack+blocks+kept, func(m sample) int64 { return m.up.heap })
	grown("memory of tail", slack, func(m sample) int64 { return m.tail.resident })
	grown("heap of tail", slack, func(m sample) int64 { return m.tail.heap })
	grown("descriptors of up", 50, func(m sample) int64 { return m.up.descriptors })
	grown("descriptors of tail", 20, func(m sample) int64 { return m.tail.descriptors })
	grown("threads of up", 20, func(m sample) int64 { return m.up.threads })
	grown("threads of tail", 20, func(m sample) int64 { return m.tail.threads })
	for _, m := range l.samples {
		if m.rawBytes > 64<<20 || m.eventBytes > 128<<20 || m.runBytes > 6<<20 {
			l.t.Errorf("streams have %d, %d and %d bytes", m.rawBytes, m.eventBytes, m.runBytes)
		}
		if m.other > 80<<20 { // the ledger of imports has 64 MiB at most
			l.t.Errorf("other files have %d bytes", m.other)
		}
	}
}

// finish ends the followed runs by removing their files, checks that no line is missing, and
// compares `up` with one that has just started.
func (l *trickle) finish(server Server) {
	l.t.Helper()
	l.imported()
	l.waiting.Wait()
	if l.failure != nil {
		l.t.Error(l.failure)
	}
	for _, file := range l.files {
		if err := os.Remove(file); err != nil {
			l.t.Fatal(err)
		}
	}
	tail := l.roles["tail"]
	for k, file := range l.files {
		before, _, _ := strings.Cut(tail.said(), " "+file+"\n")
		run := before[strings.LastIndex(before, "T-"):] // behind the beginning of a line of gctrace, perhaps
		eventually(l.t, "lines are missing", func() (bool, string) {
			r, err := server.Record(l.t.Context(), run)
			if err != nil || r == nil {
				return false, fmt.Sprint(run, " has no record: ", err)
			}
			return r.State.Final() && r.Lines == int64(l.written[k]),
				fmt.Sprintf("%s: %s, %d of %d lines", run, r.State, r.Lines, l.written[k])
		})
	}
	tail.signal(syscall.SIGTERM)
	tail.code()
	eventually(l.t, "spools are left", func() (bool, string) {
		left, err := os.ReadDir(filepath.Join(l.data[0], "runs"))
		return len(left) == 0, fmt.Sprint(left, err)
	})
	resident, old := l.roles["up"].resident(), l.roles["up"].goroutines()
	l.begin("up")
	eventually(l.t, "no connection", func() (bool, string) {
		why, err := l.open(server, map[string]bool{})
		return err == nil, fmt.Sprint(why, err)
	})
	l.t.Logf("up: %d KiB and %d goroutines after all runs, %d KiB after a start", resident>>10, old,
		l.roles["up"].resident()>>10)
	fresh := l.roles["up"].goroutines()
	l.t.Logf("up: %d goroutines after a start", fresh)
	if old > fresh+20 {
		l.t.Errorf("up had %d goroutines after all runs, %d after a start", old, fresh)
	}
}
