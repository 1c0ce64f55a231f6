package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"
)

// The last entries before a kill are in RAW, and the normalizer has not recorded them. They
// must not expire before it reads them, however late the next `up` starts.
func TestUpThatWasAwayForLongerThanTheRetentionReportsNoGap(t *testing.T) {
	t.Parallel()
	// On a busy machine entries can expire while an `up` is there, too: then the retention was too short.
	for retention := 2 * time.Second; ; retention *= 4 {
		wrong := awayFor(t, 2*retention, retention)
		if wrong == "" {
			return
		}
		if retention > 30*time.Second {
			t.Fatal(wrong)
		}
	}
}

// awayFor kills an `up` and starts the next one after a time. It returns what is wrong with the events then.
func awayFor(t *testing.T, away, retention time.Duration) (wrong string) {
	t.Helper()
	data := t.TempDir()
	write(t, filepath.Join(data, "c.toml"), fmt.Sprintf("[raw]\nmax_age = '%v'\n", retention))
	config := []string{"--config", filepath.Join(data, "c.toml")}
	agent := newScript(t, `for i in $(seq 60); do say "message $i"; sleep 0.05; done`+"\n")
	first := up(t, data, config...)
	run := begin(t, nil, append([]string{"run", "--data-dir", data, "--run", "a", "--json"},
		append(config, "--", agent.path)...)...)
	run.Await(run.Stdout, `"message 20"`)
	first.Kill()
	run.Kill()
	killed := time.Now()
	fixture.Eventually(t, fixture.Patience, "the retention is over", func() bool {
		return time.Since(killed) > away
	})
	defer up(t, data, config...).Stop()
	if out, code := execute(t, append([]string{"wait", "--data-dir", data}, append(config, "a")...)...); code != 0 {
		t.Fatalf("wait: %d, %s", code, out)
	}
	events, code := execute(t, append([]string{"events", "--data-dir", data, "--run", "a", "--json"}, config...)...)
	if n := strings.Count(events, `"text":"message `); code != 0 || strings.Contains(events, "stream gap") || n != 60 {
		return fmt.Sprintf("events: %d, %d messages, want 60\n%s", code, n, events)
	}
	return ""
}
