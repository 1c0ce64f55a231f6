package terminal

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	lab "github.com/linesman/linesman/test/lab/agents"
)

// interactive is an agent in a terminal.
type interactive struct {
	start, resume, fork, quit string // what is typed; resume and fork end with the id of the session
	ready                     string // what it shows when it takes prompts
	ended                     string // its last words; it may still have something to do then
	allow                     string // the key that allows a command
	asking                    runs.Phase
	answers                   []string
	untold                    string // part of the requests to the model that no log tells
}

var interactives = map[string]interactive{
	"claude": {
		start: "claude --model claude-sonnet-4-5", resume: "claude --model claude-sonnet-4-5 --resume ",
		fork: "claude --model claude-sonnet-4-5 --fork-session --resume ", quit: "/exit", ready: `\? for shortcuts`,
		ended: "Resume this session with", allow: "1", asking: runs.AwaitingInput, untold: "followed by a <summary> block",
		answers: []string{"one", "two", "three", "four", "five", "six", "seven"}, // four: its sub-agent has ended
	},
	"codex": {
		start: "codex --no-daemon", resume: "codex --no-daemon resume ", fork: "codex --no-daemon fork ", quit: "/quit",
		ready: "Ask Codex to do anything", ended: "To continue this session, run", allow: "y",
		asking: runs.RunningOrAsking, untold: "Do not answer the request",
		answers: []string{"one", "two", "three", "five", "six", "seven"},
	},
}

// A person works with a real agent in a terminal: a permission, a sub-agent while the server is killed,
// a compaction, a log that moves, a resumed session and a fork of it. linesman only follows. It tells at
// each step what the session does, has each answer once, and counts what the model served.
func TestSessionsInATerminal(t *testing.T) {
	for name, c := range interactives {
		t.Run(name, func(t *testing.T) {
			if name == "claude" {
				fixture.Long(t, "works with a second agent in a terminal for a minute")
			}
			t.Parallel()
			s := follow(t, name)
			s.starts(c.start, c.ready)
			s.asks("One.", "Answer one")
			s.rests("Answer one")
			s.asks("Two.", `1\. Yes`)
			s.is(c.asking)
			s.presses(c.allow, "Answer two")
			s.rests("Answer two")
			s.killServer()
			s.asks("Three.", "Answer three")
			s.rests("Answer three")
			if slices.Contains(c.answers, "four") {
				s.rests("Answer four")
			}
			s.asks("/compact", "(?i)compacted")
			s.asks("Five.", "Answer five")
			s.rests("Answer five")
			session := s.list()[0].Thread
			s.asks(c.quit, c.ended)
			s.starts(c.resume+session, c.ready)
			s.asks("Six.", "Answer six")
			s.rests("Answer six")
			s.asks(c.quit, c.ended)
			s.starts(c.fork+session, c.ready)
			s.asks("Seven.", "Answer seven")
			s.rests("Answer seven")
			s.asks(c.quit, c.ended)
			s.Do("respawn-pane", "-k", "cat")
			s.compare(c.answers, c.untold)
		})
	}
}

// session is a terminal whose agents linesman follows.
type session struct {
	*tmux
	dir, data string
	cwd, path string // of the agent
	env       []string
}

// follow opens a window for an agent, with linesman beside it.
func follow(t *testing.T, agent string) *session {
	t.Helper()
	fixture.Need(t, "TMUX", "tmux")
	dir := t.TempDir()
	env, argv, cwd := lab.Setup(t, agent+"-terminal", dir)
	s := &session{dir: dir, data: filepath.Join(dir, "data"), env: env}
	trust, text := ".codex/config.toml", fmt.Sprintf("[projects.%q]\ntrust_level = \"trusted\"\n", cwd)
	if agent == "claude" {
		trust, text = ".claude/.claude.json", fmt.Sprintf(`{"hasCompletedOnboarding":true,"theme":"dark",`+
			`"customApiKeyResponses":{"approved":["unused"],"rejected":[]},`+
			`"projects":{%q:{"hasTrustDialogAccepted":true}}}`, cwd)
	}
	appendTo(t, filepath.Join(dir, "home", trust), text)
	for _, args := range [][]string{{"init", "-q"},
		{"-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "--no-gpg-sign", "-q", "--allow-empty", "-m", "first"}} {
		if out, err := exec.Command("git", append([]string{"-C", cwd}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
	}
	cmd := exec.Command(program, "watch-sessions", "--data-dir", s.data, "--agent", agent)
	cmd.Env, cmd.Dir = s.env, cwd
	w := fixture.Start(t, cmd)
	t.Cleanup(func() { s.linesman("down") }) // the server that watch-sessions has started
	w.AwaitEither("watching for sessions")
	s.tmux = start(t, 110, 50, s.env, "exec cat")
	s.Do("set-option", "remain-on-exit", "on") // to show what an agent says at its end
	s.path, s.cwd = filepath.Dir(argv[0][0]), cwd
	return s
}

// starts starts an agent in the window.
func (s *session) starts(command, ready string) {
	s.t.Helper()
	s.Do("respawn-pane", "-k", "-c", s.cwd, fmt.Sprintf("PATH='%s':$PATH exec %s", s.path, command))
	s.Shows(ready)
}

// linesman runs a command of linesman, and returns what it printed.
func (s *session) linesman(args ...string) string {
	s.t.Helper()
	cmd := exec.Command(program, append(args, "--data-dir", s.data)...)
	cmd.Env = s.env
	out, errs, code := fixture.Run(s.t, cmd)
	if code != 0 {
		s.t.Fatalf("linesman %s: exit %d\n%s", args, code, errs)
	}
	return out
}

// types types a line. An agent takes an Enter that comes with its text for a line break.
func (s *session) types(line string) {
	s.t.Helper()
	s.Keys("-l", line)
	s.Shows(regexp.QuoteMeta(line[max(0, len(line)-30):]))
	s.Keys("Enter")
}

// asks types a prompt, and waits for an answer.
func (s *session) asks(prompt, answer string) {
	s.t.Helper()
	s.types(prompt)
	s.Shows(answer)
}

// presses presses a key until it shows something: a dialog that has just appeared may ignore keys.
func (s *session) presses(key, expression string) {
	s.t.Helper()
	is := regexp.MustCompile(expression)
	fixture.Eventually(s.t, fixture.Patience, "the screen shows "+expression, func() bool {
		s.Keys(key)
		return fixture.Poll(2*time.Second, func() bool { return is.MatchString(s.Screen()) })
	})
}

// list returns the runs, the oldest first.
func (s *session) list() []*api.Run {
	s.t.Helper()
	var page api.RunPage
	if err := json.Unmarshal([]byte(s.linesman("ls", "--json")), &page); err != nil {
		s.t.Fatal(err)
	}
	slices.SortFunc(page.Runs, func(a, b *api.Run) int { return cmp.Compare(a.StartedAt, b.StartedAt) })
	return page.Runs
}

// is waits until the first session does something.
func (s *session) is(phase runs.Phase) {
	s.t.Helper()
	fixture.Eventually(s.t, fixture.Patience, "the session is "+string(phase), func() bool {
		list := s.list()
		return len(list) > 0 && list[0].Doing != nil && list[0].Doing.Phase == phase
	})
}

// rests waits until linesman has an answer, and no session works.
func (s *session) rests(answer string) {
	s.t.Helper()
	fixture.Eventually(s.t, fixture.Patience, answer+" is stored, and its turn has ended", func() bool {
		return strings.Contains(s.linesman("events", "--json", "--kind", "text_output"), answer) &&
			!slices.ContainsFunc(s.list(), func(r *api.Run) bool { return r.Doing != nil && r.Doing.Phase != runs.YourTurn })
	})
}

func (s *session) killServer() {
	s.t.Helper()
	if err := syscall.Kill(fixture.ReadAddress(s.t, s.data).PID, syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
}

// compare waits for the end of all runs, and compares them with the answers and with what the model
// served.
func (s *session) compare(answers []string, untold string) {
	s.t.Helper()
	var list []*api.Run
	fixture.Eventually(s.t, fixture.Patience, "the session, its sub-agent and its fork have ended", func() bool {
		list = s.list()
		return len(list) >= 3 && !slices.ContainsFunc(list, func(r *api.Run) bool { return !r.State.Final() })
	})
	if len(list) != 3 {
		s.t.Errorf("%d runs, want 3", len(list))
	}
	served := 0
	for _, body := range lab.Requests(s.t, s.dir) {
		if !strings.Contains(string(body), untold) {
			served++
		}
	}
	var input, output int64
	for _, r := range list {
		if r.State != runs.StateCompleted {
			s.t.Errorf("run %s (%s) is %s", r.ID, r.Title, r.State)
		}
		if r.Tokens != nil {
			input, output = input+r.Tokens.Input, output+r.Tokens.Output
		}
	}
	if input != int64(served)*oneInput || output != int64(served)*oneOutput {
		s.t.Errorf("tokens %d/%d, want those of %d requests", input, output, served)
	}
	events := s.linesman("events", "--json", "--kind", "text_output")
	for _, a := range append(answers, "") {
		want := 1
		if a = "Answer " + a; a == "Answer " {
			want = len(answers)
		}
		if n := strings.Count(events, a); n != want {
			s.t.Errorf("%q is in %d events, want %d:\n%s", a, n, want, events)
		}
	}
}

// What one request to the model of the lab uses.
const oneInput, oneOutput = 1200, 80

func appendTo(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
		_ = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
