package worker

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestBacklogIsWhatTheMarksDoNotCover(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	want := func(runs int, bytes int64) {
		t.Helper()
		if got, err := ReadBacklog(l.root); err != nil || got != (Backlog{runs, bytes}) {
			t.Errorf("%+v, %v; want %d runs and %d bytes", got, err, runs, bytes)
		}
	}
	want(0, 0) // there is no such directory yet
	d := l.create(shell("r", "exit"))
	defer d.Close()
	want(1, 0)
	if err := os.WriteFile(filepath.Join(l.root, "r", outFile), make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	want(1, 100)
	d.mark.Log.Out = 40
	if err := d.mark.save(); err != nil {
		t.Fatal(err)
	}
	want(1, 60)
	d.mark.Out.Base = 40 // the file was truncated since
	if err := d.mark.save(); err != nil {
		t.Fatal(err)
	}
	want(1, 100)
	if err := errors.Join(os.WriteFile(filepath.Join(l.root, "r", markFile), []byte("torn"), 0o600), os.Mkdir(filepath.Join(l.root, ".gone-x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	want(1, 100)
}
