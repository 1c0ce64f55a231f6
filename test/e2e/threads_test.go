package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/lab/agents"
)

// threadsOf are tasks of one real agent that continue and copy its threads.
type threadsOf struct {
	t             *testing.T
	agent         string
	data, project string
	bus           *bus.Bus
}

// A real agent continues the last thread of a directory, and one by its id; a copy has a thread of its own, what the
// other one has, and its own tokens alone; and a thread of which there is no session is one error.
func TestRealAgentsContinueAndCopyThreads(t *testing.T) {
	shorts := []string{"codex", "claude"}
	if fixture.Whole() {
		shorts = append(shorts, "opencode")
	}
	for _, short := range shorts {
		t.Run(short, func(t *testing.T) {
			t.Parallel()
			lab, data := t.TempDir(), t.TempDir()
			env, _, project := agents.Setup(t, short+"-threads", lab)
			gitInit(t, project)
			here, err := os.Getwd() // where a thread is looked for that linesman does not know
			if err != nil {
				t.Fatal(err)
			}
			path := agents.Program(t, short)
			env[0] = "PATH=" + filepath.Dir(path) + ":" + os.Getenv("PATH")
			var names []string
			for _, v := range env {
				name, _, _ := strings.Cut(v, "=")
				names = append(names, name)
			}
			write(t, filepath.Join(lab, "linesman.toml"), fmt.Sprintf(
				"[work]\nroots = [%q, %q]\n[agents.%s]\nenv = [\"%s\"]\n", lab, here, short, strings.Join(names, `", "`)))
			fixture.Up(t, program, data, env, "--config", filepath.Join(lab, "linesman.toml"))
			s := &threadsOf{t: t, agent: short, data: data, project: project, bus: operatorBus(t, data)}
			s.tell(lab)
		})
	}
}

func (s *threadsOf) tell(lab string) {
	linked := filepath.Join(lab, "linked")
	if err := os.Symlink(s.project, linked); err != nil {
		s.t.Fatal(err)
	}
	if _, code := s.submit("Task none", "--resume", "last", "--dir", s.project); code == 0 {
		s.t.Error("the last thread of a directory without one was found")
	}
	one := s.completes(0, "Task one", "--dir", s.project)
	for n, flags := range [][]string{{"--resume", "last", "--dir", linked}, {"--resume", one.Thread}} {
		task := []string{"Task two", "Task three"}[n]
		if next := s.completes(n+1, task, flags...); next.Thread != one.Thread || next.ForkedFrom != "" {
			s.t.Errorf("%s: thread %q, want %q", task, next.Thread, one.Thread)
		}
	}
	copied := s.completes(3, "Task four", "--fork", one.Thread)
	if copied.Thread == one.Thread || copied.ForkedFrom != one.Thread || copied.Dir != one.Dir {
		s.t.Errorf("the copy of %s is %s, of %q, in %s", one.Thread, copied.Thread, copied.ForkedFrom, copied.Dir)
	}
	if again := s.completes(4, "Task five", "--fork", "last", "--dir", linked); again.ForkedFrom != copied.Thread ||
		again.Thread == copied.Thread {
		s.t.Errorf("the last thread is %s, and %s was copied", copied.Thread, again.ForkedFrom)
	}
	asked := agents.Played(s.t, lab)
	for n, earlier := range []string{1: "One.", 2: "Two.", 3: "Three.", 4: "Four."} {
		if n > 0 && !strings.Contains(string(asked[n]), earlier) {
			s.t.Errorf("the model was not told of %q: %s", earlier, asked[n])
		}
	}
	unknown := "00000000-0000-4000-8000-000000000000"
	if s.agent == "opencode" {
		unknown = "ses_0000000000000000000000000a"
	}
	for _, flag := range []string{"--resume", "--fork"} {
		run, code := s.submit("Task none", flag, unknown)
		events, _ := execute(s.t, "events", "--data-dir", s.data, "--run", run, "--json")
		if code == 0 || strings.Count(events, `"kind":"Error"`) != 1 || strings.Count(events, `"session not found"`) != 2 {
			s.t.Errorf("%s with an unknown thread: exit %d: %s", flag, code, events)
		}
	}
	if len(agents.Played(s.t, lab)) != len(asked) {
		s.t.Error("another session was asked")
	}
}

// completes submits a task, and returns its record: it has used what the n-th turn says.
func (s *threadsOf) completes(n int, task string, more ...string) *runs.Record {
	s.t.Helper()
	id, code := s.submit(task, more...)
	r, found, err := s.bus.Record(s.t.Context(), id)
	if code != 0 || err != nil || !found || r.State != runs.StateCompleted {
		s.t.Fatalf("%s: exit %d, found %v, %v: %s", task, code, found, err, r.JSON())
	}
	want := [2]int64{int64(1000 + 100*n), int64(10 * (n + 1))}
	used := r.Spent()
	if used.Total == nil || [2]int64{used.Total.Input, used.Total.Output} != want || used.Earlier {
		s.t.Errorf("%s used %+v, want %v: %s", task, used, want, r.JSON())
	}
	if row := r.Header().Tokens; row == nil || [2]int64{row.Input, row.Output} != want {
		s.t.Errorf("%s: the row has %+v, want %v", task, row, want)
	}
	return r
}

func (s *threadsOf) submit(task string, more ...string) (run string, code int) {
	s.t.Helper()
	out, code := execute(s.t, slices.Concat([]string{"submit", "--data-dir", s.data, "--agent", s.agent, "--json",
		"--wait"}, more, []string{task})...)
	return gjson.Get(out, "run").String(), code
}
