package main

import (
	"bufio"
	"io"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The responder must exit, so that a supervisor can restart it: without HTTP its
// health cannot be checked.
func TestResponderEndsWhenItsHTTPServerFailsWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	said, stderr := io.Pipe()
	code := make(chan int, 1)
	environ := []string{"HOME=" + t.TempDir(), "LINESMAN_LOG_LEVEL=info"}
	args := []string{"responder", "--nats", "nats://127.0.0.1:1", "--http", "127.0.0.1:0", "--data-dir", t.TempDir()}
	go func() {
		code <- run(t.Context(), args, environ, strings.NewReader(""), io.Discard, stderr)
		_ = stderr.Close()
	}()
	address := regexp.MustCompile(`serving .*127\.0\.0\.1:([0-9]+)`)
	var last string
	for lines := bufio.NewScanner(said); lines.Scan(); last = lines.Text() {
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			stopListening(t, m[1])
		}
	}
	if got := <-code; got != exitFailed || !strings.Contains(last, "serve on 127.0.0.1:0: ") {
		t.Errorf("it ends with %d, want %d, and says %q", got, exitFailed, last)
	}
}

// stopListening breaks the socket of this process that listens on a port.
func stopListening(t *testing.T, port string) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range fds {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		address, err := unix.Getsockname(fd)
		if err != nil { // no socket
			continue
		}
		if in, is := address.(*unix.SockaddrInet4); is && strconv.Itoa(in.Port) == port &&
			netip.AddrFrom4(in.Addr).IsLoopback() {
			if err := unix.Shutdown(fd, unix.SHUT_RDWR); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("nothing listens on port %s", port)
}
