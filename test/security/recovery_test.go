package security

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

// steps are the commands of docs/recovery.md, each block under the line with which it begins.
func steps(t *testing.T, of ...string) map[string][]string {
	t.Helper()
	p := &pages{t, documented(t, "recovery.md")}
	found := map[string][]string{}
	for _, begins := range of {
		found[begins] = strings.Split(strings.TrimSpace(p.block(begins)), "\n")
	}
	return found
}

// The blocks of the page, by how they begin. Blocks that begin equally are taken in their order.
const (
	backUp    = "linesman down\ncp"
	bringBack = "linesman down\nmv"
	compare   = "linesman rebuild\n"
	contexts  = "export"
	backUpAll = "nats --context inside backup"
	bringAll  = "for s in"
	compareIt = "linesman rebuild --config"
	node      = "nats-server"
	removed   = "nats --context public stream rm"
)

func TestRecoveryOfAnUp(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	s := steps(t, backUp, bringBack, compare)
	home := filepath.Join(d.dir, "home")
	data := "LINESMAN_DATA_DIR=" + filepath.Join(home, ".local/share/linesman")
	events := func() string { return d.run("linesman events --no-daemon | cat", data) }
	up := func() { d.start("ready nats=", "linesman up", data) }

	up()
	d.run(`linesman submit --wait "Go."`, data)
	before := events()
	for _, line := range s[backUp][:2] {
		d.run(line, data)
	}
	up()
	d.run(`linesman submit --wait "Again."`, data)
	if events() == before {
		t.Fatal("the second run has no events")
	}
	for _, line := range s[bringBack][:3] {
		d.run(line, data)
	}
	up()
	if after := events(); after != before {
		t.Errorf("restored:\n%s\nbefore:\n%s", after, before)
	}
	if out := d.run(s[compare][0], data); !strings.Contains(out, " 0 differences") {
		t.Error(out)
	}
	d.run(`linesman submit --wait "And again."`, data)
}

func TestRecoveryOfACluster(t *testing.T) {
	t.Parallel()
	fixture.Need(t, "NATS_CLI", "nats") // `make recovery` installs it
	d := deploy(t)
	s := steps(t, contexts, backUpAll, bringAll, compareIt, node, removed)
	d.run("linesman setup nats cluster --store store --nodes " + nodesOnLoopback(t))
	servers := map[string]func(){}
	serve := func(name, line string) { servers[name] = d.server(name, strings.Fields(line)[1:]...) }
	serveAll := func() {
		for _, name := range []string{"a", "b", "c"} {
			serve(name, strings.Replace(s[node][0], "b.conf", name+".conf", 1))
		}
	}
	role := func(name, ready string) (stop func()) {
		return d.start(ready, "linesman "+name+" --config cluster/"+name+"/linesman.toml")
	}
	const config = " --config cluster/operator/linesman.toml"
	events := func() string { return d.run("linesman events --config cluster/subscriber/linesman.toml") }
	serveAll()
	normalizer, responder, worker := role("normalizer", "normalizer reading"), role("responder", "ready http="),
		role("worker", "worker ready")
	d.run("linesman submit --wait" + config + ` "Go."`)
	before := events()

	d.environ = append(d.environ, "XDG_CONFIG_HOME="+filepath.Join(d.dir, "nats-contexts"))
	for _, line := range s[contexts][1:] {
		d.run(line)
	}

	// A node and its disk are lost.
	servers["b"]()
	if err := os.RemoveAll(filepath.Join(d.dir, "store", "b")); err != nil {
		t.Fatal(err)
	}
	soon(t, "two nodes to take a task", func() bool { // after elections
		_, _, code := fixture.Run(t, d.command("linesman submit --wait"+config+` "With two nodes."`))
		return code == 0
	})
	serve("b", s[node][0])
	soon(t, "the node to have RAW again", func() bool {
		return strings.Contains(d.run("nats --context inside stream info LINESMAN_RAW"), "b, current")
	})
	if !strings.HasPrefix(events(), before) {
		t.Error("events are missing after a node was lost")
	}
	before = events()

	// A stream is removed.
	d.run(s[removed][0])
	soon(t, "the events to come again", func() bool {
		again, _, code := fixture.Run(t, d.command("linesman events --config cluster/subscriber/linesman.toml"))
		return code == 0 && again == before // until then there is no stream
	})

	// Everything is lost.
	normalizer()
	for _, line := range s[backUpAll] {
		d.run(line)
	}
	responder()
	worker()
	for _, name := range []string{"a", "b", "c"} {
		servers[name]()
	}
	if err := os.RemoveAll(filepath.Join(d.dir, "store")); err != nil {
		t.Fatal(err)
	}
	serveAll()
	soon(t, "the cluster to answer", func() bool {
		_, _, code := fixture.Run(t, d.command("nats --context inside stream ls"))
		return code == 0
	})
	for _, line := range s[bringAll] {
		d.run(line)
	}
	role("normalizer", "normalizer reading")
	role("responder", "ready http=")
	role("worker", "worker ready")
	if after := events(); after != before {
		t.Errorf("restored:\n%s\nbefore:\n%s", after, before)
	}
	if out := d.run(s[compareIt][0]); !strings.Contains(out, " 0 differences") || strings.HasPrefix(out, "0 ") {
		t.Error(out)
	}
	d.run("linesman submit --wait" + config + ` "After the restore."`)
}
