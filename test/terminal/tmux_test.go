// Package terminal runs `linesman top` and `linesman chat` in a real terminal multiplexer, and looks at what a person
// sees.
package terminal

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/tmuxtest"
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

// tmux is a window whose end is looked at.
type tmux struct {
	*tmuxtest.Window
	t *testing.T
}

// start runs a shell script in a window of a size.
func start(t *testing.T, width, height int, env []string, script string) *tmux {
	t.Helper()
	return &tmux{tmuxtest.Start(t, width, height, env, script), t}
}

func (s *tmux) resize(width, height int) {
	s.t.Helper()
	s.Do("resize-window", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height))
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
	screen := s.Shows(`exit=` + code)
	if strings.Contains(screen, "-icanon") || strings.Contains(screen, "-echo") || strings.Contains(screen, "-isig") {
		s.t.Errorf("the modes of the terminal are not as before:\n%s", screen)
	}
	out := s.Do("display-message", "-p", "#{alternate_on} #{cursor_flag} #{mouse_any_flag}")
	if got := strings.TrimSpace(out); got != "0 1 0" {
		s.t.Errorf("alternate screen, cursor, mouse: %q; want 0 1 0", got)
	}
	return screen
}

// top is the command line of `linesman top` in a shell that shows what it leaves.
func top(data string, flags ...string) string {
	return fmt.Sprintf("echo before; '%s' top --data-dir '%s' %s%s", program, data, strings.Join(flags, " "), after)
}
