package daemon

import (
	"os"
	"strings"
	"testing"

	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

func TestSeparateWorkersTellTheirRoots(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	data, one, two := t.TempDir(), t.TempDir(), t.TempDir()
	s := &service{config: Config{Settings: config.Config{DataDir: data}, rules: func() (rules launch.Rules, known bool) {
		return rules, false
	}}}
	s.config.Settings.Work.Queue = "q"
	worker := func(host string, roots ...string) runtable.Worker {
		return runtable.Worker{Heartbeat: runs.Heartbeat{Name: "w", Queue: "q", Host: host, Roots: roots}}
	}
	elsewhere := worker("another", one)
	elsewhere.Queue = "other"
	for name, c := range map[string]struct {
		workers []runtable.Worker
		dir     string
		refused bool
	}{
		"no worker":                    {nil, "/", false},
		"outside of both":              {[]runtable.Worker{worker(host, one), worker(host, two), elsewhere}, "/", true},
		"in one":                       {[]runtable.Worker{worker(host, one), worker(host, two)}, two, false},
		"a worker on another machine":  {[]runtable.Worker{worker(host, one), worker("another", two)}, "/", false},
		"a worker that tells no roots": {[]runtable.Worker{worker(host, one), worker(host)}, "/", false},
		"a missing directory":          {[]runtable.Worker{worker(host, one)}, "/nowhere/at/all", true},
		"one that is missing here":     {[]runtable.Worker{worker("another", one)}, "/nowhere/at/all", false},
	} {
		err := s.outside(s.config.Settings.Work.Queue, runs.Task{Attributes: runs.Attributes{Dir: c.dir}}, c.workers)
		if (err != nil) != c.refused {
			t.Errorf("%s: %v, want refused %t", name, err, c.refused)
		}
		if c.refused && c.dir == "/" && (!strings.Contains(err.Error(), "work.roots: ") ||
			!strings.Contains(err.Error(), one) || !strings.Contains(err.Error(), two)) {
			t.Errorf("%s: roots are not named: %v", name, err)
		}
	}
}
