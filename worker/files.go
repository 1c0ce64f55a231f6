package worker

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/internal/files"
)

// openOwn opens a file of a run directory. An agent can replace each of them, by a FIFO or a link,
// so it does not block, follows no link, and opens a regular file only. The error of another kind of
// file is [errBad]; with O_CREATE it is replaced. Permissions that the agent has removed are restored.
func openOwn(path string, flags int) (*os.File, error) {
	f, err := openFile(path, flags)
	if errors.Is(err, fs.ErrPermission) && permitted(path) {
		f, err = openFile(path, flags)
	}
	return f, err
}

func openFile(path string, flags int) (*os.File, error) {
	for removed := false; ; removed = true {
		f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		switch info, serr := statOf(f); {
		case err == nil && serr == nil && info.Mode().IsRegular():
			_ = unix.SetNonblock(int(f.Fd()), false) // an agent may inherit it
			return f, nil
		case err == nil:
			err = errors.Join(serr, f.Close(), fmt.Errorf("%w: %s is not a regular file", errBad, filepath.Base(path)))
		case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO), errors.Is(err, unix.EISDIR): // link, FIFO, directory
			err = fmt.Errorf("%w: %s is not a regular file", errBad, filepath.Base(path))
		default:
			return nil, err
		}
		if flags&os.O_CREATE == 0 || removed || os.Remove(path) != nil {
			return nil, err
		}
	}
}

// permitted makes a file of a run directory readable and writable for its owner. It reports whether it could.
func permitted(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular() && os.Chmod(path, 0o600) == nil
}

// held is [files.Held] for a file of a run directory, from which an agent may have removed the permissions.
func held(path string) (bool, error) {
	busy, err := files.Held(path)
	if errors.Is(err, fs.ErrPermission) && permitted(path) {
		return files.Held(path)
	}
	return busy, err
}

// openFIFO opens the FIFO at path for reading and writing. If there is none, or another kind of file, it
// makes one.
func openFIFO(path string) (*os.File, error) {
	for made := false; ; made = true {
		f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
		info, serr := statOf(f)
		if err == nil && serr == nil && info.Mode()&fs.ModeNamedPipe != 0 {
			return f, nil
		}
		if err == nil {
			err = errors.Join(serr, f.Close(), fmt.Errorf("%s is not a FIFO", ctlFile))
		}
		if made {
			return nil, err
		}
		_ = os.Remove(path) // it may be missing
		if err := unix.Mkfifo(path, 0o600); err != nil {
			return nil, err
		}
	}
}

// openPipe opens the FIFO at path. The error of another kind of file is ENXIO.
func openPipe(path string, flags int) (int, error) {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return -1, err
	}
	var info unix.Stat_t
	if err = unix.Fstat(fd, &info); err == nil && info.Mode&unix.S_IFMT != unix.S_IFIFO {
		err = unix.ENXIO
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openOther opens a file of another program, without blocking if it is a FIFO.
func openOther(path string, flags int) (*os.File, error) {
	return os.OpenFile(path, flags|unix.O_NONBLOCK, 0)
}

func statOf(f *os.File) (fs.FileInfo, error) {
	if f == nil {
		return nil, nil
	}
	return f.Stat()
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := openOwn(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

func writeFile(path string, body []byte, synced bool) error {
	f, err := openOwn(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	if err == nil && synced {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// maxInput is the maximum size of what an agent reads on stdin, in bytes.
const maxInput = 64 << 20

// ErrInput reports an input of more than [maxInput] bytes.
var ErrInput = fmt.Errorf("stdin: at most %d MiB can be passed to an agent", maxInput>>20)

// copyInput writes all that in has to a new file.
func copyInput(path string, in io.Reader) (int64, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(f, io.LimitReader(in, maxInput+1))
	switch {
	case err == nil && n > maxInput:
		err = ErrInput
	case err == nil:
		err = f.Sync()
	}
	return n, errors.Join(err, f.Close())
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

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
