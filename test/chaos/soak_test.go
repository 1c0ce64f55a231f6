package chaos

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/runs"
)

var soak = flag.Duration("chaos.soak", 0, "how long TestSoakStaysFlat lasts; 0: it is skipped")

// resident is how many bytes of memory a process has.
func (p *process) resident() int64 {
	p.t.Helper()
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "status"))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, is := strings.CutPrefix(line, "VmRSS:"); is {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				p.t.Fatal(err)
			}
			return kib << 10
		}
	}
	p.t.Fatal("no VmRSS")
	return 0
}

// threads is how many threads of the system it has.
func (p *process) threads() int {
	p.t.Helper()
	all, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "task"))
	if err != nil {
		p.t.Fatal(err)
	}
	return len(all)
}

// load keeps so many runs going at once, and others that come and go.
type load struct {
	s    *site
	keys []string
}

func (s *site) load(n int) *load {
	l := &load{s: s}
	for range n {
		l.keys = append(l.keys, fmt.Sprintf("endless-%d.1", s.made+1))
		s.submit("endless", "pace=400")
	}
	return l
}

// all waits until each of the lasting ones has written.
func (l *load) all() {
	for _, key := range l.keys {
		l.s.mark(key, "out")
	}
}

func (l *load) stop() {
	for _, key := range l.keys {
		l.s.touch(key, "stop")
	}
}

// peaks are the most that each role had of some things, in one part of the time.
type peaks map[string]struct {
	resident             int64
	descriptors, threads int
}

func (p peaks) take(s *site, roles []string) {
	for _, role := range roles {
		r, most := s.roles[role], p[role]
		most.resident = max(most.resident, r.resident())
		most.descriptors, most.threads = max(most.descriptors, r.descriptors()), max(most.threads, r.threads())
		p[role] = most
	}
}

// stay compares with the last part.
func (p peaks) stay(t *testing.T, last peaks) {
	t.Helper()
	for role, m := range p {
		l := last[role]
		t.Logf("%s: %d MiB in the middle and %d at the end; %d and %d descriptors; %d and %d threads",
			role, m.resident>>20, l.resident>>20, m.descriptors, l.descriptors, m.threads, l.threads)
		if l.resident > m.resident*5/4+(16<<20) {
			t.Errorf("the %s grows: %d bytes in the middle, %d at the end", role, m.resident, l.resident)
		}
		if l.descriptors > m.descriptors+50 || l.threads > m.threads+20 {
			t.Errorf("the %s has ever more open: %+v in the middle, %+v at the end", role, m, l)
		}
	}
}

// Two hundred runs at once, for as long as was asked for, with kills and an
// outage: what each role takes of memory in the end is what it took in the
// middle, what it has open is what it had open before, and nothing is lost.
func TestSoakStaysFlat(t *testing.T) {
	if *soak == 0 {
		t.Skip("it takes minutes: -chaos.soak=4m, as `make soak` does")
	}
	const many = 200
	rng := drawn(t, 0)
	n := startNATS(t)
	p := startProxy(t, n.address())
	s := newSite(t, rng, "")
	path := filepath.Join(s.dir, "linesman.toml")
	settings, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(settings), "max_runs = 4", fmt.Sprintf("max_runs = %d",
			many+20), 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.url, s.data = p.url(), []string{filepath.Join(s.dir, "worker-a")}
	roles := []string{"normalizer", "responder", "worker-a"}
	for _, role := range roles {
		s.begin(role)
	}
	steady := s.load(many)
	s.waiting.Wait()
	steady.all()

	// In the first quarter everybody is killed once, and NATS is away.
	killed := map[string]bool{}
	quarter := time.Now().Add(*soak / 4)
	for i := 0; time.Now().Before(quarter) || i < len(roles); i++ {
		role := roles[i%len(roles)]
		killed[role] = s.killRole(role) || killed[role]
		s.submit("talk", "lines=20", "pace=5")
		<-time.After(5 * time.Second)
	}
	away := min(time.Minute, *soak/8)
	cut := p.cut()
	<-time.After(away)
	p.mend()
	t.Logf("killed %v; NATS was away for %v, of %d connections", killed, away, cut)

	// From here on each role is one process: what it has open at first it has
	// open at last, and its memory does not grow.
	begin := time.Now()
	length := *soak * 5 / 8
	middle, last := peaks{}, peaks{}
	shims := 0
	for i := 0; time.Since(begin) < length; i++ {
		for range 2 {
			s.submit("talk", "lines=20", "pace=5")
		}
		if i%10 == 9 && killShim.strike(s) {
			shims++
		}
		<-time.After(time.Second)
		switch part := time.Since(begin) * 100 / length; {
		case part >= 30 && part < 50:
			middle.take(s, roles)
		case part >= 80:
			last.take(s, roles)
		}
	}
	middle.stay(t, last)
	for _, key := range steady.keys {
		s.may(key, runs.ReasonLost) // some of the shims were killed
	}
	steady.stop()
	e := s.check()
	server := s.server()
	for _, stream := range []string{s.names.Raw(), s.names.Events(), stream(s.names.Runs()), stream(s.names.State())} {
		info, err := server.Inside.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		c := info.CachedInfo()
		if c.Config.MaxBytes <= 0 || c.State.Bytes > uint64(c.Config.MaxBytes) {
			t.Errorf("%s has %d bytes of %d", stream, c.State.Bytes, c.Config.MaxBytes)
		}
	}
	if left, err := os.ReadDir(filepath.Join(s.data[0], "runs")); err != nil || len(left) > 0 {
		t.Errorf("spools are left: %v %v", left, err)
	}
	// Without runs everybody has again what he had without runs.
	fresh := map[string]int{}
	for _, role := range roles {
		before := s.roles[role].descriptors()
		s.roles[role].kill()
		s.begin(role)
		fresh[role] = s.roles[role].descriptors()
		if before > fresh[role]+10 {
			t.Errorf("the %s has %d descriptors open after all runs, and %d after a start", role, before, fresh[role])
		}
		t.Logf("%s: %d descriptors after all runs, %d after a start", role, before, fresh[role])
	}
	t.Logf("%d runs, %d entries, %d events; %d shims were killed", len(e.Runs), len(e.Raw), len(e.Events), shims)
}
