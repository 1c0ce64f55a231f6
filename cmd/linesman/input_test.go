package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// A pipe stays open: the first signal ends a command that reads it.
func TestSignalEndsACommandThatReadsItsInput(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"submit -", "submit --output-schema - hi", "send T-1 -", "bridge answer T-1", "answer T-1 --content -",
		"bridge check -",
		"submit --file FIFO", "send T-1 --file FIFO", "bridge answer T-1 --file FIFO", "bridge check FIFO",
		"submit --file UNWRITTEN",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, name := range []string{"FIFO", "UNWRITTEN"} {
				if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			stdin, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			reader := stdin
			if strings.Contains(line, "FIFO") {
				_ = writer.Close()
				if writer, err = os.OpenFile(filepath.Join(dir, "FIFO"), os.O_RDWR, 0); err != nil {
					t.Fatal(err)
				}
				reader = writer
			}
			defer writer.Close()
			args := strings.Fields(line)
			for i, arg := range args {
				if arg == "FIFO" || arg == "UNWRITTEN" {
					args[i] = filepath.Join(dir, arg)
				}
			}
			signals := make(chan os.Signal, 1)
			ctx, stop := untilSignal(t.Context(), signals)
			defer stop()
			code := make(chan int, 1)
			var stderr bytes.Buffer // valid after the code
			environ := []string{"HOME=" + dir, "LINESMAN_BACKGROUND_START=false"}
			go func() { code <- run(ctx, args, environ, stdin, new(bytes.Buffer), &stderr) }()
			if strings.Contains(line, "UNWRITTEN") {
				defer func() { // a writer, so that the goroutine which opens the FIFO ends
					if f, err := os.OpenFile(filepath.Join(dir, "UNWRITTEN"), os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
						_ = f.Close()
					}
				}()
			} else {
				if _, err := writer.WriteString("x"); err != nil {
					t.Fatal(err)
				}
				fixture.Eventually(t, fixture.Patience, "it reads", func() bool { return drained(t, reader) })
			}
			signals <- syscall.SIGTERM
			select {
			case got := <-code:
				if got != exitSignal+int(syscall.SIGTERM) || !strings.Contains(stderr.String(), "ended by SIGTERM\n") {
					t.Errorf("exit %d, stderr %q, want %d", got, &stderr, exitSignal+int(syscall.SIGTERM))
				}
			case <-time.After(fixture.Patience):
				t.Error("the signal does not end it")
			}
		})
	}
}

// A file that is cut is not taken for one that is no JSON.
func TestContentThatIsTooLargeIsToldSo(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "content")
	content := `{"a":"` + strings.Repeat("x", runs.MaxContent+92) + `"}`
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{file, "-"} {
		var stdout, stderr bytes.Buffer
		args := []string{"answer", "T-1", "--content", from}
		code := run(t.Context(), args, []string{"HOME=" + t.TempDir()}, strings.NewReader(content), &stdout, &stderr)
		if want := "linesman: --content: at most 16384 bytes\n"; code != exitUsage || stderr.String() != want {
			t.Errorf("%s: exit %d and %q, want %d and %q", from, code, &stderr, exitUsage, want)
		}
	}
}

// drained reports whether all that was written to a pipe has been read.
func drained(t *testing.T, pipe *os.File) (is bool) {
	conn, err := pipe.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			is = err == nil && n == 0
		})
	}
	if err != nil {
		t.Error(err)
	}
	return is
}
