package programs_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/worker/programs"
)

// The version of an adapter is that of its npm package, and nothing is started for it. A program of another package, or
// of none, has no version.
func TestVersionOfAnAdapterIsThatOfItsPackage(t *testing.T) {
	dir := t.TempDir()
	environ := script(t, dir, "codex", "echo codex-cli 0.169.0")
	codex, err := known.Agents.Named("codex")
	if err != nil {
		t.Fatal(err)
	}
	how := codex.Launch
	how.Command, how.ACP = []string{"codex"}, codex.Live.Command()
	here := programs.Here{Launches: map[string]agent.Launch{codex.Kind(): how}, Environ: environ}
	adapter := func() *programs.Live {
		t.Helper()
		all, err := here.List(t.Context(), known.Agents, "codex")
		if err != nil {
			t.Fatal(err)
		}
		return all[0].Live
	}
	if l := adapter(); l.Path != "" || l.Version != "" || l.Tested != codex.Live.Tested {
		t.Errorf("without the adapter: %+v", l)
	}
	inside := filepath.Join(dir, "lib", "node_modules", "@agentclientprotocol", "codex-acp")
	if err := os.MkdirAll(filepath.Join(inside, "dist"), 0o700); err != nil {
		t.Fatal(err)
	}
	script(t, filepath.Join(inside, "dist"), "index.js", "touch "+dir+"/started")
	if err := os.Symlink(filepath.Join(inside, "dist", "index.js"), filepath.Join(dir, "codex-acp")); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"name":"@agentclientprotocol/codex-acp","version":"2.7.1"}`:        "2.7.1",
		`{"name":"@agentclientprotocol/codex-acp","version":"\u001b[2J"}`:    "",
		`{"name":"somebody's","version":"2.7.1"}`:                            "",
		`{"name":["@agentclientprotocol/codex-acp"],"version":{"a":"1.2.3"}`: "",
		"": "",
	} {
		if err := os.WriteFile(filepath.Join(inside, "package.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if l := adapter(); l.Path != filepath.Join(dir, "codex-acp") || l.Version != want {
			t.Errorf("%s: %+v, want version %q", text, l, want)
		}
	}
	manifest := filepath.Join(inside, "package.json") // an agent may write there
	if err := errors.Join(os.Remove(manifest), unix.Mkfifo(manifest, 0o600)); err != nil {
		t.Fatal(err)
	}
	if l := adapter(); l.Version != "" {
		t.Errorf("a FIFO: %+v", l)
	}
	if _, err := os.Stat(filepath.Join(dir, "started")); err == nil {
		t.Error("the adapter was started")
	}
}
