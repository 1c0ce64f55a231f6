package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/otlptest"
)

// The responder is killed while its receiver handles a request, or has just acknowledged it,
// again and again, while the recorded runs of all agents are read. The receiver has each span
// of an undisturbed export, and those that it has twice do not differ.
func TestExportKilledAgainAndAgainSendsTheSameSpans(t *testing.T) {
	fixture.Long(t, "kills processes again and again")
	t.Parallel()
	const kills, batch = 10, 16
	e := newExport(t)
	r, hit, gone := otlptest.New(t), make(chan struct{}), make(chan struct{})
	requests, killed := 0, 0
	r.Before = func(int) int { // called for one request at a time: there is one exporter
		if requests++; requests%2 == 0 && killed < kills {
			if killed++; killed%2 == 0 { // it is acknowledged at about the time of the kill
				go func() { hit <- struct{}{}; <-gone }()
			} else {
				hit <- struct{}{}
				<-gone
			}
		}
		return 200
	}
	p := e.responder(t, r)
	e.awaitPosition(t)
	imported := make(chan int, 1)
	go func() { imported <- e.record(t) }()
	for range kills {
		select {
		case <-hit:
		case <-time.After(fixture.Patience):
			t.Fatalf("no request after %d kills\n%s", killed, p.Stderr)
		}
		p.Kill()
		gone <- struct{}{}
		e.clearLease(t)
		p = e.responder(t, r)
	}
	n := <-imported
	r.Await(t, "run ", n)
	e.awaitEnd(t)
	p.Kill()
	e.clearLease(t)
	got, repeated, differ := r.Spans()
	for _, d := range differ {
		t.Errorf("the same span with another content:\n%s", d)
	}

	e.rewind(t)
	undisturbed := otlptest.New(t)
	e.responder(t, undisturbed)
	undisturbed.Await(t, "run ", n)
	e.awaitEnd(t)
	want, again, _ := undisturbed.Spans()
	if again != 0 {
		t.Errorf("without kills %d spans were repeated", again)
	}
	contents := 0
	for id, s := range want {
		if otlptest.Text(s, "gen_ai.tool.call.arguments") != "" || otlptest.Text(s, "gen_ai.output.messages") != "" {
			contents++
		}
		switch {
		case got[id] == nil:
			t.Errorf("lost: %s", s.Name)
		case !proto.Equal(got[id], s):
			t.Errorf("with kills\n%s\nwithout\n%s", protojson.Format(got[id]), protojson.Format(s))
		}
		delete(got, id)
	}
	for id := range maps.Keys(got) {
		t.Errorf("only with kills: %s", got[id].Name)
	}
	if contents < len(want)/2 {
		t.Errorf("%d spans of %d have content", contents, len(want))
	}
	if repeated == 0 || repeated > kills*(batch+8) { // the last event of a batch may end several
		t.Errorf("%d spans were repeated, at most one batch for each kill should be", repeated)
	}
	t.Logf("%d runs, %d spans, %d kills, %d spans repeated", n, len(want), kills, repeated)
}

// export is a normalizer on a server, for responders that export.
type export struct {
	url, data string
	js        jetstream.JetStream
	state     jetstream.KeyValue
}

func newExport(t *testing.T) *export {
	t.Helper()
	e := &export{url: startNATS(t), data: t.TempDir()}
	p := begin(t, nil, "normalizer", "--nats", e.url, "--data-dir", e.data)
	p.Await(p.Stderr, "normalizer reading")
	conn, err := nats.Connect(e.url)
	if err == nil {
		t.Cleanup(conn.Close)
		e.js, err = jetstream.New(conn)
	}
	if err == nil {
		e.state, err = e.js.KeyValue(t.Context(), bus.Names{Prefix: bus.DefaultPrefix}.State())
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// responder starts a responder that exports to a receiver, in small requests.
func (e *export) responder(t *testing.T, to *otlptest.Receiver, env ...string) *fixture.Process {
	t.Helper()
	env = append(append(os.Environ(), "LINESMAN_LOG_LEVEL=debug", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=16",
		"OTEL_METRICS_EXPORTER=none", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"),
		append(to.Env(), env...)...)
	return beginIn(t, env, nil, "responder", "--nats", e.url, "--data-dir", filepath.Join(e.data, "office"), "--http",
		"127.0.0.1:0")
}

// record imports the recordings of all agents, and returns the number of runs.
func (e *export) record(t *testing.T) (n int) {
	for _, agent := range []string{"codex", "claude", "gemini", "opencode"} {
		files, err := filepath.Glob("../corpus/" + agent + "/*.jsonl")
		if err != nil {
			t.Error(err)
		}
		out, code := execute(t, append([]string{"tail", "--once", "--nats", e.url, "--data-dir", e.data, "--agent", agent},
			files...)...)
		if code != 0 {
			t.Errorf("tail: exit %d", code)
		}
		n += strings.Count(out, "\n")
	}
	return n
}

// position returns how far EVENTS were exported, and where they end.
func (e *export) position(t *testing.T) (seq, end uint64) {
	t.Helper()
	v, err := e.state.Get(t.Context(), bus.TelemetryPosition)
	var p struct{ Seq uint64 }
	if err != nil || json.Unmarshal(v.Value(), &p) != nil {
		return 0, 1
	}
	s, err := e.js.Stream(t.Context(), bus.Names{Prefix: bus.DefaultPrefix}.Events())
	if err != nil {
		t.Fatal(err)
	}
	return p.Seq, s.CachedInfo().State.LastSeq
}

func (e *export) awaitPosition(t *testing.T) {
	t.Helper()
	if !fixture.Poll(fixture.Patience, func() bool {
		_, err := e.state.Get(t.Context(), bus.TelemetryPosition)
		return err == nil
	}) {
		t.Fatal("no exporter")
	}
}

// awaitEnd waits until all events are exported.
func (e *export) awaitEnd(t *testing.T) {
	t.Helper()
	if !fixture.Poll(fixture.Patience, func() bool {
		seq, end := e.position(t)
		return seq == end
	}) {
		seq, end := e.position(t)
		t.Fatalf("exported up to %d of %d", seq, end)
	}
}

// rewind makes the next exporter begin with the first event.
func (e *export) rewind(t *testing.T) {
	t.Helper()
	v, err := e.state.Get(t.Context(), bus.TelemetryPosition)
	var p map[string]any
	if err == nil {
		err = json.Unmarshal(v.Value(), &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]any{"stream": p["stream"], "seq": 0})
	if err == nil {
		_, err = e.state.Put(t.Context(), bus.TelemetryPosition, b)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// clearLease lets the next exporter begin before the lease of a killed one expires.
func (e *export) clearLease(t *testing.T) {
	t.Helper()
	if _, err := e.state.Put(t.Context(), bus.TelemetryLease, nil); err != nil {
		t.Fatal(err)
	}
}
