// Package mcp runs the official MCP tools against a server on loopback: the
// conformance suite and the inspector, at the versions that package.json pins.
// Both come from npm, as does a Node.js new enough for them. What they know of
// the server is its URL and its token, so a test can point them at a handler
// of its own as well as at a running linesman.
package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"
)

// commandTime is how long one scenario, or one command of the inspector, may
// take.
const commandTime = 90 * time.Second

// scenarios are those of the conformance suite that a server without fixture
// tools can pass, by revision. The others call tools by name
// (test_simple_text, …) that only a server made for the suite has.
var scenarios = map[string][]string{
	"2025-11-25": {
		"server-initialize", "logging-set-level", "ping", "tools-list", "server-sse-multiple-streams", "resources-list",
		"prompts-list", "dns-rebinding-protection", "server-session-lifecycle", "server-sse-polling",
	},
	"2026-07-28": {
		"tools-list", "server-sse-multiple-streams", "resources-list", "sep-2164-resource-not-found", "prompts-list",
		"dns-rebinding-protection", "caching", "http-header-validation", "input-required-result-missing-input-response",
		"input-required-result-unsupported-methods", "input-required-result-ignore-extra-params",
		"input-required-result-validate-input", "server-stateless",
	},
}

// expectedFailures are the checks, by scenario, that call a diagnostic tool
// which only a server made for the suite has. They have to fail: one that
// passes no longer belongs here.
var expectedFailures = map[string][]string{
	"server-stateless": {
		"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400",
		"sep-2575-http-server-no-independent-requests-on-stream", "sep-2575-server-no-log-without-loglevel",
	},
}

// Conform runs the conformance suite in both revisions against the server at
// address, which must not want a token: see [WithToken].
func Conform(t *testing.T, address string) {
	t.Helper()
	install(t)
	for _, revision := range slices.Sorted(maps.Keys(scenarios)) {
		for _, scenario := range scenarios[revision] {
			t.Run(revision+"/"+scenario, func(t *testing.T) {
				failures := slices.Clone(expectedFailures[scenario])
				for _, c := range conform(t, address, revision, scenario) {
					i := slices.Index(failures, c.ID)
					switch {
					case c.Status == "FAILURE" && i < 0:
						t.Errorf("%s: %s", c.ID, c.ErrorMessage)
					case c.Status == "FAILURE":
						failures = slices.Delete(failures, i, i+1)
					case c.Status == "WARNING":
						t.Logf("%s: %s", c.ID, c.ErrorMessage)
					}
				}
				for _, id := range failures {
					t.Errorf("%s was expected to fail, and did not", id)
				}
			})
		}
	}
}

// check is one verdict of the suite.
type check struct {
	ID           string
	Status       string // SUCCESS, FAILURE, WARNING, SKIPPED, INFO
	ErrorMessage string
}

// conform runs one scenario. The suite writes its verdicts to a file; its exit
// status says no more than they do.
func conform(tb testing.TB, address, revision, scenario string) []check {
	tb.Helper()
	dir, node := install(tb)
	report := tb.TempDir()
	suite := filepath.Join(dir, "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js")
	said, _ := run(tb, node, suite, "server", "--url", address, "--spec-version", revision, "--scenario", scenario, "-o",
		report)
	files, err := filepath.Glob(filepath.Join(report, "*", "checks.json"))
	if err != nil || len(files) != 1 {
		tb.Fatalf("mcp: scenario %s of %s left %d reports, want 1\n%s", scenario, revision, len(files), said)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil {
		tb.Fatal(err)
	}
	var checks []check
	if err := json.Unmarshal(raw, &checks); err != nil {
		tb.Fatalf("mcp: report of %s: %v", scenario, err)
	}
	if !slices.ContainsFunc(checks, func(c check) bool { return c.Status == "SUCCESS" || c.Status == "WARNING" }) {
		tb.Fatalf("mcp: scenario %s of %s checked nothing\n%s", scenario, revision, said)
	}
	return checks
}

// OverHTTP is the target of [Inspect] for the server at address, in the
// revision without sessions when modern is true. The token may be "".
func OverHTTP(address, token string, modern bool) []string {
	target := []string{address, "--transport", "http"}
	if token != "" {
		target = append(target, "--header", "Authorization: Bearer "+token)
	}
	if modern {
		target = append(target, "--protocol-era", "modern")
	}
	return target
}

// Inspect runs `mcp-inspector --cli` and returns what it printed and its exit
// status: 5 when a tool answered with isError. The target is a command line
// that serves MCP on stdio, or [OverHTTP].
func Inspect(tb testing.TB, target []string, args ...string) (stdout []byte, exit int) {
	tb.Helper()
	dir, node := install(tb)
	line := append([]string{filepath.Join(dir, "node_modules", ".bin", "mcp-inspector"), "--cli"}, target...)
	return run(tb, node, append(line, args...)...)
}

// Script runs a program of this directory with arguments, and returns what it
// printed. It fails the test when the program fails.
func Script(tb testing.TB, name string, args ...string) (stdout []byte) {
	tb.Helper()
	dir, node := install(tb)
	stdout, exit := run(tb, node, append([]string{filepath.Join(dir, name)}, args...)...)
	if exit != 0 {
		tb.Fatalf("mcp: %s: exit status %d\n%s", name, exit, stdout)
	}
	return stdout
}

// InspectTool calls a tool with arguments, a JSON object, and returns its
// result as the inspector prints it. It fails the test when the call got no
// result; a result with isError is one.
func InspectTool(tb testing.TB, target []string, tool, arguments string) json.RawMessage {
	tb.Helper()
	out, exit := Inspect(tb, target, "--method", "tools/call", "--tool-name", tool, "--tool-args-json", arguments)
	if (exit != 0 && exit != 5) || !json.Valid(out) {
		tb.Fatalf("mcp: tool %s: inspector exited %d with\n%s", tool, exit, out)
	}
	return out
}

// WithToken serves the server at address once more, on another port, and adds
// the token to each request: the suite cannot send one. Host and Origin go
// through as they come. It ends with the test.
func WithToken(tb testing.TB, address, token string) string {
	tb.Helper()
	target, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	forward := &httputil.ReverseProxy{
		// One connection a request: who goes away in the middle of a stream ends
		// nobody else's.
		Transport: &http.Transport{DisableKeepAlives: true},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
			r.Out.Host = r.In.Host
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
		// A client that goes away in the middle of a stream is no news.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A ReverseProxy may still read the body when the response has begun, finds
		// it closed then, and breaks the response off.
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client went away
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		forward.ServeHTTP(w, r)
	}))
	tb.Cleanup(proxy.Close)
	return proxy.URL + target.Path
}

// run runs Node with a home of its own, so that nothing of the user's is read
// or written. Any exit status is a result. What it says on stderr goes to the
// test's log.
func run(tb testing.TB, node string, args ...string) (stdout []byte, exit int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), commandTime)
	defer cancel()
	home := tb.TempDir()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, node, args...)
	cmd.Dir, cmd.Stderr = home, &stderr
	cmd.Env = []string{"PATH=" + filepath.Dir(node) + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + home,
		"LANG=C.UTF-8", "NO_COLOR=1"}
	cmd.WaitDelay = 5 * time.Second
	fixture.Watch(tb, cmd) // with what a linesman says that it starts
	stdout, err := cmd.Output()
	if stderr.Len() > 0 {
		tb.Logf("%s", stderr.Bytes())
	}
	var exited *exec.ExitError
	if err != nil && !(errors.As(err, &exited) && exited.Exited()) {
		tb.Fatalf("mcp: %q: %v\n%s", args, err, stdout)
	}
	return stdout, cmd.ProcessState.ExitCode()
}

// install makes sure that the pinned packages are there, and returns this
// directory and the path of Node.js.
func install(tb testing.TB) (dir, node string) {
	tb.Helper()
	dir = fixture.Install(tb, "AGENTS", "test", "clients", "mcp")
	return dir, nodeJS(tb, dir)
}

// nodeJS is the path of the pinned Node.js, or where there is none for this
// machine, of the one on the PATH if it is new enough.
func nodeJS(tb testing.TB, dir string) string {
	tb.Helper()
	arch := runtime.GOARCH
	if arch == "amd64" {
		arch = "x64"
	}
	pinned := filepath.Join(dir, "node_modules", "node-"+runtime.GOOS+"-"+arch, "bin", "node")
	if _, err := os.Stat(pinned); err == nil {
		return pinned
	}
	const newEnough = `const [a, b] = process.versions.node.split("."); process.exit(a > 22 || (a == 22 && b >= 19) ? 0 : 1)`
	if exec.CommandContext(tb.Context(), "node", "-e", newEnough).Run() != nil {
		fixture.Missing(tb, "AGENTS", "mcp: Node.js 22.19 or later is not installed")
	}
	path, err := exec.LookPath("node")
	if err != nil {
		tb.Fatal(err)
	}
	return path
}
