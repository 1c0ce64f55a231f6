package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/runs"
)

// fault is something bad that is done to a site under load. To add one, write
// its strike and name it in a siege below.
type fault struct {
	name string
	// strike does it, mends what does not mend itself, notes with site.may what
	// it allows, and reports whether it hit anything.
	strike func(*site) bool
}

var (
	killUp         = fault{"kill up", func(s *site) bool { return s.attached() && s.killRole("up") }}
	killNormalizer = fault{"kill normalizer", func(s *site) bool { return s.killRole("normalizer") }}
	killResponder  = fault{"kill responder", func(s *site) bool { return s.killRole("responder") }}
	killWorker     = fault{"kill worker", func(s *site) bool {
		return s.killRole([]string{"worker-a", "worker-b"}[s.rng.IntN(2)])
	}}
	killBoth = fault{"kill worker and normalizer", func(s *site) bool {
		worker, normalizer := s.roles["worker-a"].kill(), s.roles["normalizer"].kill()
		s.begin("normalizer")
		s.begin("worker-a")
		return worker && normalizer
	}}
	killRun = fault{"kill run", func(s *site) bool {
		for _, key := range slices.Sorted(maps.Keys(s.direct)) {
			if s.direct[key].kill() {
				s.may(key, runs.ReasonLost) // where its agent was not started yet, nobody else does
				return true
			}
		}
		return false
	}}
	killShim = fault{"kill shim", func(s *site) bool {
		return s.killOne(s.shims, func(p stranger) { s.may(filepath.Base(p.argv[2]), runs.ReasonLost) })
	}}
	killAgent = fault{"kill agent", func(s *site) bool {
		agents := func() []stranger { return strangers(s.t, agent, s.journals) }
		return s.killOne(agents, func(p stranger) {
			key, _, _ := strings.Cut(p.argv[len(p.argv)-1], " ")
			s.may(key)
		})
	}}
)

// killRole kills a role of the site and starts it again.
func (s *site) killRole(role string) bool {
	fired := s.roles[role].kill()
	s.begin(role)
	return fired
}

// killOne kills one of those that live, once there is one. What is allowed then
// is noted first: the end may come before the kill returns. All that was
// submitted may have ended before, so more is, until one is met.
func (s *site) killOne(who func() []stranger, note func(stranger)) (fired bool) {
	const lives = 3 * time.Second
	more := time.Now().Add(lives)
	eventually(s.t, "there is nobody to kill", func() (bool, string) {
		if all := who(); len(all) > 0 {
			victim := all[s.rng.IntN(len(all))]
			note(victim)
			fired = victim.kill(s.t)
		} else if time.Now().After(more) {
			more = time.Now().Add(2 * lives)
			s.submit("talk", "lines=60", fmt.Sprintf("pace=%d", lives.Milliseconds()/60))
		}
		return fired, ""
	}, s.standing)
	return fired
}

// attached waits until each `run` has found its server. One that finds none has
// a server of its own, on the data directory that `up` must have again.
func (s *site) attached() bool {
	for key, p := range s.direct {
		eventually(s.t, "run "+key+" does not begin", func() (bool, string) {
			said := p.said()
			return !p.alive() || strings.Contains(said, "linesman: run "), said
		})
	}
	return true
}

// siege keeps a site under load while it strikes so many times, at moments and
// with faults that are drawn from the seed, each fault in its turn. In the end
// all that was asked for must have come out as if nothing had happened.
func siege(s *site, rounds uint64, faults ...fault) {
	s.t.Helper()
	fired := map[string]int{}
	var turn []fault
	for range rounds {
		for range 4 {
			s.submit("talk", fmt.Sprintf("lines=%d", 10+s.rng.IntN(40)), fmt.Sprintf("pace=%d", s.rng.IntN(30)))
		}
		s.run("talk", nil, "lines=60", "pace=15")
		if len(turn) == 0 {
			turn = slices.Clone(faults)
			s.rng.Shuffle(len(turn), func(i, j int) { turn[i], turn[j] = turn[j], turn[i] })
		}
		<-time.After(time.Duration(s.rng.Int64N(int64(400 * time.Millisecond)))) // the moment
		if turn[0].strike(s) {
			fired[turn[0].name]++
		}
		turn = turn[1:]
		if s.t.Failed() {
			return
		}
	}
	struck := time.Now()
	e := s.check()
	s.t.Logf("all had ended after %v", time.Since(struck).Round(time.Millisecond))
	s.t.Logf("%d runs, %d entries, %d events; fired: %v", len(e.Runs), len(e.Raw), len(e.Events), fired)
	for _, f := range faults {
		if rounds >= uint64(len(faults)) && fired[f.name] == 0 {
			s.t.Errorf("%q never hit anything", f.name)
		}
	}
}

// sieges makes one siege after the other, each on a fresh site, until there
// were as many rounds as were asked for.
func sieges(t *testing.T, standard uint64, one func(t *testing.T, rng *rand.Rand, rounds uint64)) {
	t.Parallel()
	const most = 25 // rounds in one siege: what it leaves is all read at once
	left := *rounds
	if left == 0 {
		left = standard
	}
	for n := uint64(0); left > 0; n++ {
		now := min(left, most)
		left -= now
		ok := t.Run(fmt.Sprint(n), func(t *testing.T) { one(t, drawn(t, 0), now) })
		if !ok {
			return // one is enough to look at
		}
	}
}

func TestKilledRolesLoseAndDoubleNothing(t *testing.T) {
	sieges(t, 7, func(t *testing.T, rng *rand.Rand, rounds uint64) {
		siege(newRoles(t, rng, startNATS(t).url), rounds,
			killWorker, killNormalizer, killResponder, killBoth, killRun, killShim, killAgent)
	})
}

func TestKilledUpLosesAndDoublesNothing(t *testing.T) {
	sieges(t, 6, func(t *testing.T, rng *rand.Rand, rounds uint64) {
		siege(newUp(t, rng, ""), rounds, killUp, killShim, killAgent, killRun)
	})
}
