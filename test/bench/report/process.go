package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a program that was started, and what it has used.
type process struct {
	name  string
	cmd   *exec.Cmd
	out   *bufio.Reader
	log   string
	ended chan struct{}
	err   error     // valid once ended is closed
	at    time.Time // when it ended, as err
}

// command is how a program is started.
type command struct {
	program string
	args    []string
	env     []string // beside that of the harness
	stdin   string   // a file; "": none
	piped   bool     // its stdout is read by [process.line]; else it is discarded
}

// start starts a program with the environment of the harness. Its stderr is a file. It
// gets a SIGTERM when ctx ends.
func (h *harness) start(ctx context.Context, c command) (*process, error) {
	log, err := os.CreateTemp(h.dir, "log-")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{
		name: filepath.Base(c.program) + " " + c.args[0], cmd: exec.CommandContext(ctx, c.program, c.args...),
		log: log.Name(), ended: make(chan struct{}),
	}
	p.cmd.Env, p.cmd.Dir, p.cmd.Stderr = slices.Concat(h.env, c.env), h.dir, log
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 5 * time.Second
	if c.stdin != "" {
		in, err := os.Open(c.stdin)
		if err != nil {
			return nil, err
		}
		defer in.Close()
		p.cmd.Stdin = in
	}
	var end *os.File
	if c.piped {
		var in *os.File
		if in, end, err = os.Pipe(); err != nil {
			return nil, err
		}
		p.out, p.cmd.Stdout = bufio.NewReader(in), end
	}
	err = p.cmd.Start()
	end.Close() // nil if not piped
	if err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		p.at = time.Now()
		close(p.ended)
	}()
	return p, nil
}

// line returns the next line that the process prints.
func (p *process) line() (string, error) {
	line, err := p.out.ReadString('\n')
	if err != nil {
		return "", p.failed(err)
	}
	return strings.TrimSpace(line), nil
}

// wait waits until the process has ended, which it must with the exit code 0.
func (p *process) wait() error {
	if p.out != nil {
		_, _ = io.Copy(io.Discard, p.out)
	}
	<-p.ended
	if p.err != nil {
		return p.failed(p.err)
	}
	return nil
}

// stop ends the process, and waits for its end.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// failed adds the end of the log of the process to an error.
func (p *process) failed(err error) error {
	log, _ := os.ReadFile(p.log)
	return fmt.Errorf("%s: %w\n%s", p.name, err, log[max(0, len(log)-2000):])
}

// cpu returns the time that the process has used, of all cores together, to 10 ms;
// of one that has ended, exactly.
func (p *process) cpu() (time.Duration, error) {
	select {
	case <-p.ended:
		return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime(), nil
	default:
	}
	text, err := os.ReadFile(p.proc("stat"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])) // from the third one
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err1, err2)
}

// memory returns a line of /proc/PID/status in MB: VmRSS is the memory that the process
// has, VmHWM the most that it had.
func (p *process) memory(name string) (float64, error) {
	text, err := os.ReadFile(p.proc("status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, name+":"); found {
			kib, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			return float64(kib) * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("%s: no %s", p.name, name)
}

func (p *process) proc(file string) string {
	return fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, file)
}
