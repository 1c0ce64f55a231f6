package runs_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/linesman/linesman/runs"
)

func TestDecodeExit(t *testing.T) {
	lost := runs.Exit{Reason: runs.ReasonLost}
	for _, c := range []struct {
		body string
		want runs.Exit
	}{
		{`{"reason":"exited","code":0}`, runs.Exit{Reason: runs.ReasonExited, Code: code(0)}},
		{`{"reason":"exited","code":-1,"torn":true}`, runs.Exit{Reason: runs.ReasonExited, Code: code(-1), Torn: true}},
		{`{"reason":"exited","code":null,"signal":9}`, runs.Exit{Reason: runs.ReasonExited, Signal: 9}},
		{`{"reason":"eof"}`, runs.Exit{Reason: runs.ReasonEOF}},
		{`{"reason":"cancelled","signal":15}`, runs.Exit{Reason: runs.ReasonCancelled, Signal: 15}},
		{`{"reason":"idle"}`, runs.Exit{Reason: runs.ReasonIdle}},
		{`{"reason":"hard"}`, runs.Exit{Reason: runs.ReasonHard}},
		{`{"reason":"spool"}`, runs.Exit{Reason: runs.ReasonSpool}},
		{`{"reason":"spawn","spawn":"not_found"}`, runs.Exit{Reason: runs.ReasonSpawn, Spawn: runs.SpawnNotFound}},
		{`{"reason":"spawn","spawn":"not_executable"}`, runs.Exit{Reason: runs.ReasonSpawn,
			Spawn: runs.SpawnNotExecutable}},
		{`{"reason":"spawn","spawn":"/SECRET: permission denied"}`,
			runs.Exit{Reason: runs.ReasonSpawn, Spawn: runs.SpawnOther}},
		{`{"reason":"lost"}`, lost},
		{`{"reason":"exited","code":0,"from":"a later version"}`, runs.Exit{Reason: runs.ReasonExited, Code: code(0)}},
		{`{"reason":"SECRET","code":1}`, runs.Exit{Reason: runs.ReasonLost, Code: code(1)}},
		{`{"code":1}`, runs.Exit{Reason: runs.ReasonLost, Code: code(1)}},
		{`{}`, lost},
		{`null`, lost},
		{``, lost},
		{`{"reason":"exited","code":"0"}`, lost},
		{`{"reason":"exited","code":0}{"reason":"exited"}`, lost},
		{`{"reason":"exited","code":9223372036854775808}`, lost},
		{`["exited"]`, lost},
	} {
		if got := runs.DecodeExit([]byte(c.body)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.body, got, c.want)
		}
	}
}

func TestKnownKinds(t *testing.T) {
	for _, k := range []runs.Kind{"queued", "start", "out", "err", "note", "cancel", "exit"} {
		if !k.Known() {
			t.Errorf("%s is not known", k)
		}
	}
	for _, k := range []runs.Kind{"", "Out", "stdout", "pause", "unreadable"} {
		if k.Known() {
			t.Errorf("%s is known", k)
		}
	}
}

// The mark of a log after each of its entries.
func TestMark(t *testing.T) {
	var m runs.Mark
	for _, c := range []struct {
		e    runs.Entry
		seq  uint64
		want runs.Mark
	}{
		{runs.Entry{Kind: runs.Queued}, 3, runs.Mark{Seq: 3}},
		{runs.Entry{Kind: runs.Started}, 5, runs.Mark{Seq: 5, Started: true, By: "?"}},
		{runs.Entry{Kind: runs.Out, Body: []byte("abc")}, 6, runs.Mark{Seq: 6, Out: 3, Started: true, By: "?"}},
		{runs.Entry{Kind: runs.ErrOut, Offset: 2, Body: []byte("abc")}, 7,
			runs.Mark{Seq: 7, Out: 3, Err: 5, Started: true, By: "?"}},
		// a duplicate
		{runs.Entry{Kind: runs.Out, Offset: 1, Body: []byte("b")}, 8,
			runs.Mark{Seq: 8, Out: 3, Err: 5, Started: true, By: "?"}},
		{runs.Entry{Kind: runs.Note, Body: []byte("abcdef")}, 9,
			runs.Mark{Seq: 9, Out: 3, Err: 5, Started: true, By: "?"}},
		{runs.Entry{Kind: runs.Cancelled}, 11,
			runs.Mark{Seq: 11, Out: 3, Err: 5, Started: true, By: "?", Cancelled: true}},
		{runs.Entry{Kind: runs.Exited}, 12,
			runs.Mark{Seq: 12, Out: 3, Err: 5, Started: true, By: "?", Cancelled: true, Exited: true}},
	} {
		if m = m.After(c.e, c.seq); m != c.want {
			t.Errorf("after %s: %+v, want %+v", c.e.Kind, m, c.want)
		}
	}
}

// Any exit entry results in known constants, and its run has a final state and an
// outcome.
func FuzzDecodeExit(f *testing.F) {
	for _, seed := range []string{
		`{"reason":"exited","code":0}`, `{"reason":"spawn","spawn":"x"}`, `{"reason":"idle","signal":-1}`,
		`{"Reason":"EOF"}`, `null`, `{"reason":7}`, "\xff",
	} {
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, cancel bool) {
		x := runs.DecodeExit(body)
		if again := runs.DecodeExit(runs.Encode(x)); !reflect.DeepEqual(again, x) {
			t.Errorf("%+v is decoded as %+v", x, again)
		}
		switch x.Reason {
		case runs.ReasonExited, runs.ReasonEOF, runs.ReasonCancelled, runs.ReasonIdle, runs.ReasonHard,
			runs.ReasonSpool, runs.ReasonSpawn, runs.ReasonLost:
		default:
			t.Errorf("reason %q", x.Reason)
		}
		switch x.Spawn {
		case "", runs.SpawnNotFound, runs.SpawnNotExecutable, runs.SpawnOther:
		default:
			t.Errorf("spawn %q", x.Spawn)
		}
		r := runs.NewRecord("T-local-x", "codex")
		r.Cancel = cancel
		r.End(x, 1)
		if !r.State.Final() || r.Outcome() == "" || len(r.JSON()) > runs.MaxRecord || !json.Valid(r.JSON()) {
			t.Errorf("record %s", r.JSON())
		}
	})
}
