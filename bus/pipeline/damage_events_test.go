package pipeline

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// storeLogs makes a data directory with the events of runs, one after the other, and calls change before the server
// stops. It returns the stored events with their sequences, as they were before the change.
func storeLogs(t *testing.T, logs map[string][]runs.Entry, change func(*bus.Bus), order ...string) (string, []string) {
	t.Helper()
	dir := t.TempDir()
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
	if _, err := b.Ensure(t.Context(), bus.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	for _, id := range order {
		bustest.Interleave(t, b, map[string][]runs.Entry{id: logs[id]}, id)
		normalize(t, b)
	}
	events := numbered(t, b)
	change(b)
	return dir, events
}

// numbered returns the stored events, with their sequences.
func numbered(t *testing.T, b *bus.Bus) (all []string) {
	t.Helper()
	if err := b.Read(t.Context(), runs.Selection{}, func(s bus.Stored) error {
		all = append(all, fmt.Sprintf("%d %s %s %s", s.Seq, s.Run, s.Token, s.Body))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// newestBlock returns the newest block of a stream, if it has less than ten.
func newestBlock(t *testing.T, dir, account, stream string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "jetstream", "jetstream", account, "streams", stream, "msgs", "*.blk"))
	if err != nil || len(all) == 0 {
		t.Fatalf("%v, %v", all, err)
	}
	return slices.Max(all)
}

// flipText damages the event of a run that has its text, and returns the other ones of all.
func flipText(t *testing.T, dir, run string, all []string) (others []string) {
	t.Helper()
	i := slices.IndexFunc(all, func(event string) bool { return strings.Contains(event, " "+run+" text_output ") })
	if i < 0 {
		t.Fatalf("run %s has no text: %q", run, all)
	}
	block := newestBlock(t, dir, embedded.PublicAccount, bustest.Names.Events())
	b, err := os.ReadFile(block)
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(strings.SplitN(all[i], " ", 4)[3])
	at := bytes.Index(b, body)
	if at < 0 || bytes.LastIndex(b, body) != at {
		t.Fatalf("%s is not in the block, or twice", body)
	}
	b[at+len(body)/2] ^= 1
	if err := os.WriteFile(block, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return slices.Delete(slices.Clone(all), i, i+1)
}

// ofRun returns the events of a run.
func ofRun(all []string, run string) (of []string) {
	for _, event := range all {
		if strings.Fields(event)[1] == run {
			of = append(of, event)
		}
	}
	return of
}

func twoLogs(t *testing.T) map[string][]runs.Entry {
	t.Helper()
	return map[string][]runs.Entry{"a": bustest.CorpusLog(t, "shell-fail", 700), "b": bustest.CorpusLog(t, "plan", 333)}
}

// removeRecord removes the record of a run, as cleanup does.
func removeRecord(t *testing.T, b *bus.Bus, run string) {
	t.Helper()
	e, err := b.RunEntry(t.Context(), run)
	if err == nil {
		err = b.RemoveRun(t.Context(), run, e.Revision)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// What deletes the events of a run is behind all events. It is not cut off with damaged ones.
func TestForgottenRunsDoNotComeBackWithDamage(t *testing.T) {
	t.Parallel()
	dir, events := storeLogs(t, twoLogs(t), func(b *bus.Bus) {
		if _, err := b.Forget(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}, "a", "b")
	want := flipText(t, dir, "b", ofRun(events, "b"))
	d := &damaged{dir: dir, stream: bustest.Names.Events()}
	got := numbered(t, d.open(t))
	bustest.Diff(t, "events", got, want)
	if !d.said() {
		t.Error("nothing is said of it:", d.text())
	}
}

// The events of a run whose record was removed are not derived again, so they are not cut off.
func TestDamageLeavesEventsOfRunsWithoutARecord(t *testing.T) {
	t.Parallel()
	dir, events := storeLogs(t, twoLogs(t), func(b *bus.Bus) {
		removeRecord(t, b, "a")
	}, "a", "b")
	want := flipText(t, dir, "a", events)
	d := &damaged{dir: dir, stream: bustest.Names.Events()}
	got := numbered(t, d.open(t))
	bustest.Diff(t, "events", got, want)
	if !d.said() {
		t.Error("nothing is said of it:", d.text())
	}
}

// A record that was removed prevents nothing if RAW has no entries of its run any more: nothing of it is cut off.
func TestRemovedRecordsOfExpiredRunsPreventNothing(t *testing.T) {
	t.Parallel()
	dir, events := storeLogs(t, twoLogs(t), func(b *bus.Bus) {
		removeRecord(t, b, "a")
		raw, err := b.Stream(t.Context(), b.Raw())
		if err != nil {
			t.Fatal(err)
		}
		first, err := raw.GetMsg(t.Context(), 1, jetstream.WithGetMsgSubject(b.RawSubject("codex", "b")))
		if err == nil {
			err = raw.Purge(t.Context(), jetstream.WithPurgeSequence(first.Sequence))
		}
		if err != nil {
			t.Fatal(err)
		}
	}, "a", "b")
	flipText(t, dir, "b", events)
	d := &damaged{dir: dir, stream: bustest.Names.Events()}
	b := d.open(t)
	normalize(t, b)
	bustest.Diff(t, "events", numbered(t, b), events)
	if !d.said() {
		t.Error("nothing is said of it:", d.text())
	}
}

// A power failure tears the ends of RAW and EVENTS. The worker sends again what RAW lost, and the events of it follow.
func TestTornEndsAreNotSaidToBeMissing(t *testing.T) {
	t.Parallel()
	logs := twoLogs(t)
	dir, _ := storeLogs(t, logs, func(*bus.Bus) {}, "a", "b")
	_, unbroken := serve(t)
	for _, id := range []string{"a", "b"} {
		bustest.Interleave(t, unbroken, map[string][]runs.Entry{id: logs[id]}, id)
	}
	normalize(t, unbroken)
	want := bodies(t, unbroken)
	for account, stream := range map[string]string{
		embedded.InsideAccount: bustest.Names.Raw(), embedded.PublicAccount: bustest.Names.Events(),
	} {
		block := newestBlock(t, dir, account, stream)
		if err := os.Truncate(block, size(t, block)-10); err != nil {
			t.Fatal(err)
		}
	}
	d := &damaged{dir: dir, stream: bustest.Names.Events()}
	b := d.open(t)
	if said := d.text(); strings.Contains(said, "events are missing") || !d.said() {
		t.Error(said)
	}
	l, err := b.OpenLog(t.Context(), "codex", "b", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Append(t.Context(), logs["b"][len(logs["b"])-1]); err != nil {
		t.Fatal(err)
	}
	normalize(t, b)
	for id := range logs {
		bustest.Diff(t, "run "+id, bodies(t, b)[id], want[id])
	}
}
