package chaos

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

const fullRaw = 4 << 20

// newFull is a site with a small RAW and nobody who makes room in it, and two
// agents that have written more than it holds, to the end.
func newFull(t *testing.T) (s *site, keys []string) {
	t.Helper()
	s = newSite(t, drawn(t, 0), "[raw]\nmax_bytes = '4MiB'")
	s.url, s.data = startNATS(t).url, []string{filepath.Join(s.dir, "worker-a")}
	s.begin("normalizer") // it makes the streams
	s.roles["normalizer"].kill()
	for range 2 {
		keys = append(keys, s.run("talk", nil, "pace=0", "bytes=3000000"))
	}
	for _, key := range keys {
		s.mark(key, "end") // the agent goes on all the time
	}
	eventually(t, "nobody waits for room", func() (bool, string) {
		all := ""
		for _, key := range keys { // one of them may just have fitted in
			all += s.direct[key].said()
		}
		return strings.Contains(all, "RAW takes no entries") && strings.Contains(all, "maximum bytes"), ""
	})
	raw, err := s.server().Inside.Stream(t.Context(), s.names.Raw())
	if err != nil {
		t.Fatal(err)
	}
	if state := raw.CachedInfo().State; state.Bytes > fullRaw || state.Bytes < fullRaw/2 {
		t.Fatalf("RAW has %d bytes, and should be full", state.Bytes)
	}
	return s, keys
}

// RAW is full: the agents go on, nothing is dropped, and once the operator has
// made it larger all of it arrives.
func TestRawFullHoldsNothingBackForGood(t *testing.T) {
	t.Parallel()
	s, _ := newFull(t)
	path := filepath.Join(s.dir, "linesman.toml")
	settings, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(settings), "'4MiB'", "'256MiB'", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.begin("normalizer")
	s.check()
}

// RAW is full, and the normalizer comes back: it takes the oldest away that has
// become events. No event is missing in the end.
func TestRawFullGivesWayToWhatHasBecomeEvents(t *testing.T) {
	fixture.Long(t, "fills a stream")
	t.Parallel()
	s, keys := newFull(t)
	s.begin("normalizer")
	e, err := s.settle().Gather(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if e.Raw[0].Seq == 1 {
		t.Error("RAW still has its first entry: nothing gave way")
	}
	for _, key := range keys {
		s.unbroken(e, key)
	}
}

// unbroken compares the events of a run of an agent that ended by itself, and
// its record, with those of a run to which nothing happened.
func (s *site) unbroken(e Evidence, key string) {
	s.t.Helper()
	j := s.journal(key)
	if j.Code == nil || j.Starts != 1 {
		s.t.Fatalf("agent %s was started %d times, and has not ended", key, j.Starts)
	}
	want := Unbroken(key, j.Out.Bytes, runs.Exit{Reason: runs.ReasonExited, Code: j.Code})
	got := e.Told(key)
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			s.t.Errorf("run %s: %d events, want %d", key, len(got), len(want))
			return
		case i >= len(want) || got[i] != want[i]:
			s.t.Errorf("run %s: event %d is another one: %.300s", key, i+1, got[i])
			if i < len(want) {
				s.t.Logf("want %.300s", want[i])
			}
			return
		}
	}
	row, err := runs.ParseHeader(e.Runs[key].Header.Get(bus.HeaderRun), nil)
	if err != nil || !slices.Contains([]runs.State{runs.StateCompleted, runs.StateFailed}, row.State) {
		s.t.Errorf("run %s: its row says %s, %v", key, row.State, err)
	}
}
