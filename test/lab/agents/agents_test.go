package agents_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/test/lab/agents"
)

// The recording was made by run-scenario.mjs. The same bytes from here mean
// that Setup prepares what it prepares.
func TestRealCodexPrintsWhatWasRecorded(t *testing.T) {
	for _, name := range []string{"hello", "plan", "mcp"} {
		t.Run(name, func(t *testing.T) {
			env, argv, cwd := agents.Setup(t, "codex-"+name, t.TempDir())
			var got bytes.Buffer
			for _, line := range argv {
				got.Write(output(t, env, line, cwd))
			}
			compare(t, got.Bytes(), name)
		})
	}
}

func TestThreadGoesFromOneProcessToTheNext(t *testing.T) {
	env, argv, cwd := agents.Setup(t, "codex-resume", t.TempDir())
	if len(argv) != 2 {
		t.Fatalf("got %d processes, want 2", len(argv))
	}
	first := output(t, env, argv[0], cwd)
	id := thread.FindSubmatch(first)
	if id == nil {
		t.Fatalf("no thread id in %s", first)
	}
	for i, arg := range argv[1] {
		argv[1][i] = strings.ReplaceAll(arg, agents.Thread, string(id[1]))
	}
	compare(t, append(first, output(t, env, argv[1], cwd)...), "resume")
}

func TestRequestsAreWhatTheModelWasAsked(t *testing.T) {
	dir := t.TempDir()
	env, argv, cwd := agents.Setup(t, "codex-env", dir)
	if got := agents.Requests(t, dir); len(got) != 0 {
		t.Fatalf("got %d requests before codex ran", len(got))
	}
	output(t, env, argv[0], cwd)
	got := agents.Requests(t, dir)
	if len(got) != 2 {
		t.Fatalf("got %d requests, want one for the command and one for what it printed", len(got))
	}
	printed := []byte("CODEX_HOME=" + filepath.Join(dir, "home", ".codex"))
	if bytes.Contains(got[0], printed) || !bytes.Contains(got[1], printed) {
		t.Errorf("got %s\nand %s\nwant %s in the second alone", got[0], got[1], printed)
	}
}

// The agents that `make agents` installs are those that linesman says it was tested with.
func TestPinnedVersionsAreTheTestedOnes(t *testing.T) {
	var pinned []byte
	for _, file := range []string{"package.json", filepath.Join("live", "package.json")} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pinned = append(pinned, text...)
	}
	makefile, err := os.ReadFile(filepath.Join("..", "..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range known.All() {
		name := a.Install[strings.LastIndexByte(a.Install, ' ')+1:]
		if !bytes.Contains(pinned, []byte(`"`+name+`": "`+a.Tested+`"`)) &&
			!bytes.Contains(makefile, []byte(" "+name+"@"+a.Tested+"\n")) {
			t.Errorf("%s %s, with which linesman was tested, is not the version that `make live-agents` installs", name, a.Tested)
		}
		if adapter := a.Live.Package(); a.Live.Tested != "" && !bytes.Contains(pinned, []byte(`"`+adapter+`": "`+a.Live.Tested+`"`)) {
			t.Errorf("%s %s is not the version that `make live-agents` installs", adapter, a.Live.Tested)
		}
	}
}

func TestModelEndsWithItsTest(t *testing.T) {
	var address string
	t.Run("while", func(t *testing.T) {
		address = fmt.Sprintf("127.0.0.1:%d", agents.Mock(t, "codex-hello"))
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatalf("the model does not serve: %v", err)
		}
		conn.Close()
	})
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Errorf("the model still serves at %s", address)
	}
}

func TestMissingToolSkipsUnlessItIsRequired(t *testing.T) {
	if os.Getenv("AGENTS_TEST_CHILD") == "1" {
		agents.Node(t)
		t.Fatal("node was found on an empty PATH")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for require, want := range map[string]string{"": "--- SKIP", "1": "--- FAIL"} {
		cmd := exec.Command(self, "-test.v", "-test.run", "^"+t.Name()+"$")
		cmd.Env = []string{"AGENTS_TEST_CHILD=1", "PATH=", "TEST_ALL=1", "TEST_REQUIRE_AGENTS=" + require}
		out, _ := cmd.CombinedOutput() // fails in one case; the output says how
		if !bytes.Contains(out, []byte(want)) || !bytes.Contains(out, []byte("node is not installed")) {
			t.Errorf("TEST_REQUIRE_AGENTS=%q: got %s, want %s", require, out, want)
		}
	}
}

var thread = regexp.MustCompile(`"thread_id":"([0-9a-f-]{36})"`)

func output(t *testing.T, env, argv []string, cwd string) []byte {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stderr = env, cwd, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, stderr.Bytes())
	}
	return out
}

func compare(t *testing.T, got []byte, name string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join("..", "..", "corpus", "codex", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	mask := func(b []byte) string { return string(thread.ReplaceAll(b, []byte(`"thread_id":"ID"`))) }
	if g, w := mask(got), mask(want); g != w {
		t.Errorf("%s differs from the recording\ngot:\n%s\nwant:\n%s", name, g, w)
	}
}
