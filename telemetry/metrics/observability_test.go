package metrics_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/linesman/linesman/telemetry/metrics"
	"github.com/linesman/linesman/test/fixture"
)

// observability is the directory of the examples for Prometheus and Grafana.
var observability = filepath.Join("..", "..", "examples", "observability")

// promtool runs promtool, which Debian has in its package prometheus, in a directory.
func promtool(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), fixture.Need(t, "PROMTOOL", "promtool"), args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPrometheusFilesAreValid(t *testing.T) {
	t.Parallel()
	promtool(t, observability, "check", "config", "--syntax-only", "prometheus.yml")
	promtool(t, observability, "check", "rules", "alerts.yml")
	promtool(t, observability, "test", "rules", "alerts_test.yml")
}

// panel is a panel of a Grafana dashboard.
type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ H, W, X, Y int }
	Targets []struct{ RefID, Expr string }
}

func dashboard(t *testing.T) []panel {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(observability, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d struct{ Panels []panel }
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d.Panels
}

var metricName = regexp.MustCompile(`\blinesman_[a-z0-9_]+\b`)

// TestDashboardUsesEveryMetric compares the names in the dashboard and in the alert rules with the
// table of metrics.
func TestDashboardUsesEveryMetric(t *testing.T) {
	t.Parallel()
	known := map[string]string{} // name of a series to that of its metric
	for _, d := range metrics.Descriptions() {
		known[d.Name] = d.Name
		if d.Type == "histogram" {
			delete(known, d.Name)
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				known[d.Name+suffix] = d.Name
			}
		}
	}
	used := map[string]bool{}
	for _, p := range dashboard(t) {
		for _, target := range p.Targets {
			for _, name := range metricName.FindAllString(target.Expr, -1) {
				if used[known[name]] = true; known[name] == "" {
					t.Errorf("panel %q has %s, which is no metric", p.Title, name)
				}
			}
		}
	}
	for _, d := range metrics.Descriptions() {
		if !used[d.Name] {
			t.Errorf("no panel has %s", d.Name)
		}
	}
	for _, file := range []string{"alerts.yml", "alerts_test.yml"} {
		text, err := os.ReadFile(filepath.Join(observability, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metricName.FindAllString(string(text), -1) {
			if known[name] == "" {
				t.Errorf("%s has %s, which is no metric", file, name)
			}
		}
	}
}

// TestDashboardIsValid parses each expression, as a rule, with promtool, and compares the places
// of the panels.
func TestDashboardIsValid(t *testing.T) {
	t.Parallel()
	rules := strings.Builder{}
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range dashboard(t) {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("panel %q has the id %d of another one", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q lies on %q, or beside the page", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if (len(p.Targets) == 0) != (p.Type == "row") {
			t.Errorf("panel %q of the type %s has %d expressions", p.Title, p.Type, len(p.Targets))
		}
		for i, target := range p.Targets {
			expr := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
			fmt.Fprintf(&rules, "  - record: panel:p%d:t%d\n    expr: %q\n", p.ID, i, expr)
		}
	}
	path := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(path, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, ".", "check", "rules", path)
}
