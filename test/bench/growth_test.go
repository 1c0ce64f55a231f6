package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/pipeline"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/bench/corpus"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// site is a server with a history, on a directory.
type site struct {
	b      *testing.B
	dir    string
	server *embedded.Server
}

var names = bus.Names{Prefix: bus.DefaultPrefix}

func (s *site) start() time.Duration {
	began := time.Now()
	var err error
	if s.server, err = embedded.StartServer(s.dir, "127.0.0.1:0", names, zap.NewNop()); err != nil {
		s.b.Fatal(err)
	}
	return time.Since(began)
}

func (s *site) connect(user string) *bus.Bus {
	s.b.Helper()
	c, err := s.server.Connect(s.b.Context(), user, names, zap.NewNop())
	if err != nil {
		s.b.Fatal(err)
	}
	return c
}

// fill writes so many runs of so many lines.
func (s *site) fill(runsOf, lines int) {
	on := s.connect(embedded.OperatorUser)
	defer on.Close()
	limits := bus.DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 16<<30, 16<<30, 4<<30
	if _, err := on.Ensure(s.b.Context(), limits); err != nil {
		s.b.Fatal(err)
	}
	part := corpus.Small(10_000)
	for i := range runsOf {
		l, err := on.OpenLog(s.b.Context(), "codex", fmt.Sprintf("r-%d", i), runs.Mark{})
		if err != nil {
			s.b.Fatal(err)
		}
		for left := lines; left > 0; left -= 10_000 {
			if left < 10_000 {
				part = corpus.Small(left)
			}
			for at := 0; at < len(part); at += runs.MaxChunk {
				e := runs.Entry{Kind: runs.Out, Time: 1, Offset: l.Mark().Out, Body: part[at:min(at+runs.MaxChunk, len(part))]}
				if err := l.Append(s.b.Context(), e); err != nil {
					s.b.Fatal(err)
				}
			}
		}
	}
}

// normalizer starts a normalizer, and returns when it has checked the streams, and with
// all when it has read all of RAW.
func (s *site) normalizer(all bool) time.Duration {
	on := s.connect(embedded.NormalizerUser)
	defer on.Close()
	ctx, cancel := context.WithCancel(s.b.Context())
	defer cancel()
	n := &pipeline.Normalizer{Bus: on, Out: names, Backends: []normalizer.Backend{codex.Backend{}}, Log: zap.NewNop()}
	if all {
		n.Until = bustest.LastSeq(s.b, on.JetStream(), names.Raw())
	} else {
		n.Ready = cancel
	}
	began := time.Now()
	if err := n.Run(ctx); err != nil {
		s.b.Fatal(err)
	}
	return time.Since(began)
}

// clearLease removes the lease, as the daemon does when its server has started. A lease that was
// released before the kill may expire while the next normalizer takes it, which is then half a
// second later.
func (s *site) clearLease() {
	on := s.connect(embedded.OperatorUser)
	defer on.Close()
	if err := on.ClearLease(s.b.Context()); err != nil {
		s.b.Fatal(err)
	}
}

// responder starts a table of runs, and returns when it has read all of them.
func (s *site) responder() time.Duration {
	on := s.connect(embedded.ResponderUser)
	defer on.Close()
	ctx, cancel := context.WithCancel(s.b.Context())
	began := time.Now()
	table := runtable.New(runtable.Config{Streams: on, Queue: bus.DefaultQueue, LostAfter: time.Minute})
	done := make(chan error, 1)
	go func() { done <- table.Run(ctx) }()
	if err := table.Ready(ctx, time.Minute); err != nil {
		s.b.Fatal(err)
	}
	took := time.Since(began)
	cancel()
	if err := <-done; err != nil {
		s.b.Fatal(err)
	}
	return took
}

// replay reads all events, and returns how many there are.
func (s *site) replay() (events int, took time.Duration) {
	on := s.connect(embedded.SubscriberUser)
	defer on.Close()
	began := time.Now()
	if err := on.Read(s.b.Context(), runs.Selection{}, func(bus.Stored) error { events++; return nil }); err != nil {
		s.b.Fatal(err)
	}
	return events, time.Since(began)
}

func (s *site) rebuild() time.Duration {
	on := s.connect(embedded.OperatorUser)
	defer on.Close()
	began := time.Now()
	found, err := pipeline.Rebuild(s.b.Context(), on, []normalizer.Backend{codex.Backend{}}, 0, zap.NewNop())
	if err != nil || len(found.Differences) > 0 {
		s.b.Fatalf("rebuild: %v, %v", found.Differences, err)
	}
	return time.Since(began)
}

// mostRebuilt is the longest history that is derived again: that takes four times as long as
// to normalize it.
const mostRebuilt = 1_000_000

// BenchmarkGrowthOfEvents measures a history of ten runs with more and more lines: 10,000, and
// ten times as many up to GROWTH_LINES, default 100,000. The starts after a stop, and after a
// kill, of server, normalizer and responder are compared with those of the shortest history;
// the normalizer's rate, replay and rebuild by the time, and the CPU time of all, per event.
// With GROWTH_LINES there is also a kill of a server that is idle, until when it may take two
// and a half minutes for each length. 10 million lines need 16 GB below TMPDIR.
func BenchmarkGrowthOfEvents(b *testing.B) {
	most, quiet := 100_000, false
	if text := os.Getenv("GROWTH_LINES"); text != "" {
		var err error
		if most, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
		quiet = true
	}
	for b.Loop() {
		first := map[string]float64{}
		for lines := 10_000; lines <= most; lines *= 10 {
			report := func(name string, v float64) {
				if first[name] == 0 {
					first[name] = v
					b.ReportMetric(v*1e6, name+"-µs")
					return
				}
				b.ReportMetric(v/first[name], fmt.Sprintf("%s-%dk/10k", name, lines/1000))
			}
			grown(b, lines, quiet, report)
		}
	}
	b.ReportMetric(0, "ns/op")
}

func grown(b *testing.B, lines int, quiet bool, report func(name string, seconds float64)) {
	s := &site{b: b, dir: b.TempDir()}
	s.start()
	s.fill(10, lines/10)
	events := lines // one each in the small corpus, nearly
	perEvent := func(name string, do func() time.Duration) {
		before := processorTime(b)
		took := do()
		used := processorTime(b) - before
		report(name, took.Seconds()/float64(events))
		report(name+"-cpu", used.Seconds()/float64(events))
		b.Logf("%d lines: %s took %v, %v of CPU time", lines, name, took, used)
	}
	perEvent("normalize", func() time.Duration { return s.normalizer(true) })
	s.killed("killed", report)
	perEvent("replay", func() (took time.Duration) {
		events, took = s.replay()
		return took
	})
	if quiet {
		fixture.Eventually(b, 10*time.Minute, "the server does not store its indexes", s.indexed)
		s.killed("killed-idle", report)
	}
	if lines <= mostRebuilt {
		perEvent("rebuild", s.rebuild)
	}
	s.server.Stop()
	s.starts("stopped", report)
	if err := os.RemoveAll(s.dir); err != nil {
		b.Fatal(err)
	}
}

// killed measures the starts from what a kill would leave now: a copy of the directory.
func (s *site) killed(name string, report func(name string, seconds float64)) {
	c := &site{b: s.b, dir: s.dir + "-copy"}
	if err := os.CopyFS(c.dir, os.DirFS(s.dir)); err != nil {
		s.b.Fatal(err)
	}
	c.starts(name, report)
	if err := os.RemoveAll(c.dir); err != nil {
		s.b.Fatal(err)
	}
}

// starts measures the starts of server, normalizer and responder, and stops them.
func (s *site) starts(name string, report func(name string, seconds float64)) {
	started := func(role string, took time.Duration) {
		s.b.Logf("%s: the %s started in %v", name, role, took)
		report(name+"-"+role, took.Seconds())
	}
	started("server", s.start())
	s.clearLease()
	started("normalizer", s.normalizer(false))
	started("responder", s.responder())
	s.server.Stop()
}

// indexed reports whether the server has stored the indexes of RAW and EVENTS after their
// last messages. It does so every two to two and a half minutes.
func (s *site) indexed() bool {
	for _, stream := range []string{names.Raw(), names.Events()} {
		found, err := filepath.Glob(filepath.Join(s.server.StoreDir(), "*", "*", "streams", stream, "msgs", "*"))
		if err != nil || len(found) == 0 {
			s.b.Fatalf("no files of %s: %v", stream, err)
		}
		var index, newest time.Time
		for _, file := range found {
			info, err := os.Stat(file)
			switch {
			case err != nil:
				return false // a block may go meanwhile
			case filepath.Base(file) == "index.db":
				index = info.ModTime()
			case filepath.Ext(file) == ".blk" && info.ModTime().After(newest):
				newest = info.ModTime()
			}
		}
		if !index.After(newest) {
			return false
		}
	}
	return true
}

// processorTime returns the CPU time that the process, with its server, has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
