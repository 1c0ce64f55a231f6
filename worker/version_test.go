package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A run directory of an unknown version is quarantined unchanged, the log says
// why, and another run is not affected.
func TestRunDirectoryOfANewerVersionIsRefused(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	d := l.create(shell("r", "echo never"))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(d.Path(), specFile)
	newer := strings.Replace(contents(t, path), `"version":2`, `"version":3`, 1)
	if err := os.WriteFile(path, []byte(newer), 0o600); err != nil {
		t.Fatal(err)
	}
	l.create(shell("other", "echo fine")).Close()
	l.adopt()
	aside := filepath.Join(l.root, badPrefix+"r")
	waitFor(t, "the end", func() bool { return l.ended("other") && exists(aside) })
	logged := ""
	for _, line := range l.lines.FilterMessage("not a run directory, quarantined").All() {
		logged += line.ContextMap()["error"].(string)
	}
	if !strings.Contains(logged, "version: must be 2, got 3") {
		t.Errorf("the log says %q", logged)
	}
	if got := contents(t, filepath.Join(aside, specFile)); got != newer || len(l.entries("r")) != 0 {
		t.Errorf("run.json is %q, and the log has %s", got, l.kinds("r"))
	}
}
