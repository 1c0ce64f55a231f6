package chaos

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

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/test/fixture"
)

// process is a linesman that the test started. What it says goes to a file,
// in which the checker looks for what must not be there.
type process struct {
	t     *testing.T
	args  []string
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

// start starts linesman until the test ends, its words in the file log.
func start(t *testing.T, home, log string, args ...string) *process {
	t.Helper()
	fixture.Depend(t)
	f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := &process{t: t, args: args, cmd: exec.Command(program, args...), log: log, ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "HOME="+home)
	p.cmd.Dir = home
	p.cmd.Stdout, p.cmd.Stderr = f, f
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // its state says it
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// alive reports whether it has not ended.
func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// signal sends one, and reports whether there was somebody to get it.
func (p *process) signal(s syscall.Signal) bool { return p.alive() && p.cmd.Process.Signal(s) == nil }

// kill is a kill -9, and returns when the process is gone. It reports whether
// that was what ended it.
func (p *process) kill() bool {
	fired := p.signal(syscall.SIGKILL)
	<-p.ended
	return fired && p.cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled()
}

// code waits for its end and returns its exit code.
func (p *process) code() int {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("%q does not end", p.args), func() (bool, string) { return !p.alive(), p.said() })
	return p.cmd.ProcessState.ExitCode()
}

// said is all that it and those before it with the same log have said.
func (p *process) said() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// await waits until it has said something behind a place of its log.
func (p *process) await(from int, part string) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("%q does not say %q", p.args, part), func() (bool, string) {
		said := p.said()[from:]
		if !p.alive() && !strings.Contains(said, part) {
			p.t.Fatalf("%q ended without %q\n%s", p.args, part, said)
		}
		return strings.Contains(said, part), said
	})
}

// stranger is a process that linesman started, not the test: a shim or an agent.
type stranger struct {
	pid  int
	argv []string
}

// strangers are the living processes of a command line that begins so. Both
// programs are in a directory of this test's own, so they are nobody else's.
func strangers(t *testing.T, argv ...string) []stranger {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var all []stranger
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if have := commandLine(pid); len(have) > len(argv) && slices.Equal(have[:len(argv)], argv) {
			all = append(all, stranger{pid, have})
		}
	}
	return all
}

// commandLine is that of a process; nothing where it has ended.
func commandLine(pid int) []string {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || len(b) == 0 {
		return nil
	}
	var all []string
	for _, one := range bytes.Split(bytes.TrimSuffix(b, []byte{0}), []byte{0}) {
		all = append(all, string(one))
	}
	return all
}

// signal sends one to this process and no other that may have got its number
// meanwhile. It reports whether it lived.
func (s stranger) signal(sig syscall.Signal) bool {
	fd, ok := s.open()
	if ok {
		defer unix.Close(fd)
	}
	return ok && unix.PidfdSendSignal(fd, sig, nil, 0) == nil
}

// open returns a descriptor of the process, which is to be closed, while it lives.
func (s stranger) open() (fd int, ok bool) {
	fd, err := unix.PidfdOpen(s.pid, 0)
	if err != nil {
		return 0, false
	}
	if !slices.Equal(commandLine(s.pid), s.argv) {
		unix.Close(fd)
		return 0, false
	}
	return fd, true
}

// kill is a kill -9. It reports whether the process lived, and returns when it is gone.
func (s stranger) kill(t *testing.T) bool {
	t.Helper()
	fd, ok := s.open()
	if !ok {
		return false
	}
	defer unix.Close(fd)
	if unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) != nil {
		return false
	}
	eventually(t, fmt.Sprintf("process %d lives on", s.pid), func() (bool, string) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n == 1 || err != nil && err != unix.EINTR, ""
	})
	return true
}
