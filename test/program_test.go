package test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/linesman/linesman/test/guard"
	"github.com/linesman/linesman/test/quiet"
)

// install builds packages of this module into a directory of the test's own.
func install(t *testing.T, packages ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := guard.Build(dir, packages...); err != nil {
		t.Fatal(err)
	}
	return dir
}

// instance is a running `linesman up`.
type instance struct {
	NATS string `json:"nats"`

	credentials map[string]string
	stdout      *bufio.Reader
	stop        func() // ends it in order, and waits for that
}

// up starts `linesman up` on a data directory, until the test ends or stop is called.
func up(t *testing.T, program, data string, flags ...string) *instance {
	t.Helper()
	cmd := exec.Command(program, append([]string{"up", "--data-dir", data, "--nats-listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}, flags...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	quiet.Watch(t, cmd)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	i := &instance{stdout: bufio.NewReader(stdout)}
	i.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("up: %v\n%s", err, stderr.Bytes())
		}
	})
	t.Cleanup(i.stop)
	ready, err := i.stdout.Peek(len("ready "))
	if err != nil || string(ready) != "ready " {
		t.Fatalf("up said %q, %v", ready, err)
	}
	for name, v := range map[string]any{"linesman.json": i, "credentials.json": &i.credentials} {
		b, err := os.ReadFile(filepath.Join(data, name))
		if err == nil {
			err = json.Unmarshal(b, v)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return i
}

// as is the environment by which the examples connect.
func (i *instance) as(user string) []string {
	return append(os.Environ(), "NATS_URL="+i.NATS, "NATS_USER="+user, "NATS_PASSWORD="+i.credentials[user])
}

// text is a file of the tree.
func text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// lines are those of s, without an empty last one.
func lines(s string) []string {
	return strings.Split(strings.TrimSuffix(s, "\n"), "\n")
}
