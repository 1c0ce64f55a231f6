package codexcloud

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of a call.
const (
	maxCalls     = 5            // concurrent calls; others wait
	maxSubmits   = maxCalls - 1 // of these, submissions; polls need the other one
	slotTimeout  = 2 * time.Minute
	execTimeout  = 2 * time.Minute
	lookTimeout  = 30 * time.Second
	drainTimeout = 2 * time.Second // for processes that still hold the output after the program has exited
	maxStdout    = 1 << 20
	maxDiffOut   = 4 << 20
	maxStderr    = 256 << 10
)

// call is one call of the program.
type call struct {
	args    []string // after "cloud"
	stdin   *string  // nil: /dev/null
	limit   int      // of stdout, in bytes; 0: maxStdout
	timeout time.Duration
	waiting context.Context // once it has ended, the program is not started any more; nil: that of the call
}

// output is the result of a call.
type output struct {
	exit   int // exit status; -1: ended by a signal
	stdout []byte
	cut    bool // stdout exceeded its limit
	stderr []byte
	took   time.Duration
}

// program runs `codex cloud`.
type program struct {
	command []string
	scratch string
	env     []string
	slots   chan struct{}
	submits chan struct{} // slots of submissions, which need one of slots, too
}

// call runs the program once. The error is that of ctx, or a [*Failure] if the
// program was not started or exceeded its time limit: the output is then
// what it printed until it was killed. Every exit status is an output. In any
// case the process group is gone on return.
func (p *program) call(ctx context.Context, c call) (output, error) {
	release, err := p.slot(ctx, c)
	if err != nil {
		return output{}, err
	}
	defer release()
	dir, err := os.MkdirTemp(p.scratch, scratchPrefix+"*")
	if err != nil {
		return output{}, c.failure(reasonSpawn, err)
	}
	defer os.RemoveAll(dir)
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()

	args := append(append(p.command[1:len(p.command):len(p.command)], "cloud"), c.args...)
	cmd := exec.CommandContext(limited, p.command[0], args...)
	cmd.Dir, cmd.Env = dir, p.env
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	// It has nothing to save on SIGTERM, and npm's codex is a launcher whose
	// child must be killed, too.
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = drainTimeout
	stdout, stderr := &limitedBuffer{limit: c.limit}, &limitedBuffer{limit: maxStderr}
	if stdout.limit == 0 {
		stdout.limit = maxStdout
	}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if c.stdin != nil {
		cmd.Stdin = strings.NewReader(*c.stdin)
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		if limited.Err() != nil {
			return output{}, c.notStarted(limited.Err())
		}
		return output{}, c.failure(reasonSpawn, err)
	}
	_ = cmd.Wait()                                // the state of the process says how it ended
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // what it left: the group's number is in use while any of it lives
	o := output{exit: cmd.ProcessState.ExitCode(), stdout: stdout.b, cut: stdout.cut, stderr: stderr.b}
	o.took = time.Since(begun)
	switch {
	case ctx.Err() != nil:
		return o, ctx.Err()
	case limited.Err() != nil:
		f := c.failure(reasonTimeout, nil)
		f.Elapsed = o.took
		return o, f
	}
	return o, nil
}

// slot waits until the program may be started; then release must be called. The error is a [*Failure].
func (p *program) slot(ctx context.Context, c call) (release func(), err error) {
	if c.waiting != nil {
		ctx = c.waiting
	}
	ctx, cancel := context.WithTimeout(ctx, slotTimeout)
	defer cancel()
	needed := []chan struct{}{p.slots}
	if c.name() == "exec" {
		needed = []chan struct{}{p.submits, p.slots}
	}
	taken := 0
	release = func() {
		for _, slots := range needed[:taken] {
			<-slots
		}
	}
	for taken < len(needed) && ctx.Err() == nil {
		select {
		case needed[taken] <- struct{}{}:
			taken++
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		release()
		return nil, c.notStarted(err)
	}
	return release, nil
}

const scratchPrefix = "call-"

// sweep removes the directories of killed calls. No call lasts an hour.
func (p *program) sweep(now time.Time) {
	left, err := filepath.Glob(filepath.Join(p.scratch, scratchPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range left {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && now.Sub(info.ModTime()) > time.Hour {
			_ = os.RemoveAll(dir)
		}
	}
}

func (c call) name() string { return c.args[0] }

// limitedBuffer keeps the first bytes that are written to it, and discards the
// rest.
type limitedBuffer struct {
	limit int
	b     []byte
	cut   bool
}

func (k *limitedBuffer) Write(b []byte) (int, error) {
	n := min(len(b), k.limit-len(k.b))
	k.b = append(k.b, b[:n]...)
	k.cut = k.cut || n < len(b)
	return len(b), nil
}

// firstLine returns the first line of b, without its line ending and colours.
func firstLine(b []byte) string {
	line, _, _ := bytes.Cut(b, []byte{'\n'})
	return strings.TrimSuffix(plain(line), "\r")
}
