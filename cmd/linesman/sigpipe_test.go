package main

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"
)

// As of `linesman up 2>&1 | tee up.log`, whose tee ends before it at Ctrl-C: what is logged has no reader.
func TestUpEndsInOrderWithoutAReaderOfItsLog(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("linesman", "up", "--nats-listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
		"--data-dir", t.TempDir())
	cmd.Env = []string{"HOME=" + t.TempDir(), "GORACE=atexit_sleep_ms=0"}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	_ = read.Close()
	cmd.Stderr = write
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(fixture.Patience, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if !strings.HasPrefix(line, "ready ") {
		t.Errorf("got %q, %v, want that it is ready", line, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // its state says it
	if cmd.ProcessState.ExitCode() != exitDone {
		t.Errorf("it ended with %v, want exit status %d", cmd.ProcessState, exitDone)
	}
}
