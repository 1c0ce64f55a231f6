package test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

// install builds packages of this module into a directory of the test's own.
func install(t *testing.T, packages ...string) (dir string) {
	t.Helper()
	fixture.Depend(t)
	dir = t.TempDir()
	if err := fixture.Build(dir, packages...); err != nil {
		t.Fatal(err)
	}
	return dir
}

// instance is a running `linesman up`, and the passwords of its users.
type instance struct {
	*fixture.Server
	credentials map[string]string
}

// up starts `linesman up` on a data directory, until the test ends or Stop is called.
func up(t *testing.T, program, data string, flags ...string) *instance {
	t.Helper()
	i := &instance{Server: fixture.Up(t, program, data, append(os.Environ(), "HOME="+t.TempDir()), flags...)}
	b, err := os.ReadFile(filepath.Join(data, "credentials.json"))
	if err == nil {
		err = json.Unmarshal(b, &i.credentials)
	}
	if err != nil {
		t.Fatalf("credentials.json: %v", err)
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
