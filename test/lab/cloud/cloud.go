// Package cloud is a stand-in for Codex Cloud: the real service wants an
// account, and the real program talks to nobody else. Program codex, below,
// prints what the real `codex cloud` prints, from a [Service] in a directory.
package cloud

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/test/fixture"
)

// StateVar is the environment variable that tells the program where its
// service is.
const StateVar = "CODEX_CLOUD_STANDIN"

// Service is a service in a directory. Several processes may use it.
type Service struct{ Dir string }

// State is all that a service knows.
type State struct {
	// Behave is how a command is to behave, by its name (exec, status, list,
	// diff): one of the Behaviours; none is well.
	Behave       map[string]string
	Environments []string // that tasks may be submitted to
	Next         Task     // what a submitted task is like
	Tasks        []Task   // oldest first
	Calls        []Call   // newest last
	Hung         int      // processes that hang, but for those that were awaited
}

// Behaviours of a command.
const (
	SignedOut = "signed out"
	Hang      = "hang" // with a child that holds the output
	LateHang  = "hang, though all is done"
	Leave     = "leave"   // exit status 1, and a child that holds the output
	Garbage   = "garbage" // a lot of it, and exit status 0
	Silent    = "silent"  // exit status 0
	Crash     = "crash"   // an error with warnings, secrets and a backtrace
	NotFound  = "not found"
	Offline   = "offline"
)

// Task is a task of the service.
type Task struct {
	ID     string
	Title  string
	Label  string   // of its environment
	Plan   []string // PENDING, READY, APPLIED or ERROR: each look shows the next one, the last one stays
	Diff   string
	Files  int
	Added  int
	Lost   int // lines removed
	Prompt string
	Branch string
	Tries  int // attempts
}

// Call is one call of the program.
type Call struct {
	Args []string // behind "cloud"
	Cwd  string
	Task string // that it was about
}

// New makes a service in dir.
func New(dir string) (*Service, error) {
	s := &Service{dir}
	return s, s.Change(func(st *State) {
		*st = State{
			Behave: map[string]string{}, Environments: []string{"env"},
			Next: Task{Title: "A task", Label: "owner/repo", Plan: []string{"PENDING"}},
		}
	})
}

// Env is what the program needs in its environment.
func (s *Service) Env() []string {
	return []string{StateVar + "=" + s.Dir, "PATH=" + os.Getenv("PATH")}
}

// Build builds the program in dir, and returns its path.
func Build(dir string) (string, error) {
	return filepath.Join(dir, "codex"), fixture.Build(dir, "./test/lab/cloud/codex")
}

// Change changes the state, with nobody else at it.
func (s *Service) Change(change func(*State)) error {
	lock, err := os.OpenFile(filepath.Join(s.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	st, err := s.State()
	if err != nil {
		return err
	}
	change(&st)
	path := s.file()
	b, err := json.Marshal(st)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// State is what the service knows now. Its file is replaced at once, so no lock
// is needed to read it.
func (s *Service) State() (State, error) {
	var st State
	b, err := os.ReadFile(s.file())
	if errors.Is(err, fs.ErrNotExist) {
		return st, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &st)
	}
	return st, err
}

func (s *Service) file() string { return filepath.Join(s.Dir, "state.json") }

// Submit takes a task, as if somebody had submitted it elsewhere.
func (st *State) Submit(prompt, branch string, attempts int) Task {
	t := st.Next
	t.ID = fmt.Sprintf("task_e_%032x", 0x68c0b3b2f0d48321+len(st.Tasks))
	t.Prompt, t.Branch, t.Tries = prompt, branch, attempts
	t.Plan = slices.Clone(t.Plan)
	st.Tasks = append(st.Tasks, t)
	return t
}

// Look shows a task, and lets its plan go on.
func (st *State) Look(id string) (Task, bool) {
	for i := range st.Tasks {
		t := &st.Tasks[i]
		if t.ID != id {
			continue
		}
		shown := *t
		if len(t.Plan) > 1 {
			t.Plan = t.Plan[1:]
		}
		return shown, true
	}
	return Task{}, false
}

// Status prints a task as `codex cloud status` does.
func (t Task) Status() string {
	changes := "no diff"
	if t.Files+t.Added+t.Lost > 0 {
		changes = fmt.Sprintf("+%d/-%d • %d file%s", t.Added, t.Lost, t.Files, map[bool]string{false: "s"}[t.Files == 1])
	}
	return fmt.Sprintf("[%s] %s\n%s  •  2m ago\n%s\n", t.Plan[0], t.Title, t.Label, changes)
}

// List prints tasks as `codex cloud list --json` does, newest first.
func (st *State) List(limit, from int) ([]byte, error) {
	type summary struct {
		Files   int `json:"files_changed"`
		Added   int `json:"lines_added"`
		Removed int `json:"lines_removed"`
	}
	type row struct {
		ID       string    `json:"id"`
		URL      string    `json:"url"`
		Title    string    `json:"title"`
		Status   string    `json:"status"`
		Updated  time.Time `json:"updated_at"`
		EnvID    *string   `json:"environment_id"`
		EnvLabel string    `json:"environment_label"`
		Summary  summary   `json:"summary"`
		Review   bool      `json:"is_review"`
		Attempts int       `json:"attempt_total"`
	}
	var answer struct {
		Tasks  []row   `json:"tasks"`
		Cursor *string `json:"cursor"`
	}
	answer.Tasks = []row{}
	newest := slices.Clone(st.Tasks)
	slices.Reverse(newest)
	for i, t := range newest {
		if i < from || len(answer.Tasks) == limit {
			continue
		}
		shown, _ := st.Look(t.ID)
		answer.Tasks = append(answer.Tasks, row{
			ID: t.ID, URL: URL(t.ID), Title: shown.Title, Status: strings.ToLower(shown.Plan[0]),
			Updated:  time.Unix(1_800_000_000, 0).UTC(),
			EnvLabel: shown.Label, Summary: summary{shown.Files, shown.Added, shown.Lost}, Attempts: max(shown.Tries, 1),
		})
	}
	if next := from + limit; next < len(newest) {
		cursor := fmt.Sprint(next)
		answer.Cursor = &cursor
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	err := e.Encode(answer)
	return b.Bytes(), err
}

// Hold makes the calling process one that hangs: [Service.AwaitGone] waits for
// its end, and for that of a child which inherits the file.
func (s *Service) Hold() (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(s.Dir, "hung"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
		return nil, err
	}
	held = append(held, f)
	return f, s.Change(func(st *State) { st.Hung++ })
}

var held []*os.File // open until the process ends

// AwaitHung waits until one more call hangs, with both of its processes.
func (s *Service) AwaitHung(tb testing.TB) {
	const processes = 2
	await(tb, "a call hangs", func() (ok bool) {
		err := s.Change(func(st *State) {
			if ok = st.Hung >= processes; ok {
				st.Hung -= processes
			}
		})
		return ok && err == nil
	})
}

// AwaitGone waits until no process hangs.
func (s *Service) AwaitGone(tb testing.TB) {
	f, err := os.OpenFile(filepath.Join(s.Dir, "hung"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		tb.Error(err)
		return
	}
	defer f.Close()
	await(tb, "no process hangs", func() bool { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil })
}

func await(tb testing.TB, what string, ok func() bool) {
	if !fixture.Poll(time.Minute, ok) {
		tb.Errorf("not within a minute: %s", what)
	}
}

// URL is the page of a task.
func URL(id string) string { return "https://chatgpt.com/codex/tasks/" + id }
