package terminal

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

// talker returns a function that starts an `up` with an agent that answers, its data directory, and the command line of
// `linesman chat` in a shell that shows what it leaves.
func talker(t *testing.T) (up func() *fixture.Server, data string, chat func(flags string) string) {
	t.Helper()
	data = t.TempDir()
	echo, err := filepath.Abs(filepath.Join("testdata", "echo"))
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "c.toml")
	text := fmt.Sprintf("[live]\nalways = true\n[agents.echo]\nacp = [%q]\n", echo)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	up = func() *fixture.Server { return fixture.Up(t, program, data, nil, "--config", config) }
	return up, data, func(flags string) string {
		return fmt.Sprintf("echo before; '%s' chat --data-dir '%s' %s%s", program, data, flags, after)
	}
}

// A conversation of a person in terminals of two sizes: messages, an answer that streams, questions, what waits, a
// cancel; it leaves, and comes back.
func TestChatInTmux(t *testing.T) {
	t.Parallel()
	for _, width := range []int{80, 40} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			t.Parallel()
			up, data, chat := talker(t)
			up()
			s := start(t, width, 30, nil, chat("--agent echo --skip-git-repo-check"))
			s.Shows(`(?s)^before\n── a new conversation\necho, read-only, this directory\n.*\n> *\n`)
			s.Says("Say 三十 🦜.")
			s.Shows(`(?s)── Say 三十 🦜\.\n   echo.*\n> Say 三十 🦜\.\n│ You said: Say 三十 🦜\. \\x1b\[31m\n` +
				`· turn completed\nyour turn`)

			s.Keys("-l", `one\`)
			s.Keys("Enter")
			s.Keys("-l", "two")
			s.Keys("C-j")
			s.Says("three")
			s.Shows(`(?s)\n> one\n> two\n> three\n│ You said: one\n│ two\n│ three `)

			s.Says("ask")
			s.Shows(`(?s)\n\? execute: polly\n│ polly ⟨U\+001B⟩\[2J⟨U\+202E⟩\n.*\n\? q1 polly .*\ntab: answer\n` +
				`turn 3 asks\n>`)
			s.Says("a") // no answer
			s.Shows(`… waits: a\n`)
			s.Keys("Tab", "2")
			s.Shows(`always \(allow_always\)\?  y yes  n no`)
			s.Keys("n", "a")
			s.Shows(`(?s)· q1 answered: allow, by operator: y\n.*│ Once\.\n· turn completed\n\n> a\n│ You said: a `)

			s.Says("form")
			s.Shows(`(?s)\? Which release\?\n   name  string, required\n\? q2 `)
			s.Keys("Tab", "e")
			s.Shows(`(?m)^> \{"name":""\}`)
			s.Keys("BSpace", "BSpace", "v", "1", `"`, "}", "Enter")
			s.Shows(`(?s)· q2 answered: submitted, by operator\n│ It is v1\.\n· turn completed`)

			s.Says("ask")
			s.Shows(`\n\? q3 polly`)
			linesman(t, data, "answer", "last", "deny")
			s.Shows(`(?s)· q3 answered elsewhere: deny.*│ No\.\n· turn completed`)

			s.Says("hold")
			s.Shows(`│ I hold\.\n`)
			s.Says("later")
			s.Shows(`… waits: later\n`)
			s.Keys("C-c")
			s.Shows(`(?s)· turn cancelled\n… held: later\nHeld, since the turn was not`)
			s.Says("/release")
			s.Shows(`(?s)> later\n│ You said: later .*\nyour turn`)
			s.Says("long")
			s.Says("and then") // what is drawn changes while it is printed
			s.Shows(`(?s)│ You said: and then .*\nyour turn`)
			checkRows(t, s, width)

			s.Keys("C-d")
			left := s.left("0")
			back := regexp.MustCompile(`chat --continue (T-local-[a-z0-9]+)`).FindStringSubmatch(left)
			if back == nil {
				t.Fatalf("it does not say how to come back:\n%s", left)
			}
			comesBack(t, width, chat, back[1])
		})
	}
}

// comesBack opens a run again, and ends it.
func comesBack(t *testing.T, width int, chat func(string) string, run string) {
	t.Helper()
	s := start(t, width, 30, []string{"NO_COLOR=1"}, chat("--continue "+run))
	s.Shows(`(?s)> and then\n│ You said: and then .*\n· turn completed\nyour turn`)
	if s.Screen("-e") != s.Screen() {
		t.Errorf("colours in spite of NO_COLOR:\n%s", s.Screen("-e"))
	}
	s.Keys("Up")
	s.Shows(`(?m)^> and then *\n`)
	s.Keys("C-c")
	s.Says("/end")
	s.Shows(`(?s)\n■ .*The run has ended: it is completed\.\n`)
	s.left("0")
	s = start(t, width, 30, nil, chat("--continue "+run))
	s.Shows(`(?s)│ You said: and then .*\n■ .*\nThe run has ended: it is completed\.\n`)
	s.left("0")
}

// linesman runs a command.
func linesman(t *testing.T, data string, args ...string) {
	t.Helper()
	_, stderr, code := fixture.Run(t, exec.Command(program, append(args, "--data-dir", data)...))
	if code != 0 {
		t.Fatalf("linesman %q: exit %d\n%s", args, code, stderr)
	}
}

// checkRows checks that each message is printed once, in whole rows.
func checkRows(t *testing.T, s *tmux, width int) {
	t.Helper()
	screen := s.Screen("-S", "-200")
	for row := range strings.SplitSeq(screen, "\n") {
		if n := column(row, len(row)); n >= width {
			t.Errorf("a row of %d columns: %s", n, row)
		}
	}
	all := []string{"> form", "> hold", "│ I hold.", "│ It is v1.", "> later", "── a new conversation"}
	for n := range 60 {
		all = append(all, fmt.Sprintf("│ line %d of a long answer", n+1))
	}
	for _, once := range all {
		if n := strings.Count(screen, once+"\n"); n != 1 {
			t.Errorf("%q is there %d times:\n%s", once, n, screen)
		}
	}
}

// A conversation goes on after its server was killed, which is told once: what is sent meanwhile is sent once.
func TestChatSurvivesItsServer(t *testing.T) {
	t.Parallel()
	up, _, chat := talker(t)
	server := up()
	env := []string{"LINESMAN_BACKGROUND_START=false"}
	s := start(t, 80, 30, env, chat("--agent echo --skip-git-repo-check 'Say one.'"))
	s.Shows(`(?s)│ You said: Say one\..*your turn`)
	server.Kill()
	s.Shows(`! linesman is away: .*\n(.*\n)*linesman is away, reconnecting`)
	s.Says("Say two.")
	s.Shows(`… not sent yet: Say two\.`)
	up()
	screen := s.Shows(`(?s)linesman is back\..*> Say two\.\n│ You said: Say two\..*your turn`)
	for _, once := range []string{"> Say one.", "> Say two.", "! linesman is away", "linesman is back."} {
		if n := strings.Count(screen, "\n"+once); n != 1 {
			t.Errorf("%q is there %d times:\n%s", once, n, screen)
		}
	}
	s.Keys("C-c", "C-c")
	s.left("0")
}
