package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linesman/linesman/bus/embedded"
)

func TestADataDirectoryThatOthersCanWriteIsRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := private(dir); err != nil {
		t.Errorf("one that is not there yet: %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 { // a group that is not root's own
		if err := os.Chown(dir, 0, 12345); err != nil {
			t.Fatal(err)
		}
	}
	for mode, taken := range map[os.FileMode]bool{0o700: true, 0o755: true, 0o750: true, 0o702: false, 0o777: false, 0o1777: false, 0o775: os.Getuid() != 0 && os.Getgid() == os.Getuid()} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := private(dir); (err == nil) != taken {
			t.Errorf("mode %v: %v", mode, err)
		}
		var out, stderr bytes.Buffer
		code := run(t.Context(), []string{"status", "--no-daemon", "--data-dir", dir}, nil, strings.NewReader(""), &out, &stderr)
		if refused := code == exitUsage && strings.Contains(stderr.String(), "others can write to "); refused == taken {
			t.Errorf("mode %v: status ends with %d: %s", mode, code, &stderr)
		}
	}
}

// A link leads out of the data directory, to what others may own.
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
			if err := private(data); (err == nil) != taken {
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
		if err := private(data); err != nil {
			t.Errorf("%q of our own: %v", name, err)
		}
		if err := os.Chown(owned, 12345, 0); err != nil {
			t.Fatal(err)
		}
		if err := private(data); err == nil || !strings.Contains(err.Error(), "user 12345 owns "+filepath.Join(data, name)) {
			t.Errorf("%q of user 12345: %v", name, err)
		}
	}
}

func TestKeysThatOthersCanReadAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := keysOf(dir, embedded.WorkerUser); !errors.Is(err, errNoKeys) {
		t.Errorf("none: %v", err)
	}
	for _, name := range []string{"worker.creds", "worker.nk", "worker-key.pem"} {
		path := filepath.Join(dir, name)
		for mode, taken := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false} {
			if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "worker.pem"), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			if _, err := keysOf(dir, embedded.WorkerUser); (err == nil) != taken {
				t.Errorf("%s with mode %v: %v", name, mode, err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A role that works in both accounts gets no login without the second: one
// account for both is weaker, and nothing to slip into.
func TestARoleOfTwoAccountsNeedsBothKeys(t *testing.T) {
	t.Parallel()
	for user, alone := range map[string]bool{embedded.WorkerUser: true, embedded.SubscriberUser: true, embedded.NormalizerUser: false, embedded.ResponderUser: false, embedded.OperatorUser: false} {
		dir := t.TempDir()
		write := func(name string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(user + ".creds")
		if _, _, err := keyLogins(dir, "nats://x", user); (err == nil) != alone {
			t.Errorf("%s alone: %v", user, err)
		}
		write(user + publicSuffix + ".creds")
		if _, public, err := keyLogins(dir, "nats://x", user); err != nil || public.URL == "" {
			t.Errorf("%s with both: %v", user, err)
		}
	}
}
