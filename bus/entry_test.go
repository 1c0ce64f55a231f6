package bus

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// FuzzRawMessages folds two messages of RAW with arbitrary headers and bodies, as any
// program with the permission might write: the results are bounded, and what can be
// decoded can be encoded again.
func FuzzRawMessages(f *testing.F) {
	f.Add(
		"out",
		"1",
		"0",
		[]byte("{\"type\":\"turn.started\"}\n"),
		"exit",
		"2",
		"",
		[]byte(`{"reason":"exited","code":0}`),
	)
	f.Add("start", "1", "", []byte(`{"source":"run"}`), "out", "9223372036854775807", "1152921504606846976", []byte("x"))
	f.Add("queued", "-1", "-1", []byte(`{}`), "cancel", "x", "x", []byte(`{"reason":"\u0000"}`))
	f.Add("err", "5", "4", []byte("x"), "note", "5", "", []byte(`{"idle":true}`))
	f.Add("", "", "", []byte{}, "nobody", "7", "7", []byte{0xff})
	f.Add("out", "1", "10", []byte("torn"), "out", "1", "0", []byte("\n\n{}\n"))
	f.Add("in", "1", "7", []byte("{"), "process", "2", "", []byte(`{"n":1,"do":"end"}`))
	f.Add("command", "1", "", []byte(`{"do":"end"}`), "in", "2", "-1", []byte("{}\n"))
	f.Fuzz(func(t *testing.T, kind1, time1, offset1 string, body1 []byte, kind2, time2, offset2 string, body2 []byte) {
		fold := normalizer.NewFold(codex.Backend{}, "run", 0)
		for i, m := range []nats.Msg{
			{Header: nats.Header{HeaderRecord: {kind1}, HeaderTime: {time1}, HeaderOffset: {offset1}}, Data: body1},
			{Header: nats.Header{HeaderRecord: {kind2}, HeaderTime: {time2}, HeaderOffset: {offset2}}, Data: body2},
		} {
			e, ok := DecodeEntry(m.Header, m.Data)
			emit := func(m normalizer.Message) {
				if !utf8.Valid(m.Body) || len(m.Body) > 3*(bounds.MaxText+bounds.MaxData) || strings.ContainsAny(m.Token, ". *>") {
					t.Errorf("an event of %d bytes, token %q", len(m.Body), m.Token)
				}
			}
			if !ok {
				fold.Unreadable(uint64(i+1), e.Time, emit)
				continue
			}
			if again, ok := DecodeEntry(
				encodeEntry("s", e).Header,
				e.Body,
			); !ok || again.Kind != e.Kind || again.Time != e.Time ||
				again.Offset != e.Offset {
				t.Errorf("%+v comes back as %+v", e, again)
			}
			fold.Apply(uint64(i+1), e, emit)
		}
		if _, err := runs.ParseHeader(fold.Record.Header().Text(), nil); err != nil {
			t.Errorf("the row cannot be read: %v", err)
		}
		if _, err := fold.State(); err != nil {
			t.Errorf("the state cannot be saved: %v", err)
		}
	})
}
