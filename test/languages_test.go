package test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

// TestExamplesOfAllLanguages runs the examples of docs/integrate.md over REST: each submits a task with
// a token that has only the scopes that the page names, and prints its events and its end.
func TestExamplesOfAllLanguages(t *testing.T) {
	t.Parallel()
	bin := install(t, "./cmd/linesman")
	recording, err := filepath.Abs("corpus/codex/hello.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	agents := t.TempDir()
	script := "#!/bin/sh\ncase $1 in\n--version) echo codex-cli 0.169.0 ;;\n*) cat '" + recording + "' ;;\nesac\n"
	if err := os.WriteFile(filepath.Join(agents, "codex"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}

	data, home := t.TempDir(), t.TempDir()
	environ := []string{"PATH=" + agents + ":" + bin + ":" + os.Getenv("PATH"), "HOME=" + home,
		"LINESMAN_DATA_DIR=" + data, "LINESMAN_HTTP=127.0.0.1:0", "LINESMAN_NATS_LISTEN=127.0.0.1:0"}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env = environ
		return cmd
	}
	linesman := filepath.Join(bin, "linesman")
	up := fixture.Start(t, command(linesman, "up"))
	up.Await(up.Stdout, "ready ")
	_, url, _ := strings.Cut(up.Stdout.String(), "http=")
	url, _, _ = strings.Cut(url, " ")
	token, said, code := fixture.Run(t, command(linesman, "token", "create", "example", "--scope", "read,submit"))
	if code != 0 {
		t.Fatal(said)
	}
	environ = append(environ, "API_URL="+url, "API_TOKEN="+strings.TrimSpace(token))

	node := filepath.Join(t.TempDir(), "submit.mjs")
	if err := os.WriteFile(node, []byte(text(t, "examples/typescript/submit.ts")), 0o600); err != nil {
		t.Fatal(err)
	}
	for language, program := range map[string][]string{
		"Python":     {"python3", "../examples/python/submit.py"},
		"TypeScript": {"node", node},
	} {
		t.Run(language, func(t *testing.T) {
			fixture.Need(t, "AGENTS", program[0])
			out, err := command(program[0], append(program[1:], home, "Go.")...).Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if end := lines[len(lines)-1]; !strings.HasPrefix(end, "T-local-") || !strings.Contains(end, ": completed") {
				t.Errorf("it printed %q", out)
			}
			run, _, _ := strings.Cut(lines[len(lines)-1], ":")
			stored, _, _ := fixture.Run(t, command(linesman, "events", "--run", run, "--json"))
			if want := strings.Count(stored, "\n"); len(lines)-1 != want {
				t.Errorf("it printed %d events of %d", len(lines)-1, want)
			}
			for line := range strings.Lines(stored) {
				if !json.Valid([]byte(line)) {
					t.Errorf("not JSON: %s", line)
				}
			}
		})
	}
}
