package files

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestLockExcludesOtherOpenFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	first, second := open(t, path), open(t, path)
	if err := Lock(first); err != nil {
		t.Fatal(err)
	}
	if err := TryLock(second); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	if err := Close(first); err != nil {
		t.Fatal(err)
	}
	if err := TryLock(second); err != nil {
		t.Errorf("the lock was released: %v", err)
	}
}

func TestLockWaitsUntilTheLockIsFree(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	first, second := open(t, path), open(t, path)
	if err := Lock(first); err != nil {
		t.Fatal(err)
	}
	locked := make(chan error)
	go func() { locked <- Lock(second) }()
	select {
	case err := <-locked:
		t.Fatalf("took a lock that is held: %v", err)
	default:
	}
	if err := Close(first); err != nil {
		t.Fatal(err)
	}
	if err := <-locked; err != nil {
		t.Error(err)
	}
}

// A child process that is being started has a copy of the descriptor.
func TestCloseReleasesTheLockOfACopiedDescriptor(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	f := open(t, path)
	if err := Lock(f); err != nil {
		t.Fatal(err)
	}
	inherited, err := unix.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	if err := Close(f); err != nil {
		t.Fatal(err)
	}
	if held, err := Held(path); held || err != nil {
		t.Errorf("got %v, %v, want a free lock", held, err)
	}
}

func TestHeld(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	check := func(when string, want bool) {
		t.Helper()
		if held, err := Held(path); held != want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", when, held, err, want)
		}
	}
	check("no file", false)
	f := open(t, path)
	check("not locked", false)
	if err := TryLock(f); err != nil {
		t.Fatal(err)
	}
	check("locked", true)
	check("locked, the second call", true)
	if err := Close(f); err != nil {
		t.Fatal(err)
	}
	check("released", false)
}

func TestErrorOfTheSystemIsNotErrLocked(t *testing.T) {
	t.Parallel()
	f := open(t, filepath.Join(t.TempDir(), "lock"))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for name, take := range map[string]func(*os.File) error{"Lock": Lock, "TryLock": TryLock} {
		if err := take(f); errors.Is(err, ErrLocked) || !errors.Is(err, unix.EBADF) {
			t.Errorf("%s: got %v, want EBADF", name, err)
		}
	}
}
