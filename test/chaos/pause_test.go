package chaos

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"
)

// mostTakeover is how long a standby may take from the moment that the
// normalizer at work falls silent.
const mostTakeover = 5 * time.Second

// A normalizer is stopped in the middle of its work, and goes on once another
// one has taken its place: it still believes that it holds the lease, and the
// fences must refuse what it has in its hands.
func TestPausedNormalizerIsRefusedWhenItComesBack(t *testing.T) {
	fixture.Long(t, "pauses a normalizer for longer than its lease")
	t.Parallel()
	s, canary := newRoles(t, drawn(t, 0), startNATS(t).url), fixture.StartCanary(t)
	s.begin("standby")
	var agents []string
	for range 4 {
		agents = append(agents, s.run("endless", nil, "pace=20"))
	}
	server := s.server()
	grow := func(what string) { // EVENTS is written to
		t.Helper()
		from, want := s.stored(server), 100+s.rng.Uint64N(200)
		eventually(t, "no events "+what, func() (bool, string) {
			now := s.stored(server)
			return now >= from+want, fmt.Sprintf("%d, and there were %d", now, from)
		})
	}
	grow("at first")
	var took []time.Duration
	for range 3 {
		active, other := s.atWork("normalizer", "standby")
		from, mine := len(s.roles[other].said()), len(s.roles[active].said())
		paused := time.Now()
		if !s.roles[active].signal(syscall.SIGSTOP) {
			t.Fatalf("the %s has ended", active)
		}
		s.roles[other].await(from, "normalizer reading")
		took = append(took, time.Since(paused).Round(time.Millisecond))
		grow("from the " + other)
		if !s.roles[active].signal(syscall.SIGCONT) {
			t.Fatalf("the %s has ended", active)
		}
		s.roles[active].await(mine, "starting over from the streams") // it was refused
		grow("with the " + active + " back")
	}
	for _, key := range agents {
		s.touch(key, "stop")
	}
	e := s.check()
	t.Logf("%d entries, %d events; taken over after %v", len(e.Raw), len(e.Events), took)
	canary.Within("a standby took over", slices.Min(took), mostTakeover) // the others count what else the machine did
}

// atWork says which of two normalizers began last: the fence may have refused
// either of them, so it need not be the one that took over.
func (s *site) atWork(one, two string) (active, other string) {
	began := func(role string) (at string) {
		for line := range strings.Lines(s.roles[role].said()) {
			if strings.Contains(line, "normalizer reading") {
				at, _, _ = strings.Cut(line, " ")
			}
		}
		return at
	}
	if began(one) > began(two) {
		return one, two
	}
	return two, one
}

// stored is the last sequence of EVENTS.
func (s *site) stored(server Server) uint64 {
	s.t.Helper()
	stream, err := server.Public.Stream(s.t.Context(), s.names.Events())
	if err != nil {
		s.t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}
