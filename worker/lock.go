package worker

import (
	"errors"
	"io/fs"
	"os"
)

// openLocked opens or creates the file at path and locks it with take. If the
// file was replaced or removed before the lock was free, it opens the new one.
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
