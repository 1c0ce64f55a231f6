package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/linesman/linesman/bus/embedded"
)

func TestKeysThatOthersCanReadAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := findKeys(dir, embedded.WorkerUser); !errors.Is(err, errNoKeys) {
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
			if _, err := findKeys(dir, embedded.WorkerUser); (err == nil) != taken {
				t.Errorf("%s with mode %v: %v", name, mode, err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A secret that Kubernetes mounts belongs to root, and the group of the process may read it.
func TestAGroupMayReadKeysThatBelongToAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	path := filepath.Join(t.TempDir(), "worker.creds")
	for _, c := range []struct {
		owner, group int
		mode         os.FileMode
		taken        bool
	}{
		{12345, os.Getegid(), 0o440, true}, {12345, os.Getegid(), 0o640, true}, {12345, os.Getegid(), 0o660, false},
		{12345, os.Getegid(), 0o444, false}, {12345, 12345, 0o440, false}, {os.Geteuid(), os.Getegid(), 0o440, false},
	} {
		err := errors.Join(os.WriteFile(path, []byte("x"), 0o600), os.Chown(path, c.owner, c.group), os.Chmod(path, c.mode))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := findKeys(filepath.Dir(path), embedded.WorkerUser); (err == nil) != c.taken {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A role that uses both accounts gets no login without the second one: a single
// account for both is less secure, and must be a decision.
func TestARoleOfTwoAccountsNeedsBothKeys(t *testing.T) {
	t.Parallel()
	for user, alone := range map[string]bool{embedded.WorkerUser: true, embedded.SubscriberUser: true,
		embedded.NormalizerUser: false, embedded.ResponderUser: false, embedded.OperatorUser: false} {
		dir, all := t.TempDir(), signed(t)
		write := func(name string) {
			if err := os.Rename(filepath.Join(all, name), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		write(user + ".creds")
		if _, _, err := keyLogins(dir, "nats://x", user); (err == nil) != alone {
			t.Errorf("%s alone: %v", user, err)
		}
		if alone {
			continue
		}
		write(user + publicSuffix + ".creds")
		if _, public, err := keyLogins(dir, "nats://x", user); err != nil || public.URL == "" {
			t.Errorf("%s with both: %v", user, err)
		}
	}
}
