package test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"
)

// silence is how long no event comes: longer than any example waits for one at a time.
const silence = 65 * time.Second

// readsThroughASilence starts an example. It has to print the end of the run that is there, and, after a silence, that
// of one that comes.
func readsThroughASilence(t *testing.T, i *instance, there string, program *exec.Cmd) {
	t.Helper()
	p := fixture.Start(t, program)
	p.Await(p.Stdout, " codex "+there+" completion ")
	if fixture.Poll(silence, p.Over) {
		t.Fatalf("it ended in a silence: %v\n%s", program.ProcessState, p.Stderr)
	}
	recording := []byte(text(t, "test/corpus/codex/shell-ok.jsonl"))
	sendRaw(t, i, "later", recording, [][2]int{{0, len(recording)}})
	p.Await(p.Stdout, " codex later completion ")
	p.Kill()
}

// Both examples in Python, with the oldest and the newest client that docs/subjects.md names.
func TestPythonReaderOfThePageOutlivesASilence(t *testing.T) {
	fixture.Long(t, "waits for a minute")
	python := fixture.Need(t, "PYTHON", "python3")
	t.Parallel()
	linesman := filepath.Join(install(t, "./cmd/linesman"), "linesman")
	for _, version := range []string{"2.9.0", "2.15.0"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			packages := natsPy(t, python, version)
			i := up(t, linesman, t.TempDir())
			as := func(user, example string) *exec.Cmd {
				cmd := exec.CommandContext(t.Context(), python, "../examples/python/"+example)
				cmd.Env = append(i.as(user), "PYTHONUNBUFFERED=1", "PYTHONPATH="+packages)
				return cmd
			}
			if out, err := as("worker", "publish_raw.py").CombinedOutput(); err != nil {
				t.Fatalf("it does not publish: %v\n%s", err, out)
			}
			readsThroughASilence(t, i, "py-1", as("subscriber", "read_events.py"))
		})
	}
}

// natsPy is where the client is, of a version: where it can be installed, or is
// already. NATS_PY can name a directory with one directory for each version.
func natsPy(t *testing.T, python, version string) string {
	t.Helper()
	if dir := os.Getenv("NATS_PY"); dir != "" {
		return filepath.Join(dir, version)
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pip := exec.CommandContext(ctx, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries",
		"0", "--timeout", "10",
		"--target", dir, "nats-py=="+version)
	err := pip.Run()
	if err == nil {
		return dir
	}
	if have, err := exec.CommandContext(t.Context(), python, "-c",
		"import nats; from importlib.metadata import version as v; print(v('nats-py'))").Output(); err == nil {
		t.Logf("nats-py %s cannot be installed; it is tried with %s, which is there", version, bytes.TrimSpace(have))
		return ""
	}
	fixture.Missing(t, "PYTHON", fmt.Sprintf("nats-py %s cannot be installed: %v", version, err))
	return ""
}

// The example in TypeScript, with the oldest and the newest client that docs/subjects.md names.
func TestTypeScriptReaderOfThePageOutlivesASilence(t *testing.T) {
	fixture.Long(t, "waits for a minute")
	node := fixture.Need(t, "AGENTS", "node")
	t.Parallel()
	linesman := filepath.Join(install(t, "./cmd/linesman"), "linesman")
	for _, client := range []string{"oldest", "newest"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, content := range map[string]string{
				"package.json":      text(t, "test/clients/readers/"+client+"/package.json"),
				"package-lock.json": text(t, "test/clients/readers/"+client+"/package-lock.json"),
				"reader.mjs":        text(t, "examples/typescript/read-events.ts"), // no type needs a compiler
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			npm := exec.CommandContext(t.Context(), fixture.Need(t, "AGENTS", "npm"), "ci", "--ignore-scripts", "--no-audit",
				"--no-fund", "--prefer-offline")
			npm.Dir = dir
			if said, err := npm.CombinedOutput(); err != nil {
				fixture.Missing(t, "AGENTS", fmt.Sprintf("npm ci: %v\n%s", err, said))
			}
			i := up(t, linesman, t.TempDir())
			recording := []byte(text(t, "test/corpus/codex/shell-ok.jsonl"))
			sendRaw(t, i, "there", recording, [][2]int{{0, len(recording)}})
			reader := exec.CommandContext(t.Context(), node, "reader.mjs")
			reader.Dir, reader.Env = dir, i.as("subscriber")
			readsThroughASilence(t, i, "there", reader)
		})
	}
}
