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
	defer syscall.Umask(syscall.Umask(0o022))
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	began, other := t.TempDir(), t.TempDir()
	for _, c := range []struct{ home, before, began string }{
		{"/", "", began}, {"//", "", began}, {link, "", began}, {t.TempDir(), "/", began}, {t.TempDir(), link, began},
		{"/", link, began}, {"/", "", "/"}, {"/nowhere", "", "/"}, {"", "/", "/"},
	} {
		t.Chdir(c.began)
		cfg := config.Default()
		cfg.DataDir = t.TempDir()
		if err := leaveDirectory(&cfg, []string{"HOME=" + c.home}, c.before); err != nil {
			t.Fatal(err)
		}
		dir, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		rules := launch.Rules{Dir: dir, Roots: cfg.Work.Roots}
		for _, no := range []string{other, cfg.DataDir} { // the data directory is no place for tasks either
			if got, err := rules.Directory(runs.Task{Attributes: runs.Attributes{Dir: no}}); err == nil {
				t.Errorf("HOME=%s, before in %q: the roots %q allow %s", c.home, c.before, cfg.Work.Roots, got)
			}
		}
		_, err = rules.Directory(runs.Task{Attributes: runs.Attributes{Dir: began}})
		if allowed := err == nil; allowed != (c.began == began) {
			t.Errorf("HOME=%s, started in %s: the roots %q allow %s: %t", c.home, c.began, cfg.Work.Roots, began, allowed)
		}
	}
}
