package worker

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/linesman/linesman/internal/files"
)

func TestBacklogIsWhatTheMarksDoNotCover(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	want := func(runs int, bytes int64) {
		t.Helper()
		if got, err := ReadBacklog(l.root); err != nil || got.Runs != runs || got.Bytes != bytes {
			t.Errorf("%+v, %v; want %d runs and %d bytes", got, err, runs, bytes)
		}
	}
	want(0, 0) // the directory does not exist yet
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
	d.mark.Out.Base = 40 // the file was truncated
	if err := d.mark.save(); err != nil {
		t.Fatal(err)
	}
	want(1, 100)
	if err := errors.Join(os.WriteFile(filepath.Join(l.root, "r", markFile), []byte("torn"), 0o600),
		os.Mkdir(filepath.Join(l.root, ".gone-x"), 0o700)); err != nil {
		t.Fatal(err)
	}
	want(1, 100)
}

// Only run directories count, whatever the path of the data directory is.
func TestRunDirectoriesAreFoundBelowAnyPath(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "[a]*?\\", "runs")
	names := []string{"r", ".gone-x", ".new-x", ".bad-x", "no id"}
	for _, name := range names {
		dir := filepath.Join(root, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, startedFile), "")
		out, err := openSpool(filepath.Join(dir, outFile))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		if err := files.Lock(out); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(root, "file"), "")
	b, err := ReadBacklog(root)
	if err != nil || b.Runs != 1 || b.Writing != 1 || !slices.Equal(b.Unsupervised, []string{"r"}) {
		t.Errorf("%+v, error %v; want 1 run, which is writing without a shim", b, err)
	}
}
