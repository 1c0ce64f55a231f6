package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// errLocked reports a lock that somebody else holds.
var errLocked = errors.New("locked")

// lock takes the exclusive lock of f's open file description and waits for
// it. The lock is free once the last process that inherited f has closed it,
// however it died.
func lock(f *os.File) error {
	return flock(f, unix.LOCK_EX)
}

// tryLock is lock for those who do not wait: it returns errLocked instead.
func tryLock(f *os.File) error {
	return flock(f, unix.LOCK_EX|unix.LOCK_NB)
}

// release gives the lock of f back, and closes f. A process that is just being
// started has f for a moment, too: to close it alone would leave the lock with
// that one.
func release(f *os.File) error {
	return errors.Join(flock(f, unix.LOCK_UN), f.Close())
}

// openLocked opens the file at path, makes it if it is missing, and takes its
// lock by take. A file that was replaced or removed before the lock was free is
// opened again.
func openLocked(path string, flags int, take func(*os.File) error) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|flags, 0o600)
		if err != nil {
			return nil, err
		}
		err = take(f)
		current := false
		if err == nil {
			current, err = sameFile(f, path)
		}
		if err == nil && current {
			return f, nil
		}
		if err := errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
}

// held reports whether somebody holds the lock of the file at path. It asks
// with a shared lock of its own, so that those who ask do not see each other;
// for that moment tryLock fails. A file that is not there is held by nobody.
func held(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = release(f) }()
	err = flock(f, unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, errLocked) {
		return true, nil
	}
	return false, err
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return errLocked
		default:
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}
