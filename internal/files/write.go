package files

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace writes the file at path and replaces the one that is there. The
// temporary file is named by pattern, as [os.CreateTemp] defines it.
func Replace(path, pattern string, body []byte) error {
	return write(path, pattern, body, os.Rename)
}

// Create writes the file at path. The error is an [fs.ErrExist] if there is one
// already, which stays as it is.
func Create(path, pattern string, body []byte) error {
	return write(path, pattern, body, os.Link)
}

func write(path, pattern string, body []byte, move func(from, to string) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // after a rename there is none
	_, err = f.Write(body)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := move(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// SyncDir makes the entries of a directory durable: files that were created,
// renamed or removed.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
