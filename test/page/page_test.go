// Package page tests the page of linesman in a real browser, against a real `up`. They are
// skipped without Chromium, node or npm, unless TEST_REQUIRE_BROWSER is 1.
package page

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/browsertest"
)

var program string

func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, "a browser takes most of a minute", func(dir string) error {
		program = filepath.Join(dir, "linesman")
		return fixture.Build(dir, "./cmd/linesman")
	}))
}

// stage is an `up`, whose agents are scripts.
type stage struct {
	t          *testing.T
	lab, data  string
	up         *fixture.Process
	http, nats string // addresses
	runs       int
	running    *fixture.Process // of begin
	shots      string           // where screenshots are
}

// newStage starts an `up`; more are lines of its settings of live runs.
func newStage(t *testing.T, more ...string) *stage {
	t.Helper()
	s := &stage{t: t, lab: t.TempDir(), shots: fixture.Path(t, "bin", "page")}
	s.data = filepath.Join(s.lab, "data")
	if err := os.MkdirAll(s.shots, 0o755); err != nil {
		t.Fatal(err)
	}
	// The agent of tasks prints a recording, and then waits until the file next to it is written.
	// It has the name of an agent, so that its prompt is known.
	s.write("codex", "#!/bin/sh\n[ \"$1\" = --version ] && exit\n"+
		`printf '%s\n' '{"type":"thread.started","thread_id":"0199a213-81c0-7800-8aa1-bbab2a035a53"}' `+
		`'{"type":"turn.started"}' `+
		`'{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"I am at it."}}'`+"\n"+
		"while [ ! -e '"+s.lab+"/end' ]; do sleep 0.05; done\n"+
		`echo '{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":0,"output_tokens":5}}'`+"\n")
	if err := os.Chmod(filepath.Join(s.lab, "codex"), 0o700); err != nil {
		t.Fatal(err)
	}
	ask, err := json.Marshal(asker(t, s.lab))
	if err != nil {
		t.Fatal(err)
	}
	s.write("linesman.toml", fmt.Sprintf("[live]\nalways = true\n%s\n[work]\nroots = [%q]\n"+
		"[agents.codex]\ncommand = [%q]\n[agents.asker]\nacp = %s\n",
		strings.Join(more, "\n"), s.lab, filepath.Join(s.lab, "codex"), ask))
	s.nats, s.http = "127.0.0.1:0", "127.0.0.1:0"
	s.start()
	return s
}

// start starts the `up`, again at its addresses.
func (s *stage) start() {
	s.t.Helper()
	s.up = fixture.Start(s.t, exec.Command(program, "up", "--data-dir", s.data, "--config",
		filepath.Join(s.lab, "linesman.toml"), "--nats-listen", s.nats, "--http", s.http))
	up := s.up
	s.t.Cleanup(func() {
		if !up.Over() {
			up.Signal(syscall.SIGTERM)
			up.Code()
		}
	})
	s.up.Await(s.up.Stdout, "\n")
	here := fixture.ReadAddress(s.t, s.data)
	s.nats, s.http = strings.TrimPrefix(here.NATS, "nats://"), strings.TrimPrefix(here.HTTP, "http://")
}

func (s *stage) write(name, content string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.lab, name), []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// linesman runs a command to its end and returns what it printed.
func (s *stage) linesman(args ...string) string {
	s.t.Helper()
	out, stderr, code := fixture.Run(s.t, exec.Command(program, append(args, "--data-dir", s.data)...))
	if code != 0 {
		s.t.Fatalf("%q: exit %d: %s", args, code, stderr)
	}
	return strings.TrimSpace(out)
}

// play records a run of an agent from the corpus, with a title.
func (s *stage) play(agent, recording, title string) {
	s.t.Helper()
	cmd := exec.Command(program, "pipe", "--agent", agent, "--title", title, "--label", "team=page", "--data-dir", s.data)
	f, err := os.Open(fixture.Path(s.t, "test", "corpus", agent, recording+".jsonl"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	cmd.Stdin = f
	if _, stderr, code := fixture.Run(s.t, cmd); code != 0 && code != 1 {
		s.t.Fatalf("pipe %s: exit %d: %s", recording, code, stderr)
	}
}

// calls are what scenarios may ask for.
func (s *stage) calls() browsertest.Calls {
	return browsertest.Calls{
		"link": func(json.RawMessage) any { return s.linesman("page") },
		"begin": func(args json.RawMessage) any {
			var want struct{ Lines int }
			if err := json.Unmarshal(args, &want); err != nil {
				s.t.Fatal(err)
			}
			return s.begin(want.Lines)
		},
		"end": func(json.RawMessage) any {
			s.write("next", "")
			if code := s.running.Code(); code != 0 {
				s.t.Errorf("run: exit %d", code)
			}
			return nil
		},
		"ask":       s.ask,
		"keep":      s.keep,
		"holdWakes": func(json.RawMessage) any { s.write("sleepy", ""); return nil },
		"letWake":   func(json.RawMessage) any { return os.Remove(filepath.Join(s.lab, "sleepy")) },
		"request":   s.request, "response": s.response,
		"forget": func(args json.RawMessage) any {
			return s.linesman("forget", gjson.GetBytes(args, "run").String())
		},
		"kill":  func(json.RawMessage) any { s.up.Kill(); return nil },
		"start": func(json.RawMessage) any { s.start(); return nil },
	}
}

// begin starts a run that prints numbered lines and waits for end. It returns its title.
func (s *stage) begin(lines int) string {
	s.t.Helper()
	s.runs++
	title := fmt.Sprintf("Live run %d", s.runs)
	_ = os.Remove(filepath.Join(s.lab, "next"))
	s.write("live.sh", fmt.Sprintf(`echo '{"type":"thread.started","thread_id":"0199a213-81c0-7800-8aa1-bbab2a035a%02d"}'
echo '{"type":"turn.started"}'
i=0
while [ $i -lt %d ] || [ ! -e '%s/next' ]; do
	i=$((i+1))
	if [ $i -le %[2]d ]; then
		echo '{"type":"item.completed","item":{"id":"item_'$i'","type":"agent_message","text":"Line number '$i'."}}'
	fi
	sleep 0.05
done
echo '{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":0,"output_tokens":5}}'
`, s.runs, lines, s.lab))
	s.running = fixture.Start(s.t, exec.Command(program, "run", "--data-dir", s.data, "--title", title, "--agent",
		"codex", "--", "/bin/sh", filepath.Join(s.lab, "live.sh")))
	return title
}

func TestPage(t *testing.T) {
	b := browsertest.Start(t)
	s := newStage(t)
	reader := s.linesman("token", "create", "reader", "--scope", "read")
	plays := map[string][2]string{
		"List the files": {"codex", "shell-ok"}, "Plan the work": {"codex", "plan"}, "Change two files": {"codex", "patch"},
		"Run three commands at once": {"codex", "shell-parallel"}, "Fail for a reason": {"codex", "failed"},
		"Use tools": {"claude", "tools"}, "Ask a sub-agent": {"claude", "subagent"}, "Edit with Gemini": {"gemini", "edit"},
		"Work with opencode": {"opencode", "tools"},
	}
	for title, from := range plays {
		s.play(from[0], from[1], title)
	}
	var byTitle map[string]string // the last ones are listed a moment after they are stored
	fixture.Eventually(t, fixture.Patience, "all runs are listed", func() bool {
		byTitle = s.listed()
		return len(byTitle) == len(plays)
	})
	light := []string{"Run three commands at once", "Fail for a reason"}
	if fixture.Whole() {
		light = slices.Collect(maps.Keys(plays))
	}
	args := map[string]any{
		"reader": reader, "runs": byTitle, "titles": slices.Sorted(maps.Keys(byTitle)), "shots": s.shots, "lab": s.lab,
		"light": light, "lines": 60,
	}
	for _, name := range []string{"signIn", "overview", "liveRun", "timelines", "more", "task", "sizes", "restart"} {
		t.Run(name, func(t *testing.T) {
			if name == "sizes" {
				fixture.Long(t, "shows each view in many sizes")
			}
			b.Do(t, name, args, s.calls())
		})
	}
	t.Run("tabs", func(t *testing.T) {
		s.play("codex", "shell-ok", "Forget it")
		args["title"], args["id"] = "Forget it", s.listed()["Forget it"]
		b.Do(t, "tabs", args, s.calls())
	})
	t.Run("hostile", func(t *testing.T) {
		args["hostile"] = s.attack()
		b.Do(t, "hostile", args, s.calls())
	})
	t.Run("many", func(t *testing.T) {
		fixture.Long(t, "stores 10,000 runs")
		s.record(10_000)
		t.Logf("10,000 runs (milliseconds; frames while scrolling): %s", b.Do(t, "many", args, s.calls()))
	})
}

// listed returns the ids of all runs by their titles.
func (s *stage) listed() map[string]string {
	s.t.Helper()
	all := map[string]string{}
	for _, r := range gjson.Get(s.linesman("ls", "--json"), "runs").Array() {
		all[r.Get("title").String()] = r.Get("run").String()
	}
	return all
}
