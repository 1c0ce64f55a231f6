package worker

import (
	"errors"
	"io/fs"
	"os"
)

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

// sameFile reports whether path still names the file that f has open.
func sameFile(f *os.File, path string) (bool, error) {
	now, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	was, err := f.Stat()
	if err != nil {
		return false, err
	}
	return os.SameFile(was, now), nil
}
