package cells

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/test/fixture"
)

// cluster is NATS servers, each a process of its own, with the accounts of both cells.
type cluster struct {
	t     testing.TB
	dir   string
	keys  string // directory with a directory for each cell
	nodes []*node
}

type node struct {
	name            string
	client, monitor string // HOST:PORT of what it listens on
	config, log     string
	cmd             *exec.Cmd
}

// newCluster runs the command of the page that prints the accounts, and starts servers with
// them.
func newCluster(t testing.TB, size int) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir()}
	c.keys = filepath.Join(c.dir, "keys")
	print := exec.Command("sh", "-c", block(t, "LINESMAN_CELLS="))
	print.Dir, print.Env = c.dir, append(os.Environ(), "HOME="+c.dir,
		"PATH="+filepath.Dir(program)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	if _, said, code := fixture.Run(t, print); code != 0 {
		t.Fatalf("%q: exit %d\n%s", print.Args, code, said)
	}
	free := fixture.FreeAddresses(t, 3*size)
	routes := `"nats://` + strings.Join(free[:size], `", "nats://`) + `"`
	for i := range size {
		n := &node{name: fmt.Sprintf("node-%d", i+1), client: free[size+i], monitor: free[2*size+i]}
		n.config, n.log = filepath.Join(c.dir, n.name+".conf"), filepath.Join(c.dir, n.name+".log")
		text := fmt.Sprintf("server_name: %s\nlisten: %q\nhttp: %q\nlog_file: %q\n"+
			"jetstream { store_dir: %q, max_file: 64GB }\ninclude linesman.conf\n",
			n.name, n.client, n.monitor, n.log, filepath.Join(c.dir, n.name))
		if size > 1 {
			text += fmt.Sprintf("cluster { name: cells, listen: %q, routes: [%s] }\n", free[i], routes)
		}
		if err := os.WriteFile(n.config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c.nodes = append(c.nodes, n)
		c.start(n)
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			n.kill()
			if said, err := os.ReadFile(n.log); t.Failed() && err == nil {
				t.Logf("%s:\n%s", n.name, said[max(0, len(said)-2000):])
			}
		}
	})
	c.healthy()
	return c
}

// start starts a node, again or for the first time.
func (c *cluster) start(n *node) {
	c.t.Helper()
	n.cmd = exec.Command(natsServer, "-c", n.config)
	if err := n.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
}

// kill is a kill -9, and returns when the node is gone.
func (n *node) kill() {
	_ = n.cmd.Process.Kill()
	_ = n.cmd.Wait() // that it ended is enough
}

// healthy waits until every node has caught up.
func (c *cluster) healthy() {
	c.t.Helper()
	client := &http.Client{Timeout: 2 * time.Second}
	defer client.CloseIdleConnections()
	for _, n := range c.nodes {
		fixture.Eventually(c.t, patience, n.name+" is not healthy", func() bool {
			resp, err := client.Get("http://" + n.monitor + "/healthz")
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		})
	}
}

// urls names all nodes, in the form of the setting nats.
func (c *cluster) urls() string {
	var all []string
	for _, n := range c.nodes {
		all = append(all, "nats://"+n.client)
	}
	return strings.Join(all, ",")
}

// connect connects as a user of a cell, or, without one, as a user of all cells.
func (c *cluster) connect(prefix, user string) jetstream.JetStream {
	c.t.Helper()
	key, err := nats.NkeyOptionFromSeed(filepath.Join(c.keys, prefix, user+".nk"))
	if err != nil {
		c.t.Fatal(err)
	}
	conn, err := nats.Connect(c.urls(), key, nats.CustomInboxPrefix(bus.InboxPrefix(user)), nats.MaxReconnects(-1),
		nats.ReconnectWait(50*time.Millisecond),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { c.t.Logf("%s %s: %v", prefix, user, err) }))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		c.t.Fatal(err)
	}
	return js
}

// leader waits until a stream has a leader and two followers that are current.
func (c *cluster) leader(js jetstream.JetStream, stream string) (n *node) {
	c.t.Helper()
	fixture.Eventually(c.t, patience, stream+" has no leader with two followers", func() bool {
		s, err := js.Stream(c.t.Context(), stream)
		if err != nil || s.CachedInfo().Cluster == nil {
			return false
		}
		in := s.CachedInfo().Cluster
		i := slices.IndexFunc(c.nodes, func(n *node) bool { return n.name == in.Leader })
		if i < 0 || len(in.Replicas) != 2 || !in.Replicas[0].Current || !in.Replicas[1].Current {
			return false
		}
		n = c.nodes[i]
		return true
	})
	return n
}

// follower returns a node that is none of the leaders, or the first of them if all nodes are.
func (c *cluster) follower(leaders ...*node) *node {
	for _, n := range c.nodes {
		if !slices.Contains(leaders, n) {
			return n
		}
	}
	return leaders[0]
}

// block returns the block of code of docs/scale.md that begins with a text.
func block(t testing.TB, begins string) string {
	t.Helper()
	b, err := os.ReadFile(fixture.Path(t, "docs", "scale.md"))
	if err != nil {
		t.Fatal(err)
	}
	var found strings.Builder
	for line := range strings.Lines(string(b)) {
		code, is := strings.CutPrefix(line, "    ")
		switch {
		case is && (found.Len() > 0 || strings.HasPrefix(code, begins)):
			found.WriteString(code)
		case found.Len() > 0:
			return found.String()
		}
	}
	t.Fatalf("no block of docs/scale.md begins with %q", begins)
	return ""
}
