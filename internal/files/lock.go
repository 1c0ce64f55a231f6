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
func Lock(f *os.File) error { return flock(int(f.Fd()), f.Name(), unix.LOCK_EX) }

// TryLock takes the exclusive lock of f, or returns [ErrLocked] at once. Other
// errors, such as those of file systems without locks, do not go away by
// retrying.
func TryLock(f *os.File) error { return flock(int(f.Fd()), f.Name(), unix.LOCK_EX|unix.LOCK_NB) }

// Close releases the lock of f and closes f.
func Close(f *os.File) error {
	return errors.Join(flock(int(f.Fd()), f.Name(), unix.LOCK_UN), f.Close())
}

// Held reports whether the lock of the file at path is taken. It takes a shared
// lock for a moment, so concurrent calls do not see each other, but a [TryLock]
// at that moment fails. A missing file is not locked, nor is a socket or a link to
// itself. It does not block, whatever kind of file it is.
func Held(path string) (bool, error) {
	fd, err := openRaw(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ELOOP) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Close(fd) }()
	switch err := flock(fd, path, unix.LOCK_SH|unix.LOCK_NB); {
	case errors.Is(err, ErrLocked):
		return true, nil
	case err != nil:
		return false, err
	}
	return false, flock(fd, path, unix.LOCK_UN) // a process that is being forked may still have it open
}

// openRaw opens a file for reading without what an [os.File] takes: workers look at several files of each run a second.
func openRaw(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			if err != nil {
				return -1, &fs.PathError{Op: "open", Path: path, Err: err}
			}
			return fd, nil
		}
	}
}

func flock(fd int, path string, operation int) error {
	for {
		err := unix.Flock(fd, operation)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrLocked
		default:
			return fmt.Errorf("lock %s: %w", path, err)
		}
	}
}
