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

func TestSecretIsReadOnlyByThoseWhoNeedIt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir, credentials, of := t.TempDir(), t.TempDir(), os.Getegid()
	t.Setenv("CREDENTIALS_DIRECTORY", credentials)
	for _, c := range []struct {
		dir          string
		owner, group int
		mode         fs.FileMode
		taken        bool
	}{
		{dir, 0, 0, 0o600, true}, {dir, 0, 0, 0o440, false}, {dir, 0, 0, 0o404, false},
		{dir, 12345, of, 0o440, true}, {dir, 12345, of, 0o460, false}, {dir, 12345, of, 0o444, false},
		{dir, 12345, 12345, 0o440, false}, {credentials, 12345, 12345, 0o440, false},
	} {
		path := filepath.Join(c.dir, "secret")
		err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, c.owner, c.group), os.Chmod(path, c.mode))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSecret(path, 1); (err == nil) != c.taken {
			t.Errorf("%+v: %v", c, err)
		}
	}
	ofRoot := map[string]bool{filepath.Join(dir, "of-root"): true, filepath.Join(credentials, "of-root"): false}
	for path, shared := range ofRoot {
		err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, 0, 54321), os.Chmod(path, 0o440))
		info, other := os.Stat(path)
		if err := errors.Join(err, other); err != nil {
			t.Fatal(err)
		}
		if sharedBy(12345, path, info) != shared {
			t.Errorf("%s", path)
		}
	}
}
