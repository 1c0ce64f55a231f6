package security

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

// notRun are the blocks of the pages that cannot be run here, by how they begin.
var notRun = map[string]string{
	"[Unit]":     "a unit of systemd, which no test can start; its command is parsed by TestQuotedCommandsParse",
	"docker run": "needs docker: TestDockerImage",
}

// documented are the blocks of code of a page, without their indentation.
func documented(t *testing.T, name string) (blocks []string) {
	t.Helper()
	b, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var block strings.Builder
	fenced := false
	for line := range strings.Lines(string(b) + "\n") {
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
			continue
		case fenced:
			block.WriteString(line)
			continue
		case indented:
			block.WriteString(code)
			continue
		}
		if block.Len() > 0 {
			blocks = append(blocks, block.String())
			block.Reset()
		}
	}
	return blocks
}

// pages gives out each block of the pages once. What nobody has asked for in
// the end is not tested.
type pages struct {
	t      *testing.T
	blocks []string
}

func (p *pages) block(begins string) string {
	p.t.Helper()
	for i, b := range p.blocks {
		if strings.HasPrefix(b, begins) {
			p.blocks = slices.Delete(p.blocks, i, i+1)
			return b
		}
	}
	p.t.Fatalf("no block of the pages begins with %q", begins)
	return ""
}

// deployment is a site that was made as the pages say.
type deployment struct {
	t       *testing.T
	dir     string // where commands run: it has the keys
	url     string // of a server
	change  func(string) string
	environ []string
}

// deploy makes a directory with a codex that plays a recording.
func deploy(t *testing.T) *deployment {
	t.Helper()
	d := &deployment{t: t, dir: t.TempDir(), change: func(s string) string { return s }}
	recording, err := filepath.Abs("../corpus/codex/hello.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	program(t, "linesman") // is built
	d.write("codex", "#!/bin/sh\ncase $1 in\n--version) echo codex-cli 0.169.0 ;;\n*) cat '"+recording+"' ;;\nesac\n",
		0o700)
	d.environ = []string{
		"PATH=" + d.dir + ":" + bin + ":" + os.Getenv("PATH"), "HOME=" + filepath.Join(d.dir, "home"),
		"LINESMAN_HTTP=127.0.0.1:0", "LINESMAN_NATS_LISTEN=127.0.0.1:0", "LINESMAN_LOG_LEVEL=info",
	}
	return d
}

func (d *deployment) write(name, body string, mode os.FileMode) {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(body), mode); err != nil {
		d.t.Fatal(err)
	}
}

// copy copies the files of a directory into one of the deployment.
func (d *deployment) copy(from, to string) {
	d.t.Helper()
	files, err := filepath.Glob(filepath.Join(from, "*.*"))
	if err != nil {
		d.t.Fatal(err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			d.t.Fatal(err)
		}
		d.write(filepath.Join(to, filepath.Base(path)), string(b), 0o600)
	}
}

func (d *deployment) command(line string, environ ...string) *exec.Cmd {
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Dir, cmd.Env = d.dir, append(slices.Clone(d.environ), environ...)
	return cmd
}

// run runs a line of a page to its end, which must be good.
func (d *deployment) run(line string, environ ...string) string {
	d.t.Helper()
	line = d.change(strings.TrimSpace(line))
	cmd := d.command(line, append([]string{"LINESMAN_DATA_DIR=" + d.t.TempDir()}, environ...)...)
	out, said, code := fixture.Run(d.t, cmd)
	if code != 0 {
		d.t.Fatalf("%s: exit %d\n%s%s", line, code, out, said)
	}
	return out
}

// start starts a line of a page until the test ends, and waits for what it says
// when it is ready. It returns what ends it before.
func (d *deployment) start(ready, line string, environ ...string) (stop func()) {
	d.t.Helper()
	line = d.change(strings.TrimSpace(line))
	cmd := d.command("exec "+line, append([]string{"LINESMAN_DATA_DIR=" + d.t.TempDir()}, environ...)...)
	p := fixture.Start(d.t, cmd)
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if code := p.Code(); code != 0 {
			d.t.Errorf("%s: exit %d", line, code)
		}
	})
	d.t.Cleanup(stop)
	p.AwaitEither(ready)
	return stop
}

// node starts a nats-server with a configuration, until the test ends.
func (d *deployment) node(name, address, config string) {
	d.t.Helper()
	d.write(name+".conf", config, 0o600)
	host, port, _ := net.SplitHostPort(address)
	d.server(name, "-c", name+".conf", "-a", host, "-p", port)
}

// server starts a nats-server until the test ends, and returns what kills it before.
func (d *deployment) server(name string, args ...string) (kill func()) {
	d.t.Helper()
	var log bytes.Buffer
	cmd := exec.Command(program(d.t, "nats-server"), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = d.dir, &log, &log
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // in order it would hand on what it leads, which takes time
		_ = cmd.Wait()
	})
	d.t.Cleanup(func() {
		kill()
		if d.t.Failed() {
			text := log.String()
			d.t.Logf("the last that nats-server %s said:\n%s", name, text[max(len(text)-1<<10, 0):])
		}
	})
	return kill
}

// The commands of the two pages work as they are written, but for names of hosts
// and of directories.
func TestDocumentedCommandsWork(t *testing.T) {
	all := append(documented(t, "operations.md"), documented(t, "security.md")...)
	t.Run("on an up", func(t *testing.T) {
		t.Parallel()
		onUp(t, &pages{t, slices.Clone(all)})
	})
	for name, how := range identities {
		for _, nodes := range []int{1, 3} {
			d := deploy(t)
			d.servers(&pages{t, slices.Clone(all)}, how, nodes) // all of them: elections take seconds
			t.Run(fmt.Sprintf("%s on %d", name, nodes), func(t *testing.T) {
				t.Parallel()
				d.t = t
				d.work(&pages{t, slices.Clone(all)}, how, nodes)
			})
		}
	}
}

// servers makes keys and accounts, and starts one server, or a cluster of three.
func (d *deployment) servers(p *pages, how string, nodes int) {
	t := d.t
	configs := p.block("linesman context --server-config")
	one, cluster := p.block("jetstream {"), p.block("server_name: a")

	ca := newAuthority(t)
	line := configs[:strings.IndexByte(configs, '\n')]
	if how != "" {
		line = regexp.MustCompile(`(?m)^.*` + how + `.*$`).FindString(configs)
	} else {
		for _, u := range users {
			ca.client(t, u)
		}
		d.copy(ca.dir, "keys")
	}
	d.copy(ca.dir, ".") // server.pem, server-key.pem, ca.pem
	d.run(line)
	scheme := "tls://"
	switch how {
	case "--jwt":
		scheme = "nats://"
		d.copy(filepath.Join(d.dir, "keys"), ".") // what a machine gets
	case "--nkey":
		d.copy(ca.dir, "keys")
		one, cluster = one+tlsOfYourOwn, cluster+tlsOfYourOwn
	}

	addresses, routes := fixture.FreeAddresses(t, nodes), fixture.FreeAddresses(t, nodes)
	if nodes == 1 {
		d.node("nats", addresses[0], strings.ReplaceAll(one, "/var/lib/nats", filepath.Join(d.dir, "store")))
	} else {
		for i, name := range []string{"a", "b", "c"} {
			d.node(name, addresses[i], strings.NewReplacer(
				"server_name: a", "server_name: "+name, "/var/lib/nats", filepath.Join(d.dir, "store-"+name), "0.0.0.0:6222",
				routes[i],
				"a:6222", routes[0], "b:6222", routes[1], "c:6222", routes[2],
			).Replace(cluster))
		}
	}

	d.url = scheme + addresses[0]
	d.change = func(line string) string {
		if how != "--jwt" {
			line = regexp.MustCompile(`--creds \S+`).ReplaceAllString(line, "--creds keys")
		}
		line = regexp.MustCompile(`(?:nats|tls)://`).ReplaceAllString(line, scheme)
		line = strings.ReplaceAll(line, "cluster:4222", addresses[0])
		for i, name := range []string{"a", "b", "c"} {
			line = strings.ReplaceAll(line, name+":4222", addresses[i%nodes])
		}
		return line
	}
}

// work starts the roles and has them do what the pages say.
func (d *deployment) work(p *pages, how string, nodes int) {
	t := d.t
	roles, cautious, withKeys := p.block("linesman normalizer --nats nats://cluster"),
		p.block("linesman normalizer --nats nats://a"), p.block("linesman normalizer --nats tls://cluster")
	doctor := []string{p.block("linesman health"), p.block("linesman doctor"), p.block("linesman rebuild"),
		p.block("linesman forget")}
	ready := map[string]string{"normalizer": "normalizer reading", "worker": "worker ready", "responder": "ready http="}
	settings := []string{}
	if nodes == 3 {
		settings = append(settings, "LINESMAN_REPLICAS=3")
		d.start("normalizer reading", cautious, settings...)
		ready["normalizer"] = "normalizer ready" // it stands by
	}
	run := ""
	var done []string
	for line := range strings.Lines(roles + withKeys) {
		command := strings.Fields(line)[1]
		switch {
		case slices.Contains(done, d.change(line)):
		case ready[command] != "":
			d.start(ready[command], line, settings...)
			ready[command] = "ready" // of those that read, one works
		default:
			out := d.run(line)
			switch command {
			case "submit":
				run = strings.TrimSpace(out)
			case "run":
				if !strings.Contains(out, "completion exit 0") {
					t.Errorf("%s: it printed %q", line, out)
				}
			}
		}
		done = append(done, d.change(line))
	}

	// What an operator asks.
	creds := "LINESMAN_CREDS=operator.creds"
	if how != "--jwt" {
		creds = "LINESMAN_CREDS=keys"
	}
	d.environ = append(d.environ, "LINESMAN_NATS="+d.url, creds)
	d.run("linesman wait " + run)
	if out := d.run("linesman events --run " + run); !strings.Contains(out, "completion exit 0") {
		t.Errorf("the task had the events %q", out)
	}
	for _, line := range doctor {
		out := d.run(strings.ReplaceAll(line, "RUN", run))
		if strings.Contains(out, "one account") {
			t.Errorf("%s: %s", line, out)
		}
	}
}

// tlsOfYourOwn is what the page asks for with NKeys.
const tlsOfYourOwn = "tls { cert_file: \"server.pem\", key_file: \"server-key.pem\" }\n"

func onUp(t *testing.T, p *pages) {
	d := deploy(t)
	settings := p.block("[agents.codex]")
	d.write("linesman.toml", strings.ReplaceAll(settings, "/srv/projects", d.dir), 0o600)
	ask := []string{p.block("linesman health"), p.block("linesman doctor"), p.block("linesman rebuild")}
	forget, remove := p.block("linesman forget"), p.block("rm -r")
	d.environ = append(d.environ, "LINESMAN_CONFIG=linesman.toml")
	const here = "LINESMAN_DATA_DIR="

	stop := d.start("ready nats=", "linesman up", here)
	run := strings.TrimSpace(d.run(`linesman submit --wait "Go." 2>&1 >/dev/null | sed "s/.* //"`, here))
	for _, line := range ask {
		out := d.run(line, here)
		if strings.Contains(line, "doctor") && !strings.Contains(out, "0 of 4 slots") {
			t.Errorf("the settings of the page are not those of the worker:\n%s", out)
		}
	}
	events := d.run("linesman events --run "+run+" --json", here)
	stop()
	d.run(remove)
	d.start("ready nats=", "linesman up", here)
	soon(t, "the events to come again", func() bool {
		return d.run("linesman events --run "+run+" --json",
			here) == events
	})
	d.run(strings.ReplaceAll(forget, "RUN", run), here)

	for _, begins := range []string{"linesman context", "jetstream {", "server_name: a", "linesman normalizer",
		"linesman normalizer", "linesman normalizer"} {
		p.block(begins) // onServers
	}
	for begins := range notRun {
		p.block(begins)
	}
	if len(p.blocks) > 0 {
		t.Errorf("blocks of the pages that no test runs: %q", p.blocks)
	}
}
