// Package bench measures the program from outside.
package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"
)

// BenchmarkIdleTails follows 2,000 files in one worker, to which nothing is
// written any more, and tells what that takes: memory for each, above that of
// a worker with one file, and time of a core, in thousandths.
func BenchmarkIdleTails(b *testing.B) {
	if _, err := os.Stat("/proc/self/statm"); err != nil {
		b.Skip("there is no /proc: ", err)
	}
	dir := b.TempDir()
	program := filepath.Join(dir, "linesman")
	if err := fixture.Build(dir, "./cmd/linesman"); err != nil {
		b.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	up := start(b, program, "up", "--data-dir", data, "--nats-listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
	up.lines(1)
	for b.Loop() {
		var memory [2]int
		var busy time.Duration
		for i, n := range []int{1, 2000} {
			files := make([]string, n)
			for k := range files {
				files[k] = filepath.Join(b.TempDir(), fmt.Sprintf("s%d.jsonl", k))
				if err := os.WriteFile(files[k], []byte(`{"type":"turn.started"}`+"\n"), 0o600); err != nil {
					b.Fatal(err)
				}
			}
			tail := start(b, program, append([]string{"tail", "--data-dir", data}, files...)...)
			tail.lines(n)
			tail.settle()
			before := tail.cpu()
			const watched = 10 * time.Second
			<-time.After(watched)
			busy = (tail.cpu() - before) * 1000 / watched
			memory[i] = tail.memory()
			tail.end()
		}
		b.ReportMetric(float64(memory[1]-memory[0])/1999/1024, "KiB/run")
		b.ReportMetric(float64(busy), "cpu-‰")
	}
	up.end()
}

// process is a linesman that was started.
type process struct {
	b   *testing.B
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func start(b *testing.B, program string, args ...string) *process {
	b.Helper()
	cmd := exec.Command(program, args...)
	out, err := cmd.StdoutPipe()
	in, inErr := cmd.StdinPipe()
	if err = errors.Join(err, inErr); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill() })
	return &process{b, cmd, in, bufio.NewReader(out)}
}

// lines waits until the process has printed so many.
func (p *process) lines(n int) {
	p.b.Helper()
	for range n {
		if _, err := p.out.ReadString('\n'); err != nil {
			p.b.Fatal(err)
		}
	}
}

// settle waits until the process has had little to do for a second.
func (p *process) settle() {
	for last := time.Duration(-1); ; {
		now := p.cpu()
		if now-last < 100*time.Millisecond && last >= 0 {
			return
		}
		last = now
		<-time.After(time.Second)
	}
}

func (p *process) end() {
	p.b.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.b.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, p.out)
	_ = p.cmd.Wait() // a signal's own status
}

func (p *process) stat(name string) []string {
	p.b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, name))
	if err != nil {
		p.b.Fatal(err)
	}
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

// cpu is the time that the process has had of a core.
func (p *process) cpu() time.Duration {
	f := p.stat("stat") // from the third field on
	user, err1 := strconv.Atoi(f[11])
	system, err2 := strconv.Atoi(f[12])
	if err1 != nil || err2 != nil {
		p.b.Fatal(err1, err2)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// memory is what the process has in memory, in bytes.
func (p *process) memory() int {
	pages, err := strconv.Atoi(p.stat("statm")[1])
	if err != nil {
		p.b.Fatal(err)
	}
	return pages * os.Getpagesize()
}
