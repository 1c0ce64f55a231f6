package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// MakeDir makes a directory, and those above it, where they are missing. What
// stands in its way is never an [fs.ErrExist].
func MakeDir(path string) error {
	if err := CheckDir(path); err != nil {
		return err
	}
	return os.MkdirAll(path, 0o700)
}

// CheckDir says why a directory can be neither used nor made: something else is
// in its place, or it lies behind a symbolic link whose target is missing, as
// where a disk is not mounted. A directory that is simply missing is no error.
func CheckDir(path string) error {
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s is not a directory", at)
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		if target, err := os.Readlink(at); err == nil {
			return fmt.Errorf("%s is a symbolic link to %s, which does not exist", at, target)
		}
		if at == filepath.Dir(at) { // "." of a process whose working directory was removed
			return nil
		}
	}
}
