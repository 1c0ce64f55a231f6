package datadir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestADataDirectoryThatOthersCanWriteIsRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := CheckOwner(dir); err != nil {
		t.Errorf("one that is not there yet: %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 { // not the private group of root
		if err := os.Chown(dir, 0, 12345); err != nil {
			t.Fatal(err)
		}
	}
	for mode, taken := range map[os.FileMode]bool{0o700: true, 0o755: true, 0o750: true, 0o702: false, 0o777: false,
		0o1777: false, 0o775: os.Getuid() != 0 && os.Getgid() == os.Getuid()} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := CheckOwner(dir); (err == nil) != taken {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
}

// The target of a link is outside of the data directory, and others may own it.
func TestALinkToADirectoryThatOthersCanWriteIsRefused(t *testing.T) {
	for _, name := range []string{"runs", "jetstream"} {
		data, elsewhere := t.TempDir(), t.TempDir()
		if err := os.Symlink(elsewhere, filepath.Join(data, name)); err != nil {
			t.Fatal(err)
		}
		for mode, taken := range map[os.FileMode]bool{0o700: true, 0o755: true, 0o777: false, 0o1777: false} {
			for _, dir := range []string{data, elsewhere} {
				if err := os.Chmod(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(elsewhere, mode); err != nil {
				t.Fatal(err)
			}
			if err := CheckOwner(data); (err == nil) != taken {
				t.Errorf("%s with mode %v: %v", name, mode, err)
			}
		}
	}
}

func TestADataDirectoryThatAnotherUserOwnsIsRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	for _, name := range []string{"", "runs", "jetstream"} {
		data, elsewhere := t.TempDir(), t.TempDir()
		owned := elsewhere
		if name == "" {
			owned = data
		} else if err := os.Symlink(elsewhere, filepath.Join(data, name)); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{data, elsewhere} {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := CheckOwner(data); err != nil {
			t.Errorf("%q of our own: %v", name, err)
		}
		if err := os.Chown(owned, 12345, 0); err != nil {
			t.Fatal(err)
		}
		if err := CheckOwner(data); err == nil || !strings.Contains(err.Error(), "user 12345 owns "+filepath.Join(data,
			name)) {
			t.Errorf("%q of user 12345: %v", name, err)
		}
	}
}
