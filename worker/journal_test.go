package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/live"
	"github.com/linesman/linesman/runs"
)

// recorded returns the log of a live run, with its output, and the run to drive again.
func recorded(t *testing.T) (s *stage, log []runs.Entry, out string) {
	s = asking(t, time.Hour, "asks=3", "unknown=2", "flood=4", "line=200000")
	r, done := s.driven(t.Context(), s.create(s.spec))
	for n := 1; n <= 7; n++ {
		q := fmt.Sprintf("q%d", n)
		s.puts(q)
		if got, err := r.Answer(t.Context(), answerBy("ann", q, "no")); err != nil || !got.Holds {
			t.Fatalf("%s: %+v, error %v", q, got, err)
		}
	}
	if res := <-done; res.err != nil {
		t.Fatal(res.err)
	}
	log, out = s.entries("r"), s.output("r")
	return s, log, out
}

// heard returns the conversation of a worker that starts with a log, whose first entries have expired.
func (s *stage) heard(d *Dir, log []runs.Entry, expired int) *dialog {
	s.t.Helper()
	var body []byte
	for _, e := range log {
		body = append(body, fileEntry(e)...)
	}
	if err := os.WriteFile(filepath.Join(s.logs.dir, "r"), body, 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.logs.expired = uint64(expired)
	r := s.w.Run(d)
	var err error
	if r.raw, err = s.logs.Open(s.t.Context(), "codex", "r", runs.Mark{}); err != nil {
		s.t.Fatal(err)
	}
	r.progress.Log = r.raw.Mark()
	if r.talk, err = r.newTalk(); err != nil {
		s.t.Fatal(err)
	}
	if err := r.hear(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	r.talk.close()
	r.out.close()
	return r.talk
}

// linesGiven returns what the entries of a log give to the agent.
func linesGiven(log []runs.Entry) (all []string) {
	for _, e := range log {
		if e.Kind == runs.Sent {
			all = append(all, string(e.Body))
		}
	}
	return all
}

// A worker that starts with a journal and the output has the conversation that is in the log, wherever the one before
// was killed or its journal was cut off, and also where the beginning of the log has expired.
func TestJournalAndOutputAreTheConversation(t *testing.T) {
	t.Parallel()
	s, log, out := recorded(t)
	seqs := regexp.MustCompile(`"seq":\d+`)
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		d := s.create(s.spec)
		s.spec.Input = strings.NewReader("hello")
		if err := d.makeProcess(1); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(d.processDir(1), startedFile), "")
		write(t, filepath.Join(d.processDir(1), outFile), out)
		first := random.IntN(len(log)) + 1
		last := first + random.IntN(len(log)-first+1)
		expired := 0
		s.heard(d, log[:first], 0)
		path := d.file(journalFile)
		if random.IntN(2) == 0 {
			expired = random.IntN(first)
		} else if info, err := os.Stat(path); err != nil ||
			os.Truncate(path, info.Size()-min(info.Size(), random.Int64N(2000))) != nil {
			t.Fatal(err)
		}
		// It was killed, perhaps, when it had noted the last line for the agent, but not given it all.
		in, given := filepath.Join(d.processDir(1), inFile), linesGiven(log[:first])
		all := strings.Join(given, "")
		if n := len(given); n > 0 && os.Truncate(in, int64(len(all)-random.IntN(len(given[n-1])+1))) != nil {
			t.Fatal("the file has no lines")
		}
		got := s.heard(d, log[:last], expired)
		if all := strings.Join(linesGiven(log[:last]), ""); contents(t, in) != all {
			t.Fatalf("%d entries, %d of them before, %d expired: the agent gets\n%s\nof\n%s", last, first, expired,
				contents(t, in), all)
		}
		want := live.New(got.config)
		for i, e := range log[:last] {
			want.Apply(uint64(i+1), e)
		}
		a, b := seqs.ReplaceAll(got.conv.State(), nil), seqs.ReplaceAll(want.State(), nil)
		_, dueA := got.conv.Due()
		_, dueB := want.Due()
		if got.torn || got.missing() != nil || !bytes.Equal(a, b) || !bytes.Equal(dueA, dueB) {
			t.Fatalf("%d entries, %d of them before, %d expired: torn: %t\n%s\n%s", last, first, expired, got.torn, a, b)
		}
		if err := d.Remove(); err != nil {
			t.Fatal(err)
		}
	}
}

// A journal that would become too long is removed: it is that of a run without one.
func TestJournalIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), journalFile)
	j, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	e := runs.Entry{Kind: runs.Ordered, Body: make([]byte, 1<<20)}
	for n := range uint64(60) {
		if same, err := j.take(noted{n + 1, 0, e}); !same || err != nil {
			t.Fatal(n, same, err)
		}
		if n == 40 {
			if info, err := os.Stat(path); err != nil || info.Size() > maxJournal || info.Size() < maxJournal/2 {
				t.Fatal(info, err)
			}
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) || j.rewind() != nil || j.head != nil || j.last.Seq != 0 {
		t.Error(err, j.head, j.last)
	}
	j.close()
}

// BenchmarkHear measures the start of a worker of a live run with 100,000 entries, half of them in the journal.
func BenchmarkHear(b *testing.B) {
	t := &testing.T{}
	root, logs := b.TempDir(), &fileLogs{dir: b.TempDir()}
	w, err := New(Config{Root: root, Logs: logs, Name: "here", Agents: players})
	if err != nil {
		b.Fatal(err)
	}
	spec := shell("r", "")
	spec.Live = true
	spec.setInput("hello")
	spec.Input = strings.NewReader("hello")
	d, err := Create(root, spec)
	if err == nil {
		err = d.makeProcess(1)
	}
	if err != nil {
		b.Fatal(err)
	}
	j, err := openJournal(d.file(journalFile))
	if err != nil {
		b.Fatal(err)
	}
	line := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"x"}}}` + "\n"
	sent := `{"jsonrpc":"2.0","id":1,"result":{"outcome":{"outcome":"selected","optionId":"allow"}}}` + "\n"
	var last runs.Entry
	const entries = 100_000
	write(t, filepath.Join(d.processDir(1), outFile), strings.Repeat(line, entries/2))
	write(t, filepath.Join(d.processDir(1), inFile), strings.Repeat(sent, entries/2))
	process := runs.Entry{Kind: runs.Proc, Body: runs.Encode(runs.Process{N: 1, Do: runs.ProcessStart})}
	if _, err := j.take(noted{1, 0, process}); err != nil {
		b.Fatal(err)
	}
	for n := range entries / 2 {
		last = runs.Entry{Kind: runs.Sent, Offset: int64(n * len(sent)), Body: []byte(sent)}
		if _, err := j.take(noted{uint64(2*n + 3), int64((n + 1) * len(line)), last}); err != nil {
			b.Fatal(err)
		}
	}
	j.close()
	for b.Loop() {
		r := w.Run(d)
		r.raw = onlyLast{seq: entries + 1, e: last}
		r.progress.Log = r.raw.Mark()
		if r.talk, err = r.newTalk(); err != nil {
			b.Fatal(err)
		}
		if err := r.hear(b.Context()); err != nil || r.talk.torn || r.talk.seen != entries+1 {
			b.Fatal(err, r.talk.seen)
		}
		r.talk.close()
		r.out.close()
	}
}

// onlyLast is a log of which only the last entry is read.
type onlyLast struct {
	ReadLog
	seq uint64
	e   runs.Entry
}

func (l onlyLast) Mark() runs.Mark { return runs.Mark{Started: true, Seq: l.seq} }

func (l onlyLast) Entries(_ context.Context, after uint64, each func(uint64, runs.Entry) error) error {
	if after >= l.seq {
		return nil
	}
	return each(l.seq, l.e)
}
