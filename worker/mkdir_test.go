package worker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The directory of the runs, or its parent, is a symbolic link to a disk that
// is not mounted. The error must not be fs.ErrExist, which callers take for a
// known run.
func TestUnmountedDiskIsNotReportedAsAKnownRun(t *testing.T) {
	t.Parallel()
	for name, below := range map[string]string{"the directory": "", "the one above": "runs"} {
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink("/nowhere/at/all", link); err != nil {
			t.Fatal(err)
		}
		_, err := Create(filepath.Join(link, below), shell("r", "true"))
		if err == nil || errors.Is(err, fs.ErrExist) ||
			!strings.Contains(err.Error(), link+" is a symbolic link to /nowhere/at/all, which does not exist") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
