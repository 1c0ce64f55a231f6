package terminal

import (
	"fmt"
	"testing"

	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/tmuxtest"
)

// Over ssh `top` shows the same, follows the size of the window, and leaves the terminal as it was.
func TestTopOverSSH(t *testing.T) {
	t.Parallel()
	login, _ := tmuxtest.SSHD(t, "")
	data := t.TempDir()
	fixture.Up(t, program, data, nil)
	pipe(t, data, "claude", "tools", "日本語のタイトル é")
	pipe(t, data, "codex", "hello", "plain title")
	s := start(t, 80, 24, nil, fmt.Sprintf("echo before; %s 'LC_ALL=C.UTF-8 %s top --data-dir %s'%s", login, program,
		data, after))
	checkColumns(t, s, s.Shows(`(?s)2 unseen.*日本語.*q quit`), 80)
	s.resize(200, 40)
	checkColumns(t, s, s.Shows(`STATE .*TITLE .*DIRECTORY`), 200)
	s.Keys("/", "agent:claude", "Enter", "Enter")
	s.Shows(`(?s)^日本語.*took`)
	s.Keys("q")
	s.Shows("STATE")
	s.Keys("q")
	s.restored("0")
}

// Over ssh a conversation is the same, in a small window.
func TestChatOverSSH(t *testing.T) {
	t.Parallel()
	login, _ := tmuxtest.SSHD(t, "")
	up, data, _ := talker(t)
	up()
	const remote = "%s 'LC_ALL=C.UTF-8 %s chat --data-dir %s --agent echo --skip-git-repo-check'%s"
	s := start(t, 40, 24, nil, fmt.Sprintf(remote, login, program, data, after))
	s.Shows(`(?s)a new conversation.*\n>`)
	s.Says("日本語 é")
	s.Shows(`(?s)\n> 日本語 é\n│ You said: 日本語 é .*your turn`)
	s.Says("ask")
	s.Shows(`tab: answer\n`)
	s.Keys("Tab", "d")
	s.Shows(`(?s)q1 answered: deny.*│ No\.\n.*your turn`)
	s.Keys("C-d")
	s.left("0")
}
