package bridge

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/linesman/linesman/filelock"
)

// Bounds of a directory.
const (
	maxNames = 256  // request files that are looked at
	maxAside = 32   // files that were moved aside, and are kept
	maxLeft  = 4096 // files of the bridge's own that are looked for
)

// errBusy reports a directory that another bridge watches.
var errBusy = errors.New("another bridge watches this directory")

// place is an open directory with requests. What it does is done in that
// directory, whatever becomes of its path, and follows no symbolic link. The
// lock on it goes with the process, however that ends.
type place struct {
	root *os.Root
	dir  *os.File // holds the lock
}

// openPlace opens and locks a directory. The error is [fs.ErrNotExist] where
// there is none, and errBusy where another bridge has it.
func openPlace(path string) (_ *place, err error) {
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
	if err := filelock.TryLock(dir); err != nil {
		_ = dir.Close()
		if errors.Is(err, filelock.ErrLocked) {
			return nil, errBusy
		}
		return nil, err
	}
	return &place{root, dir}, nil
}

// close releases the lock and closes the directory.
func (p *place) close() {
	_, _ = filelock.Close(p.dir), p.root.Close()
}

// at reports whether this is the directory that path leads to.
func (p *place) at(path string) bool {
	here, err := p.dir.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(here, there)
}

// requests are the names of the files that look like requests, at most
// maxNames of them. Of those that are left alone the first so many are told,
// each with the reason.
func (p *place) requests() (names []string, foreign map[string]string, err error) {
	foreign = map[string]string{}
	names, err = p.names(maxNames, isRequest, func(name, why string) {
		if len(foreign) < maxNames {
			foreign[name] = why
		}
	})
	return names, foreign, err
}

// names are the names in the directory that match, sorted, at most most. Files
// that are left alone do not count, lest they hide others; who passes alone is
// told of each.
func (p *place) names(most int, match func(string) bool, alone func(name, why string)) ([]string, error) {
	d, err := p.root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var names []string
	for len(names) < most {
		some, err := d.Readdirnames(1024)
		for _, name := range some {
			if len(names) == most || !match(name) {
				continue
			}
			var foreign *foreignError
			if _, err := p.stat(name); !errors.As(err, &foreign) {
				names = append(names, name)
			} else if alone != nil {
				alone(name, foreign.why)
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

// version tells one content of a file from another, without reading it.
type version struct {
	dev, ino  uint64
	size, mod int64
}

// foreignError says why a file is left alone, as it is.
type foreignError struct{ why string }

func (e *foreignError) Error() string { return e.why }

// stat is the version of a file that can be read as a request: a regular one,
// of this user or of root. The error for another is a foreignError.
func (p *place) stat(name string) (version, error) {
	info, err := p.root.Lstat(name)
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

// read returns at most most+1 bytes of a file, and its version before that.
func (p *place) read(name string, most int64) ([]byte, version, error) {
	v, err := p.stat(name)
	if err != nil {
		return nil, v, err
	}
	// Not to wait for a pipe that came in its place.
	f, err := p.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
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
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	return b, v, err
}

// write writes a new file that only its owner can read, and has it on the disk
// when it returns.
func (p *place) write(name string, b []byte) error {
	if err := p.remove(name); err != nil {
		return err
	}
	f, err := p.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = f.Chmod(0o600); err == nil { // whatever the umask
		_, err = f.Write(b)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return p.sync()
}

func (p *place) rename(from, to string) error {
	if err := p.root.Rename(from, to); err != nil {
		return err
	}
	return p.sync()
}

// putBack gives a file its name again, unless there is another by now. It may
// keep the name that it has, too.
func (p *place) putBack(from, to string) error {
	err := p.root.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	// A file system without links: the look and the rename are two steps there.
	if there, err := p.exists(to); err != nil || there {
		return err
	}
	return p.root.Rename(from, to)
}

// remove removes a file; one that is not there is no error.
func (p *place) remove(name string) error {
	if err := p.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (p *place) exists(name string) (bool, error) {
	_, err := p.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (p *place) sync() error { return p.dir.Sync() }

// asides are the names that aside gives.
var asides = regexp.MustCompile(`^\.agent-(?:request|response)[-_.0-9A-Za-z]*\.json\.(?:bad|stale)-([0-9]{8}T[0-9]{9}Z)(?:\.txt)?$`)

// aside moves a file out of the way of its readers. The new name says of what
// kind it is and when that was; why, if anything, is in a text beside it. Of
// what was moved aside the newest is kept.
func (p *place) aside(name, kind, why string, now time.Time) (string, error) {
	stamp := strings.Replace(now.UTC().Format("20060102T150405.000Z"), ".", "", 1)
	to := name + "." + kind + "-" + stamp
	if why != "" {
		if err := p.write(to+".txt", []byte(why+"\n")); err != nil {
			return "", err
		}
	}
	if err := p.rename(name, to); err != nil {
		return "", err
	}
	return to, p.pruneAside()
}

func (p *place) pruneAside() error {
	names, err := p.names(maxLeft, asides.MatchString, nil)
	if err != nil {
		return err
	}
	slices.SortFunc(names, func(a, b string) int {
		return strings.Compare(asides.FindStringSubmatch(a)[1], asides.FindStringSubmatch(b)[1])
	})
	for _, name := range names[:max(len(names)-2*maxAside, 0)] {
		if err := p.remove(name); err != nil {
			return err
		}
	}
	return nil
}

// resolve is a directory's one path: absolute and, where it is there, without
// symbolic links.
func resolve(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(abs)
	if errors.Is(err, fs.ErrNotExist) {
		return abs, nil
	}
	return real, err
}
