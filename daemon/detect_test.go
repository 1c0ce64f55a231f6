package daemon_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/worker"
)

// Each recording tells its agent, and is read whole afterwards.
func TestEveryRecordingTellsItsAgent(t *testing.T) {
	for folder, want := range map[string]string{
		"codex": "codex", "claude": "claude_code", "claude/2.1.330": "claude_code", "gemini": "gemini_cli",
		"opencode": "opencode",
	} {
		files, err := filepath.Glob(fixture.Path(t, "test", "corpus", folder, "*.jsonl"))
		if err != nil || len(files) < 5 {
			t.Fatalf("%s: %d recordings, %v", folder, len(files), err)
		}
		for _, file := range files {
			out, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found, whole, err := daemon.Detect(iotest.HalfReader(bytes.NewReader(out)), known.Agents)
			if len(bytes.TrimSpace(out)) == 0 {
				if !errors.Is(err, daemon.ErrUndetected) {
					t.Errorf("%s is empty: %v", file, err)
				}
				continue
			}
			if err != nil || found.Kind() != want {
				t.Errorf("%s: %q, %v; want %s", file, found.Short, err, want)
				continue
			}
			if got, err := io.ReadAll(whole); err != nil || !bytes.Equal(got, out) {
				t.Errorf("%s: %d of %d bytes after it, %v", file, len(got), len(out), err)
			}
		}
	}
}

// The end of a context ends the wait for a line that tells the agent.
func TestDetectionCanBeInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	if _, err := out.WriteString(`{"type":"error","message":"x"}` + "\n"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, _, err := daemon.Detect(worker.Interruptible(ctx, in), known.Agents)
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that of the context", err)
	}
}

func TestWhatTellsNoAgentIsAnError(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "blank lines": "\n \n", "no JSON": strings.Repeat("text\n", 100),
		"of two agents": `{"type":"error","message":"x"}` + "\n", "a line without end": strings.Repeat("x", 3<<20),
	} {
		if a, _, err := daemon.Detect(strings.NewReader(text), known.Agents); !errors.Is(err, daemon.ErrUndetected) {
			t.Errorf("%s: %q, %v", name, a.Short, err)
		}
	}
	_, _, err := daemon.Detect(nil, known.Agents, fixture.Path(t, "test", "corpus", "gemini", "hello.jsonl"),
		fixture.Path(t, "test", "corpus", "codex", "hello.jsonl"))
	if !errors.Is(err, daemon.ErrAgents) {
		t.Errorf("files of two agents: %v", err)
	}
}

// Of several files one that is empty, or that is not there, does not keep the others from being imported.
func TestFilesThatTellNoAgentDoNotHinderOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	empty, missing, text := filepath.Join(dir, "empty"), filepath.Join(dir, "missing"), filepath.Join(dir, "text")
	if err := errors.Join(os.WriteFile(empty, nil, 0o600), os.WriteFile(text, []byte("text\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	hello := fixture.Path(t, "test", "corpus", "gemini", "hello.jsonl")
	found, _, err := daemon.Detect(nil, known.Agents, empty, missing, hello, empty)
	if err != nil || found.Short != "gemini" {
		t.Errorf("got %q, %v; want gemini", found.Short, err)
	}
	if _, _, err := daemon.Detect(nil, known.Agents, empty, missing); !errors.Is(err, daemon.ErrUndetected) {
		t.Errorf("nothing but an empty file: %v", err)
	}
	if _, _, err := daemon.Detect(nil, known.Agents, missing, empty); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, _, err := daemon.Detect(nil, known.Agents, hello, text); !errors.Is(err, daemon.ErrUndetected) {
		t.Errorf("a file of no agent: %v", err)
	}
}
