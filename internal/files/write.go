package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
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

// ReadSecret reads a small file with a secret. The error is one of the system, or says that others may read the
// file, or that it is longer than most bytes: it has the path, and nothing of the content.
func ReadSecret(path string, most int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if Shared(path, info) {
		return nil, fmt.Errorf("others can read %s: chmod 600", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	if err == nil && len(text) > most {
		return nil, fmt.Errorf("%s is longer than %d bytes", path, most)
	}
	return text, err
}

// Shared reports whether users can read a file with a secret who need not: others, or a group. If the file belongs to
// another user, such as a secret that Kubernetes mounts, a group of this process may read it, since this process could
// not read it otherwise. In the directory of systemd's credentials the bits of the group are those of an access list,
// which names the user of this process.
func Shared(path string, info fs.FileInfo) bool { return sharedBy(os.Geteuid(), path, info) }

func sharedBy(user int, path string, info fs.FileInfo) bool {
	mode := info.Mode().Perm()
	if owner, is := info.Sys().(*syscall.Stat_t); is && int(owner.Uid) != user {
		groups, _ := os.Getgroups()
		credential := owner.Uid == 0 && filepath.Dir(path) == filepath.Clean(os.Getenv("CREDENTIALS_DIRECTORY"))
		if credential || int(owner.Gid) == os.Getegid() || slices.Contains(groups, int(owner.Gid)) {
			mode &^= 0o040
		}
	}
	return mode&0o077 != 0
}
