package e2e

import (
	"os"
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
	data, retention := t.TempDir(), 2*time.Second
	if err := os.WriteFile(filepath.Join(data, "c.toml"), []byte("[raw]\nmax_age = '2s'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
		return time.Since(killed) > 2*retention
	})
	up(t, data, config...)
	if out, code := execute(t, append([]string{"wait", "--data-dir", data}, append(config, "a")...)...); code != 0 {
		t.Fatalf("wait: %d, %s", code, out)
	}
	events, code := execute(t, append([]string{"events", "--data-dir", data, "--run", "a", "--json"}, config...)...)
	if code != 0 || strings.Contains(events, "stream gap") {
		t.Errorf("events: %d\n%s", code, events)
	}
	if n := strings.Count(events, `"text":"message `); n != 60 {
		t.Errorf("%d messages, want 60", n)
	}
}
