package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// texts are entries as text, to compare them.
func texts(all []runs.Entry) (lines []string) {
	for _, e := range all {
		lines = append(lines, fmt.Sprintf("%s %d %d %s", e.Kind, e.Time, e.Offset, e.Body))
	}
	return lines
}

// A responder reads the log of a run in order: one by one if it is short, by a consumer if it
// is long, from any entry on, whether it follows or not.
func TestEntriesAreThoseOfTheLogInOrder(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	logs := map[string][]runs.Entry{
		"short": bustest.CorpusLog(t, "hello", 4096), "long": bustest.CorpusLog(t, "hello", 5),
	}
	bustest.Interleave(t, b, logs, "short", "long")
	responder := bustest.Connect(t, s, embedded.ResponderUser)
	for run, want := range logs {
		if run == "long" && len(want) < 64 {
			t.Fatalf("only %d entries", len(want))
		}
		for _, follow := range []bool{false, true} {
			var got []runs.Entry
			var seqs []uint64
			read := func(from uint64) {
				err := responder.Entries(t.Context(), "codex", run, from, follow, func(seq uint64, e runs.Entry) error {
					got, seqs = append(got, e), append(seqs, seq)
					return nil
				})
				if err != nil {
					t.Errorf("%s, follow %t: %v", run, follow, err)
				}
			}
			read(0)
			bustest.Diff(t, run, texts(got), texts(want))
			if !slices.IsSorted(seqs) {
				t.Errorf("%s: not in order", run)
			}
			newest, end, err := responder.EntriesEnd(t.Context(), "codex", run)
			if err != nil || newest != seqs[len(seqs)-1] || end < newest {
				t.Errorf("%s ends at %d of %d, %v; want %d", run, newest, end, err, seqs[len(seqs)-1])
			}
			from := seqs[len(seqs)/2]
			got = nil
			read(from)
			bustest.Diff(t, run+" from the middle", texts(got), texts(want[len(want)/2:]))
		}
	}
	if newest, end, err := responder.EntriesEnd(t.Context(), "codex", "none"); newest != 0 || end == 0 || err != nil {
		t.Errorf("a run without entries ends at %d of %d, %v", newest, end, err)
	}
}

// A follower gets each entry when it is written, also those for which there are no events and
// no normalizer, over a lost connection, and ends with the exit.
func TestEntriesFollowALogToItsExit(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	responder := bustest.Connect(t, s, embedded.ResponderUser)
	log := bustest.CorpusLog(t, "hello", 512)
	l, err := b.OpenLog(t.Context(), "codex", "a", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	got, ended := make(chan runs.Entry, len(log)), make(chan error, 1)
	go func() {
		ended <- responder.Entries(t.Context(), "codex", "a", 1, true, func(_ uint64, e runs.Entry) error {
			got <- e
			return nil
		})
	}()
	for i, e := range log {
		if i == len(log)/2 {
			if err := s.Restart(func() error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		select {
		case g := <-got:
			bustest.Diff(t, "entry", texts([]runs.Entry{g}), texts([]runs.Entry{e}))
		case <-time.After(fixture.Patience):
			t.Fatalf("entry %d does not arrive", i)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// The owner of a log knows that it has missed what others did while it was away, until it has read the log.
func TestALogKnowsThatItsConnectionWasLost(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	l := open(t, b)
	if err := l.Append(t.Context(), runs.Entry{Kind: runs.Started}); err != nil || l.Reconnected() {
		t.Fatalf("error %v, reconnected %t", err, l.Reconnected())
	}
	if err := s.Restart(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	other := open(t, bustest.Connect(t, s, embedded.ResponderUser))
	if err := other.Append(t.Context(), runs.Entry{Kind: runs.Cancelled}); err != nil {
		t.Fatal(err)
	}
	bustest.Until(t, "the connection is restored", l.Reconnected)
	bustest.Until(t, "the log is read", func() bool {
		_, err := l.Look(t.Context())
		return err == nil && !l.Reconnected() // the bus has more than one connection
	})
	if !l.Mark().Cancelled {
		t.Errorf("mark %+v", l.Mark())
	}
}

// An entry of a newer version, or of another program, is passed on as unreadable.
func TestAnUnreadableEntryIsPassedOn(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	publish := func(header nats.Header) {
		t.Helper()
		m := &nats.Msg{Subject: b.RawSubject("codex", "a"), Header: header, Data: []byte("x")}
		if _, err := b.JetStream().PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	publish(nats.Header{bus.HeaderRecord: {"newer"}, bus.HeaderTime: {"7"}})
	publish(nats.Header{})
	publish(nats.Header{bus.HeaderRecord: {string(runs.Unreadable)}, bus.HeaderTime: {"8"}})
	var got []string
	err := b.Entries(t.Context(), "codex", "a", 1, false, func(_ uint64, e runs.Entry) error {
		got = append(got, fmt.Sprintf("%s at %d", e.Kind, e.Time))
		return nil
	})
	if want := []string{"unreadable at 7", "unreadable at 0", "unreadable at 8"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// RAW is recreated: what follows is another log, so a follower ends. It ends with the error
// of its handler, too, and with its context, which is no error.
func TestFollowerOfEntriesEnds(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	log := bustest.CorpusLog(t, "hello", 4096)
	bustest.Interleave(t, b, map[string][]runs.Entry{"a": log[:1]}, "a")
	enough := errors.New("enough")
	err := b.Entries(t.Context(), "codex", "a", 1, true, func(uint64, runs.Entry) error { return enough })
	if !errors.Is(err, enough) {
		t.Errorf("got %v, want the error of the handler", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = b.Entries(ctx, "codex", "a", 1, true, func(uint64, runs.Entry) error { cancel(); return nil })
	if err != nil {
		t.Errorf("at the end of its context: %v", err)
	}
	begun, read := make(chan struct{}), make(chan error, 1)
	go func() {
		read <- b.Entries(t.Context(), "codex", "a", 1, true, func(uint64, runs.Entry) error { close(begun); return nil })
	}()
	<-begun
	bustest.Remake(t, b, b.JetStream(), b.Raw())
	select {
	case err := <-read:
		if !errors.Is(err, reader.ErrReplaced) {
			t.Errorf("got %v, want that the stream was recreated", err)
		}
	case <-time.After(fixture.Patience):
		t.Error("it follows a stream that is gone")
	}
}

// Many readers of a long log do not request more than the server buffers for a connection,
// which would end it.
func TestManyReadersOfALongLogKeepTheConnection(t *testing.T) {
	fixture.Long(t, "floods a server")
	t.Parallel()
	s, b := serve(t)
	const entries = 48
	raw, err := b.OpenLog(t.Context(), "codex", "a", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		e := runs.Entry{Kind: runs.Out, Time: 1, Offset: int64(i) * runs.MaxChunk, Body: make([]byte, runs.MaxChunk)}
		if err := raw.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	for name, read := range map[string]func(b *bus.Bus) (int, error){
		"entries": func(b *bus.Bus) (got int, err error) {
			err = b.Entries(t.Context(), "codex", "a", 1, false, func(_ uint64, e runs.Entry) error {
				got += len(e.Body)
				return nil
			})
			return got, err
		},
		"output": func(b *bus.Bus) (int, error) {
			_, data, err := b.OutputAt(t.Context(), "codex", "a", runs.Out, 0, entries*runs.MaxChunk)
			return len(data), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			responder, canary := bustest.Connect(t, s, embedded.ResponderUser), fixture.StartCanary(t)
			var all sync.WaitGroup
			var late atomic.Int32
			for range 128 {
				all.Go(func() {
					switch got, err := read(responder); {
					case errors.Is(err, context.DeadlineExceeded):
						late.Add(1)
					case err != nil || got != entries*runs.MaxChunk:
						t.Errorf("got %d of %d bytes, %v", got, entries*runs.MaxChunk, err)
					}
				})
			}
			all.Wait()
			if n := responder.JetStream().Conn().Stats().Reconnects; n > 0 {
				t.Errorf("the connection was lost %d times", n)
			}
			if n := late.Load(); n > 0 {
				canary.Errorf("%d of 128 readers got no answer in time", n)
			}
		})
	}
}

// A log gives its own entries, and those of others that it has read, without asking the server for them again. It says
// that it was lost, and leaves out what has expired.
func TestLogKeepsWhatItHasStored(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	l := open(t, b)
	raw, err := b.JetStream().Stream(t.Context(), b.Raw())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	var last uint64
	hears := func(after uint64, want ...string) {
		t.Helper()
		got = nil
		err := l.Entries(t.Context(), after, func(seq uint64, e runs.Entry) error {
			last = seq
			got = append(got, string(e.Body))
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("after %d: %.300q, error %v; want %.300q", after, got, err, want)
		}
	}
	says := func(text string) uint64 {
		t.Helper()
		if err := l.Append(t.Context(), runs.Entry{Kind: runs.Note, Body: []byte(text)}); err != nil {
			t.Fatal(err)
		}
		return l.Mark().Seq
	}
	says("1")
	says("2")
	hears(0, "1", "2")
	hears(1, "2")
	at := last
	says("3")
	if err := open(t, b).Append(t.Context(), runs.Entry{Kind: runs.Note, Body: []byte("other")}); err != nil {
		t.Fatal(err)
	}
	if moved, err := l.Look(t.Context()); !moved || err != nil {
		t.Fatal(moved, err)
	}
	says("4")
	for seq := at + 1; seq <= l.Mark().Seq; seq++ {
		if err := raw.SecureDeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	hears(at, "3", "other", "4")
	hears(last)

	l = open(t, b)
	hears(0, "1", "2")
	x, y := strings.Repeat("x", 900<<10), strings.Repeat("y", 900<<10)
	says(x)
	says(y) // too much to be kept
	hears(last, x, y)
	if err := raw.Purge(t.Context(), jetstream.WithPurgeSequence(l.Mark().Seq)); err != nil {
		t.Fatal(err)
	}
	hears(0, y)
	if err := raw.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	hears(0)
	bustest.Remake(t, b, b.JetStream(), b.Raw())
	err = l.Entries(t.Context(), 0, func(uint64, runs.Entry) error { return nil })
	if !errors.Is(err, runs.ErrMoved) || l.Mark().Seq != 0 {
		t.Errorf("lost: error %v, mark %+v", err, l.Mark())
	}
}

func open(t *testing.T, b *bus.Bus) *bus.RawLog {
	t.Helper()
	l, err := b.OpenLog(t.Context(), "codex", "kept", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}
