package embedded

import (
	"errors"
	"io/fs"
	"os"
)

// readIfThere returns the content of a file, nil if it is missing.
func readIfThere(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// writeOver replaces a file. It writes to a temporary one on the same file system first.
func writeOver(path, temporary string, content []byte) error {
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return nil
}

// moveIfThere renames a file, if it exists.
func moveIfThere(from, to string) error {
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return os.Rename(from, to)
}
