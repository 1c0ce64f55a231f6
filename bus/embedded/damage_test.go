package embedded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// startOn starts a server on a directory.
func startOn(t *testing.T, dir string, log *zap.Logger) (*Server, *bus.Bus) {
	t.Helper()
	s, err := StartServer(dir, "127.0.0.1:0", bustest.Names, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	b, err := s.Connect(bustest.Patient(t), OperatorUser, bustest.Names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if _, err := b.Ensure(t.Context(), bus.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	return s, b
}

// fillRaw appends entries to RAW, of a total size.
func fillRaw(t *testing.T, b *bus.Bus, entry, size int) {
	t.Helper()
	l, err := b.OpenLog(t.Context(), "codex", "a", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	for l.Mark().Out < int64(size) {
		e := runs.Entry{Kind: runs.Out, Offset: l.Mark().Out, Body: make([]byte, entry)}
		if err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

// rawState returns what RAW has.
func rawState(t *testing.T, b *bus.Bus) jetstream.StreamState {
	t.Helper()
	raw, err := b.Stream(t.Context(), b.Raw())
	if err != nil {
		t.Fatal(err)
	}
	return raw.CachedInfo().State
}

// content returns the files in and below a directory.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		all[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What is beside the streams, and is none, is left alone.
func TestFilesBesideTheStreamsAreNoStreams(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, b := startOn(t, dir, zap.NewNop())
	fillRaw(t, b, 100, 1000)
	s.Stop()
	raw := s.verifier().dir(InsideAccount, testStream)
	streams := filepath.Dir(raw)
	bare, broken := raw+"_BARE", raw+"_BROKEN"
	copies := []string{raw + ".away", filepath.Join(streams, "COPY"), bare, broken}
	var before []map[string]string
	for _, to := range copies {
		err := os.CopyFS(to, os.DirFS(raw))
		switch to {
		case bare:
			err = errors.Join(err, os.Remove(filepath.Join(to, metaFile)), os.Remove(filepath.Join(to, metaSum)))
		case broken:
			err = errors.Join(err, os.WriteFile(filepath.Join(to, metaFile), []byte("{"), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		before = append(before, content(t, to))
	}
	deleted := filepath.Join(streams, ".X", "msgs")
	if err := errors.Join(os.MkdirAll(deleted, 0o700), os.WriteFile(filepath.Join(deleted, "1.blk"), []byte("x"), 0o600),
		os.WriteFile(filepath.Join(streams, ".DS_Store"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.ErrorLevel)
	_, b = startOn(t, dir, zap.New(core))
	for _, e := range logs.All() {
		t.Error(e.Message, e.ContextMap())
	}
	for i, to := range copies {
		after := content(t, to)
		for path, was := range before[i] {
			if after[path] != was {
				t.Errorf("%s is changed", path)
			}
		}
	}
	if state := rawState(t, b); state.Msgs != 10 {
		t.Errorf("RAW has %d entries", state.Msgs)
	}
}

// Streams of linesman are known by their names: those whose settings are damaged are repaired.
func TestStreamsAreKnownWithoutTheirSettings(t *testing.T) {
	t.Parallel()
	s, _ := startOn(t, t.TempDir(), zap.NewNop())
	s.Stop()
	dirs, err := glob(s.store, "jetstream", "*", "streams", "*")
	if err != nil || len(dirs) == 0 {
		t.Fatal(dirs, err)
	}
	for _, dir := range dirs {
		if err := os.Remove(filepath.Join(dir, metaFile)); err != nil {
			t.Fatal(err)
		}
		if !s.verifier().isStream(dir) {
			t.Errorf("%s is none", dir)
		}
	}
}

// flipIn damages a record in the middle of a block of RAW, and returns its sequence.
func flipIn(t *testing.T, dir string, number int) (seq uint64) {
	t.Helper()
	raw := &storedStream{name: testStream, dir: dir}
	good, bad, err := raw.readBlock(number)
	if err != nil || bad != nil {
		t.Fatal(bad, err)
	}
	block, err := os.ReadFile(raw.path(number))
	if err != nil {
		t.Fatal(err)
	}
	r := good[len(good)/2]
	block[r.to-recordHash-1] ^= 1
	if err := os.WriteFile(raw.path(number), block, 0o600); err != nil {
		t.Fatal(err)
	}
	return r.seq
}

// A server that reads all blocks cuts each at its first damage. So all are repaired before.
func TestAllBlocksAreRepairedBeforeAServerReadsThem(t *testing.T) {
	t.Parallel()
	whole := t.TempDir()
	s, b := startOn(t, whole, zap.NewNop())
	fillRaw(t, b, runs.MaxChunk, 20<<20)
	state := rawState(t, b)
	s.Stop()
	for _, c := range []struct {
		name    string
		change  func(t *testing.T, index string)
		damaged []int
	}{
		{"no index", func(t *testing.T, index string) {
			if err := os.Remove(index); err != nil {
				t.Fatal(err)
			}
		}, []int{1}},
		{"an index of another last record", func(t *testing.T, index string) {
			b, err := os.ReadFile(index)
			if err != nil {
				t.Fatal(err)
			}
			b = b[:len(b)-recordHash]
			b[len(b)-1] ^= 1
			if err := os.WriteFile(index, append(b, hashOf(newHash(testStream), b)...), 0o600); err != nil {
				t.Fatal(err)
			}
		}, []int{1}},
		{"an index, and damage in two blocks", func(*testing.T, string) {}, []int{1, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			v := (&Server{store: filepath.Join(dir, storeName), names: bustest.Names, log: zap.NewNop()}).verifier()
			raw := v.dir(InsideAccount, testStream)
			numbers, err := blockNumbers(raw)
			if err != nil || len(numbers) != 3 {
				t.Fatal(numbers, err)
			}
			var lost []uint64
			for _, number := range c.damaged {
				lost = append(lost, flipIn(t, raw, number))
			}
			c.change(t, filepath.Join(raw, "msgs", indexFile))
			if _, err := v.verify(1 << 20); err != nil {
				t.Fatal(err)
			}
			for _, number := range c.damaged {
				aside := filepath.Join(v.store, damagedDir, "*", testStream, strconv.Itoa(number)+blockFile)
				if files, err := filepath.Glob(aside); len(files) != 1 || err != nil {
					t.Errorf("%v, %v are set aside of block %d", files, err, number)
				}
			}
			_, b := startOn(t, dir, zap.NewNop())
			if now := rawState(t, b); now.Msgs != state.Msgs-uint64(len(lost)) || now.LastSeq != state.LastSeq {
				t.Errorf("%d entries up to %d, want %d up to %d", now.Msgs, now.LastSeq, state.Msgs-uint64(len(lost)),
					state.LastSeq)
			}
			stream, err := b.Stream(t.Context(), b.Raw())
			if err != nil {
				t.Fatal(err)
			}
			for _, seq := range lost {
				if _, err := stream.GetMsg(t.Context(), seq); !errors.Is(err, jetstream.ErrMsgNotFound) {
					t.Errorf("entry %d: %v", seq, err)
				}
			}
		})
	}
}

// EVENTS is cut at its damage if RAW itself shows that it has all that the events came from.
func TestEventsAreDerivedFromAWholeRaw(t *testing.T) {
	t.Parallel()
	const n, damaged = 6, 4
	for _, c := range []struct {
		name   string
		change func(t *testing.T, b *bus.Bus)
		harm   func(block []byte, records []record) []byte // of RAW, before another start
		cut    bool
	}{
		{"whole", nil, nil, true},
		{"its end was damaged, behind all entries", nil,
			func(block []byte, _ []record) []byte { return append(block, make([]byte, 100)...) }, true},
		{"a hole before the damage", nil,
			func(block []byte, r []record) []byte { block[r[1].to-recordHash-1] ^= 1; return block }, false},
		{"a hole behind the damage", nil,
			func(block []byte, r []record) []byte { block[r[n-2].to-recordHash-1] ^= 1; return block }, false},
		{"its end is missing", nil, func(block []byte, r []record) []byte { return block[:r[n-2].to] }, false},
		{"it begins at the last event before the damage", purgeRaw(damaged - 1), nil, true},
		{"it begins behind the last event before the damage", purgeRaw(damaged), nil, false},
		{"an entry was deleted", func(t *testing.T, b *bus.Bus) {
			stream, err := b.Stream(t.Context(), b.Raw())
			if err == nil {
				err = stream.DeleteMsg(t.Context(), 2)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, nil, false},
		{"somebody else has published behind the damage", func(t *testing.T, b *bus.Bus) {
			subject := b.EventSubject("codex", "x", "status")
			if _, err := b.PublicJetStream().Publish(t.Context(), subject, []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, b := startOn(t, dir, zap.NewNop())
			fillRaw(t, b, 1, n)
			bustest.Fill(t, b, n)
			if c.change != nil {
				c.change(t, b)
			}
			want := bustest.LastSeq(t, b.PublicJetStream(), b.Events())
			s.Stop()
			rewrite := func(account, stream string, change func([]byte, []record) []byte) {
				of := &storedStream{name: stream, dir: s.verifier().dir(account, stream)}
				good, bad, err := of.readBlock(1)
				block, err2 := os.ReadFile(of.path(1))
				if err != nil || err2 != nil || bad != nil {
					t.Fatal(err, err2, bad)
				}
				if err := os.WriteFile(of.path(1), change(block, good), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.harm != nil {
				rewrite(InsideAccount, b.Raw(), c.harm)
				s, _ = startOn(t, dir, zap.NewNop())
				s.Stop()
				if len(content(t, filepath.Join(dir, storeName, damagedDir))) == 0 {
					t.Error("nothing is set aside of RAW")
				}
				if !c.cut { // by a run that is forgotten
					if err := RemoveDamaged(dir); err != nil {
						t.Fatal(err)
					}
				}
			}
			rewrite(PublicAccount, b.Events(), func(block []byte, r []record) []byte {
				block[r[damaged-1].to-recordHash-1] ^= 1
				return block
			})
			_, b = startOn(t, dir, zap.NewNop())
			events, err := b.PublicJetStream().Stream(t.Context(), b.Events())
			if err != nil {
				t.Fatal(err)
			}
			if c.cut {
				want = damaged - 1
			}
			if last := events.CachedInfo().State.LastSeq; last != want {
				t.Errorf("EVENTS ends at %d, want %d", last, want)
			}
		})
	}
}

// purgeRaw removes the entries of RAW before a sequence.
func purgeRaw(first uint64) func(*testing.T, *bus.Bus) {
	return func(t *testing.T, b *bus.Bus) {
		stream, err := b.Stream(t.Context(), b.Raw())
		if err == nil {
			err = stream.Purge(t.Context(), jetstream.WithPurgeSequence(first))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A block that cannot be read at the moment is no reason to restart the server.
func TestUnreadableBlocksRestartNothing(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.WarnLevel)
	s, _ := startOn(t, t.TempDir(), zap.New(core))
	before := s.current()
	stream := &storedStream{name: testStream, dir: t.TempDir(), unread: []int{1, 2}}
	if err := os.MkdirAll(stream.path(2), 0o700); err != nil {
		t.Fatal(err)
	}
	s.verifyRest(t.Context(), []*storedStream{stream})
	if s.current() != before {
		t.Error("the server was restarted")
	}
	if n := logs.FilterMessage("a block of a stream is not verified").Len(); n != 1 {
		t.Errorf("said %d times: %v", n, logs.All())
	}
}

// What the server says of a start that fails is what the caller says.
func TestAServerThatDoesNotStartSaysWhy(t *testing.T) {
	t.Parallel()
	for name, prevent := range map[string]func(t *testing.T, dir string){
		"a file is in its place": func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "jetstream"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"no right to write": func(t *testing.T, dir string) {
			if os.Getuid() == 0 {
				t.Skip("root may write anywhere")
			}
			if err := os.Chmod(dir, 0o500); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			store := filepath.Join(dir, storeName)
			if err := os.Mkdir(store, 0o700); err != nil {
				t.Fatal(err)
			}
			prevent(t, store)
			s, err := StartServer(dir, "127.0.0.1:0", bustest.Names, zap.NewNop())
			if err == nil {
				s.Stop()
			}
			if err == nil || !strings.Contains(err.Error(), "JetStream") {
				t.Errorf("it says %v", err)
			}
		})
	}
}
