package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// content fails the test unless dir holds the file with this body, readable by
// its owner only, and nothing else.
func content(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Fatalf("got %v, %v, want one file", entries, err)
	}
	if info, err := entries[0].Info(); err != nil || info.Mode() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	for _, body := range []string{"one", "and another"} {
		if err := Replace(path, "*.tmp", []byte(body)); err != nil {
			t.Fatal(err)
		}
		content(t, path, body)
	}
}

func TestCreateReplacesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := Create(path, "*.tmp", []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := Create(path, "*.tmp", []byte("another")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v, want fs.ErrExist", err)
	}
	content(t, path, "one")
}

// The file cannot be moved to its name, and no temporary file is left.
func TestFailureLeavesNoTemporaryFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "taken")
	if err := os.MkdirAll(filepath.Join(path, "by a directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, "*.tmp", []byte("body")); err == nil {
		t.Error("replaced a directory")
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v, want the directory alone", entries, err)
	}
}

func TestMissingDirectory(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	if err := Replace(filepath.Join(missing, "file"), "*.tmp", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
	if err := SyncDir(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}
