package doctor

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/worker/programs"
)

// slow is an examination on a machine whose codex does not answer.
func slow(t *testing.T, ask time.Duration) *examination {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "codex"), []byte("#!/bin/sh\nexec sleep 600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	settings := config.Default()
	settings.DataDir = t.TempDir()
	return &examination{
		dialer: &datadir.Dialer{Config: settings, Environ: []string{"PATH=" + bin + ":/usr/bin:/bin"}}, Settings: settings,
		table: known.Agents, ask: ask, now: time.Now,
	}
}

func TestAgentThatIsSlowIsAWarningWithTheTime(t *testing.T) {
	t.Parallel()
	checks := slow(t, 200*time.Millisecond).all(t.Context(), nil)
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == "codex" })
	if i < 0 || checks[i].Level != warn || !strings.HasSuffix(checks[i].Text, "no answer in 200ms") {
		t.Errorf("got %+v", checks)
	}
	names := ""
	for _, c := range checks {
		names += c.Name + " "
	}
	if !strings.HasPrefix(names, "settings data shims up nats users streams lags readers responder worker drift http "+
		"codex ") || !strings.HasSuffix(names, "roots git inotify ") {
		t.Errorf("the order of the checks: %s", names)
	}
}

// While one check waits for a slow program the others finish, and progress names the one that waits.
func TestChecksDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	alone := false
	slow(t, time.Hour).all(ctx, func(names []string) {
		if slices.Equal(names, []string{"agents"}) {
			alone = true
			cancel() // else it would wait for an hour
		}
	})
	if !alone {
		t.Error("it does not tell what it waits for")
	}
}

// An adapter of another version than the tested one is a warning.
func TestAdapterThatWasNotTriedIsAWarning(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]level{"2.6.0": fine, "": fine, "2.7.0": warn} {
		x := &examination{}
		x.live([]programs.Agent{{Name: "Codex", Short: "codex", Path: "/bin/codex", Live: &programs.Live{
			Path: "/bin/codex-acp", Version: version, Tested: "2.6.0",
		}}})
		c := x.checks[0]
		if c.Level != want || !strings.HasPrefix(c.Text, "codex by /bin/codex-acp") || !strings.Contains(c.Text, version) ||
			strings.Contains(c.Do, "2.6.0") != (want == warn) {
			t.Errorf("version %q: %+v", version, c)
		}
	}
}
