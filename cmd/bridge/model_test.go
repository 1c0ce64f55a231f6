package bridge

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/runs"
	testfixture "github.com/linesman/linesman/test/fixture"
)

// The requests of GuardKit name models of Claude Code. No agent is installed here, so each response
// names the program that is missing.
func TestTheModelTellsTheAgent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	settings := config.Default()
	settings.DataDir, settings.NATSListen, settings.HTTP = filepath.Join(dir, "data"), "127.0.0.1:0", ""
	settings.Work.Roots = config.List{dir}
	ctx, cancel := context.WithTimeout(t.Context(), testfixture.Patience)
	up, err := daemon.New(ctx, daemon.Config{Settings: settings, Environ: []string{"PATH=" + dir}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(up.Close)
	ended := make(chan error, 1)
	go func() { ended <- up.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	if err := up.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	session, err := up.Session(ctx, daemon.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for i, c := range []struct{ agent, own, model, want, names string }{
		{"", "", "", "codex", "codex of Codex"},
		{"", "", "gpt-5", "codex", "codex of Codex"},
		{"", "", "claude-sonnet-4-20250514", "claude_code", "claude of Claude Code"},
		{"", "", "gemini-2.5-pro", "gemini_cli", "gemini of Gemini CLI"},
		{"", "", "my-claude-model", "codex", "codex of Codex"},
		{"", "gpt-5", "claude-sonnet-4-20250514", "codex", "codex of Codex"}, // --model overrides the request's
		{"opencode", "", "a/claude-sonnet", "opencode", "opencode of opencode"},
	} {
		r := &tasks{client: session.Client(), table: known.All(), task: api.Submission{Task: runs.Task{
			Attributes: runs.Attributes{Agent: c.agent, Model: c.own, Dir: dir, Mode: runs.ReadOnly}, SkipGit: true,
			Env: runs.EnvPolicy{Policy: runs.InheritNone},
		}, Confirm: true, DestructiveGit: true}}
		run := runs.NewID(time.Now().UnixMilli(), uint64(i))
		if err := r.Submit(ctx, job{Run: run, Prompt: "x", Model: c.model, Timeout: time.Minute}); err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		o, err := r.Wait(ctx, run)
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if o.Status != statusError || o.Meta["agent"] != c.want || !strings.Contains(o.Message, c.names) {
			t.Errorf("%+v: %+v", c, o)
		}
	}
}
