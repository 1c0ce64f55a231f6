package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/codex"
	"github.com/linesman/linesman/runs"
)

var testNames = Names{DefaultPrefix}

// serve starts a server of the test's own, with its streams.
func serve(t testing.TB) (*Server, *Bus) {
	t.Helper()
	log := zap.NewNop()
	if testing.Verbose() {
		log = zaptest.NewLogger(t)
	}
	s, err := StartServer(t.TempDir(), "127.0.0.1:0", testNames, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	b := connect(t, s, OperatorUser)
	limits := DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<30, 1<<30, 1<<28
	if _, err := b.Ensure(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	return s, b
}

func connect(t testing.TB, s *Server, user string) *Bus {
	t.Helper()
	b, err := s.Connect(t.Context(), user, testNames, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// corpusLog is a recorded run as a raw log, in chunks of at most size bytes.
func corpusLog(t testing.TB, name string, size int) []runs.Entry {
	t.Helper()
	dir := "../test/corpus/codex/"
	out, err := os.ReadFile(dir + name + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	log := []runs.Entry{{Kind: runs.Started, Time: 1_000, Body: runs.Encode(runs.Start{Source: "run"})}}
	for at := 0; at < len(out); at += size {
		log = append(log, runs.Entry{Kind: runs.Out, Time: int64(2_000 + at), Offset: int64(at), Body: out[at:min(at+size, len(out))]})
	}
	code := 0
	return append(log, runs.Entry{Kind: runs.Exited, Time: 9_000, Body: runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &code})})
}

// interleave appends the logs of several runs to RAW, an entry of each in turn.
func interleave(t testing.TB, b *Bus, logs map[string][]runs.Entry, order ...string) {
	t.Helper()
	open := map[string]*RawLog{}
	for _, id := range order {
		l, err := b.OpenLog(t.Context(), "codex", id, runs.Mark{})
		if err != nil {
			t.Fatal(err)
		}
		open[id] = l
	}
	for i := 0; ; i++ {
		more := false
		for _, id := range order {
			if i < len(logs[id]) {
				more = true
				if err := open[id].Append(t.Context(), logs[id][i]); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !more {
			return
		}
	}
}

// normalize runs a normalizer until it has read all that RAW holds.
func normalize(t testing.TB, b *Bus) {
	t.Helper()
	n := newNormalizer(b)
	n.Until = lastSeq(t, b.js, b.Raw())
	if err := n.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func newNormalizer(b *Bus) *Normalizer {
	return &Normalizer{Bus: b, Out: b.Names, Backends: []normalizer.Backend{codex.Backend{}}, Log: b.log, cutEvery: 20 * time.Millisecond}
}

func lastSeq(t testing.TB, js jetstream.JetStream, stream string) uint64 {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.LastSeq
}

// dump is a stream's whole content, a line a message.
func dump(t testing.TB, js jetstream.JetStream, stream string) []string {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	state := s.CachedInfo().State
	var out []string
	for seq := state.FirstSeq; seq <= state.LastSeq && state.Msgs > 0; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatalf("%s %d: %v", stream, seq, err)
		}
		out = append(out, fmt.Sprintf("%d %s %s %s", seq, m.Subject, m.Header.Get(HeaderPos), m.Data))
	}
	return out
}

// records are the run records as stored, by run.
func records(t testing.TB, b *Bus) map[string]string {
	t.Helper()
	kv, err := b.js.KeyValue(t.Context(), b.Runs())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := kv.ListKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for key := range keys.Keys() {
		e, err := kv.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		var v stored
		if err := json.Unmarshal(e.Value(), &v); err != nil {
			t.Fatal(err)
		}
		out[key] = string(v.Record.JSON())
	}
	return out
}

func diff(t testing.TB, what string, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "(nothing)", "(nothing)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Fatalf("%s: %d messages, want %d; first difference at %d:\n got %.300s\nwant %.300s", what, len(got), len(want), i, g, w)
		}
	}
}

func TestEventsAreTheFoldOfRaw(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	names, _ := filepath.Glob("../test/corpus/codex/*.jsonl")
	logs := map[string][]runs.Entry{}
	var order []string
	for _, name := range names {
		id := strings.TrimSuffix(filepath.Base(name), ".jsonl")
		logs[id] = corpusLog(t, id, 300_000/7)
		order = append(order, id)
	}
	interleave(t, b, logs, order...)
	normalize(t, b)

	perRun := map[string][]string{}
	for _, line := range dump(t, b.jsPub, b.Events()) {
		f := strings.SplitN(line, " ", 7)
		_, run, token, _ := b.parseEvent(f[1])
		perRun[run] = append(perRun[run], token+" "+f[6])
	}
	for id, log := range logs {
		fold := normalizer.NewFold(codex.Backend{}, id, 0)
		var want []string
		for i, e := range log {
			fold.Apply(uint64(i+1), e, func(m normalizer.Message) { want = append(want, m.Token+" "+string(m.Body)) })
		}
		diff(t, id, perRun[id], want)
	}
	have := records(t, b)
	for _, id := range order {
		if !strings.Contains(have[id], `"ended_at":9000`) {
			t.Errorf("run %s: record %s", id, have[id])
		}
	}
}

// stopAt is a normalizer that dies with the given event not published.
func stopAt(t testing.TB, b *Bus, event uint64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := newNormalizer(b)
	n.die = func(next uint64) bool { return next == event }
	err := n.term(ctx, n.Log)
	if !errors.Is(err, errDied) {
		t.Fatalf("stop at event %d: %v", event, err)
	}
}

// remake deletes a stream and makes it anew. The server may give a stream
// the messages of one that was removed just before: then it is tried again.
func remake(t testing.TB, b *Bus, js jetstream.JetStream, name string) {
	t.Helper()
	for range 100 {
		if err := js.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Ensure(t.Context(), DefaultLimits()); err != nil {
			t.Fatal(err)
		}
		if lastSeq(t, js, name) == 0 {
			return
		}
	}
	t.Fatalf("%s comes back with its messages", name)
}

func TestRestartAtEveryEvent(t *testing.T) {
	t.Parallel()
	logs := map[string][]runs.Entry{"a": corpusLog(t, "shell-fail", 700), "b": corpusLog(t, "plan", 333)}
	_, unbroken := serve(t)
	interleave(t, unbroken, logs, "a", "b")
	normalize(t, unbroken)
	want := dump(t, unbroken.jsPub, unbroken.Events())
	wantRuns := records(t, unbroken)
	if len(want) < 20 {
		t.Fatalf("only %d events", len(want))
	}

	_, b := serve(t)
	interleave(t, b, logs, "a", "b")
	// A new EVENTS is a new beginning: the records count for nothing.
	fresh := func(t *testing.T) { remake(t, b, b.jsPub, b.Events()) }
	check := func(t *testing.T, want []string) {
		t.Helper()
		normalize(t, b)
		diff(t, "EVENTS", dump(t, b.jsPub, b.Events()), want)
		have := records(t, b)
		for id, w := range wantRuns {
			if have[id] != w {
				t.Errorf("record of %s:\n got %s\nwant %s", id, have[id], w)
			}
		}
	}
	raw := lastSeq(t, b.js, b.Raw())
	for k := range want {
		event := uint64(k + 1)
		t.Run(fmt.Sprintf("recorded, then killed before event %d", event), func(t *testing.T) {
			for until := uint64(1); until <= raw; until++ {
				fresh(t)
				n := newNormalizer(b)
				n.Until = until // ends with a checkpoint
				if err := n.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				if lastSeq(t, b.jsPub, b.Events()) >= event {
					break
				}
				stopAt(t, b, event)
				check(t, want)
			}
		})
		t.Run(fmt.Sprintf("killed before event %d", event), func(t *testing.T) {
			fresh(t)
			stopAt(t, b, event)
			check(t, want)
		})
		t.Run(fmt.Sprintf("EVENTS purged at %d", event), func(t *testing.T) {
			fresh(t)
			stopAt(t, b, event)
			s, err := b.jsPub.Stream(t.Context(), b.Events())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
			check(t, want[k:])
		})
		t.Run(fmt.Sprintf("EVENTS deleted at %d", event), func(t *testing.T) {
			fresh(t)
			stopAt(t, b, event)
			fresh(t)
			check(t, want)
		})
	}
}

func TestRawMadeAnew(t *testing.T) {
	t.Parallel()
	logs := map[string][]runs.Entry{"a": corpusLog(t, "shell-fail", 700), "b": corpusLog(t, "plan", 333)}
	_, unbroken := serve(t)
	interleave(t, unbroken, logs, "a", "b")
	normalize(t, unbroken)
	want := dump(t, unbroken.jsPub, unbroken.Events())
	for event := uint64(1); event <= uint64(len(want)); event += 3 {
		_, b := serve(t)
		interleave(t, b, logs, "a", "b")
		stopAt(t, b, event)
		remake(t, b, b.js, b.Raw())
		interleave(t, b, logs, "a", "b")
		normalize(t, b)
		diff(t, fmt.Sprintf("RAW anew at event %d", event), dump(t, b.jsPub, b.Events()), want)
		normalize(t, b)
		diff(t, "and again", dump(t, b.jsPub, b.Events()), want)
	}
}

func TestLineLongerThanMaxPayload(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	// One MiB of NUL bytes, as Codex prints it: six bytes each.
	line := []byte(`{"type":"item.completed","item":{"id":"item_0","type":"command_execution","aggregated_output":"` +
		strings.Repeat(`\u0000`, 1<<20) + `","exit_code":0,"status":"completed"}}` + "\n")
	l, err := b.OpenLog(t.Context(), "codex", "huge", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(line); at += runs.MaxChunk {
		e := runs.Entry{Kind: runs.Out, Time: 1, Offset: int64(at), Body: line[at:min(at+runs.MaxChunk, len(line))]}
		if err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	normalize(t, b)
	events := dump(t, b.jsPub, b.Events())
	if len(events) != 1 || !strings.Contains(events[0], `"stdout":1048576`) {
		t.Errorf("%d events: %.400s", len(events), events)
	}
	var raw bytes.Buffer
	s, _ := b.js.Stream(t.Context(), b.Raw())
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		raw.Write(m.Data)
	}
	if !bytes.Equal(raw.Bytes(), line) {
		t.Error("RAW does not hold the line as it was written")
	}
}
