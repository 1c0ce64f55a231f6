package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/lab/agents"
)

// Real agents do tasks as servers of the Agent Client Protocol: one that may do everything; one that may
// write in its directory, whose command a person denies; one that may only read and is cancelled while its model is
// silent; and one whose command a person allows.
func TestRealAgentsDoLiveTasks(t *testing.T) {
	t.Parallel()
	lab, data := secretDir(t), t.TempDir()
	environ := map[string]string{"HOME": filepath.Join(lab, "gemini", "home")}
	env := []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8"}
	settings := fmt.Sprintf("[work]\nroots = [%q]\ndanger = true\n", lab)
	var stories []*story
	for _, short := range []string{"gemini", "opencode"} {
		s := &story{short: short, data: data, dir: filepath.Join(lab, short), environ: environ}
		theirs, argv, project := agents.Setup(t, short+"-live", s.dir)
		environ[keyName[short]], s.project = keyOf(short), project
		names := []string{keyName[short]}
		for _, v := range theirs {
			name, value, _ := strings.Cut(v, "=")
			if slices.Contains([]string{"PATH", "LANG", "HOME", keyName[short]}, name) {
				continue
			}
			names = append(names, name)
			env = append(env, name+"="+priced.Replace(value))
		}
		protocol := map[string]string{"gemini": "--acp", "opencode": "acp"}[short]
		settings += fmt.Sprintf("[agents.%s]\nacp = [%q, %q]\nenv = [\"%s\"]\n", short, argv[0][0], protocol,
			strings.Join(names, `", "`))
		stories = append(stories, s)
	}
	for name, value := range environ {
		env = append(env, name+"="+value)
	}
	write(t, filepath.Join(lab, "linesman.toml"), settings)
	fixture.Up(t, program, data, env, "--config", filepath.Join(lab, "linesman.toml"))
	b := operatorBus(t, data)
	t.Run("agents", func(t *testing.T) { // ends once all of them have
		for _, s := range stories {
			t.Run(s.short, func(t *testing.T) {
				t.Parallel()
				s.t, s.bus = t, b
				s.talks()
			})
		}
	})
}

// asks waits until people are asked for a command.
func (s *story) asks(run, command string) {
	s.t.Helper()
	fixture.Eventually(s.t, fixture.Patience, "nobody is asked", func() bool {
		out, code := execute(s.t, "questions", "--data-dir", s.data, run, "--json")
		return code == 0 && strings.Contains(out, command)
	})
}

func (s *story) talks() {
	s.t.Helper()
	run := s.submit("Task one", append(s.in(runs.DangerFull), "--wait", "--live")...)
	r := s.record(run)
	events, _ := execute(s.t, "events", "--data-dir", s.data, "--run", run, "--json")
	if r.State != runs.StateCompleted || r.FinalText == nil || *r.FinalText != "Remembered." {
		s.t.Errorf("task one: %s (%s), %v\n%s", r.State, r.Reason, r.FinalText, events)
	}
	files := map[string]string{"new.txt": "one\n", "a.txt": "one\ndeux\n"}
	s.has(files)

	run = s.submit("Task two", append(s.in(runs.WorkspaceWrite), "--live")...)
	s.asks(run, "touch denied.txt")
	if out, code := execute(s.t, "answer", "--data-dir", s.data, run, "deny"); code != 0 {
		s.t.Errorf("answer: exit %d: %s", code, out)
	}
	if out, code := execute(s.t, "wait", "--data-dir", s.data, run); code != 0 {
		s.t.Errorf("wait: exit %d: %s", code, out)
	}
	r = s.record(run)
	events, _ = execute(s.t, "events", "--data-dir", s.data, "--run", run, "--json")
	said := r.FinalText != nil && *r.FinalText == "42."
	if s.short == "opencode" { // its turn ends with a rejection
		said = r.FinalText == nil
	}
	if r.State != runs.StateCompleted || !said {
		s.t.Errorf("task two: %s (%s), %v\n%s", r.State, r.Reason, r.FinalText, events)
	}
	files["second.txt"] = "two\n"
	s.has(files)
	if !strings.Contains(events, "permission asked") {
		s.t.Errorf("it asked nothing:\n%s", events)
	}

	run = s.submit("Task three", append(s.in(runs.ReadOnly), "--live", "--no-ask")...)
	fixture.Eventually(s.t, fixture.Patience, "its model is not silent", func() bool {
		out, _ := execute(s.t, "status", "--data-dir", s.data, "--json", run)
		return gjson.Get(out, "doing.phase").String() == string(runs.Thinking)
	})
	if out, code := execute(s.t, "cancel", "--data-dir", s.data, run); code != 0 {
		s.t.Errorf("cancel: exit %d: %s", code, out)
	}
	s.ends(run, runs.StateCancelled, "")
	s.has(files)

	run = s.submit("Task four", append(s.in(runs.ReadOnly), "--live")...)
	fixture.Eventually(s.t, fixture.Patience, "the command that is allowed does not run", func() bool {
		out, code := execute(s.t, "questions", "--data-dir", s.data, run, "--json")
		for line := range strings.Lines(out) {
			if code != 0 {
				break // nothing is asked now
			}
			execute(s.t, "answer", "--data-dir", s.data, run+"/"+gjson.Get(line, "id").String(), "allow")
		}
		for _, command := range processes(s.t, s.project) {
			if strings.Contains(command, "sleep 61") {
				return true
			}
		}
		return false
	})
	if out, code := execute(s.t, "cancel", "--data-dir", s.data, run); code != 0 {
		s.t.Errorf("cancel: exit %d: %s", code, out)
	}
	s.ends(run, runs.StateCancelled, "")
	if left := processes(s.t, s.project); len(left) > 0 {
		s.t.Errorf("these processes are left: %q", left)
	}
}
