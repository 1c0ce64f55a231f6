package datadir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/worker"
)

// ErrLocked reports a data directory whose lock another process holds.
var ErrLocked = errors.New("another linesman works on this data directory")

func lockFile(data string) string { return filepath.Join(data, "lock") }

// storeDir is where the server of a data directory has its streams.
func storeDir(data string) string { return filepath.Join(data, "jetstream") }

// Lock is the right to serve a data directory. It holds two locks: of the lock
// file, and of the directory of the streams itself. A file can be removed while it
// is locked, and the next process would lock another one; a directory with streams
// cannot. The kernel releases both when the process ends, in whatever way.
type Lock struct {
	data  string
	file  *os.File
	store *os.File // nil on a file system that locks no directories
}

// takeLock creates the data directory if it is missing, and takes its lock. The
// error is [ErrLocked] if another process holds it.
func takeLock(data string) (*Lock, error) {
	if err := worker.MakeDir(data); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	file, err := openLocked(data)
	if err != nil {
		return nil, err
	}
	l := &Lock{data: data, file: file}
	if err := worker.MakeDir(storeDir(data)); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory: %w", err), l.Close())
	}
	if l.store, err = os.Open(storeDir(data)); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory: %w", err), l.Close())
	}
	switch err := tryLock(l.store); {
	case errors.Is(err, ErrLocked):
		return nil, errors.Join(err, l.Close())
	case err != nil: // such as NFS
		_ = l.store.Close()
		l.store = nil
	}
	return l, nil
}

// openLocked opens the lock file and locks it.
func openLocked(data string) (*os.File, error) {
	f, err := os.OpenFile(lockFile(data), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := tryLock(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Close releases the lock.
func (l *Lock) Close() error {
	err := files.Close(l.file)
	if l.store != nil {
		err = errors.Join(err, files.Close(l.store))
	}
	return err
}

// isLost reports whether the data directory was removed or replaced. Another
// process may serve the one that exists now. A lock file that alone was removed or
// replaced is restored, because no other process can serve the same streams.
func (l *Lock) isLost() bool {
	if !isReplaced(l.file) {
		return l.store != nil && isReplaced(l.store)
	}
	if l.store == nil || isReplaced(l.store) {
		return true
	}
	if file, err := openLocked(l.data); err == nil {
		_ = files.Close(l.file)
		l.file = file
	} // else another process holds it for a moment, until it sees that the streams are locked
	return false
}

// tryLock locks a file or directory of a data directory. It returns ErrLocked only if
// another process has the lock. Other errors, such as those of file systems
// without locks, are permanent: retrying does not help.
func tryLock(f *os.File) error {
	switch err := files.TryLock(f); {
	case errors.Is(err, files.ErrLocked):
		return fmt.Errorf("%w: %s", ErrLocked, filepath.Dir(f.Name()))
	case err != nil:
		return fmt.Errorf("data directory: %w; it must be on a file system with locks", err)
	}
	return nil
}

// isReplaced reports whether an open file or directory is no longer the one at its path.
func isReplaced(open *os.File) bool {
	own, err := open.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(open.Name())
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(own, now)
}

// isLocked reports whether a process serves the data directory, as far as it can be read.
func isLocked(data string) bool {
	busy, err := lockHeld(data)
	return busy && err == nil
}

// lockHeld reports whether a process serves the data directory. The error is that of a directory that cannot be read.
func lockHeld(data string) (bool, error) {
	var unread error
	for _, path := range []string{lockFile(data), storeDir(data)} {
		busy, err := files.Held(path)
		if err == nil && busy {
			return true, nil
		}
		if errors.As(err, new(*fs.PathError)) { // not of a file system that locks no directories
			unread = cmp.Or(unread, err)
		}
	}
	if unread != nil {
		return false, unreadable(unread)
	}
	return false, nil
}

// unreadable is the error of a data directory that cannot be read.
func unreadable(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("data directory: %w: run this as its owner, or choose another with --data-dir", err)
	}
	return fmt.Errorf("data directory: %w", err)
}

// lockWhileWanted is [takeLock] for an `up` in the background. It retries for
// staleLock, and takes no lock once isWanted returns false: another `up` has
// served the command by then, and if `down` ended that one, none must be left.
func lockWhileWanted(ctx context.Context, data string, isWanted func() bool) (*Lock, error) {
	for deadline := time.Now().Add(staleLock); ; {
		if !isWanted() { // before the directory is created
			return nil, ErrLocked
		}
		f, err := takeLock(data)
		switch {
		case err == nil && !isWanted():
			return nil, errors.Join(ErrLocked, f.Close())
		case !errors.Is(err, ErrLocked) || time.Now().After(deadline):
			return f, err
		}
		if pause(ctx) != nil {
			return nil, err
		}
	}
}

// staleLock is how long a lock may outlive its process. A process that is killed
// while it starts a shim leaves a copy of the lock to the child, which closes it
// at its exec. On a busy machine that takes a moment.
const staleLock = 2 * time.Second

// pause waits before the next attempt. The error is that of ctx if it ends first.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(20 * time.Millisecond):
		return nil
	}
}

// CheckOwner rejects a data directory that other users own or can write, and one
// whose runs or jetstream is a symbolic link to such a directory. A user that can
// write there selects the server that receives the passwords, and the programs
// that run as the owner. A missing directory is valid: it will be created
// without these permissions. A group whose ID is that of the user is the user's
// private group.
func CheckOwner(data string) error {
	for _, dir := range []string{data, RunsDir(data), filepath.Join(data, "jetstream")} {
		if err := checkWriters(dir); err != nil {
			return err
		}
	}
	return nil
}

// checkWriters rejects a directory, symbolic links resolved, that other users
// can write because of its mode, or own, which lets them change the mode. Root
// can write anywhere.
func checkWriters(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return nil // it is missing, or the code that needs it reports the error
	}
	others := fs.FileMode(0o022)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		if owner := int(stat.Uid); owner != 0 && owner != os.Getuid() {
			return fmt.Errorf("data_dir: user %d owns %s, and could have programs run as you; "+
				"run this as that user, or `chown` it and look at what is in it", owner, dir)
		}
		if int(stat.Gid) == os.Getuid() {
			others = 0o002
		}
	}
	if info.Mode().Perm()&others != 0 {
		return fmt.Errorf("data_dir: others can write to %s, and could have programs run as you; "+
			"`chmod go-w` it, and look at what is in it", dir)
	}
	return nil
}
