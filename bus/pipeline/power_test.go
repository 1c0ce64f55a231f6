package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// A power failure loses what a stream has not synced: here a stream's files are
// restored to an earlier state while the server is stopped.
func TestStreamThatLostItsEnd(t *testing.T) {
	t.Parallel()
	logs := map[string][]runs.Entry{"a": bustest.CorpusLog(t, "shell-fail", 700), "b": bustest.CorpusLog(t, "plan", 333)}
	_, unbroken := serve(t)
	bustest.Interleave(t, unbroken, logs, "a", "b")
	normalize(t, unbroken)
	want := bodies(t, unbroken)

	events := filepath.Join("jetstream", "jetstream", embedded.PublicAccount, "streams", bustest.Names.Events())
	raw := filepath.Join("jetstream", "jetstream", embedded.InsideAccount, "streams", bustest.Names.Raw())
	for _, c := range []struct {
		name string
		lost []string
	}{{"EVENTS", []string{events}}, {"RAW", []string{raw}}, {"both", []string{events, raw}}} {
		for upTo := 2; upTo < len(logs["a"]); upTo += fixture.Every(3) {
			t.Run(fmt.Sprintf("%s from entry %d", c.name, upTo), func(t *testing.T) {
				dir := t.TempDir()
				openSession(t, dir, logs, upTo)
				for _, at := range c.lost {
					if err := os.CopyFS(filepath.Join(dir, "kept", at), os.DirFS(filepath.Join(dir, at))); err != nil {
						t.Fatal(err)
					}
				}
				openSession(t, dir, logs, len(logs["a"])+len(logs["b"]))
				for _, at := range c.lost {
					if err := os.RemoveAll(filepath.Join(dir, at)); err != nil {
						t.Fatal(err)
					}
					if err := os.Rename(filepath.Join(dir, "kept", at), filepath.Join(dir, at)); err != nil {
						t.Fatal(err)
					}
				}
				// The workers send again what RAW has lost, from their spools.
				got, lost := openSession(t, dir, logs, len(logs["a"])+len(logs["b"]))
				for id := range logs {
					bustest.Diff(t, "run "+id, got[id], want[id])
				}
				if lost == "" {
					t.Error("nothing was lost")
				}
				again, _ := openSession(t, dir, logs, 0)
				for id := range logs {
					bustest.Diff(t, "run "+id+", again", again[id], want[id])
				}
			})
		}
	}
}

// openSession starts a server on dir, appends the first entries of each run that
// RAW does not have, normalizes, and stops. It returns the events of each run,
// and how often the normalizer noticed that a stream had lost its end.
func openSession(
	t *testing.T,
	dir string,
	logs map[string][]runs.Entry,
	upTo int,
) (events map[string][]string, lost string) {
	t.Helper()
	s, err := embedded.StartServer(dir, "127.0.0.1:0", bustest.Names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	b, err := s.Connect(bustest.Patient(t), embedded.OperatorUser, bustest.Names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	limits := bus.DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<28, 1<<28, 1<<26
	if _, err := b.Ensure(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	if bustest.LastSeq(t, b.JetStream(), b.Raw()) > 0 {
		normalize(t, b) // it checks the streams before
	}
	for _, id := range []string{"a", "b"} {
		l, err := b.OpenLog(t.Context(), "codex", id, runs.Mark{})
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range logs[id] {
			m := l.Mark()
			have := m.Exited || e.Kind == runs.Started && m.Started || e.Kind == runs.Out && m.Out > e.Offset
			if i < upTo && !have {
				if err := l.Append(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	normalize(t, b)
	lostRaw, lostEvents, err := timesLost(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	return bodies(t, b), lostRaw + lostEvents
}

// timesLost returns how often the normalizer noticed that RAW and EVENTS had
// lost their end, by its checkpoint; "" is never.
func timesLost(ctx context.Context, b *bus.Bus) (raw, events string, err error) {
	kv, err := b.JetStream().KeyValue(ctx, b.State())
	if err != nil {
		return "", "", err
	}
	e, err := kv.Get(ctx, bus.CheckpointKey)
	if err != nil {
		return "", "", err
	}
	var c bus.Checkpoint
	if err := json.Unmarshal(e.Value(), &c); err != nil {
		return "", "", err
	}
	_, raw, _ = strings.Cut(c.RawID, ".")
	_, events, _ = strings.Cut(c.EventsID, ".")
	return raw, events, nil
}

// bodies returns the events of each run, without their sequences.
func bodies(t *testing.T, b *bus.Bus) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	if err := b.Read(t.Context(), runs.Selection{}, func(s bus.Stored) error {
		out[s.Run] = append(out[s.Run], fmt.Sprintf("%d.%d %s %s", s.Pos.Line, s.Pos.Part, s.Token, s.Body))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// restoration is the situation after the files of a stream were restored from a
// backup: run "a" had not ended when the backup was made, has ended since, and
// the normalizer has been running all the time.
type restoration struct {
	b     *bus.Bus
	log   []runs.Entry // of run "a"
	grown uint64       // how many messages the end of the run added to RUNS
}

// record returns a run's record, nil if there is none or the server has just restarted.
func (r *restoration) record(t *testing.T, run string) *runs.Record {
	t.Helper()
	record, _, err := r.b.Record(t.Context(), run)
	if err != nil {
		return nil
	}
	return record
}

func (r *restoration) ended(t *testing.T) bool {
	t.Helper()
	record := r.record(t, "a")
	return record != nil && record.EndedAt != 0
}

// restore creates a restoration of one stream. The normalizer stores a checkpoint after
// each cutEvery, and compares the streams with it after five times that.
func restore(t *testing.T, account, stream string, cutEvery time.Duration) *restoration {
	t.Helper()
	s, b := serve(t)
	r := &restoration{b: b, log: bustest.CorpusLog(t, "shell-fail", 700)}
	n := newNormalizer(bustest.Connect(t, s, embedded.NormalizerUser))
	n.CutEvery = cutEvery
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	whileDown := func(change func() error) {
		t.Helper()
		if err := s.Restart(change); err != nil {
			t.Fatal(err)
		}
	}
	l, err := b.OpenLog(t.Context(), "codex", "a", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	end := len(r.log) - 1
	for _, e := range r.log[:end] {
		if err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Until(
		t,
		"the run is not recorded",
		func() bool { record := r.record(t, "a"); return record != nil && record.Seq == uint64(end) },
	)
	at := filepath.Join(s.StoreDir(), "jetstream", account, "streams", stream)
	kept := filepath.Join(t.TempDir(), "kept")
	before := bustest.LastSeq(t, b.JetStream(), bucket.Stream(b.Runs()))
	whileDown(func() error { return os.CopyFS(kept, os.DirFS(at)) })
	if err := l.Append(t.Context(), r.log[end]); err != nil {
		t.Fatal(err)
	}
	bustest.Until(t, "the end is not recorded", func() bool { return r.ended(t) })
	r.grown = bustest.LastSeq(t, b.JetStream(), bucket.Stream(b.Runs())) - before
	whileDown(func() error { return errors.Join(os.RemoveAll(at), os.Rename(kept, at)) })
	return r
}

// RUNS is restored to an earlier state while a normalizer runs, and new records
// make it as long as before: the lost records are derived again all the same.
func TestRecordsLostUnderANormalizerAreDerivedAgain(t *testing.T) {
	t.Parallel()
	r := restore(t, embedded.InsideAccount, bucket.Stream(bustest.Names.Runs()), time.Second) // the default
	for i := range r.grown {
		id := fmt.Sprintf("b%d", i)
		l, err := r.b.OpenLog(t.Context(), "codex", id, runs.Mark{})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Append(t.Context(), r.log[0]); err != nil {
			t.Fatal(err)
		}
		bustest.Until(t, "another run is not recorded", func() bool { return r.record(t, id) != nil })
	}
	bustest.Until(t, "the record of the end does not come back", func() bool { return r.ended(t) })
}

// EVENTS or RUNS is restored from a backup while the normalizer runs and no entry
// arrives: the normalizer derives what was lost without being refused first.
func TestStreamRestoredUnderAnIdleNormalizerIsFilledAgain(t *testing.T) {
	t.Parallel()
	_, unbroken := serve(t)
	bustest.Interleave(t, unbroken, map[string][]runs.Entry{"a": bustest.CorpusLog(t, "shell-fail", 700)}, "a")
	normalize(t, unbroken)
	want := bodies(t, unbroken)["a"]
	for _, c := range []struct{ name, account, stream string }{
		{"EVENTS", embedded.PublicAccount, bustest.Names.Events()},
		{"RUNS", embedded.InsideAccount, bucket.Stream(bustest.Names.Runs())},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := restore(t, c.account, c.stream, 500*time.Millisecond)
			bustest.Until(t, "what was lost does not come back", func() bool {
				end, err := r.b.EventsEnd(t.Context(), "codex", "a")
				return err == nil && end.Completion != 0 && r.ended(t)
			})
			bustest.Diff(t, "the events", bodies(t, r.b)["a"], want)
		})
	}
}

// RAW is restored from a backup while the normalizer runs and no entry arrives:
// the normalizer notices, and what is written afterwards is read.
func TestRawRestoredUnderAnIdleNormalizerIsReadOn(t *testing.T) {
	t.Parallel()
	r := restore(t, embedded.InsideAccount, bustest.Names.Raw(), 500*time.Millisecond)
	bustest.Until(
		t,
		"the loss is not noticed",
		func() bool { raw, _, err := timesLost(t.Context(), r.b); return err == nil && raw != "" },
	)
	before := bodies(t, r.b)["a"]
	l, err := r.b.OpenLog(t.Context(), "codex", "b", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), r.log[0]); err != nil { // it reuses the sequence number of
		t.Fatal(err)
	}
	bustest.Until(t, "the other run is not recorded", func() bool { return r.record(t, "b") != nil })
	if !r.ended(t) {
		t.Error("the run that had ended is open again")
	}
	bustest.Diff(t, "the events", bodies(t, r.b)["a"], before)
}

// A power failure loses the end of RUNS alone: the checkpoint is ahead of the records,
// which are updated from RAW.
func TestRecordsThatLostTheirEndAreMadeAgain(t *testing.T) {
	t.Parallel()
	logs := map[string][]runs.Entry{"a": bustest.CorpusLog(t, "shell-fail", 700), "b": bustest.CorpusLog(t, "plan", 333)}
	at := filepath.Join("jetstream", "jetstream", embedded.InsideAccount, "streams", bucket.Stream(bustest.Names.Runs()))
	for _, upTo := range []int{1, 3, len(logs["a"]) - 1} {
		t.Run(fmt.Sprintf("from entry %d", upTo), func(t *testing.T) {
			dir := t.TempDir()
			openSession(t, dir, logs, upTo)
			if err := os.CopyFS(filepath.Join(dir, "kept"), os.DirFS(filepath.Join(dir, at))); err != nil {
				t.Fatal(err)
			}
			want, _ := openSession(t, dir, logs, len(logs["a"])+len(logs["b"]))
			if err := os.RemoveAll(filepath.Join(dir, at)); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(dir, "kept"), filepath.Join(dir, at)); err != nil {
				t.Fatal(err)
			}
			got, _ := openSession(t, dir, logs, 0)
			for id := range logs {
				bustest.Diff(t, "run "+id, got[id], want[id])
			}
			s, err := embedded.StartServer(dir, "127.0.0.1:0", bustest.Names, zap.NewNop())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Stop()
			b := bustest.Connect(t, s, embedded.OperatorUser)
			defer b.Close()
			for id := range logs {
				r, ok, err := b.Record(t.Context(), id)
				if err != nil || !ok {
					t.Fatalf("run %s has no record: %v", id, err)
				}
				if !r.State.Final() {
					t.Errorf("run %s is %s, want a final state", id, r.State)
				}
			}
		})
	}
}
