// Package a2a runs A2A clients from elsewhere against a server: the official
// SDK for JavaScript, at the version that package.json pins, and the command
// line of a2a-go. What they know of the server is its URL and a token.
package a2a

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"
)

// library is the module of a2a-go, whose command line is built at the version
// that linesman uses.
const library = "github.com/a2aproject/a2a-go/v2"

const commandTime = 2 * time.Minute

// Story runs client.mjs with arguments, and returns what it printed. It fails
// the test when the client fails.
func Story(tb testing.TB, args ...string) []byte {
	tb.Helper()
	node, dir := fixture.Need(tb, "AGENTS", "node"), fixture.Install(tb, "AGENTS", "test", "clients", "a2a")
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
	fixture.All(tb, "builds the command line of a2a-go")
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
		fixture.Missing(tb, "AGENTS", fmt.Sprintf("a2a: go build of %s/cmd/a2a: %v\n%s", library, err, out))
	}
	return program
}
