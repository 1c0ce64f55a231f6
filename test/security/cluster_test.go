package security

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

// TestClusterFromNothing runs the commands of docs/cluster.md: they differ from the page in
// the addresses of the nodes, which are on loopback, and in the directory of the streams.
func TestClusterFromNothing(t *testing.T) {
	fixture.Long(t, "starts a cluster of three")
	t.Parallel()
	d := deploy(t)
	p := &pages{t, documented(t, "cluster.md")}
	first, ask, callers := p.block("linesman setup nats"), p.block("linesman doctor"), p.block("linesman token create")
	if len(p.blocks) > 0 {
		t.Errorf("not tested: %q", p.blocks)
	}
	nodes, http := nodesOnLoopback(t), fixture.FreeAddresses(t, 1)[0]
	d.change = func(line string) string {
		return strings.NewReplacer("--nodes a,b,c", "--nodes "+nodes+" --store "+filepath.Join(d.dir, "store"),
			"127.0.0.1:8422", http).Replace(line)
	}
	commands := strings.Split(strings.TrimSpace(first), "\n")
	if len(commands) != 5 {
		t.Fatalf("%d commands", len(commands))
	}

	d.run(commands[0])
	before := d.secrets()
	said := d.run(commands[0])
	if after := d.secrets(); !slices.Equal(before, after) {
		t.Error("setting it up again made other keys")
	}
	for i, name := range []string{"a", "b", "c"} {
		d.server(name, "-c", filepath.Join("cluster", "servers", name+".conf"))
		if line := strings.Replace(commands[1], "a.conf", name+".conf", 1); strings.Split(said, "\n")[i] != line {
			t.Errorf("it printed %q, not %s", said, line)
		}
	}
	for i, ready := range []string{"normalizer reading", "ready http=", "worker ready"} {
		if !strings.Contains(said, commands[2+i]+"\n") {
			t.Errorf("it printed %q, without %s", said, commands[2+i])
		}
		d.start(ready, commands[2+i], "LINESMAN_HTTP="+http)
	}
	for line := range strings.Lines(ask) {
		out := d.run(line)
		switch {
		case strings.Contains(line, "events") && !strings.Contains(out, "completion exit 0"):
			t.Errorf("%s: it printed %q", line, out)
		case strings.Contains(line, "doctor") && strings.Contains(out, "one account"):
			t.Errorf("%s: it printed %q", line, out)
		}
	}
	for line := range strings.Lines(callers) {
		out := strings.TrimSpace(d.run(line))
		switch {
		case strings.Contains(line, "create") && len(out) != 64,
			strings.Contains(line, "page") && !strings.HasPrefix(out, "http://"+http+"/signin?code="):
			t.Errorf("%s: it printed %q", line, out)
		}
	}
}

// nodesOnLoopback are three nodes at free addresses, with free ports 2000 above them for the cluster.
func nodesOnLoopback(t *testing.T) string {
	t.Helper()
	var all []string
	for _, a := range fixture.FreeAddresses(t, 20) {
		host, port, _ := net.SplitHostPort(a)
		n, _ := strconv.Atoi(port)
		if l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(n+2000))); err == nil {
			_ = l.Close()
			all = append(all, string(rune('a'+len(all)))+"="+a)
		}
		if len(all) == 3 {
			return strings.Join(all, ",")
		}
	}
	t.Fatal("no free ports")
	return ""
}

// secrets are the keys and the password of a cluster that was set up.
func (d *deployment) secrets() (all []string) {
	d.t.Helper()
	files, err := filepath.Glob(filepath.Join(d.dir, "cluster", "keys", "issuers", "*"))
	if err != nil || len(files) != 7 { // also that of prompters
		d.t.Fatalf("%d keys: %v", len(files), err)
	}
	for _, path := range files {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			d.t.Fatalf("%s: %v, %v", path, info.Mode(), err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			d.t.Fatal(err)
		}
		all = append(all, string(b))
	}
	return all
}
