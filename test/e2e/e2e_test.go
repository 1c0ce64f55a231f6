// Package e2e runs the real agents under the real program and looks at it
// from outside: what it prints, how it exits, what the streams hold.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/lab/agents"
)

var program string // the linesman under test

func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, "", func(dir string) error {
		program = filepath.Join(dir, "linesman")
		return fixture.Build(dir, "./cmd/linesman")
	}))
}

// built builds an example, and returns its path.
func built(t *testing.T, example string) string {
	t.Helper()
	dir := t.TempDir()
	if err := fixture.Build(dir, "./examples/"+example); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, example)
}

// record is what `run --json` and `events --json` print.
type record struct {
	Seq        uint64          `json:"seq"`
	Time       string          `json:"time"`
	Agent      string          `json:"agent"`
	Run        string          `json:"run"`
	Line       uint64          `json:"line"`
	Part       int             `json:"part"`
	Event      json.RawMessage `json:"event"`
	Completion json.RawMessage `json:"completion"`
}

// up starts `linesman up` on a data directory until the test ends.
func up(t *testing.T, data string, flags ...string) *fixture.Server {
	t.Helper()
	return fixture.Up(t, program, data, nil, flags...)
}

// execute runs the program to its end.
func execute(t *testing.T, args ...string) (stdout string, code int) {
	t.Helper()
	stdout, stderr, code := fixture.Run(t, exec.Command(program, args...))
	if code != 0 {
		t.Logf("linesman %s: exit %d\n%s", strings.Join(args, " "), code, stderr)
	}
	return stdout, code
}

// succeeds repeats a command until it succeeds: a busy machine can be too slow for it.
func succeeds(t *testing.T, args ...string) {
	t.Helper()
	var out string
	var code int
	if !fixture.Poll(fixture.Patience, func() bool { out, code = execute(t, args...); return code == 0 }) {
		t.Errorf("%s: exit %d: %s", args[0], code, out)
	}
}

// agentRun runs one process of a scenario under `linesman run --json`. At the
// first event that holds at, it gets an interrupt, unless at is "".
func agentRun(t *testing.T, data, id string, env, argv []string, cwd, at string) (records []record, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"run", "--data-dir", data, "--run", id, "--json", "--"},
		argv...)...)
	cmd.Env, cmd.Dir = env, cwd
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	fixture.Watch(t, cmd)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("run --json printed %q: %v", line, err)
		}
		records = append(records, r)
		if at != "" && bytes.Contains(line, []byte(at)) {
			at = ""
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() < 0 {
		t.Fatalf("run: %v\n%s", err, &stderr)
	}
	if len(records) == 0 {
		t.Fatalf("run printed nothing, exit %d\n%s", cmd.ProcessState.ExitCode(), &stderr)
	}
	return records, cmd.ProcessState.ExitCode()
}

// ids are what differs from one recording to the next: UUIDs, the ids of opencode, the times in
// those of Gemini CLI.
var ids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|` +
	`(?:ses|msg|prt)_[0-9a-f]{12}[0-9A-Za-z]+|_[0-9]{13}_`)

func mask(s string) string { return ids.ReplaceAllString(s, "ID") }

func printed(records []record) []string {
	var out []string
	for _, r := range records {
		body := r.Event
		if r.Completion != nil {
			body = r.Completion
		}
		out = append(out, mask(fmt.Sprintf("%d.%d %s", r.Line, r.Part, body)))
	}
	return out
}

// expected is what a recording of Codex must become, as it is printed.
func expected(t *testing.T, out []byte, code int) []string {
	t.Helper()
	return expectedOf(t, codex.Backend{}, out, code)
}

func expectedOf(t *testing.T, b normalizer.Backend, out []byte, code int) []string {
	t.Helper()
	exit := runs.Exit{Reason: runs.ReasonExited, Code: &code}
	if code > 128 {
		exit.Code, exit.Signal = nil, code-128
	}
	var want []string
	f := normalizer.NewFold(b, "x", 0)
	take := func(m normalizer.Message) {
		want = append(want, mask(fmt.Sprintf("%d.%d %s", m.Line, m.Part, api.OneLine(m.Body))))
	}
	f.Apply(1, runs.Entry{Kind: runs.Out, Body: out}, take)
	f.Apply(2, runs.Entry{Kind: runs.Exited, Body: runs.Encode(exit)}, take)
	return want
}

// items are the places of lines and the ids of items, which depend on the order.
var items = regexp.MustCompile(`^[0-9.]+ |item_[0-9]+`)

// unordered is messages in an order that does not depend on theirs.
func unordered(messages []string) []string {
	var out []string
	for _, m := range messages {
		out = append(out, items.ReplaceAllString(m, "ITEM"))
	}
	slices.Sort(out)
	return out
}

// recording is one of the corpus, by its path there.
func recording(t *testing.T, path string) (out []byte, code int) {
	t.Helper()
	out, err := os.ReadFile("../corpus/" + path + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("../corpus/" + path + ".exit")
	if err != nil {
		t.Fatal(err)
	}
	code, err = strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return out, code
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		g, w := "(nothing)", "(nothing)"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("%s: message %d\n got %.600s\nwant %.600s", what, i+1, g, w)
			return
		}
	}
}

// The events of real Codex runs equal those of the recordings, and its exit
// status is passed on.
func TestRealCodex(t *testing.T) {
	t.Parallel()
	agents.Codex(t)
	data := t.TempDir()
	up(t, data)
	t.Run("recordings", func(t *testing.T) { // ends once all of them have
		each := []string{"hello", "shell-fail", "patch", "mcp", "subagent", "sigint", "resume", "left-running"}
		others := []string{"shell-ok", "shell-large", "shell-unicode", "search", "plan", "failed", "cut"}
		for _, name := range slices.Concat(each, others) {
			t.Run(name, func(t *testing.T) {
				if slices.Contains(others, name) {
					fixture.Long(t, "starts a real agent for each recording")
				}
				t.Parallel()
				env, processes, cwd := agents.Setup(t, "codex-"+name, t.TempDir())
				out, code := recording(t, "codex/"+name)
				parts := splitThreads(out, len(processes))
				at := ""
				if name == "sigint" {
					at = `"ToolCall"`
				}
				thread := ""
				for i, argv := range processes {
					id := fmt.Sprintf("%s-%d", name, i+1)
					for j := range argv {
						argv[j] = strings.ReplaceAll(argv[j], agents.Thread, thread)
					}
					records, status := agentRun(t, data, id, env, argv, cwd, at)
					if status != code {
						t.Errorf("exit status %d, want %d", status, code)
					}
					got, want := printed(records), expected(t, parts[i], code)
					if name == "shell-fail" { // two commands at once: which begins first is not said
						got, want = unordered(got), unordered(want)
					}
					same(t, "run", got, want)
					kept, _ := execute(t, "events", "--data-dir", data, "--run", id, "--json")
					var again []record
					for line := range strings.Lines(kept) {
						var r record
						if err := json.Unmarshal([]byte(line), &r); err != nil {
							t.Fatal(err)
						}
						again = append(again, r)
					}
					same(t, "events", printed(again), printed(records))
					thread = ids.FindString(string(records[0].Event))
				}
			})
		}
	})
	succeeds(t, "rebuild", "--data-dir", data)
	succeeds(t, "health", "--data-dir", data)
}

// splitThreads cuts a recording of several processes into theirs.
func splitThreads(out []byte, n int) [][]byte {
	if n == 1 {
		return [][]byte{out}
	}
	var parts [][]byte
	for _, line := range bytes.SplitAfter(out, []byte{'\n'}) {
		if bytes.Contains(line, []byte(`"thread.started"`)) {
			parts = append(parts, nil)
		}
		if len(line) > 0 {
			parts[len(parts)-1] = append(parts[len(parts)-1], line...)
		}
	}
	return parts
}

// A line of over 6 MB, far over what a NATS message may hold.
func TestRealCodexHugeLine(t *testing.T) {
	t.Parallel()
	env, processes, cwd := agents.Setup(t, "codex-shell-huge", t.TempDir())
	data := t.TempDir()
	records, code := agentRun(t, data, "huge", background(t, data, env), processes[0], cwd, "") // no `up`: it starts one
	if code != 0 {
		t.Errorf("exit status %d", code)
	}
	all := strings.Join(printed(records), "\n")
	if !strings.Contains(all, `"exit_code":0,"bytes":{"stdout":1048576,`) || !strings.Contains(all, "Nothing but zeros.") {
		t.Errorf("events: %.2000s", all)
	}
}
