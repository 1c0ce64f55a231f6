package bridge

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/internal/lazy"
)

// Limits of a directory.
const (
	maxNames       = 256  // request files per scan
	maxQuarantined = 32   // files that were moved aside and are kept, with their texts
	maxLeftovers   = 4096 // files of the bridge that recovery examines
)

// errBusy reports a directory that another bridge watches.
var errBusy = errors.New("another bridge watches this directory")

// lockedDir is an open directory with requests. All operations use the open
// directory, even if its path changes, and follow no symbolic links. The
// kernel releases the lock when the process ends.
type lockedDir struct {
	root *os.Root
	lock *os.File // the open directory itself
}

// openLockedDir opens and locks a directory. The error is an [fs.ErrNotExist]
// if it is missing, and errBusy if another bridge has locked it.
func openLockedDir(path string) (_ *lockedDir, err error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = root.Close()
		}
	}()
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	if err := files.TryLock(dir); err != nil {
		_ = dir.Close()
		if errors.Is(err, files.ErrLocked) {
			return nil, errBusy
		}
		return nil, err
	}
	return &lockedDir{root, dir}, nil
}

// close releases the lock and closes the directory.
func (l *lockedDir) close() {
	_, _ = files.Close(l.lock), l.root.Close()
}

// isAt reports whether path leads to this directory.
func (l *lockedDir) isAt(path string) bool {
	own, err := l.lock.Stat()
	if err != nil {
		return false
	}
	current, err := os.Stat(path)
	return err == nil && os.SameFile(own, current)
}

// names returns the sorted names in the directory that match, at most limit.
// Ignored files do not count, so they cannot hide others; skipped, if not nil,
// is called for each of them.
func (l *lockedDir) names(limit int, match func(string) bool, skipped func(name, why string)) ([]string, error) {
	d, err := l.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var names []string
	for len(names) < limit {
		some, err := d.Readdirnames(1024)
		for _, name := range some {
			if len(names) == limit || !match(name) {
				continue
			}
			_, err := l.stat(name)
			if foreign, ok := errors.AsType[*foreignError](err); !ok {
				names = append(names, name)
			} else if skipped != nil {
				skipped(name, foreign.why)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return names, nil
}

// version identifies the content of a file without reading it.
type version struct {
	dev, ino  uint64
	size, mod int64
}

// foreignError says why a file is ignored.
type foreignError struct{ why string }

func (e *foreignError) Error() string { return e.why }

// stat returns the version of a regular file of this user or root. For other
// files the error is a foreignError.
func (l *lockedDir) stat(name string) (version, error) {
	info, err := l.root.Lstat(name)
	if err != nil {
		return version{}, err
	}
	return versionOf(info)
}

func versionOf(info fs.FileInfo) (version, error) {
	s, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return version{}, &foreignError{"it is a symbolic link"}
	case !info.Mode().IsRegular():
		return version{}, &foreignError{"it is not a regular file"}
	case !ok:
		return version{}, &foreignError{"its owner is not known"}
	case s.Uid != 0 && int(s.Uid) != os.Geteuid():
		return version{}, &foreignError{"it belongs to another user"}
	}
	return version{uint64(s.Dev), s.Ino, info.Size(), info.ModTime().UnixNano()}, nil
}

// read returns at most limit+1 bytes of a file, and its version before the
// read.
func (l *lockedDir) read(name string, limit int64) ([]byte, version, error) {
	v, err := l.stat(name)
	if err != nil {
		return nil, v, err
	}
	// O_NONBLOCK: opening a FIFO that has replaced the file must not block.
	f, err := l.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, v, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, v, err
	}
	opened, err := versionOf(info)
	if err != nil || opened.dev != v.dev || opened.ino != v.ino {
		return nil, v, &foreignError{"it was replaced while it was opened"}
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	return b, v, err
}

// write replaces a file by a new one that only its owner can read. It is
// durable when write returns.
func (l *lockedDir) write(name string, b []byte) error {
	if err := l.remove(name); err != nil {
		return err
	}
	f, err := l.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = f.Chmod(0o600); err == nil { // independent of the umask
		_, err = f.Write(b)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return l.sync()
}

func (l *lockedDir) rename(from, to string) error {
	if err := l.root.Rename(from, to); err != nil {
		return err
	}
	return l.sync()
}

// restore renames a file back, unless the name is taken. It may keep the other
// name as well.
func (l *lockedDir) restore(from, to string) error {
	err := l.root.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	// File systems without links need two steps, which are not atomic.
	if current, err := l.exists(to); err != nil || current {
		return err
	}
	return l.root.Rename(from, to)
}

// remove removes a file; a missing file is no error.
func (l *lockedDir) remove(name string) error {
	if err := l.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (l *lockedDir) exists(name string) (bool, error) {
	_, err := l.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (l *lockedDir) sync() error { return l.lock.Sync() }

// quarantinedName matches the names that quarantine gives.
var quarantinedName = lazy.Regexp(`^\.agent-(?:request|response)[-_.0-9A-Za-z]*\.json\.(?:bad|stale)-([0-9]{8}T[0-9]{9}Z)(?:\.txt)?$`)

// errChanged reports a file that is not moved aside, because it was written again after it was read.
var errChanged = errors.New("it was written again meanwhile")

// quarantine moves a file aside that had a version when it was read: the new name contains kind and time. If why
// is not empty, it is stored in a text file next to it. Only the newest files
// are kept.
func (l *lockedDir) quarantine(name, kind, why string, was version, now time.Time) (string, error) {
	stamp := strings.Replace(now.UTC().Format("20060102T150405.000Z"), ".", "", 1)
	to := name + "." + kind + "-" + stamp
	if err := l.rename(name, to); err != nil {
		return "", err
	}
	if is, _ := l.stat(to); is != was { // that of a foreign file is zero
		if err := l.restore(to, name); err != nil {
			return "", err
		}
		return "", cmp.Or(l.remove(to), errChanged)
	}
	if why != "" {
		if err := l.write(to+".txt", []byte(why+"\n")); err != nil {
			return "", err
		}
	}
	return to, l.pruneQuarantine()
}

func (l *lockedDir) pruneQuarantine() error {
	names, err := l.names(maxLeftovers, quarantinedName().MatchString, nil)
	if err != nil {
		return err
	}
	slices.SortFunc(names, func(a, b string) int {
		return strings.Compare(quarantinedName().FindStringSubmatch(a)[1], quarantinedName().FindStringSubmatch(b)[1])
	})
	for _, name := range names[:max(len(names)-2*maxQuarantined, 0)] {
		if err := l.remove(name); err != nil {
			return err
		}
	}
	return nil
}

// resolve returns the absolute path of a directory, without symbolic links if
// it exists.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	resolved, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return abs, nil
	}
	return resolved, err
}
