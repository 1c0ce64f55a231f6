package bus_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// The output of a short run, the ends of one with large entries, and a part of it anywhere
// are read without a consumer; many entries are read by one.
func TestOutputIsReadWithFewConsumers(t *testing.T) {
	t.Parallel()
	b := bustest.ConnectPlain(t, bustest.ServePlain(t, server.Options{}))
	if _, err := b.Ensure(t.Context(), bus.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	output := map[string][]byte{}
	for _, run := range []struct {
		id            string
		entries, size int
	}{{"short", 3, 1000}, {"large", 40, runs.MaxChunk}, {"small", 400, 100}} {
		l, err := b.OpenLog(t.Context(), "codex", run.id, runs.Mark{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range run.entries {
			body := bytes.Repeat([]byte{byte('a' + i%26)}, run.size)
			e := runs.Entry{Kind: runs.Out, Time: 1, Offset: int64(len(output[run.id])), Body: body}
			if err := l.Append(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			output[run.id] = append(output[run.id], body...)
		}
	}
	created, err := b.Inside().SubscribeSync("$JS.API.CONSUMER.CREATE.>")
	if err != nil {
		t.Fatal(err)
	}
	const limit = 16 << 10
	// read reads the output of a run, and returns how many consumers that took.
	read := func(run string, from int64) int {
		t.Helper()
		want := output[run]
		if from >= 0 {
			at, got, err := b.OutputAt(t.Context(), "codex", run, runs.Out, from, limit)
			if end := min(int(from)+limit, len(want)); err != nil || at != from || !bytes.Equal(got, want[from:end]) {
				t.Errorf("%s: %d bytes at %d, %v; want %d at %d", run, len(got), at, err, end-int(from), from)
			}
		} else {
			got, _, err := b.Output(t.Context(), "codex", run, limit, false)
			head, tail := want, []byte(nil)
			if len(want) > limit {
				head, tail = want[:limit/2], want[len(want)-limit/2:]
			}
			if err != nil || !bytes.Equal(got.Head, head) || !bytes.Equal(got.Tail, tail) {
				t.Errorf("%s: %d and %d bytes, %v; want %d and %d", run, len(got.Head), len(got.Tail), err, len(head),
					len(tail))
			}
		}
		if err := b.Inside().FlushTimeout(fixture.Patience); err != nil {
			t.Fatal(err)
		}
		n, _, err := created.Pending()
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			if _, err := created.NextMsgWithContext(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	for _, c := range []struct {
		run  string
		at   int64 // of a part; -1: the ends
		most int   // consumers
	}{
		{"short", -1, 0}, {"short", 1500, 0},
		{"large", -1, 0}, {"large", 0, 0}, {"large", 31*runs.MaxChunk + 7, 0}, {"large", 40*runs.MaxChunk - 9, 0},
		{"small", -1, 2}, {"small", 20_033, 1}, {"small", 39_900, 0},
	} {
		// On a busy machine a request may be repeated, and counted twice: the least of several reads is judged.
		least := c.most + 1
		for range 5 {
			if least = min(least, read(c.run, c.at)); least <= c.most {
				break
			}
		}
		if least > c.most {
			t.Errorf("%s at %d: %d consumers; want at most %d", c.run, c.at, least, c.most)
		}
	}
}

// A page of events is read with hardly an event more than it has.
func TestPageOfEventsReadsFewOthers(t *testing.T) {
	t.Parallel()
	s, op := serve(t)
	bustest.Fill(t, op, 5000)
	for want, others := range map[int]int{1: 5, 100: 5, 1000: 5, 3000: 1100} {
		b := bustest.Connect(t, s, embedded.ResponderUser)
		conn := b.PublicJetStream().Conn()
		before, got, enough := conn.Stats().InMsgs, 0, errors.New("enough")
		of := runs.Selection{Agent: "codex", Run: "x", After: 10, Want: want}
		err := b.EachEvent(t.Context(), of, func(e runs.Event) error {
			if got++; e.Seq != uint64(10+got) || time.Since(time.UnixMilli(e.Stored)).Abs() > time.Hour {
				t.Errorf("event %d is %d, stored at %d", got, e.Seq, e.Stored)
			}
			if got == want {
				return enough
			}
			return nil
		})
		if read := int(conn.Stats().InMsgs - before); !errors.Is(err, enough) || got != want || read > want+others {
			t.Errorf("%d events with %d messages, %v; want %d", got, read, err, want)
		}
	}
}
