package terminal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/linesman/linesman/api"
	view "github.com/linesman/linesman/cmd/top"
	"github.com/linesman/linesman/test/fixture"
)

// pipe publishes a recording as a run with a title.
func pipe(t *testing.T, data, agent, name, title string) {
	t.Helper()
	file, err := os.Open(fixture.Path(t, "test", "corpus", agent, name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	cmd := exec.Command(program, "pipe", "--data-dir", data, "--agent", agent, "--title", title, "--wait")
	cmd.Stdin = file
	if _, stderr, code := fixture.Run(t, cmd); code != 0 {
		t.Fatalf("pipe: exit %d\n%s", code, stderr)
	}
}

// live starts a run whose agent prints the lines of a file as they are appended.
func live(t *testing.T, data, title string) (say func(text string)) {
	t.Helper()
	lines := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(lines, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fixture.Start(t, exec.Command(program, "run", "--data-dir", data, "--agent", "codex", "--title", title, "--label",
		"ticket=42", "--", "tail", "-f", lines))
	n := 0
	return func(text string) {
		t.Helper()
		f, err := os.OpenFile(lines, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		n++
		_, err = fmt.Fprintf(f, `{"type":"item.completed","item":{"id":"item_%d","type":"agent_message","text":%q}}`+"\n", n, text)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// A session of a person, from the list to a cancel, in terminals of several sizes.
func TestTopInTmux(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	fixture.Up(t, program, data, nil)
	pipe(t, data, "claude", "tools", "日本語のタイトル é")
	pipe(t, data, "claude", "tools", "plain title")
	pipe(t, data, "codex", "failed", "a run that failed")
	say := live(t, data, "a live run")
	say("the first words")
	s := start(t, 80, 24, nil, top(data))

	list := s.Shows(`(?s)1 working  3 unseen.*● live.*> working .* a live run\s.*\*failed .*\*completed .*q quit`)
	checkColumns(t, s, list, 80)

	s.Keys("/", "agent:claude plain", "Enter")
	s.Shows(`agent:claude plain: 1 of 4`)
	s.Keys("Escape")
	s.Shows(`a run that failed`)

	s.Keys("Enter") // the live run is the first one
	s.Shows(`(?s)^a live run\n.*│ the first words.*following`)
	say("the second words")
	s.Shows(`│ the second words`)
	for i := range 40 {
		say(fmt.Sprintf("line %d of many", i))
	}
	s.Shows(`│ line 39 of many`)
	s.Keys("g")
	s.Shows(`(?s)│ the first words.*1-19 of 42\n`)
	s.Keys("f")
	s.Shows(`(?s)│ line 39 of many.*following`)

	s.resize(250, 50)
	s.Shows(`(?s)^a live run.*│ the first words.*│ line 39 of many`)
	s.Keys("Escape")
	wide := s.Shows(`STATE .*TITLE .*DIRECTORY .*LABELS .*MODEL`)
	checkColumns(t, s, wide, 250)
	s.resize(80, 24)
	s.Hides(`MODEL`)
	s.Shows(`q quit`)

	s.Keys("c")
	s.Shows(`cancel T-local-\w+\?  y: cancel it`)
	s.Keys("n")
	s.Shows(`not cancelled`)
	s.Keys("c")
	s.Shows(`y: cancel it`)
	s.Keys("y")
	s.Shows(`(?s)0 working.* cancelled .* a live run`)

	s.Keys("Enter")
	s.Shows(`1-19 of`)
	s.Keys("G")
	s.Shows(`■ .*took`)
	s.Keys("q")
	s.Shows(`(?s)3 unseen.* cancelled .* a live run`)
	s.Keys("q")
	s.restored("0")
}

// checkColumns checks that the columns of a list are aligned, whatever the width of its characters:
// what follows the title begins at the same column of the terminal.
func checkColumns(t *testing.T, s *tmux, screen string, width int) {
	t.Helper()
	rows := strings.Split(screen, "\n")
	want := column(rows[1], strings.Index(rows[1], "ACTIVITY"))
	found := 0
	for _, row := range rows[2:] {
		if i := strings.Index(row, "<1m ago"); i >= 0 {
			found++
			if got := column(row, i); got != want {
				t.Errorf("at %d columns the activity begins at column %d, its heading at %d:\n%s", width, got, want, row)
			}
		}
	}
	if found < 2 {
		t.Errorf("%d rows of ended runs:\n%s", found, screen)
	}
}

// column is the column of a terminal at which a byte of a row is: as tmux has it, each ideograph
// and each kana takes two, a combining mark none.
func column(row string, at int) (n int) {
	for _, r := range row[:max(at, 0)] {
		switch {
		case r >= 0x3000 && r < 0xa000:
			n += 2
		case r >= 0x300 && r < 0x370:
		default:
			n++
		}
	}
	return n
}

// The list stays while the server is away, and is live again after it is back.
func TestTopSurvivesItsServer(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	server := fixture.Up(t, program, data, nil)
	pipe(t, data, "codex", "failed", "before the kill")
	say := live(t, data, "a live run")
	say("the first words")
	s := start(t, 100, 20, []string{"LINESMAN_BACKGROUND_START=false"}, top(data))
	s.Shows(`(?s)● live.*> working [^\n]* a live run.*before the kill`) // else its command finds no server
	server.Kill()
	s.Shows(`(?s)○ stale for .* away, retrying.*before the kill`)
	server = fixture.Up(t, program, data, nil)
	s.Shows(`(?s)● live.*before the kill`)
	pipe(t, data, "codex", "failed", "after the kill")
	s.Shows(`(?s)> working [^\n]* a live run.*\*failed [^\n]* after the kill`)

	s.Keys("Enter")
	s.Shows(`│ the first words`)
	server.Kill()
	say("the second words")
	s.Shows(`○ stale for`)
	fixture.Up(t, program, data, nil)
	if screen := s.Shows(`│ the second words`); strings.Count(screen, "the first words") != 1 {
		t.Errorf("the first words are not there once:\n%s", screen)
	}
	s.Keys("C-c")
	s.restored("0")
}

// A signal restores the terminal, in terminals of each type.
func TestTopRestoresTheTerminalAfterASignal(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	fixture.Up(t, program, data, nil)
	pipe(t, data, "codex", "failed", "a run")
	for _, c := range []struct{ env, color string }{
		{"TERM=tmux-256color", "\x1b[32m"}, {"TERM=screen", "\x1b[32m"}, {"NO_COLOR=1", ""},
	} {
		pid := filepath.Join(t.TempDir(), "pid")
		script := fmt.Sprintf("echo before; sh -c 'echo $$ >%q; exec %q top --data-dir %q'%s", pid, program, data, after)
		s := start(t, 80, 12, []string{c.env}, script)
		s.Shows(`(?s)● live.*a run`)
		if has := strings.Contains(s.Screen("-e"), "\x1b[32m"); has != (c.color != "") {
			t.Errorf("%s: colours: %v", c.env, has)
		}
		text, err := os.ReadFile(pid)
		if err != nil {
			t.Fatal(err)
		}
		var id int
		if _, err := fmt.Sscan(string(text), &id); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(id, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		s.restored("143")
	}
}

func TestTopNeedsATerminal(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	_, stderr, code := fixture.Run(t, exec.Command(program, "top", "--data-dir", data))
	if code != 2 || !strings.Contains(stderr, "linesman ls") || !strings.Contains(stderr, "linesman logs") {
		t.Errorf("in a pipe: exit %d, %s", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(data, "linesman.json")); err == nil {
		t.Error("it started a server")
	}
	s := start(t, 120, 12, nil, "export TERM=dumb; "+top(data))
	s.Shows(`TERM is "dumb"`)
	s.restored("2")
}

// broken is set in the process that fails, and is how.
const broken = "TEST_TOP_BROKEN"

// runBroken shows the runs of a service that panics.
func runBroken() int {
	screen := view.Config{Stdin: os.Stdin, Stdout: os.Stdout, Environ: os.Environ(), Getenv: os.Getenv}
	if err := view.Run(context.Background(), &panics{}, screen); err != nil {
		fmt.Fprintln(os.Stderr, err) // the text of the panic may come later than the end of this process
		return 1
	}
	return 0
}

// panics is a service that panics at the second look.
type panics struct {
	view.Service
	looks int
}

func (p *panics) Overview(context.Context, api.OverviewRequest) (*api.Overview, error) {
	if p.looks++; p.looks > 2 {
		panic("a mistake in the code")
	}
	return &api.Overview{}, nil
}

func (p *panics) List(context.Context, api.List) (api.RunPage, error) { return api.RunPage{}, nil }

func TestTopRestoresTheTerminalAfterAPanic(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const either = "a mistake in the code|experienced a panic"
	script := fmt.Sprintf("echo before; '%s' 2>&1 | grep -m1 -o -E '%s'%s", self, either, after)
	s := start(t, 100, 50, []string{broken + "=1"}, script)
	s.Shows(either)
	s.restored("0")
}
