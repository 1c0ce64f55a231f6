package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// streamsOf are what a normalizer reads and writes, by their accounts.
var streamsOf = map[string][]string{
	embedded.InsideAccount: {
		bustest.Names.Raw(), bucket.Stream(bustest.Names.Runs()), bucket.Stream(bustest.Names.State()),
		bucket.Stream(bustest.Names.Threads()),
	},
	embedded.PublicAccount: {bustest.Names.Events()},
}

// damages are what disks, file systems and programs do to a file.
var damages = map[string]func(b []byte, at int) []byte{
	"flipped": func(b []byte, at int) []byte {
		for i := at; i < min(at+4, len(b)); i++ {
			b[i] ^= 0xff
		}
		return b
	},
	"zeros": func(b []byte, at int) []byte { clear(b[at:min(at+4096, len(b))]); return b },
	"cut":   func(b []byte, at int) []byte { return b[:at] },
}

// damaged is a data directory with one damaged block, whose content was known.
type damaged struct {
	dir, stream, file string
	logs              *observer.ObservedLogs
}

// damage copies a data directory, and damages a block of a stream there.
func damage(t *testing.T, from, account, stream, kind string, index bool, part float64) *damaged {
	t.Helper()
	d := &damaged{dir: t.TempDir(), stream: stream}
	if err := os.CopyFS(d.dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	msgs := filepath.Join(d.dir, "jetstream", "jetstream", account, "streams", stream, "msgs")
	blocks, err := filepath.Glob(filepath.Join(msgs, "*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatalf("%s: %v, %v", msgs, blocks, err)
	}
	slices.SortFunc(blocks, func(a, b string) int { return int(size(t, b) - size(t, a)) })
	d.file = blocks[0]
	b, err := os.ReadFile(d.file)
	if err != nil {
		t.Fatal(err)
	}
	if b = damages[kind](b, int(part*float64(len(b)))); len(b) == 0 {
		b = nil
	}
	if err := os.WriteFile(d.file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if !index {
		if err := os.Remove(filepath.Join(msgs, "index.db")); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// open starts a server on the directory, and normalizes.
func (d *damaged) open(t *testing.T) *bus.Bus {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	d.logs = logs
	s, err := embedded.StartServer(d.dir, "127.0.0.1:0", bustest.Names, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	b, err := s.Connect(bustest.Patient(t), embedded.OperatorUser, bustest.Names, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
	defer cancel()
	if _, err := b.Ensure(ctx, bus.DefaultLimits()); err != nil {
		t.Fatalf("no answer: %v\n%v", err, d.logs.All())
	}
	n := newNormalizer(b)
	n.Log = zap.New(core)
	n.Until = bustest.LastSeq(t, b.JetStream(), b.Raw())
	running, stop := context.WithCancel(ctx)
	defer stop()
	if n.Until == 0 { // nothing is left of RAW
		n.Ready = stop
	}
	if err := n.Run(running); err != nil || ctx.Err() != nil {
		t.Fatalf("the normalizer: %v, %v\n%s", err, ctx.Err(), d.text())
	}
	return b
}

// said reports whether the log names the damaged stream.
func (d *damaged) said() bool {
	return slices.ContainsFunc(d.logs.All(), func(e observer.LoggedEntry) bool {
		return strings.HasPrefix(e.Message, "the damaged stream is repaired: ") && e.ContextMap()["stream"] == d.stream
	})
}

// stored is a data directory of two runs, with the events and records of them.
type storedRuns struct {
	dir     string
	events  map[string][]string
	records map[string]string
	raw     []string
}

// store makes a data directory, and normalizes unless raw.
func store(t *testing.T, rawOnly bool) (s storedRuns) {
	t.Helper()
	s.dir = t.TempDir()
	server, err := embedded.StartServer(s.dir, "127.0.0.1:0", bustest.Names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	b, err := server.Connect(bustest.Patient(t), embedded.OperatorUser, bustest.Names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	limits := bus.DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<28, 1<<28, 1<<26
	if _, err := b.Ensure(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	bustest.Interleave(t, b, map[string][]runs.Entry{
		"a": bustest.CorpusLog(t, "shell-fail", 700), "b": bustest.CorpusLog(t, "plan", 333),
	}, "a", "b")
	s.raw = entries(t, b)
	if !rawOnly {
		normalize(t, b)
		s.events, s.records = bodies(t, b), records(t, b)
	}
	return s
}

// check opens a damaged copy, and compares all that is stored with what was.
func (s storedRuns) check(t *testing.T, d *damaged) {
	t.Helper()
	began := time.Now()
	b := d.open(t)
	if took := time.Since(began); took > fixture.Patience {
		t.Errorf("it took %v", took)
	}
	for id, want := range s.events {
		bustest.Diff(t, "run "+id, bodies(t, b)[id], want)
	}
	for id, record := range records(t, b) {
		if s.records[id] == "" {
			t.Errorf("a record of %s", id)
		} else if record != s.records[id] {
			t.Errorf("record of %s: %s\nwant %s", id, record, s.records[id])
		}
	}
	if n := len(records(t, b)); n != len(s.records) {
		t.Errorf("%d records, want %d", n, len(s.records))
	}
	raw := entries(t, b)
	if d.stream != bustest.Names.Raw() {
		bustest.Diff(t, "RAW", raw, s.raw)
	} else {
		for _, line := range raw {
			if !slices.Contains(s.raw, line) {
				t.Errorf("RAW has %.100q", line)
			}
		}
	}
}

func TestDamagedStreamsAreNamedAndRepaired(t *testing.T) {
	t.Parallel()
	s := store(t, false)
	n := 0
	for account, streams := range streamsOf {
		for _, stream := range streams {
			for kind := range damages {
				for _, index := range []bool{true, false} {
					if n++; n%fixture.Every(3) != 0 {
						continue
					}
					t.Run(fmt.Sprintf("%s %s, index %v", stream, kind, index), func(t *testing.T) {
						t.Parallel()
						d := damage(t, s.dir, account, stream, kind, index, 0.45)
						s.check(t, d)
						if !d.said() {
							t.Errorf("nothing is said of it: %v", d.logs.All())
						}
						aside, err := filepath.Glob(filepath.Join(d.dir, "jetstream", "damaged", "*", stream, filepath.Base(d.file)))
						if err != nil || len(aside) != 1 {
							t.Errorf("set aside: %v, %v", aside, err)
						}
					})
				}
			}
		}
	}
}

// What a normalizer has not read yet is read, but for the damaged entry: of that an event tells.
func TestDamagedEntriesOfRawAreReported(t *testing.T) {
	t.Parallel()
	s := store(t, true)
	d := damage(t, s.dir, embedded.InsideAccount, bustest.Names.Raw(), "flipped", true, 0.5)
	b := d.open(t)
	if n := len(entries(t, b)); n != len(s.raw)-1 {
		t.Errorf("RAW has %d entries, want all %d but one", n, len(s.raw))
	}
	all := bodies(t, b)
	gaps := 0
	for _, id := range []string{"a", "b"} {
		events := all[id]
		if len(events) == 0 || !strings.Contains(events[len(events)-1], "completion") {
			t.Errorf("run %s does not end: %.300q", id, events)
		}
		gaps += strings.Count(strings.Join(events, "\n"), "stream gap")
	}
	if gaps != 1 {
		t.Errorf("%d gaps are reported, want 1", gaps)
	}
}

// Anything may be damaged, anywhere. The seed repeats the damage.
func TestDamageAnywhereIsRepaired(t *testing.T) {
	fixture.Long(t, "a server starts for each of many damages")
	t.Parallel()
	s := store(t, false)
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 7))
		account := embedded.InsideAccount
		if rng.IntN(4) == 0 {
			account = embedded.PublicAccount
		}
		stream := streamsOf[account][rng.IntN(len(streamsOf[account]))]
		kind := []string{"flipped", "zeros", "cut"}[rng.IntN(3)]
		index, part := rng.IntN(2) == 0, rng.Float64()
		t.Run(fmt.Sprintf("%d: %s %s at %.3f, index %v", seed, stream, kind, part, index), func(t *testing.T) {
			s.check(t, damage(t, s.dir, account, stream, kind, index, part))
		})
	}
}

// text is what was logged.
func (d *damaged) text() string {
	var lines []string
	for _, e := range d.logs.All() {
		lines = append(lines, fmt.Sprint(e.Level, " ", e.Message, " ", e.ContextMap()))
	}
	return strings.Join(lines, "\n")
}

// entries are those of RAW that can be read.
func entries(t *testing.T, b *bus.Bus) (all []string) {
	t.Helper()
	raw, err := b.JetStream().Stream(t.Context(), b.Raw())
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= raw.CachedInfo().State.LastSeq; seq++ {
		m, err := raw.GetMsg(t.Context(), seq)
		if err == nil {
			all = append(all, fmt.Sprintf("%d %s %s", seq, m.Subject, m.Data))
		} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
			t.Fatal(err)
		}
	}
	return all
}
