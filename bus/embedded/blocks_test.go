package embedded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

const testStream, testBlock = "LINESMAN_RAW", 3

// appendRecord appends a record as the server writes it.
func appendRecord(block []byte, seq uint64, subject, body string) []byte {
	return appendRecordOf(block, seq, time.Now(), subject, body)
}

func appendRecordOf(block []byte, seq uint64, stored time.Time, subject, body string) []byte {
	header := "NATS/1.0\r\nA: b\r\n\r\n"
	size := recordHead + len(subject) + 4 + len(header) + len(body) + recordHash
	from := len(block)
	block = binary.LittleEndian.AppendUint32(block, uint32(size)|headerBit)
	block = binary.LittleEndian.AppendUint64(block, seq)
	block = binary.LittleEndian.AppendUint64(block, uint64(stored.UnixNano()))
	block = binary.LittleEndian.AppendUint16(block, uint16(len(subject)))
	block = append(block, subject...)
	block = binary.LittleEndian.AppendUint32(block, uint32(len(header)))
	block = append(append(block, header...), body...)
	h := newBlockHash(testStream, testBlock)
	_, _ = h.Write(block[from+4 : from+20])
	_, _ = h.Write([]byte(subject + header + body))
	return h.Sum(block)
}

// What can be read after damage is read, and nothing else: an agent that writes the bytes of a
// record does not make one, unless the length of the record around it is damaged as well.
func TestRecordsAroundDamageAreRead(t *testing.T) {
	t.Parallel()
	forged := string(appendRecord(nil, 9, "linesman.raw.codex.another", "forged"))
	var block []byte
	var starts []int
	for i, body := range []string{"one", forged, strings.Repeat("three", 100), "four"} {
		starts = append(starts, len(block))
		block = appendRecord(block, uint64(i+1), "linesman.raw.codex.a", body)
	}
	for _, test := range []struct {
		name   string
		damage func(b []byte) []byte
		want   string
	}{
		{"none", func(b []byte) []byte { return b }, "1234"},
		{"sequence", func(b []byte) []byte { b[starts[1]+4] ^= 1; return b }, "134"},
		{"body", func(b []byte) []byte { b[starts[2]+100] ^= 1; return b }, "124"},
		{"length of the header", func(b []byte) []byte { b[starts[2]+recordHead+20] ^= 1; return b }, "124"},
		{"length of the record", func(b []byte) []byte { b[starts[2]+1] ^= 1; return b }, "124"},
		{"zeros", func(b []byte) []byte { clear(b[starts[2]:starts[3]]); return b }, "124"},
		{"zeros in two records", func(b []byte) []byte { clear(b[starts[1]+50 : starts[2]+20]); return b }, "14"},
		{"cut in a record", func(b []byte) []byte { return b[:starts[3]+10] }, "123"},
		{"zeros at the end", func(b []byte) []byte { return append(b, make([]byte, 4096)...) }, "1234"},
		{"the beginning is missing", func(b []byte) []byte { return b[starts[2]+5:] }, "4"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			damaged := test.damage(bytes.Clone(block))
			good, bad := scan(damaged, newBlockHash(testStream, testBlock))
			var got []string
			for _, r := range good {
				got = append(got, string(rune('0'+r.seq)))
			}
			if strings.Join(got, "") != test.want {
				t.Errorf("sequences %v, want %v", got, test.want)
			}
			again, none := scan(without(damaged, bad), newBlockHash(testStream, testBlock))
			if len(again) != len(good) || none != nil {
				t.Errorf("the repaired block has %d records and %v", len(again), none)
			}
		})
	}
}

func BenchmarkScan(b *testing.B) {
	var block []byte
	for i := range 2000 {
		block = appendRecord(block, uint64(i+1), "linesman.raw.codex.a", strings.Repeat("x", 4000))
	}
	h := newBlockHash(testStream, testBlock)
	b.SetBytes(int64(len(block)))
	b.ReportAllocs()
	for b.Loop() {
		if _, bad := scan(block, h); bad != nil {
			b.Fatal(bad)
		}
	}
}

// Of a stream whose index is current, a server reads no old blocks to start.
func TestOldBlocksAreReadBeforeTheStartIfTheServerNeedsThem(t *testing.T) {
	t.Parallel()
	names := bus.Names{Prefix: bus.DefaultPrefix}
	s, err := StartServer(t.TempDir(), "127.0.0.1:0", names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	b, err := s.Connect(bustest.Patient(t), OperatorUser, names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Ensure(t.Context(), bus.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	l, err := b.OpenLog(t.Context(), "codex", "a", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	for l.Mark().Out < 20<<20 {
		e := runs.Entry{Kind: runs.Out, Offset: l.Mark().Out, Body: make([]byte, runs.MaxChunk)}
		if err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	s.Stop()
	v := s.verifier()
	dir := v.dir(InsideAccount, testStream)
	blocks := func(limit int64) int {
		t.Helper()
		read, err := v.readStream(dir, limit)
		if err != nil || read.isDamaged() || len(read.blocks) < 3 {
			t.Fatalf("%+v, %v", read, err)
		}
		return len(read.blocks) - len(read.unread)
	}
	if n := blocks(1 << 20); n != 1 {
		t.Errorf("with an index %d blocks are read", n)
	}
	if n := blocks(math.MaxInt64); n < 3 {
		t.Errorf("of all, %d blocks are read", n)
	}
	if err := os.Remove(filepath.Join(dir, "msgs", indexFile)); err != nil {
		t.Fatal(err)
	}
	if n := blocks(1 << 20); n < 3 {
		t.Errorf("without an index %d blocks are read", n)
	}
}

// A large stream is not read completely before the start.
func TestDamageInWhatIsReadAfterTheStartIsRepaired(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.ErrorLevel)
	s, err := StartServer(t.TempDir(), "127.0.0.1:0", bus.Names{Prefix: bus.DefaultPrefix}, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	names := bus.Names{Prefix: bus.DefaultPrefix}
	b, err := s.Connect(bustest.Patient(t), OperatorUser, names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Ensure(t.Context(), bus.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	l, err := b.OpenLog(t.Context(), "codex", "a", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(10) {
		if err := l.Append(t.Context(), runs.Entry{Kind: runs.Out, Offset: i, Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	read, err := s.verifier().readStream(s.verifier().dir(InsideAccount, testStream), 0)
	if err != nil || len(read.blocks) != 1 || read.damaged != nil {
		t.Fatalf("%+v, %v", read, err)
	}
	read.unread = read.blocks
	block, err := os.ReadFile(read.path(1))
	if err != nil {
		t.Fatal(err)
	}
	block[len(block)/2] ^= 1
	if err := os.WriteFile(read.path(1), block, 0o600); err != nil {
		t.Fatal(err)
	}
	s.verifyRest(t.Context(), []*storedStream{read})
	again, err := s.Connect(bustest.Patient(t), OperatorUser, names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	raw, err := again.Stream(t.Context(), again.Raw())
	if err != nil {
		t.Fatal(err)
	}
	if state := raw.CachedInfo().State; state.Msgs != 9 || state.LastSeq != 10 {
		t.Errorf("%d messages up to %d, want 9 up to 10", state.Msgs, state.LastSeq)
	}
	if n := logs.FilterMessageSnippet("the damaged stream is repaired").Len(); n != 1 {
		t.Errorf("said %d times: %v", n, logs.All())
	}
}

// Settings of RAW that a killed process has half written may be those that suspend its retention.
func TestRetentionIsHeldWhereTheSettingsAreDamaged(t *testing.T) {
	t.Parallel()
	v := verifier{names: bus.Names{Prefix: bus.DefaultPrefix}, log: zap.NewNop()}
	for damaged, want := range map[*storedStream]bool{
		{name: v.names.Raw(), hash: newHash(v.names.Raw()), badMeta: true}:       true,
		{name: v.names.Events(), hash: newHash(v.names.Events()), badMeta: true}: false,
	} {
		if held, err := v.hold([]*storedStream{damaged}); held != want || err != nil {
			t.Errorf("%s: held %v, %v", damaged.name, held, err)
		}
	}
}

// writeRaw makes a RAW of one block.
func writeRaw(t *testing.T, v verifier, settings string, block []byte) {
	t.Helper()
	dir := v.dir(InsideAccount, v.names.Raw())
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "msgs"), 0o700),
		os.WriteFile(filepath.Join(dir, "msgs", strconv.Itoa(testBlock)+blockFile), block, 0o600))
	if settings != "" {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, metaFile), []byte(settings), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A block keeps entries that are too old until all of it are. The server removes them as it starts.
func TestEventsAreDerivedOnlyFromEntriesThatStay(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		name          string
		settings      string
		first, second time.Duration // ages of entries 1 and 2
		want          bool
	}{
		{"young", `{"max_age":3600000000000}`, time.Minute, time.Second, true},
		{"the first is too old", `{"max_age":3600000000000}`, 2 * time.Hour, time.Second, false},
		{"held, because none was added for long", `{"max_age":3600000000000}`, 2 * time.Hour, time.Hour, true},
		{"without an age", `{"max_age":0}`, 2000 * time.Hour, time.Second, true},
		{"without settings", "", time.Minute, time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := verifier{store: t.TempDir(), names: bus.Names{Prefix: bus.DefaultPrefix}, log: zap.NewNop(), now: now}
			block := appendRecordOf(nil, 1, now.Add(-c.first), "linesman.raw.codex.a", "x")
			writeRaw(t, v, c.settings, appendRecordOf(block, 2, now.Add(-c.second), "linesman.raw.codex.a", "x"))
			if can, err := v.canDerive(following{oldest: now.UnixNano()}); can != c.want || err != nil {
				t.Errorf("derived: %v, %v, want %v", can, err, c.want)
			}
		})
	}
}

// Entries that have expired are in the files of RAW for a while, but nothing is derived from them.
func TestEventsOfExpiredEntriesStay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func() (*Server, *bus.Bus) {
		t.Helper()
		s, err := StartServer(dir, "127.0.0.1:0", bustest.Names, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Stop)
		b, err := s.Connect(bustest.Patient(t), OperatorUser, bustest.Names, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return s, b
	}
	s, b := start()
	ensure := func(age time.Duration) {
		t.Helper()
		limits := bus.DefaultLimits()
		limits.RawAge = age
		if _, err := b.Ensure(t.Context(), limits); err != nil {
			t.Fatal(err)
		}
	}
	ensure(time.Hour)
	l, err := b.OpenLog(t.Context(), "codex", "a", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	add := func() {
		t.Helper()
		if err := l.Append(t.Context(), runs.Entry{Kind: runs.Out, Offset: l.Mark().Out, Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	const n = 5
	for range n {
		add()
	}
	bustest.Fill(t, b, n)
	state := func(js jetstream.JetStream, stream string) jetstream.StreamState {
		t.Helper()
		of, err := js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		return of.CachedInfo().State
	}
	ensure(time.Second)
	bustest.Until(t, "the entries do not expire", func() bool {
		add()
		return state(b.JetStream(), b.Raw()).FirstSeq > n
	})
	ensure(time.Hour)
	s.Stop()

	events := &storedStream{name: b.Events(), dir: s.verifier().dir(PublicAccount, b.Events())}
	good, bad, err := events.readBlock(1)
	if err != nil || len(good) != n || bad != nil {
		t.Fatalf("%d events, %v, %v", len(good), bad, err)
	}
	block, err := os.ReadFile(events.path(1))
	if err != nil {
		t.Fatal(err)
	}
	block[good[2].to-recordHash-1] ^= 1
	if err := os.WriteFile(events.path(1), block, 0o600); err != nil {
		t.Fatal(err)
	}
	_, b = start()
	if got := state(b.PublicJetStream(), b.Events()); got.Msgs != n-1 || got.LastSeq != n {
		t.Errorf("%d events up to %d, want %d up to %d", got.Msgs, got.LastSeq, n-1, n)
	}
}

// A temporary file that could not be written or renamed does not stay.
func TestWriteOverLeavesNoTemporaryFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	temporary := filepath.Join(dir, "new")
	if err := writeOver(filepath.Join(dir, "no", "such", "file"), temporary, []byte("x")); err == nil {
		t.Fatal("it is written")
	}
	if _, err := os.Lstat(temporary); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// The path of the data directory is no pattern.
func TestDamageIsFoundInADirectoryWithBrackets(t *testing.T) {
	t.Parallel()
	names := bus.Names{Prefix: bus.DefaultPrefix}
	for _, name := range []string{"a[b", "a[b]c", "a*"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), name)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			core, logs := observer.New(zap.ErrorLevel)
			start := func() *Server {
				s, err := StartServer(dir, "127.0.0.1:0", names, zap.New(core))
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			s := start()
			b, err := s.Connect(bustest.Patient(t), OperatorUser, names, zap.NewNop())
			if err != nil {
				t.Fatal(err)
			}
			_, err = b.Ensure(t.Context(), bus.DefaultLimits())
			sum := filepath.Join(s.verifier().dir(InsideAccount, testStream), metaSum)
			b.Close()
			s.Stop()
			if err := errors.Join(err, os.WriteFile(sum, []byte("damaged"), 0o600)); err != nil {
				t.Fatal(err)
			}
			start().Stop()
			if n := logs.FilterMessage("the settings of a stream are damaged").Len(); n != 1 {
				t.Errorf("said %d times: %v", n, logs.All())
			}
		})
	}
}
