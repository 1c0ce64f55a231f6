package datadir

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

// The root of the file system is no home, and is allowed only where it is named. The test changes the directory and the
// umask of the process: it is not parallel.
func TestUpInTheBackgroundDoesNotAllowTheWholeFileSystem(t *testing.T) {
	t.Chdir(t.TempDir())
	defer syscall.Umask(syscall.Umask(0o022))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	other := t.TempDir()
	for _, c := range []struct{ home, before string }{
		{"/", ""}, {"//", ""}, {link, ""}, {t.TempDir(), "/"}, {t.TempDir(), link}, {"/", link},
	} {
		cfg := config.Default()
		cfg.DataDir = t.TempDir()
		if err := leaveDirectory(&cfg, []string{"HOME=" + c.home}, c.before); err != nil {
			t.Fatal(err)
		}
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := (launch.Rules{Dir: dir, Roots: cfg.Work.Roots}).Directory(runs.Task{
			Attributes: runs.Attributes{Dir: other},
		}); err == nil {
			t.Errorf("HOME=%s, before in %q: the roots %q allow %s", c.home, c.before, cfg.Work.Roots, got)
		}
	}
}
