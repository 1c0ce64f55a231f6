// Package a2a runs A2A clients from elsewhere against a server: the official
// SDK for JavaScript, at the version that package.json pins, and the command
// line of a2a-go. What they know of the server is its URL and a token.
package a2a

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// library is the module of a2a-go, whose command line is built at the version
// that linesman uses.
const library = "github.com/a2aproject/a2a-go/v2"

const commandTime = 2 * time.Minute

// Story runs client.mjs with arguments, and returns what it printed. It fails
// the test when the client fails.
func Story(tb testing.TB, args ...string) []byte {
	tb.Helper()
	dir := install(tb)
	node, err := exec.LookPath("node")
	if err != nil {
		missing(tb, "Node.js is not installed")
	}
	home := tb.TempDir()
	ctx, cancel := context.WithTimeout(tb.Context(), commandTime)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, node, append([]string{filepath.Join(dir, "client.mjs")}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LANG=C.UTF-8", "NO_COLOR=1"}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, 5*time.Second
	if err := cmd.Run(); err != nil {
		tb.Fatalf("a2a: client.mjs: %v\n%s%s", err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.Bytes()
}

// BuildCLI builds the command line of a2a-go and returns its path. Where what it
// needs cannot be had the test is skipped, or fails when TEST_REQUIRE_AGENTS is 1.
func BuildCLI(tb testing.TB) string {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Minute)
	defer cancel()
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", library).Output()
	if err != nil {
		tb.Fatalf("a2a: where is %s: %v", library, err)
	}
	// Within the module, with its own list of what it needs. To install it by its
	// version would ask the proxy for all versions, which not every proxy answers.
	program := filepath.Join(tb.TempDir(), "a2a")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/a2a")
	cmd.Dir = strings.TrimSpace(string(dir))
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		missing(tb, fmt.Sprintf("go build of %s/cmd/a2a: %v\n%s", library, err, out))
	}
	return program
}

// install makes sure that the pinned packages are there, and returns this
// directory. npm writes .package-lock.json last, so it is there once an
// installation is whole; a lock keeps test processes from installing at once.
// Without npm, or where it cannot install, the test is skipped, or fails when
// TEST_REQUIRE_AGENTS is 1.
func install(tb testing.TB) string {
	tb.Helper()
	dir := folder(tb)
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprintf("linesman-test-a2a-%d.lock", os.Getuid())), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		tb.Fatalf("a2a: lock: %v", err)
	}
	want, err := os.Stat(filepath.Join(dir, "package-lock.json"))
	if err != nil {
		tb.Fatal(err)
	}
	whole := filepath.Join(dir, "node_modules", ".package-lock.json")
	if have, err := os.Stat(whole); err == nil && !have.ModTime().Before(want.ModTime()) {
		return dir
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		missing(tb, "npm is not installed")
	}
	cmd := exec.CommandContext(tb.Context(), npm, "ci", "--ignore-scripts")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		missing(tb, fmt.Sprintf("npm ci: %v\n%s", err, out))
	}
	now := time.Now()
	if err := os.Chtimes(whole, now, now); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// folder is this package's directory, found from the working directory, which
// for a test lies inside the module.
func folder(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		_, err := os.Stat(filepath.Join(dir, "go.mod"))
		if err == nil {
			return filepath.Join(dir, "test", "a2a")
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			tb.Fatalf("a2a: no go.mod above the working directory: %v", err)
		}
	}
}

func missing(tb testing.TB, what string) {
	tb.Helper()
	if os.Getenv("TEST_REQUIRE_AGENTS") == "1" {
		tb.Fatal("a2a: " + what)
	}
	tb.Skip("a2a: " + strings.TrimSpace(what))
}
