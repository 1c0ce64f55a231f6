package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// MakeDir creates a directory and its missing parents. The error is never an
// [fs.ErrExist].
func MakeDir(path string) error {
	if err := CheckDir(path); err != nil {
		return err
	}
	return os.MkdirAll(path, 0o700)
}

// CheckDir reports why a directory can be neither used nor created: the path
// names another kind of file, or contains a symbolic link whose target is
// missing, for example because a disk is not mounted. A missing directory is
// no error.
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
