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

// silence is how long no event comes: longer than any program of the page waits
// for one at a time.
const silence = 65 * time.Second

// programs are those of a language on the page, in their order.
func programs(t *testing.T, language string) (all []string) {
	t.Helper()
	for page := text(t, "docs/subjects.md"); ; {
		program, rest, ok := fence(page, language)
		if !ok {
			return all
		}
		all, page = append(all, program), rest
	}
}

// readsThroughASilence starts a program of the page. It has to print the end of
// the run that is there, and, after a silence, that of one that comes.
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

// Both programs of the page, as they are there, with the oldest and the newest
// client that it names.
func TestPythonReaderOfThePageOutlivesASilence(t *testing.T) {
	fixture.Long(t, "waits for a minute")
	python := fixture.Need(t, "PYTHON", "python3")
	t.Parallel()
	page := programs(t, "python")
	if len(page) != 2 {
		t.Fatalf("the page has %d programs in Python, want one that publishes and one that reads", len(page))
	}
	linesman := filepath.Join(install(t, "./cmd/linesman"), "linesman")
	for _, version := range []string{"2.9.0", "2.15.0"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			packages := natsPy(t, python, version)
			i := up(t, linesman, t.TempDir())
			as := func(user, program string) *exec.Cmd {
				cmd := exec.CommandContext(t.Context(), python, "-c", program)
				cmd.Env = append(i.as(user), "PYTHONUNBUFFERED=1", "PYTHONPATH="+packages)
				return cmd
			}
			if out, err := as("worker", page[0]).CombinedOutput(); err != nil {
				t.Fatalf("it does not publish: %v\n%s", err, out)
			}
			readsThroughASilence(t, i, "py-1", as("subscriber", page[1]))
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

// The program of the page, as it is there, with the oldest and the newest
// client that the page names.
func TestTypeScriptReaderOfThePageOutlivesASilence(t *testing.T) {
	fixture.Long(t, "waits for a minute")
	node := fixture.Need(t, "AGENTS", "node")
	t.Parallel()
	page := programs(t, "typescript")
	if len(page) != 1 {
		t.Fatalf("the page has %d programs in TypeScript, want 1", len(page))
	}
	linesman := filepath.Join(install(t, "./cmd/linesman"), "linesman")
	for _, client := range []string{"oldest", "newest"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, content := range map[string]string{
				"package.json":      text(t, "test/clients/readers/"+client+"/package.json"),
				"package-lock.json": text(t, "test/clients/readers/"+client+"/package-lock.json"),
				"reader.mjs":        page[0], // it has no type that would need a compiler
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
