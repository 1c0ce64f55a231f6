package daemon_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon/daemontest"
	"github.com/linesman/linesman/filelock"
	"github.com/linesman/linesman/test/fixture"
)

// A run that has ended is erased over NATS; an open one is not, nor one whose
// worker still has its directory.
func TestForgetErasesARunThatHasEnded(t *testing.T) {
	t.Parallel()
	var data string
	d := daemontest.Start(t, func(s *config.Config) { data = s.DataDir })
	b, err := d.Server.Connect(t.Context(), embedded.OperatorUser)
	if err != nil {
		t.Fatal(err)
	}
	ctx, c := t.Context(), client.New(b)
	forget := func(run string, want api.Code) {
		t.Helper()
		f, err := c.Forget(ctx, run)
		var e *api.Error
		if want == "" && (err != nil || f.Entries == 0 || !f.Record) {
			t.Errorf("forget %s: %+v, %v", run, f, err)
		}
		if want != "" && (!errors.As(err, &e) || e.Code != want) {
			t.Errorf("forget %s: %v, want %s", run, err, want)
		}
	}
	task, err := c.Submit(ctx, api.Submission{Prompt: "x"})
	if err != nil {
		t.Fatal(err)
	}
	forget("T-none", api.NotFound)
	forget(task.Run, api.Conflict)
	if _, err := c.Cancel(ctx, api.Cancel{Run: task.Run}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(ctx, task.Run, nil); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(data, "runs", task.Run)
	fixture.Eventually(t, fixture.Patience, "the worker still has its directory of the run", func() bool {
		_, err := os.Stat(dir)
		return errors.Is(err, fs.ErrNotExist)
	})
	occupy(t, dir)
	forget(task.Run, api.Conflict)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	aside := filepath.Join(data, "jetstream", "damaged")
	if err := os.MkdirAll(filepath.Join(aside, "20260101T000000.000Z", "LINESMAN_RAW"), 0o700); err != nil {
		t.Fatal(err)
	}
	forget(task.Run, "")
	if _, err := os.Stat(aside); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("files of damaged streams, which may have its content: %v", err)
	}
}

// occupy makes the directory of a run that somebody drives: its owner file is locked. It
// appears with the lock, so that the worker does not take it for one that a killed
// process left.
func occupy(t *testing.T, dir string) {
	t.Helper()
	made := t.TempDir()
	owner, err := os.Create(filepath.Join(made, "owner"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { owner.Close() })
	err = errors.Join(filelock.TryLock(owner), os.MkdirAll(filepath.Dir(dir), 0o700), os.Rename(made, dir))
	if err != nil {
		t.Fatal(err)
	}
}
