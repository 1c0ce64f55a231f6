package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked reports that another open file has the lock.
var ErrLocked = errors.New("locked")

// Lock takes the exclusive lock of f, and waits until it is free.
func Lock(f *os.File) error { return flock(f, unix.LOCK_EX) }

// TryLock takes the exclusive lock of f, or returns [ErrLocked] at once. Other
// errors, such as those of file systems without locks, do not go away by
// retrying.
func TryLock(f *os.File) error { return flock(f, unix.LOCK_EX|unix.LOCK_NB) }

// Close releases the lock of f and closes f.
func Close(f *os.File) error { return errors.Join(flock(f, unix.LOCK_UN), f.Close()) }

// Held reports whether the lock of the file at path is taken. It takes a shared
// lock for a moment, so concurrent calls do not see each other, but a [TryLock]
// at that moment fails. A missing file is not locked, nor is a socket or a link to
// itself. It does not block, whatever kind of file it is.
func Held(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ELOOP) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = Close(f) }()
	err = flock(f, unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, ErrLocked) {
		return true, nil
	}
	return false, err
}

func flock(f *os.File, operation int) error {
	for {
		err := unix.Flock(int(f.Fd()), operation)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrLocked
		default:
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}
