// Package terminal runs `linesman top` and `linesman chat` in a real terminal multiplexer, and looks at what a person
// sees.
package terminal

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

var program string // the linesman under test

func TestMain(m *testing.M) {
	if os.Getenv(broken) != "" {
		os.Exit(runBroken())
	}
	os.Exit(fixture.Main(m, "the terminal view is shown in tmux", func(dir string) error {
		program = filepath.Join(dir, "linesman")
		return fixture.Build(dir, "./cmd/linesman")
	}))
}

// tmux is a server of its own, with one window.
type tmux struct {
	t      *testing.T
	socket string
}

// start runs a shell script in a window of a size. The terminal is the one that tmux
// emulates. TMUX_TMPDIR has the socket, so no other server is touched.
func start(t *testing.T, width, height int, env []string, script string) *tmux {
	t.Helper()
	fixture.Need(t, "TMUX", "tmux")
	dir, err := os.MkdirTemp("", "tmux") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	s := &tmux{t, filepath.Join(dir, "s")}
	args := []string{"-f", "/dev/null", "-u", "new-session", "-d", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height)}
	for _, v := range env {
		args = append(args, "-e", v)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the screen:\n%s", s.screen())
		}
		_ = s.command("kill-server").Run() // fails where the shell has ended
		_ = os.RemoveAll(dir)
	})
	s.do(append(args, "sh", "-c", script)...)
	return s
}

func (s *tmux) command(args ...string) *exec.Cmd {
	cmd := exec.Command("tmux", append([]string{"-S", s.socket}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "SHELL=/bin/sh", "TMUX=")
	return cmd
}

func (s *tmux) do(args ...string) {
	s.t.Helper()
	if out, err := s.command(args...).CombinedOutput(); err != nil {
		s.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
}

// screen is what the window shows; flags are of capture-pane.
func (s *tmux) screen(flags ...string) string {
	out, _ := s.command(append([]string{"capture-pane", "-p"}, flags...)...).Output() // "" where there is none
	return string(out)
}

// keys presses keys, as tmux names them.
func (s *tmux) keys(names ...string) {
	s.t.Helper()
	s.do(append([]string{"send-keys"}, names...)...)
}

func (s *tmux) resize(width, height int) {
	s.t.Helper()
	s.do("resize-window", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height))
}

// shows waits until the screen matches an expression, and returns it.
func (s *tmux) shows(expression string) (screen string) {
	s.t.Helper()
	is := regexp.MustCompile(expression)
	if !fixture.Poll(fixture.Patience, func() bool { screen = s.screen(); return is.MatchString(screen) }) {
		s.t.Fatalf("the screen does not show %q:\n%s", expression, screen)
	}
	return screen
}

// hides waits until the screen does not match an expression.
func (s *tmux) hides(expression string) (screen string) {
	s.t.Helper()
	is := regexp.MustCompile(expression)
	if !fixture.Poll(fixture.Patience, func() bool { screen = s.screen(); return !is.MatchString(screen) }) {
		s.t.Fatalf("the screen still shows %q:\n%s", expression, screen)
	}
	return screen
}

// after is the end of a script that shows whether a terminal was left as it was found: its
// screen, its modes, and the cursor.
const after = `; code=$?; stty -a | grep -o -E ' -?(icanon|echo|isig)( |$)' | tr -d '\n'; echo " exit=$code"; exec cat`

// restored waits for the end of a command with an exit code, and checks what it left.
func (s *tmux) restored(code string) {
	s.t.Helper()
	if screen := s.left(code); !strings.Contains(screen, "before") || strings.Contains(screen, "STATE") {
		s.t.Errorf("the screen is not as before:\n%s", screen)
	}
}

// left waits for the end of a command with an exit code, checks the modes that it left, and returns the screen.
func (s *tmux) left(code string) string {
	s.t.Helper()
	screen := s.shows(`exit=` + code)
	if strings.Contains(screen, "-icanon") || strings.Contains(screen, "-echo") || strings.Contains(screen, "-isig") {
		s.t.Errorf("the modes of the terminal are not as before:\n%s", screen)
	}
	out, err := s.command("display-message", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag}").Output()
	if got := strings.TrimSpace(string(out)); err != nil || got != "0 1 0" {
		s.t.Errorf("alternate screen, cursor, mouse: %q, %v; want 0 1 0", got, err)
	}
	return screen
}

// top is the command line of `linesman top` in a shell that shows what it leaves.
func top(data string, flags ...string) string {
	return fmt.Sprintf("echo before; '%s' top --data-dir '%s' %s%s", program, data, strings.Join(flags, " "), after)
}
