package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	testfixture "github.com/linesman/linesman/test/fixture"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/runs"
)

// timed is a script that prints the time ten times in a second.
const timed = "for i in 1 2 3 4 5 6 7 8 9 10; do date +%s%3N; sleep 0.1; done; "

// timedInHalves is timed, and waits after six lines until the file go is there.
const timedInHalves = "for i in 1 2 3 4 5 6 7 8 9 10; do " +
	"while [ $i = 7 ] && ! [ -e go ]; do sleep 0.01; done; date +%s%3N; sleep 0.1; done; "

// indexed returns how many lines of the output the records in the index cover.
func indexed(t *testing.T, dir string) int {
	t.Helper()
	index, size := []byte(contents(t, filepath.Join(dir, timesFile))), int64(0)
	for ; len(index) >= timeSize; index = index[timeSize:] {
		g, valid := parseGrowth(index)
		if !valid { // it is being written
			break
		}
		size = g.size
	}
	return strings.Count(contents(t, filepath.Join(dir, outFile))[:size], "\n")
}

// checkTimes fails the test unless each line of the log, which says when it was
// printed, has that time, or from the line exact on that of the last line, and
// that the run ended when the last one was printed.
func (l *fixture) checkTimes(canary *testfixture.Canary, run string, exact int) {
	l.t.Helper()
	var printed, stamped []int64
	var before int64
	for _, e := range l.entries(run) {
		if e.Time < before {
			l.t.Errorf("an entry %s of %d follows one of %d", e.Kind, e.Time, before)
		}
		before = e.Time
		if e.Kind != runs.Out {
			continue
		}
		for line := range strings.Lines(string(e.Body)) {
			at, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
			if err != nil {
				l.t.Fatal(err)
			}
			printed, stamped = append(printed, at), append(stamped, e.Time)
		}
	}
	if len(printed) != 10 {
		l.t.Fatalf("%d lines", len(printed))
	}
	last, late, early := printed[9], int64(0), int64(0)
	for i, at := range printed {
		early = max(early, at-stamped[i])
		if i >= exact {
			at = last
		}
		late = max(late, stamped[i]-at)
	}
	entries := l.entries(run)
	exit := entries[len(entries)-1]
	ex := runs.DecodeExit(exit.Body)
	if exit.Time < ex.At {
		l.t.Errorf("ended at %d, %s at %d", last, exit.Body, exit.Time)
	}
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	// The clock of file times advances with the timer interrupts of the machine.
	canary.Within("a line was printed", ms(max(early, last-ex.At)), 20*time.Millisecond)
	canary.Within("the time of a line is", ms(late), time.Second) // the index has one each 50 ms
	canary.Within("the run ended", ms(ex.At-last), 1100*time.Millisecond)
}

// after returns how long the log says that the run took.
func (l *fixture) after() time.Duration {
	l.t.Helper()
	for _, line := range l.lines.FilterMessage("ended").All() {
		for _, f := range line.Context {
			if f.Key == "after" && f.Type == zapcore.DurationType {
				return time.Duration(f.Integer)
			}
		}
	}
	l.t.Fatal("the log does not say that the run ended")
	return 0
}

// The agent takes a second. It is taken over two seconds after its end.
func TestLateWorkerKnowsWhenOutputWasWrittenAndTheAgentEnded(t *testing.T) {
	t.Parallel()
	index := func(change func(path string) error) func(*testing.T, *fixture, string, string) {
		return func(t *testing.T, l *fixture, dir, _ string) {
			if err := change(filepath.Join(dir, timesFile)); err != nil {
				t.Error(err)
			}
		}
	}
	forge := func(records ...growth) func(string) error {
		return func(path string) error {
			var b []byte
			for _, g := range records {
				b = g.append(b)
			}
			return os.WriteFile(path, b, 0o600)
		}
	}
	for _, test := range []struct {
		name   string
		script string // after the lines
		do     func(t *testing.T, l *fixture, dir, scratch string)
		exact  int // lines with their own times; -1: those of the records that are left
	}{
		{"as it is", "", nil, 10},
		{"torn", "", index(func(path string) error {
			info, err := os.Stat(path)
			if err != nil || info.Size() == 0 {
				return fmt.Errorf("%v, error %w; want 10 records, or fewer on a busy machine", info, err)
			}
			return os.Truncate(path, info.Size()/timeSize/2*timeSize+7)
		}), -1},
		{"a byte of a record changed", "", index(func(path string) error {
			b, err := os.ReadFile(path)
			b[len(b)-timeSize]++
			return errors.Join(err, os.WriteFile(path, b, 0o600))
		}), 9},
		{"gone", "", index(os.Remove), 0},
		{"a FIFO", "", index(func(path string) error { return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)) }), 0},
		{"a directory", "", index(func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }), 0},
		{"forged: in the past", "", index(forge(growth{14, 1}, growth{140, 2})), 0},
		{"forged: in the future", "", index(forge(growth{14, 1 << 50}, growth{140, 1 << 51})), 0},
		{"forged: more than there is", "", index(forge(growth{1 << 60, time.Now().UnixMilli()})), 0},
		{"forged: negative", "", index(forge(growth{-5, time.Now().UnixMilli()}, growth{5, -1})), 0},
		{"other content", "", index(func(path string) error {
			return os.WriteFile(path, bytes.Repeat([]byte("x"), 2*maxTimes), 0o600)
		}), 0},
		{"taken over at once, shim killed", "", nil, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l, canary := newFixture(t), testfixture.StartCanary(t)
			spec := shell("r", recordPIDs+timed+test.script)
			killed := strings.HasSuffix(test.name, "shim killed")
			if killed {
				spec = shell("r", recordPIDs+timedInHalves)
			}
			spec.Dir = t.TempDir()
			created := time.Now()
			d := l.create(spec)
			d.Close()
			worker := l.process(nil, nil, "adopt")
			waitFor(t, "the first line", func() bool { return l.output("r") != "" })
			kill(worker)
			if killed {
				waitFor(t, "half of the lines", func() bool {
					return strings.Count(contents(t, filepath.Join(d.Path(), outFile)), "\n") >= 6 &&
						indexed(t, d.Path()) >= test.exact
				})
				killShim(t, spec.Dir)
				write(t, filepath.Join(spec.Dir, "go"), "")
			}
			waitFor(t, "the end", func() bool {
				busy, err := files.Held(filepath.Join(d.Path(), outFile))
				return !busy && err == nil
			})
			waitFor(t, "the shim's end", func() bool {
				busy, err := files.Held(filepath.Join(d.Path(), shimFile))
				return !busy && err == nil
			})
			most := time.Since(created)
			<-time.After(2 * time.Second) // between the end and the takeover
			if test.do != nil {
				test.do(t, l, d.Path(), spec.Dir)
			}
			exact := test.exact
			if exact < 0 {
				exact = indexed(t, d.Path())
			}
			l.adopt()
			waitFor(t, "the end of the run", func() bool { return l.ended("r") && l.empty() })
			after := l.after()
			if after > most {
				t.Errorf("the log says that the agent took %v, want at most %v", after, most)
			}
			canary.Within("the agent took a second, in the log less by", time.Second-after, 100*time.Millisecond)
			l.checkTimes(canary, "r", exact)
		})
	}
}

// The raw log is unreachable from the first line on, until the agent has ended.
func TestOutputOfAnOutageHasItsOwnTimes(t *testing.T) {
	t.Parallel()
	l, canary := newFixture(t), testfixture.StartCanary(t)
	blocked := make(chan struct{})
	r, done := l.driven(t.Context(), l.create(shell("r", "sleep 0.1; "+timed)))
	waitFor(t, "the start", func() bool { return len(l.entries("r")) > 0 })
	l.logs.setBlocked(blocked)
	waitFor(t, "the agent's end", r.AgentEnded)
	<-time.After(time.Second)
	close(blocked)
	if result := <-done; result.err != nil {
		t.Fatal(result.err)
	}
	l.checkTimes(canary, "r", 10)
	canary.Within("the log says that the agent ended", l.after(), 2*time.Second)
}

// An agent that cannot be started ended when that was tried.
func TestFailedStartHasATime(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	spec := shell("r", "")
	spec.Argv = []string{"/no/such/program"}
	before := time.Now().UnixMilli()
	ex := l.drive(spec)
	if ex.Reason != runs.ReasonSpawn || ex.At < before || ex.At > time.Now().UnixMilli() {
		t.Errorf("exit %s, started after %d", runs.EncodeExit(ex), before)
	}
}

// A process that the agent left writes half a second after its end.
func TestExitIsNotBeforeOutput(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	end := filepath.Join(l.root, "r", exitFile)
	l.drive(shell("r", "echo one; (while ! [ -e "+end+" ]; do sleep 0.01; done; sleep 0.5; echo two) & exit 0"))
	entries := l.entries("r")
	exit := entries[len(entries)-1]
	ex := runs.DecodeExit(exit.Body)
	out := entries[len(entries)-2]
	if out.Kind != runs.Out || out.Time-ex.At < 500 || exit.Time < out.Time {
		t.Errorf("ended at %d, last output at %d, exit entry at %d", ex.At, out.Time, exit.Time)
	}
}

// memory is a file in memory.
type memory struct{ b []byte }

func (m *memory) ReadAt(b []byte, at int64) (int, error) { return bytes.NewReader(m.b).ReadAt(b, at) }
func (m *memory) WriteAt(b []byte, at int64) (int, error) {
	m.b = append(m.b, make([]byte, max(0, int(at)+len(b)-len(m.b)))...)
	return copy(m.b[at:], b), nil
}
func (m *memory) Truncate(size int64) error {
	m.b = m.b[:size]
	return nil
}

// An agent writes for hours, then is silent for as long.
func TestIndexIsBoundedAndSilenceCostsNothing(t *testing.T) {
	t.Parallel()
	for _, notified := range []bool{true, false} {
		t.Run(fmt.Sprintf("notified %v", notified), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				writes := 3 * time.Hour / time.Duration(testfixture.Every(3))
				begun := time.Now()
				var looks, most atomic.Int64
				file := &memory{}
				stat := func() (int64, time.Time, error) { // a byte each 20 ms
					looks.Add(1)
					most.Store(max(most.Load(), int64(len(file.b))))
					n := min(time.Since(begun), writes) / (20 * time.Millisecond)
					return int64(n), begun.Add(n * 20 * time.Millisecond), nil
				}
				w := newTimesWriter(file, maxTimes)
				written, quit, done := make(chan fsnotify.Event, 1), make(chan struct{}), make(chan struct{})
				if !notified {
					written = nil
				}
				go func() {
					defer close(done)
					w.follow(written, nil, quit, func() bool { return false }, stat)
				}()
				for time.Since(begun) < writes {
					time.Sleep(20 * time.Millisecond)
					select {
					case written <- fsnotify.Event{}:
					default:
					}
				}
				time.Sleep(time.Second)
				busy := looks.Load()
				time.Sleep(writes)
				idle := looks.Load() - busy
				close(quit)
				<-done
				all, records := w.readAll()
				if most.Load() > maxTimes || int(records) != len(all) || len(all) < maxTimes/timeSize/3 {
					t.Errorf("%d records, of them %d valid, at most %d bytes", records, len(all), most.Load())
				}
				if last := all[len(all)-1]; last.size != int64(writes/(20*time.Millisecond)) {
					t.Errorf("the last record is %+v", last)
				}
				for i, g := range all { // all of the hours are there, in steps that are not much longer
					if g.at != begun.UnixMilli()+g.size*20 || i > 0 && g.at-all[i-1].at > 10*timesEvery.Milliseconds() {
						t.Fatalf("record %d is %+v after %+v", i, g, all[max(0, i-1)])
					}
				}
				if busy > int64(writes/timesEvery) || notified && idle > 1 || idle > int64(writes/time.Second)+1 {
					t.Errorf("looked %d times while output was written, %d times after that", busy, idle)
				}
			})
		})
	}
}

// Beside many other runs a shim leaves the notifications to other programs.
func TestOutputOfManyRunsIsPolled(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for i := range maxNotified + 1 {
		dir := filepath.Join(root, fmt.Sprint("r", i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, outFile), "")
		watcher := watchOutput(dir)
		if (watcher != nil) != (i < maxNotified) {
			t.Errorf("run %d: notifications: %t", i+1, watcher != nil)
		}
		if watcher != nil {
			_ = watcher.Close()
		}
	}
}

// A full disk, a truncated output and a shim that takes over.
func TestIndexContinues(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := func(n int) time.Time { return now.Add(time.Duration(n) * time.Second) }
	sizes := func(f *memory) (sizes []int64) {
		all, _ := newTimesWriter(f, maxTimes).readAll()
		for _, g := range all {
			sizes = append(sizes, g.size)
		}
		return sizes
	}
	f := &memory{}
	w := newTimesWriter(f, maxTimes)
	w.note(10, at(1), at(9))
	w.note(10, at(2), at(9)) // not written
	w.note(20, at(3), at(9))
	f.b = append(f.b, 1, 2, 3) // the shim was killed
	w = newTimesWriter(f, maxTimes)
	w.note(30, at(0), at(9)) // the agent has changed the modification time
	if got := sizes(f); !slices.Equal(got, []int64{10, 20, 30}) || w.last.at != at(3).UnixMilli() {
		t.Errorf("sizes %d, last %+v", got, w.last)
	}
	w.note(40, at(99), at(9))
	if w.last.at != at(9).UnixMilli() {
		t.Errorf("a time in the future is recorded: %+v", w.last)
	}
	w.note(5, at(9), at(9))
	if got := sizes(f); !slices.Equal(got, []int64{5}) {
		t.Errorf("sizes %d after output was truncated, want 5", got)
	}
	w.note(0, at(9), at(9))
	if got := sizes(f); len(got) != 0 {
		t.Errorf("sizes %d after output was emptied", got)
	}
}

// replay sends all output at the offsets of an index, with appends that take
// some time each, and returns how long that took and how many chunks it needed.
func replay(b *backlog, total int, each time.Duration) (took time.Duration, chunks int) {
	line := append(bytes.Repeat([]byte("x"), 9), '\n')
	before := b.created
	for at := 0; at < total; chunks++ {
		n, written := b.cut(bytes.Repeat(line, min(runs.MaxChunk, total-at)/10), int64(at), true)
		at += n
		took += each
		if written == 0 {
			written = before
		}
		b.sent(time.Duration(written-before)*time.Millisecond, each)
		before = written
	}
	return took, chunks
}

// The output of ten minutes, ten bytes each 50 ms.
func TestSlowAppendsDoNotDelayABacklog(t *testing.T) {
	t.Parallel()
	const minutes = 10
	for _, test := range []struct {
		each   time.Duration
		most   time.Duration
		chunks int // at least
	}{
		{time.Millisecond, time.Minute, minutes * 60 * 20},
		{20 * time.Millisecond, 5 * time.Minute, minutes * 60 * 10},
		{time.Second, 6 * time.Minute, 200},
	} {
		b := &backlog{created: 1}
		for i := range int64(minutes * 60 * 20) {
			b.ahead = append(b.ahead, growth{(i + 1) * 10, (i + 1) * 50})
		}
		took, chunks := replay(b, minutes*60*20*10, test.each)
		if took > test.most || chunks < test.chunks {
			t.Errorf("appends of %v: took %v with %d chunks, want at most %v and at least %d",
				test.each, took, chunks, test.most, test.chunks)
		}
	}
}

// A line is cut nowhere, and steps that are close to each other are merged.
func TestChunksAreCutAtTimes(t *testing.T) {
	t.Parallel()
	const text = "one\ntwo\nthree\nfo"
	type piece struct {
		text string
		at   int64
	}
	for name, test := range map[string]struct {
		index []growth
		want  []piece
	}{
		"no index": {nil, []piece{{"one\ntwo\nthree\n", 0}, {"fo", 0}}},
		"a line each": {
			[]growth{{4, 100}, {8, 200}, {14, 300}, {16, 400}},
			[]piece{{"one\n", 100}, {"two\n", 200}, {"three\n", 300}, {"fo", 400}},
		},
		"within lines": {
			[]growth{{2, 100}, {6, 200}, {16, 300}},
			[]piece{{"one\n", 200}, {"two\nthree\n", 300}, {"fo", 300}},
		},
		"merged": {
			[]growth{{4, 100}, {8, 110}, {16, 300}},
			[]piece{{"one\ntwo\n", 110}, {"three\n", 300}, {"fo", 300}},
		},
		"ends in between":  {[]growth{{4, 100}}, []piece{{"one\n", 100}, {"two\nthree\n", 0}, {"fo", 0}}},
		"all in one":       {[]growth{{16, 100}}, []piece{{"one\ntwo\nthree\n", 100}, {"fo", 100}}},
		"sent before that": {[]growth{{16, 100}, {99, 200}}, []piece{{"one\ntwo\nthree\n", 100}, {"fo", 100}}},
	} {
		b := &backlog{ahead: test.index}
		var got []piece
		for at := 0; at < len(text); {
			n, written := b.cut([]byte(text[at:]), int64(at), false)
			if n == 0 {
				n, written = b.cut([]byte(text[at:]), int64(at), true)
			}
			got = append(got, piece{text[at : at+n], written})
			at += n
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// A kill while every second record is dropped leaves a file that is as good.
func TestIndexKilledWhileItIsShortened(t *testing.T) {
	t.Parallel()
	full := &memory{}
	w := newTimesWriter(full, 100*timeSize)
	for i := range int64(100) {
		w.note(i+1, time.UnixMilli(1000+i), time.UnixMilli(5000))
	}
	old := slices.Clone(full.b)
	w.note(101, time.UnixMilli(2000), time.UnixMilli(5000))
	short := full.b[:50*timeSize]
	for cut := range len(short) + 1 {
		dir := t.TempDir()
		body := append(slices.Clone(short[:cut]), old[cut:]...)
		if err := os.WriteFile(filepath.Join(dir, timesFile), body, 0o600); err != nil {
			t.Fatal(err)
		}
		b := &backlog{dir: dir, created: 1}
		b.load(1000, time.Now())
		if len(b.ahead) < 48 || b.last.size != 100 {
			t.Fatalf("cut at %d: %d records, the last %+v", cut, len(b.ahead), b.last)
		}
		for _, g := range b.ahead {
			if g.at != 999+g.size {
				t.Fatalf("cut at %d: %+v", cut, g)
			}
		}
	}
}

// BenchmarkBacklog measures a worker that takes over 200 MB of output, which was
// written without an index, in ten seconds, and in an hour.
func BenchmarkBacklog(b *testing.B) {
	line := append(bytes.Repeat([]byte("x"), 242), '\n')
	const lines = 800_000
	out := bytes.Repeat(line, lines)
	for _, records := range []int{0, 200, maxTimes / timeSize} {
		b.Run(fmt.Sprint(records, " records"), func(b *testing.B) {
			root := filepath.Join(b.TempDir(), "runs")
			w, err := New(Config{Root: root, Logs: &discardLog{}, Log: zap.NewNop()})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(out)))
			for b.Loop() {
				b.StopTimer()
				spec := shell("r", "exit")
				spec.Created = time.Now().Add(-2 * time.Hour).UnixMilli()
				d, err := Create(root, spec)
				if err != nil {
					b.Fatal(err)
				}
				var index []byte
				for i := range int64(records) {
					index = growth{int64(lines) * (i + 1) / int64(records) * int64(len(line)), spec.Created + i*60}.append(index)
				}
				for name, body := range map[string][]byte{
					outFile: out, timesFile: index, startedFile: nil, exitFile: []byte(`{"reason":"exited","code":0}`),
				} {
					if err := os.WriteFile(filepath.Join(d.Path(), name), body, 0o600); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
				if _, err := w.Run(d).Drive(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

var _ io.WriterAt = (*memory)(nil)
