package worker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The directory of the runs, or the one above it, is a symbolic link to a disk
// that is not mounted. That is not a run of this id, whose error callers take
// for a reason to choose another id, or to wait for the run.
func TestRunsOnADiskThatIsNotMountedAreNotTakenForKnownRuns(t *testing.T) {
	t.Parallel()
	for name, below := range map[string]string{"the directory": "", "the one above": "runs"} {
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink("/nowhere/at/all", link); err != nil {
			t.Fatal(err)
		}
		_, err := Create(filepath.Join(link, below), shell("r", "true"))
		if err == nil || errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), link+" is a symbolic link to /nowhere/at/all, which does not exist") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
