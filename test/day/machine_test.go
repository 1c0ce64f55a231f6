package day

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/test/fixture"
)

// machine is where all roles, a NATS server, an OpenSSH server and agents work, each as a process of its own. People,
// and the model of an agent, are elsewhere.
type machine struct {
	t       *testing.T
	began   time.Time
	dir     string
	env     []string // of all processes
	config  string
	nats    string // HOST:PORT
	http    string // HOST:PORT
	running map[string]*fixture.Process
}

// The roles, in the order in which they start in the morning.
const (
	natsRole   = "nats-server"
	normalizer = "normalizer"
	responder  = "responder"
	worker     = "worker"
	door       = "sshd" // no role, but a process of the machine
)

// scope is the variable that all processes of the machine have, but those that an agent gives another environment.
const scope = "DAY_SCOPE"

// tell logs a step of the day, with its time.
func (m *machine) tell(format string, args ...any) {
	m.t.Helper()
	m.t.Logf("%5.1fs  "+format, append([]any{time.Since(m.began).Seconds()}, args...)...)
}

// data is the data directory of a role.
func (m *machine) data(role string) string { return filepath.Join(m.dir, role) }

// start starts a role, again or for the first time.
func (m *machine) start(role string) {
	m.t.Helper()
	cmd := exec.Command(program, role, "--config", m.config, "--data-dir", m.data(role))
	switch role {
	case natsRole:
		host, port, _ := strings.Cut(m.nats, ":")
		cmd = exec.Command(natsServer, "-a", host, "-p", port, "-js", "-sd", m.data(role))
	case responder:
		cmd.Args = append(cmd.Args, "--http", m.http)
	}
	cmd.Env, cmd.Dir = m.env, m.dir
	m.running[role] = fixture.Start(m.t, cmd)
}

// await waits until a role works.
func (m *machine) await(role string) {
	m.t.Helper()
	m.running[role].AwaitEither(map[string]string{
		natsRole: "Server is ready", normalizer: "normalizer reading", responder: "ready http=", worker: "worker ready",
	}[role])
}

// kill kills roles, one after the other, and then starts each again.
func (m *machine) kill(roles ...string) {
	m.t.Helper()
	for _, role := range roles {
		m.running[role].Kill()
	}
	m.tell("kill -9: %s", strings.Join(roles, ", "))
	for _, role := range roles {
		m.start(role)
	}
	for _, role := range roles {
		m.await(role)
	}
}

// being is a living process of the machine.
type being struct {
	pid, parent int
	cwd         string
	line        []string
}

// beings are all of them, by their ids: what has the variable, and all that it has started.
func (m *machine) beings() map[int]being {
	m.t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		m.t.Skipf("no /proc to look at: %v", err)
	}
	all, ours := map[int]being{}, map[int]being{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		at := filepath.Join("/proc", e.Name())
		stat, _ := os.ReadFile(filepath.Join(at, "stat"))
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 || fields[0] == "Z" {
			continue // it has ended
		}
		b := being{pid: pid}
		b.parent, _ = strconv.Atoi(fields[1])
		b.cwd, _ = os.Readlink(filepath.Join(at, "cwd"))
		line, _ := os.ReadFile(filepath.Join(at, "cmdline"))
		b.line = strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		all[pid] = b
		environ, _ := os.ReadFile(filepath.Join(at, "environ"))
		if bytes.Contains(environ, []byte(scope+"="+m.dir)) {
			ours[pid] = b
		}
	}
	for _, p := range m.running {
		if b, lives := all[p.Cmd.Process.Pid]; lives && !p.Over() {
			ours[b.pid] = b
		}
	}
	for more := true; more; {
		more = false
		for pid, b := range all {
			_, known := ours[pid]
			if _, child := ours[b.parent]; child && !known {
				ours[pid], more = b, true
			}
		}
	}
	return ours
}

// killOf kills the process of a run that is chosen, and waits until it is gone.
func (m *machine) killOf(what string, is func(b being, all map[int]being) bool) {
	m.t.Helper()
	all := m.beings()
	var found []being
	for _, b := range all {
		if is(b, all) {
			found = append(found, b)
		}
	}
	if len(found) != 1 {
		m.t.Fatalf("%s: %d processes: %v of %v", what, len(found), found, all)
	}
	if err := syscall.Kill(found[0].pid, syscall.SIGKILL); err != nil {
		m.t.Fatal(err)
	}
	fixture.Eventually(m.t, fixture.Patience, what+" lives on", func() bool {
		b, lives := m.beings()[found[0].pid]
		return !lives || !slices.Equal(b.line, found[0].line)
	})
	m.tell("kill -9: %s", what)
}

// killShim kills the shim of a run.
func (m *machine) killShim(run string) {
	m.t.Helper()
	m.killOf("the shim of "+run, func(b being, _ map[int]being) bool {
		return len(b.line) > 2 && b.line[0] == program && b.line[1] == "shim" && strings.Contains(b.line[2], "/"+run+"/")
	})
}

// killAgent kills the agent that works in a directory.
func (m *machine) killAgent(name, dir string) {
	m.t.Helper()
	m.killOf(name, func(b being, all map[int]being) bool {
		return b.cwd == dir && all[b.parent].cwd != dir
	})
}

// crash ends all processes of the machine at once, and forgets what lives until the next boot only: what is known of
// its processes is of another boot.
func (m *machine) crash() {
	m.t.Helper()
	stopped := map[int]bool{}
	for more := true; more; { // none of them sees another one end
		more = false
		for pid := range m.beings() {
			if !stopped[pid] && syscall.Kill(pid, syscall.SIGSTOP) == nil {
				stopped[pid], more = true, true
			}
		}
	}
	for pid := range stopped {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	fixture.Eventually(m.t, fixture.Patience, "a process survives the reboot", func() bool { return len(m.beings()) == 0 })
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		m.t.Skipf("boots have no ids: %v", err)
	}
	notes, err := filepath.Glob(filepath.Join(m.data(worker), "runs", "*", "p*", "started"))
	if err != nil || len(notes) == 0 {
		m.t.Fatalf("no run knows its boot: %v", err)
	}
	id := strings.TrimSpace(string(boot))
	for _, name := range notes {
		text, err := os.ReadFile(name)
		if err == nil && !strings.Contains(string(text), id) {
			err = fmt.Errorf("no boot is noted: %s", text)
		}
		if err == nil {
			err = os.WriteFile(name, []byte(strings.ReplaceAll(string(text), id, strings.Repeat("0", len(id)))), 0o600)
		}
		if err != nil {
			m.t.Fatal(err)
		}
	}
	m.tell("a reboot: %d processes are killed, %d of agents are known from the boot before", len(stopped), len(notes))
}

// boot starts all roles again.
func (m *machine) boot() {
	m.t.Helper()
	order := []string{worker, responder, normalizer, natsRole} // as it happens
	for _, role := range order {
		m.start(role)
	}
	for _, role := range order {
		m.await(role)
	}
}

// linesman runs a command on the machine, which is to succeed.
func (m *machine) linesman(args ...string) string {
	m.t.Helper()
	cmd := exec.Command(program, append(args, "--config", m.config, "--data-dir", m.data("commands"))...)
	cmd.Env = m.env
	out, said, code := fixture.Run(m.t, cmd)
	if code != 0 {
		m.t.Fatalf("linesman %s: exit %d: %s%s", strings.Join(args, " "), code, out, said)
	}
	return strings.TrimSpace(out)
}

// becomes waits until the state of a run is as wanted.
func (m *machine) becomes(run, what string, is func(r gjson.Result) bool) (r gjson.Result) {
	m.t.Helper()
	if !fixture.Poll(fixture.Patience, func() bool {
		r = gjson.Parse(m.linesman("status", "--json", run))
		return is(r)
	}) {
		m.t.Fatalf("%s of %s: %s", what, run, r)
	}
	return r
}
