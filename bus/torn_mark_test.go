package bus_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
	"github.com/linesman/linesman/worker"
)

// A power failure damaged the mark of a run, and RAW lost its entries, while RUNS was
// kept. The run starts again in the new RAW. A run whose entries have merely expired
// continues without a second start.
func TestRunWithATornMarkBeginsAgainWhereRawWasLost(t *testing.T) {
	t.Parallel()
	const first, second = "{\"type\":\"turn.started\"}\n", "{\"type\":\"turn.completed\"}\n"
	for _, c := range []struct {
		name, kinds string
		lose        func(t *testing.T, b *bus.Bus)
	}{
		{"lost", "[start out exit]", func(t *testing.T, b *bus.Bus) { bustest.Remake(t, b, b.JetStream(), b.Raw()) }},
		{"aged out", "[out exit]", func(t *testing.T, b *bus.Bus) {
			raw, err := b.JetStream().Stream(t.Context(), b.Raw())
			if err == nil {
				err = raw.Purge(t.Context(), jetstream.WithPurgeSequence(3))
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, b := serve(t)
			root := filepath.Join(t.TempDir(), "runs")
			d, err := worker.Create(root, worker.Spec{Run: "a", Attributes: runs.Attributes{Agent: "codex"},
				Source: runs.SourcePipe})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(d.Close(), os.WriteFile(filepath.Join(d.Path(), "out"), []byte(first+second), 0o600),
				os.Truncate(filepath.Join(d.Path(), "mark"), 100)); err != nil {
				t.Fatal(err)
			}
			bustest.Interleave(t, b, map[string][]runs.Entry{"a": {
				{Kind: runs.Started, Time: 1, Body: runs.Encode(runs.Start{Source: runs.SourcePipe, Worker: "here"})},
				{Kind: runs.Out, Time: 2, Body: []byte(first)},
			}}, "a")
			normalize(t, b)
			c.lose(t, b)

			w, err := worker.New(worker.Config{Root: root, Name: "here", Logs: workerLogs{b, func(runs.Entry) {}}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- w.Adopt(ctx) }()
			bustest.Until(t, "the run does not end", func() bool {
				_, err := os.Stat(d.Path())
				return errors.Is(err, fs.ErrNotExist)
			})
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			kinds, output := []runs.Kind{}, ""
			for seq := uint64(1); seq <= bustest.LastSeq(t, b.JetStream(), b.Raw()); seq++ {
				s, err := b.JetStream().Stream(t.Context(), b.Raw())
				if err != nil {
					t.Fatal(err)
				}
				m, err := s.GetMsg(t.Context(), seq)
				if errors.Is(err, jetstream.ErrMsgNotFound) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				e, _ := bus.DecodeEntry(m.Header, m.Data)
				kinds = append(kinds, e.Kind)
				if e.Kind == runs.Out {
					output += string(e.Body)
				}
			}
			if fmt.Sprint(kinds) != c.kinds || output != first+second {
				t.Errorf("RAW has %v, want %s, and the output %q", kinds, c.kinds, output)
			}
		})
	}
}
