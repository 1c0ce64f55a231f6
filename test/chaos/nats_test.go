package chaos

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
)

// natsServer is a server of somebody else: one account, no streams at first.
type natsServer struct {
	t     *testing.T
	store string
	port  int
	url   string
	now   *server.Server
}

func startNATS(t *testing.T) *natsServer {
	t.Helper()
	n := &natsServer{t: t, store: t.TempDir(), port: server.RANDOM_PORT}
	n.start()
	t.Cleanup(func() { n.stop() })
	return n
}

func (n *natsServer) start() {
	n.t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: n.port, JetStream: true, StoreDir: n.store,
		NoSigs: true, NoLog: true, JetStreamMaxStore: 1 << 50}) // not a part of the free space
	if err != nil {
		n.t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		n.t.Fatal("the NATS server does not start")
	}
	n.now, n.url = s, s.ClientURL()
	if n.port == server.RANDOM_PORT {
		n.port = s.Addr().(*net.TCPAddr).Port
	}
}

func (n *natsServer) stop() {
	n.now.Shutdown()
	n.now.WaitForShutdown()
}

// lose stops the server, removes streams from its store, and starts it again.
// It waits until they are there: they may just be in the making again.
func (n *natsServer) lose(streams ...string) bool {
	n.t.Helper()
	for _, name := range streams {
		eventually(n.t, "there is no stream "+name, func() (bool, string) {
			_, err := os.Stat(filepath.Join(n.at(name), "meta.inf"))
			return err == nil, fmt.Sprint(err)
		})
	}
	n.stop()
	for _, name := range streams {
		if err := os.RemoveAll(n.at(name)); err != nil {
			n.t.Fatal(err)
		}
	}
	n.start()
	return true
}

// putBack puts streams back to what they were some time before, as a power
// failure does with what was not synced. In between they must have grown.
func (n *natsServer) putBack(s *site, streams ...string) bool {
	n.t.Helper()
	server := s.server()
	last := func(name string) uint64 {
		info, err := server.Inside.Stream(n.t.Context(), name)
		if err != nil {
			return 0 // not made yet, or the server is just back
		}
		return info.CachedInfo().State.LastSeq
	}
	for _, name := range streams {
		eventually(n.t, "nothing is in "+name, func() (bool, string) { return last(name) > 0, "" })
	}
	n.stop()
	kept := n.t.TempDir()
	for _, name := range streams {
		if err := os.CopyFS(filepath.Join(kept, name), os.DirFS(n.at(name))); err != nil {
			n.t.Fatal(err)
		}
	}
	n.start()
	before := map[string]uint64{}
	for _, name := range streams {
		eventually(n.t, name+" does not come back",
			func() (bool, string) { before[name] = last(name); return before[name] > 0, "" })
	}
	for range 4 { // each gives some records
		s.submit("talk", "lines=40", "pace=10")
	}
	for _, name := range streams {
		eventually(n.t, name+" does not grow", func() (bool, string) { return last(name) > before[name]+3, "" })
	}
	n.stop()
	for _, name := range streams {
		if err := os.RemoveAll(n.at(name)); err != nil {
			n.t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(kept, name), n.at(name)); err != nil {
			n.t.Fatal(err)
		}
	}
	n.start()
	return true
}

// at is where the server keeps a stream.
func (n *natsServer) at(stream string) string {
	return filepath.Join(n.store, "jetstream", "$G", "streams", stream)
}

func (n *natsServer) address() string { return n.now.Addr().String() }

// The faults of a server, and of what lies between it and linesman.
func natsFaults(n *natsServer, p *proxy) []fault {
	return []fault{
		{"NATS gone for a second", func(s *site) bool {
			eventually(s.t, "nobody is there", func() (bool, string) { return p.connected() >= len(s.roles), "" })
			cut := p.cut()
			<-time.After(time.Second) // the outage
			p.mend()
			return cut > 0
		}},
		{"connection reset in the middle of a publish", func(s *site) bool {
			before := p.resetsSoFar()
			p.resetAfter(1 + s.rng.Int64N(64<<10))
			eventually(s.t, "nobody publishes", func() (bool, string) { return p.resetsSoFar() > before, "" })
			return true
		}},
		{"NATS slow", func(s *site) bool {
			before := p.slow(30 * time.Millisecond)
			<-time.After(1500 * time.Millisecond) // how long it lasts
			return p.slow(0) > before
		}},
		{"server restarted with its store", func(*site) bool { return n.lose() }},
		{"EVENTS lost", func(s *site) bool { return n.lose(s.names.Events()) }},
		{"RUNS lost", func(s *site) bool { return n.lose(stream(s.names.Runs())) }},
		{"EVENTS and RUNS lost", func(s *site) bool { return n.lose(s.names.Events(), stream(s.names.Runs())) }},
		{"EVENTS put back", func(s *site) bool { return n.putBack(s, s.names.Events()) }},
		{"RUNS put back", func(s *site) bool { return n.putBack(s, stream(s.names.Runs())) }},
	}
}

func TestFaultsOfNATSLoseAndDoubleNothing(t *testing.T) {
	sieges(t, 5, func(t *testing.T, rng *rand.Rand, rounds uint64) {
		n := startNATS(t)
		p := startProxy(t, n.address())
		siege(newRoles(t, rng, p.url()), rounds, natsFaults(n, p)...)
	})
}

// lossesOfRaw are the streams that are lost: RAW alone, with all others of its account, or with all else.
var lossesOfRaw = func() (all []loss) {
	n := bus.Names{Prefix: bus.DefaultPrefix}
	streams := []string{n.Raw(), n.Events(), n.Work(), stream(n.Runs()), stream(n.State()), stream(n.Threads()),
		stream(n.Requests()), stream(n.Folds())}
	inside := slices.DeleteFunc(slices.Clone(streams), func(name string) bool { return name == n.Events() })
	return []loss{{"RAW alone", streams[:1]}, {"all of the inside account", inside}, {"all streams", streams}}
}()

type loss struct {
	name string
	lost []string
}

// RAW is lost, alone or with others, while agents write. What has ended is in
// EVENTS, if that is there; what goes on is in the spools, and is told whole.
func TestRawLostIsFilledAgainFromTheSpools(t *testing.T) {
	t.Parallel()
	for _, c := range lossesOfRaw {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := startNATS(t)
			s := newRoles(t, drawn(t, 0), n.url)
			ended := s.run("talk", nil, "lines=20", "pace=1")
			s.direct[ended].code()
			var open []string
			for range 4 {
				open = append(open, s.run("endless", nil, "pace=40"))
			}
			server := s.server()
			written := func(what string) { // all of them have written more, and it was read
				for _, key := range open {
					want := int64(s.journal(key).Out.Sure) + 10_000
					s.record(server, key, what, func(r runs.Record) bool { return r.Bytes > want })
				}
			}
			written("read before the loss")
			n.lose(c.lost...)
			written("read after the loss")
			for _, key := range open {
				s.touch(key, "stop")
			}
			e, err := s.settle().Gather(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range open {
				s.unbroken(e, key)
				if l := e.log(key); l.started != 1 || !bytes.Equal(l.out, s.journal(key).Out.Bytes) {
					t.Errorf("run %s: RAW has %d start entries and %d bytes, want 1 and those of the agent", key, l.started,
						len(l.out))
				}
			}
			if len(c.lost) == 1 { // else its record is lost
				s.unbroken(e, ended)
			}
		})
	}
}
