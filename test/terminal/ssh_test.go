package terminal

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

// sshd starts an OpenSSH server on loopback for this user, until the test ends, and returns the
// command line that logs in.
func sshd(t *testing.T) (login string) {
	t.Helper()
	server := fixture.Need(t, "SSHD", "/usr/sbin/sshd")
	if os.Geteuid() == 0 { // as root it wants this directory
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"host", "user"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name)).
			CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	address := fixture.FreeAddresses(t, 1)[0]
	_, port, _ := net.SplitHostPort(address)
	config := fmt.Sprintf("ListenAddress %s\nHostKey %[2]s/host\nAuthorizedKeysFile %[2]s/user.pub\nStrictModes no\n"+
		"PidFile none\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPrintMotd no\n", address, dir)
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := fixture.Start(t, exec.Command(server, "-D", "-e", "-f", filepath.Join(dir, "config")))
	p.AwaitEither("Server listening")
	return fmt.Sprintf("ssh -tt -q -F /dev/null -p %s -i %s/user -o StrictHostKeyChecking=no "+
		"-o UserKnownHostsFile=/dev/null 127.0.0.1", port, dir)
}

// Over ssh `top` shows the same, follows the size of the window, and leaves the terminal as it was.
func TestTopOverSSH(t *testing.T) {
	t.Parallel()
	login := sshd(t)
	data := t.TempDir()
	fixture.Up(t, program, data, nil)
	pipe(t, data, "claude", "tools", "日本語のタイトル é")
	pipe(t, data, "codex", "hello", "plain title")
	s := start(t, 80, 24, nil, fmt.Sprintf("echo before; %s 'LC_ALL=C.UTF-8 %s top --data-dir %s'%s", login, program,
		data, after))
	checkColumns(t, s, s.shows(`(?s)2 unseen.*日本語.*q quit`), 80)
	s.resize(200, 40)
	checkColumns(t, s, s.shows(`STATE .*TITLE .*DIRECTORY`), 200)
	s.keys("/", "agent:claude", "Enter", "Enter")
	s.shows(`(?s)^日本語.*took`)
	s.keys("q")
	s.shows("STATE")
	s.keys("q")
	s.restored("0")
}

// Over ssh a conversation is the same, in a small window.
func TestChatOverSSH(t *testing.T) {
	t.Parallel()
	login := sshd(t)
	up, data, _ := talker(t)
	up()
	const remote = "%s 'LC_ALL=C.UTF-8 %s chat --data-dir %s --agent echo --skip-git-repo-check'%s"
	s := start(t, 40, 24, nil, fmt.Sprintf(remote, login, program, data, after))
	s.shows(`(?s)a new conversation.*\n>`)
	s.says("日本語 é")
	s.shows(`(?s)\n> 日本語 é\n│ You said: 日本語 é .*your turn`)
	s.says("ask")
	s.shows(`tab: answer\n`)
	s.keys("Tab", "d")
	s.shows(`(?s)q1 answered: deny.*│ No\.\n.*your turn`)
	s.keys("C-d")
	s.left("0")
}
