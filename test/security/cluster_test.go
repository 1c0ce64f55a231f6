package security

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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

// TestClusterWithTLS has TLS between clients and servers, and between the servers, also after it was set up again
// without naming it, as at an upgrade.
func TestClusterWithTLS(t *testing.T) {
	fixture.Long(t, "starts a cluster of three")
	t.Parallel()
	d := deploy(t)
	ca := newAuthority(t)
	ca.sign(t, "server", &x509.Certificate{Subject: pkix.Name{CommonName: "server"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
	nodes := nodesOnLoopback(t)
	setup := "linesman setup nats cluster --store store --nodes " + nodes
	d.run(setup + " --tls " + ca.dir)
	said := d.run(setup)
	for _, role := range []string{"normalizer", "responder", "worker", "operator", "subscriber"} {
		d.run("cp " + filepath.Join(ca.dir, "ca.pem") + " cluster/" + role)
	}
	for _, name := range []string{"a", "b", "c"} {
		d.server(name, "-c", filepath.Join("cluster", "servers", name+".conf"))
	}
	ready := []string{"normalizer reading", "ready http=", "worker ready"}
	for i, line := range strings.Split(strings.TrimSpace(said), "\n")[3:] {
		d.start(ready[i], line)
	}
	if out := d.run("linesman doctor --config cluster/operator/linesman.toml"); strings.Contains(out, "one account") {
		t.Errorf("doctor: it printed %q", out)
	}
	d.run(`linesman submit --wait --config cluster/operator/linesman.toml "Go."`)
	read := d.run("linesman events --config cluster/subscriber/linesman.toml")
	if !strings.Contains(read, "completion exit 0") {
		t.Errorf("events: it printed %q", read)
	}

	// Another server without TLS is not let in, though it knows the password.
	_, address, _ := strings.Cut(strings.Split(nodes, ",")[0], "=")
	conf, err := os.ReadFile(filepath.Join(d.dir, "cluster", "servers", "a.conf"))
	if err != nil {
		t.Fatal(err)
	}
	password := regexp.MustCompile(`password: "(\w+)"`).FindSubmatch(conf)
	if password == nil {
		t.Fatalf("no password in\n%s", conf)
	}
	for above, login := range map[int]string{
		0:    `CONNECT {"verbose":false}`,
		2000: `CONNECT {"user":"linesman","pass":"` + string(password[1]) + `","name":"x","cluster":"linesman"}`,
	} {
		host, port, _ := net.SplitHostPort(address)
		n, _ := strconv.Atoi(port)
		c, err := net.Dial("tcp", net.JoinHostPort(host, strconv.Itoa(n+above)))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(patience))
		if _, err := c.Write([]byte(login + "\r\nPING\r\n")); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(c)
		if above == 0 && !strings.Contains(string(got), `"tls_required":true`) || above > 0 && len(got) > 0 ||
			strings.Contains(string(got), "PONG") || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d above the port somebody without TLS got %q, %v", above, got, err)
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
