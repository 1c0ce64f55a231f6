package chaos

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"
)

// natsProgram builds the real server, once. It is in the tests' own directory,
// so nothing of it outlives them.
var natsProgram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "nats-server-")
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "nats-server"), fixture.Build(dir, "github.com/nats-io/nats-server/v2")
})

// cluster is three NATS servers of somebody else, each a process of its own.
// Between each two of them there is a proxy, so that one can be cut off.
type cluster struct {
	t       *testing.T
	program string
	nodes   []*node
}

// node is one of the servers.
type node struct {
	name                    string
	dir                     string
	client, routes, monitor string // HOST:PORT of what it listens on
	links                   []*proxy
	cmd                     *exec.Cmd
	ended                   chan struct{}
}

// startCluster starts one that lasts until the test ends.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	program, err := natsProgram()
	if err != nil {
		t.Fatal(err)
	}
	const size = 3
	c := &cluster{t: t, program: program}
	free := fixture.FreeAddresses(t, 3*size)
	for i := range size {
		c.nodes = append(c.nodes, &node{
			name: fmt.Sprintf("node-%d", i+1), dir: t.TempDir(),
			client: free[3*i], routes: free[3*i+1], monitor: free[3*i+2],
		})
	}
	for i, n := range c.nodes { // in a ring: of each two one connects to the other
		next := c.nodes[(i+1)%size]
		link := startProxy(t, next.routes)
		n.links, next.links = append(n.links, link), append(next.links, link)
		if err := os.WriteFile(n.config(), []byte(n.settings(link.url())), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			n.kill()
			if said, err := os.ReadFile(n.log()); t.Failed() && err == nil {
				t.Logf("%s:\n%s", n.name, said[max(0, len(said)-600):])
			}
		}
	})
	for _, n := range c.nodes {
		c.start(n)
	}
	c.healthy()
	return c
}

func (n *node) config() string { return filepath.Join(n.dir, "nats.conf") }
func (n *node) log() string    { return filepath.Join(n.dir, "log") }

// lastWords is where it says what it cannot log.
func (n *node) lastWords() string { return filepath.Join(n.dir, "stderr") }

// settings are those of the server. The others are told an address for routes
// at which there is nobody: no route may go past a proxy.
func (n *node) settings(route string) string {
	return fmt.Sprintf(`server_name: %s
listen: %q
http: %q
log_file: %q
jetstream { store_dir: %q, max_mem: 64MB, max_file: 64GB }
cluster { name: chaos, listen: %q, advertise: "127.0.0.1:1", no_advertise: true, routes: [%s] }
`, n.name, n.client, n.monitor, n.log(), filepath.Join(n.dir, "store"), n.routes, route)
}

// urls is what linesman is told.
func (c *cluster) urls() string {
	var all []string
	for _, n := range c.nodes {
		all = append(all, "nats://"+n.client)
	}
	return strings.Join(all, ",")
}

// start starts a node, again or for the first time.
func (c *cluster) start(n *node) {
	c.t.Helper()
	last, err := os.OpenFile(n.lastWords(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	defer last.Close()
	n.cmd, n.ended = exec.Command(c.program, "-c", n.config()), make(chan struct{})
	n.cmd.Stderr = last
	if err := n.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait() // that it ended is enough
		close(ended)
	}(n.cmd, n.ended)
}

// healthy waits until every node has caught up with all that it has a part in.
func (c *cluster) healthy() {
	c.t.Helper()
	client := &http.Client{Timeout: 2 * time.Second}
	defer client.CloseIdleConnections()
	for _, n := range c.nodes {
		eventually(c.t, n.name+" is not healthy", func() (bool, string) {
			select {
			case <-n.ended:
				said, err := os.ReadFile(n.lastWords())
				c.t.Fatalf("%s has ended: %v, %s%v", n.name, n.cmd.ProcessState, said, err)
			default:
			}
			resp, err := client.Get("http://" + n.monitor + "/healthz")
			if err != nil {
				return false, err.Error()
			}
			defer resp.Body.Close()
			return resp.StatusCode == http.StatusOK, resp.Status
		})
	}
}

// named is the node of a name; nil where there is none.
func (c *cluster) named(name string) *node {
	for _, n := range c.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// cutOff cuts a node's connections to the others until rejoin, and reports
// whether it had any. Its clients keep theirs.
func (n *node) cutOff() (cut bool) {
	for _, link := range n.links {
		cut = link.cut() > 0 || cut
	}
	return cut
}

func (n *node) rejoin() {
	for _, link := range n.links {
		link.mend()
	}
}

// signal sends one, and reports whether there was somebody to get it.
func (n *node) signal(s syscall.Signal) bool {
	select {
	case <-n.ended:
		return false
	default:
		return n.cmd.Process.Signal(s) == nil
	}
}

// kill is a kill -9, and returns when the node is gone. It reports whether
// that was what ended it.
func (n *node) kill() bool {
	if n.cmd == nil || n.cmd.Process == nil {
		return false
	}
	fired := n.signal(syscall.SIGKILL)
	<-n.ended
	return fired && n.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled()
}
