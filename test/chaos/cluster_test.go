package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/test/fixture"
)

// newClustered starts two normalizers, a responder and two workers on a
// cluster, with three copies of every stream.
func newClustered(t *testing.T, rng *rand.Rand, urls string) *site {
	t.Helper()
	s := newSite(t, rng, "replicas = 3")
	s.url = urls
	s.data = []string{filepath.Join(s.dir, "worker-a"), filepath.Join(s.dir, "worker-b")}
	for _, role := range []string{"normalizer", "standby", "responder", "worker-a", "worker-b"} {
		s.begin(role)
	}
	return s
}

// clusterFaults are what can befall the nodes of a cluster.
func clusterFaults(c *cluster, server Server) []fault {
	names := server.Names
	killLeader := func(stream string) fault {
		return fault{"kill leader of " + stream, func(s *site) bool {
			n := c.leader(server, stream)
			s.burden()
			fired := n.kill()
			c.goesOn(s, server, "without the leader of "+stream)
			c.start(n)
			c.healthy()
			return fired
		}}
	}
	return []fault{
		killLeader(names.Raw()),
		killLeader(names.Events()),
		killLeader(stream(names.Runs())),
		killLeader(names.Work()),
		{"node cut off", func(s *site) bool {
			n := c.leader(server, names.Raw())
			s.burden()
			fired := n.cutOff()
			defer n.rejoin()
			c.otherLeader(n, names.Raw())
			<-time.After(time.Duration(s.rng.Int64N(int64(8 * time.Second)))) // how long it lasts: after ten seconds it knows
			n.rejoin()
			c.goesOn(s, server, "after "+n.name+" was cut off")
			c.healthy()
			return fired
		}},
		{"node stopped and continued", func(s *site) bool {
			n := c.leader(server, names.Raw())
			s.burden()
			fired := n.signal(syscall.SIGSTOP)
			c.otherLeader(n, names.Raw())
			fired = n.signal(syscall.SIGCONT) && fired // with all that it believes of itself
			c.goesOn(s, server, "after "+n.name+" was stopped")
			c.healthy()
			return fired
		}},
		{"roles killed during an election", func(s *site) bool {
			n := c.leader(server, stream(names.Runs()))
			s.burden()
			fired := n.kill()
			for _, role := range []string{"responder", "normalizer", "worker-a"} {
				fired = s.killRole(role) && fired
			}
			c.goesOn(s, server, "without "+n.name+", with other roles")
			c.start(n)
			c.healthy()
			return fired
		}},
		{"two nodes killed", func(s *site) bool { return c.killTogether(s, server, 2) }},
		{"all nodes killed", func(s *site) bool { return c.killTogether(s, server, 3) }},
		{"rolling restart", func(s *site) bool {
			s.burden()
			fired := true
			for _, i := range s.rng.Perm(len(c.nodes)) {
				n := c.nodes[i]
				fired = n.signal(syscall.SIGTERM) && fired
				<-n.ended
				c.start(n)
				c.healthy()
			}
			c.goesOn(s, server, "after the rolling restart")
			return fired
		}},
	}
}

// killTogether leaves no majority, and brings it back.
func (c *cluster) killTogether(s *site, server Server, size int) bool {
	c.t.Helper()
	s.burden()
	fired := true
	victims := s.rng.Perm(len(c.nodes))[:size]
	for _, i := range victims {
		fired = c.nodes[i].kill() && fired
	}
	<-time.After(time.Duration(s.rng.Int64N(int64(3 * time.Second)))) // how long it lasts
	for _, i := range victims {
		c.start(c.nodes[i])
	}
	c.goesOn(s, server, fmt.Sprintf("after %d nodes were killed", size))
	c.healthy()
	return fired
}

// burden has agents write for some seconds more, and a queue that does not
// become empty in between.
func (s *site) burden() {
	for range 3 {
		s.run("talk", nil, "lines=200", "pace=20")
	}
	for range 4 {
		s.submit("talk", "lines=50", "pace=20")
	}
}

// info is that of a stream, as far as a leader answers soon.
func (s Server) info(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	found, err := s.Inside.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	return found.CachedInfo(), nil
}

// leader waits until a stream has a leader, and both of its followers.
func (c *cluster) leader(server Server, name string) (n *node) {
	c.t.Helper()
	eventually(c.t, name+" has no leader with two followers", func() (bool, string) {
		info, err := server.info(c.t.Context(), name)
		if err != nil || info.Cluster == nil {
			return false, fmt.Sprint(err)
		}
		current := 0
		for _, r := range info.Cluster.Replicas {
			if r.Current {
				current++
			}
		}
		n = c.named(info.Cluster.Leader)
		return n != nil && current == 2, fmt.Sprintf("leader %s, %d followers", info.Cluster.Leader, current)
	})
	return n
}

// otherLeader waits until the rest of the cluster has another leader of a
// stream. It asks one of the rest: the node may still take itself for it.
func (c *cluster) otherLeader(than *node, name string) {
	c.t.Helper()
	rest := slices.DeleteFunc(slices.Clone(c.nodes), func(n *node) bool { return n == than })
	server := c.at(rest[0])
	eventually(c.t, name+" gets no other leader than "+than.name, func() (bool, string) {
		info, err := server.info(c.t.Context(), name)
		if err != nil || info.Cluster == nil {
			return false, fmt.Sprint(err)
		}
		return info.Cluster.Leader != "" && info.Cluster.Leader != than.name, info.Cluster.Leader
	})
}

// at is a connection to one node, and to no other.
func (c *cluster) at(n *node) Server {
	c.t.Helper()
	conn, err := nats.Connect("nats://"+n.client, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		c.t.Fatal(err)
	}
	return Server{Inside: js}
}

// goesOn waits until RAW and EVENTS take something new, and says how long that
// took. What is there from before may be stored at once, so it is a new task
// that must come through.
func (c *cluster) goesOn(s *site, server Server, what string) {
	c.t.Helper()
	began := time.Now()
	s.submit("talk", "lines=3", "pace=1")
	for _, name := range []string{s.names.Raw(), s.names.Events()} {
		first, known := uint64(0), false
		eventually(c.t, name+" does not go on "+what, func() (bool, string) {
			info, err := server.info(c.t.Context(), name)
			if err != nil {
				return false, err.Error()
			}
			if !known {
				first, known = info.State.LastSeq, true
			}
			return info.State.LastSeq > first, fmt.Sprint(info.State.LastSeq)
		})
		c.t.Logf("%s: %s goes on after %v", what, name, time.Since(began).Round(10*time.Millisecond))
	}
}

// believed reports an error for each of the sentences that a role has said: a
// node that lags, or was cut off, must not be taken for a loss.
func (s *site) believed(sentences ...string) {
	s.t.Helper()
	for role, p := range s.roles {
		said := p.said()
		for line := range strings.Lines(said) {
			for _, sentence := range sentences {
				if strings.Contains(line, sentence) {
					s.t.Errorf("the %s took a node that lagged for a loss: %s", role, line)
				}
			}
		}
		if n := strings.Count(said, "starting over from the streams"); n > 0 {
			s.t.Logf("the %s started over %d times", role, n)
		}
	}
}

// Nodes of a cluster are killed, cut off, stopped and restarted under load,
// the leader of each stream among them. Their files stay, so nothing is lost
// that RAW has, and the spools hold the rest.
func TestClusterThatLosesItsLeadersLosesAndDoublesNothing(t *testing.T) {
	fixture.Long(t, "kills the servers of a cluster")
	sieges(t, 2, func(t *testing.T, rng *rand.Rand, rounds uint64) {
		c := startCluster(t)
		s := newClustered(t, rng, c.urls())
		server := s.server()
		reader := s.read(server)
		siege(s, rounds, clusterFaults(c, server)...)
		reader.stop()
		for _, what := range reader.short {
			t.Errorf("%s was cut short for a reader", what)
		}
		if reader.runs == 0 {
			t.Error("nothing was read meanwhile")
		}
		t.Logf("%d runs were read meanwhile", reader.runs)
		s.believed("lost its end", "lost their end", "is another one", "were recreated")
	})
}
