package metrics_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/metrics"
)

// table returns the part of docs/metrics.md that is made from the code.
func table() string {
	var b strings.Builder
	b.WriteString("| name | type | labels | meaning | role |\n|---|---|---|---|---|\n")
	for _, d := range metrics.Descriptions() {
		labels := ""
		if len(d.Labels) > 0 {
			labels = "`" + strings.Join(d.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", d.Name, d.Type, labels, d.Help, d.Role)
	}
	return b.String()
}

// TestDocumentHasEveryMetric compares the table of docs/metrics.md with the code. UPDATE_DOCS=1
// writes it.
func TestDocumentHasEveryMetric(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "docs", "metrics.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- table: made by UPDATE_DOCS=1 go test ./telemetry/metrics -->\n", "<!-- end of the table -->\n"
	before, rest, hasBegin := strings.Cut(string(text), begin)
	_, after, hasEnd := strings.Cut(rest, end)
	if !hasBegin || !hasEnd {
		t.Fatal("the marks of the table are missing")
	}
	want := before + begin + table() + end + after
	if want == string(text) {
		return
	}
	if os.Getenv("UPDATE_DOCS") == "" {
		t.Fatal("the table is not that of the code: UPDATE_DOCS=1 go test ./telemetry/metrics")
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestDocumentHasEveryReason compares the values of the label reason with the code, which has every reason of a record.
func TestDocumentHasEveryReason(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, row, _ := strings.Cut(string(text), "| `reason` of runs |")
	row, _, _ = strings.Cut(row, "|")
	for _, reason := range append(metrics.Reasons, "none", "other") {
		if !strings.Contains(row, "`"+strings.ReplaceAll(reason, " ", "_")+"`") {
			t.Errorf("it lacks %s: %s", reason, row)
		}
	}
	for _, reason := range []runs.Reason{runs.ReasonIdle, runs.ReasonHard, runs.ReasonSpool, runs.ReasonSpawn,
		runs.ReasonSession, runs.ReasonLost} {
		if !slices.Contains(metrics.Reasons, string(reason)) {
			t.Errorf("%s has no value of the label", reason)
		}
	}
}

// TestNamesAreThoseOfTheConvention checks what `promtool check metrics` does not.
func TestNamesAreThoseOfTheConvention(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, d := range metrics.Descriptions() {
		total := strings.HasSuffix(d.Name, "_total")
		switch {
		case seen[d.Name]:
			t.Errorf("%s is described twice", d.Name)
		case total != (d.Type == "counter"):
			t.Errorf("%s is a %s", d.Name, d.Type)
		case d.Type == "histogram" && !strings.HasSuffix(d.Name, "_seconds"):
			t.Errorf("%s has no unit", d.Name)
		case !strings.HasSuffix(d.Help, "."):
			t.Errorf("%s: the help is no sentence: %s", d.Name, d.Help)
		}
		seen[d.Name] = true
		for _, label := range d.Labels {
			switch label {
			case "agent", "kind", "status", "type", "version", "state", "reason", "source", "stream", "stage", "cause",
				"operation", "code", "outcome", "decider", "revision", "goversion":
			default:
				t.Errorf("%s has the label %s, which this test does not know: are its values few?", d.Name, label)
			}
		}
	}
}
