package bridge

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The directory is created after the start, and a parent of it is a symbolic link: the next bridge has the same journal.
func TestLinkedDirectoryHasOneJournal(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	linked := filepath.Join(filepath.Dir(l.dir), "linked")
	if err := os.Symlink(l.dir, linked); err != nil {
		t.Fatal(err)
	}
	l.dir = filepath.Join(linked, "sub")
	c := l.config()
	c.Dirs[0].Must = false
	stop := l.start(c)
	if err := os.Mkdir(l.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l.request(request, "id-1", "hang")
	l.until("it is submitted", func() bool { return len(l.names(l.runs)) == 1 })
	stop()
	run := l.names(l.runs)[0]
	l.start(l.config())
	if err := os.WriteFile(filepath.Join(l.runs, run+".cancelled"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l.until("it is answered or run again", func() bool { return l.has(response) || len(l.names(l.runs)) > 2 })
	if names := l.names(l.runs); !slices.Equal(names, []string{run, run + ".cancelled"}) {
		t.Errorf("run again: %q", strings.Join(names, " "))
	}
}
