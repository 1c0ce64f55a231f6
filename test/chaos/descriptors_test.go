package chaos

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/test/fixture"
)

// descriptors is how many a process has open.
func (p *process) descriptors() int {
	p.t.Helper()
	all, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "fd"))
	if err != nil {
		p.t.Fatal(err)
	}
	return len(all)
}

// allow sets how many descriptors a process may have open from now on. What
// linesman starts has the limit that linesman began with.
func (p *process) allow(n uint64) {
	p.t.Helper()
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: 20_000}, nil); err != nil {
		p.t.Skipf("the limits of another process cannot be set: %v", err)
	}
}

// cpu is the time that a process has computed for.
func (p *process) cpu() time.Duration {
	p.t.Helper()
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "stat"))
	if err != nil {
		p.t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(after)
	const utime, stime, tick = 11, 12, 10 * time.Millisecond
	var ticks time.Duration
	for _, i := range []int{utime, stime} {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			p.t.Fatal(err)
		}
		ticks += time.Duration(n)
	}
	return ticks * tick
}

// A process that may open no more files says so, in few words and without
// turning in circles, and goes on once it may.
func TestTooFewDescriptorsOnlyCostTime(t *testing.T) {
	fixture.Long(t, "has two sites without file descriptors")
	t.Parallel()
	for _, role := range []string{"worker-a", "up"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			var s *site
			if role == "up" {
				s = newUp(t, drawn(t, 0), "")
			} else {
				s = newSite(t, drawn(t, 0), "")
				s.url = startNATS(t).url
				s.data = []string{filepath.Join(s.dir, role)}
				for _, r := range []string{"normalizer", "responder", role} {
					s.begin(r)
				}
			}
			p := s.roles[role]
			var agents []string
			for range 2 { // one that goes on while nothing new can be opened
				agents = append(agents, s.run("endless", nil, "pace=20"))
			}
			s.talked(agents, 5_000)
			s.submit("talk", "lines=10")
			s.waiting.Wait() // a connection for requests is there
			before := len(p.said())
			p.allow(uint64(p.descriptors()) + 2)
			for range 8 {
				s.submit("talk", "lines=20", "pace=2")
			}
			p.await(before, "too many open files")
			const long = 5 * time.Second
			words, worked := len(p.said()), p.cpu()
			<-time.After(long) // it must bear it for a while
			if took := p.cpu() - worked; took > long/2 {
				t.Errorf("it computed for %v in %v", took, long)
			} else {
				t.Logf("it computed for %v in %v", took, long)
			}
			if said := p.said()[words:]; strings.Count(said, "\n") > 30 {
				t.Errorf("in %v it says:\n%s", long, said)
			}
			p.allow(10_000)
			for _, key := range agents {
				s.touch(key, "stop")
			}
			s.check()
		})
	}
}
