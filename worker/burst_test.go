package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/runs"
)

// lines returns output of n lines, the longest ones longer than a chunk.
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d %s\n", i, strings.Repeat("x", i*i*i%(2*runs.MaxChunk)))
	}
	return b.String()
}

// What is read at once is split where single reads end.
func TestSplitEndsEntriesWhereSingleReadsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text []byte
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 3*runs.MaxChunk/2), 0, 20).Draw(t, "lines") {
			text = append(append(text, bytes.Repeat([]byte{'x'}, n)...), '\n')
		}
		text = append(text, strings.Repeat("y", rapid.IntRange(0, 100).Draw(t, "rest"))...)
		final, piece := rapid.Bool().Draw(t, "final"), rapid.IntRange(runs.MaxChunk, maxPiece).Draw(t, "piece")
		r := &Run{progress: &progress{}}
		r.out = stream{segment: &r.progress.Out, size: int64(len(text))}
		ends := func(piece int) (all []int64) {
			for at := int64(0); at < int64(len(text)); {
				entries, size := r.split(&r.out, text[at:min(int(at)+piece, len(text))], at, time.Now(), final)
				if size == 0 {
					break
				}
				for _, e := range entries {
					if e.Offset != at || len(e.Body) > runs.MaxChunk || !bytes.HasPrefix(text[at:], e.Body) {
						t.Fatalf("an entry of %d bytes has the offset %d, want %d", len(e.Body), e.Offset, at)
					}
					at += int64(len(e.Body))
					all = append(all, at)
				}
			}
			return all
		}
		if got, want := ends(piece), ends(runs.MaxChunk); !slices.Equal(got, want) {
			t.Errorf("entries end at %v, want %v", got, want)
		}
	})
}

// Whatever the number of runs, only a few read more than a chunk.
func TestBuffersAreBounded(t *testing.T) {
	b := newBuffers()
	var large []func()
	for {
		buf, release := b.take(10 * maxPiece)
		if len(buf) == runs.MaxChunk {
			release()
			break
		}
		if large = append(large, release); len(buf) != maxPiece || len(large) > maxPieces {
			t.Fatalf("%d buffers, the last one of %d bytes", len(large), len(buf))
		}
	}
	if len(large) != maxPieces {
		t.Errorf("%d large buffers, want %d", len(large), maxPieces)
	}
	for _, release := range large {
		release()
	}
	if buf, release := b.take(runs.MaxChunk + 1); len(buf) != runs.MaxChunk+1 {
		t.Errorf("%d bytes, want a buffer that was released", len(buf))
	} else {
		release()
	}
	if buf, release := b.take(0); len(buf) != runs.MaxChunk {
		t.Errorf("%d bytes, want one chunk", len(buf))
	} else {
		release()
	}
}

// burstLogs are logs that store several entries at once, and sometimes only the first of
// them because another writer stores a note.
type burstLogs struct {
	*fileLogs
	most int // entries at once
}

func (l *burstLogs) Open(ctx context.Context, agent, run string, m runs.Mark) (Log, error) {
	log, err := l.fileLogs.Open(ctx, agent, run, m)
	if err != nil {
		return nil, err
	}
	return &burstLog{log.(*fileLog), l}, nil
}

type burstLog struct {
	*fileLog
	logs *burstLogs
}

func (l *burstLog) AppendAll(ctx context.Context, entries []runs.Entry) error {
	l.logs.most = max(l.logs.most, len(entries))
	for i, e := range entries {
		if i > 0 && rand.N(10) == 0 {
			other := &fileLog{logs: l.fileLogs(), path: l.path, size: l.size, mark: l.mark}
			note := runs.Entry{Kind: runs.Note, Time: e.Time, Body: []byte("{}")}
			if err := other.Append(ctx, note); err != nil {
				return err
			}
		}
		if err := l.Append(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (l *burstLog) fileLogs() *fileLogs { return l.logs.fileLogs }

func TestBacklogIsSentInPiecesWhateverOthersWrite(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	logs := &burstLogs{fileLogs: l.logs}
	l.w.cfg.Logs, l.w.slowAppend = logs, time.Hour
	path, text := filepath.Join(t.TempDir(), "f"), lines(60)
	write(t, path, text)
	if err := l.w.Tail(t.Context(), TailSpec{Paths: []string{path}, Agent: "codex", Once: true}); err != nil {
		t.Fatal(err)
	}
	ids := l.runIDs()
	if len(ids) != 1 || l.output(ids[0]) != text || !l.ended(ids[0]) {
		t.Fatalf("%d runs, or not the output", len(ids))
	}
	if logs.most < 8 || logs.most > maxEntries {
		t.Errorf("at most %d entries at once", logs.most)
	}
}

// A kill inside a piece of a backlog: the next start resumes after the last entry that
// was stored, although the mark is that before the piece.
func TestWorkerKilledInsideAPieceLosesAndDuplicatesNothing(t *testing.T) {
	text := lines(60)
	for _, n := range []int{3, 5, 9, 12, 17} {
		for _, when := range []string{"before", "after"} {
			t.Run(fmt.Sprintf("%s append %d", when, n), func(t *testing.T) {
				t.Parallel()
				l := newFixture(t)
				path := filepath.Join(t.TempDir(), "f")
				write(t, path, text)
				cmd := l.process(nil, []string{fmt.Sprint("TEST_KILL_AT=", n), "TEST_KILL_WHEN=" + when}, "import", path)
				if cmd.Wait() == nil {
					t.Fatal("the process was not killed")
				}
				if _, _, err := l.once(false, path); err != nil {
					t.Fatal(err)
				}
				if ids := l.runIDs(); len(ids) != 1 || l.output(ids[0]) != text || !l.ended(ids[0]) || !l.empty() {
					t.Errorf("%d runs, or not the output", len(ids))
				}
			})
		}
	}
}

// A log that fails inside a piece leaves the run to the next owner.
func TestErrorInsideAPieceIsReturned(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	broken := errors.New("broken")
	l.w.cfg.Logs = failingLogs{l.logs, broken}
	path, text := filepath.Join(t.TempDir(), "f"), lines(60)
	write(t, path, text)
	spec := TailSpec{Paths: []string{path}, Agent: "codex", Once: true}
	if err := l.w.Tail(t.Context(), spec); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	l.w.cfg.Logs = l.logs
	if err := l.w.Tail(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if ids := l.runIDs(); len(ids) != 1 || l.output(ids[0]) != text || !l.ended(ids[0]) {
		t.Errorf("%d runs, or not the output", len(ids))
	}
}

type failingLogs struct {
	*fileLogs
	err error
}

func (l failingLogs) Open(ctx context.Context, agent, run string, m runs.Mark) (Log, error) {
	log, err := l.fileLogs.Open(ctx, agent, run, m)
	return &failingLog{log, l.err}, err
}

// failingLog stores half of several entries.
type failingLog struct {
	Log
	err error
}

func (l *failingLog) AppendAll(ctx context.Context, entries []runs.Entry) error {
	for _, e := range entries[:len(entries)/2] {
		if err := l.Append(ctx, e); err != nil {
			return err
		}
	}
	return l.err
}
