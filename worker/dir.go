package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/atomicfile"
	"github.com/linesman/linesman/filelock"
	"github.com/linesman/linesman/runs"
)

// The files of a run directory.
const (
	specFile    = "run.json"    // the Spec, written once
	ownerFile   = "owner"       // locked by whoever drives the run
	markFile    = "mark"        // how far the raw log is known to reach
	shimFile    = "shim"        // locked by a living shim
	shimLogFile = "shim.log"    // what a shim had to say about itself; not the agent's output
	startedFile = "started"     // made right before the agent starts: it is started at most once; an identity
	outFile     = "out"         // the agent's stdout, locked by whoever may still write to it
	errFile     = "err"         // the agent's stderr
	exitFile    = "exit.json"   // how the run ended, a sealedExit
	schemaFile  = "schema.json" // the Spec's Schema
	ctlFile     = "ctl"         // FIFO to the shim, one byte a command
)

// The commands a shim takes.
const (
	ctlInterrupt = 'i' // pass SIGINT on to the agent's group
	ctlCancel    = 'c' // end the agent
	ctlQuit      = 'q' // the shim to itself: stop listening
)

// The names of directories that are no runs. They begin with a dot, which no
// run id does.
const (
	newPrefix  = ".new-"  // not yet complete
	gonePrefix = ".gone-" // being deleted
	badPrefix  = ".bad-"  // unreadable, kept for a person to look at
)

// maxSpec bounds run.json, in bytes. The kernel takes no longer argument list.
const maxSpec = 8 << 20

var (
	// ErrOwned reports a run directory that somebody else drives.
	ErrOwned = errors.New("the run directory is owned by somebody else")
	// ErrBad reports a run directory that cannot be read as one.
	ErrBad = errors.New("not a run directory")
)

// Dir is a run directory, with its owner lock held. It is all there is to know
// about a run on this machine; whoever opens it next can go on with the run.
type Dir struct {
	Spec Spec

	path  string
	owner *os.File
	mark  *mark
	fresh bool // made by this process

	spool atomic.Pointer[os.File] // SourcePipe, fresh: what Pipe will write to, locked
}

// Create makes the directory of a new run below root, with its owner lock
// held. It appears complete or not at all. The error of a run that is there
// already is an [fs.ErrExist].
func Create(root string, spec Spec) (_ *Dir, err error) {
	spec.setDefaults(time.Now())
	if err := spec.check(); err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	body, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	if len(body) > maxSpec {
		return nil, fmt.Errorf("create run directory: run.json has %d bytes, at most %d", len(body), maxSpec)
	}
	root, err = filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	if err := MakeDir(root); err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	at, err := os.MkdirTemp(root, newPrefix+spec.Run+"-")
	if err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	d := &Dir{Spec: spec, path: filepath.Join(root, spec.Run), fresh: true}
	defer func() {
		if err != nil {
			d.Close()
			os.RemoveAll(at)
			err = fmt.Errorf("create run directory %s: %w", spec.Run, err)
		}
	}()
	if d.owner, err = os.OpenFile(filepath.Join(at, ownerFile), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, err
	}
	if err := filelock.TryLock(d.owner); err != nil {
		return nil, err
	}
	if err := writeFile(filepath.Join(at, specFile), body, spec.lasting()); err != nil {
		return nil, err
	}
	if d.mark, err = createMark(filepath.Join(at, markFile)); err != nil {
		return nil, err
	}
	if len(spec.Schema) > 0 {
		if err := writeSynced(filepath.Join(at, schemaFile), spec.Schema); err != nil {
			return nil, err
		}
	}
	switch {
	case spec.process():
		if err := unix.Mkfifo(filepath.Join(at, ctlFile), 0o600); err != nil {
			return nil, fmt.Errorf("make fifo: %w", err)
		}
	case spec.Source == SourcePipe:
		// Locked before anybody can see it: a free lock means that the input ended.
		spool, err := os.OpenFile(filepath.Join(at, outFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
		if err != nil {
			return nil, err
		}
		d.spool.Store(spool)
		if err := filelock.TryLock(spool); err != nil {
			return nil, err
		}
	}
	if spec.lasting() {
		if err := errors.Join(d.mark.f.Sync(), atomicfile.SyncDir(at)); err != nil {
			return nil, err
		}
	}
	if err := os.Rename(at, d.path); err != nil { // never replaces one: they are not empty
		return nil, err
	}
	at = d.path
	if spec.lasting() {
		err = atomicfile.SyncDir(root)
	}
	return d, err
}

// Open takes over the run directory at path. The error is [ErrOwned] when
// somebody drives it, an [fs.ErrNotExist] when it is gone, and [ErrBad] when
// it is no run directory.
func Open(path string) (_ *Dir, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open run directory: %w", err)
	}
	d := &Dir{path: path}
	defer func() {
		if err != nil {
			d.Close()
			err = fmt.Errorf("open run directory %s: %w", filepath.Base(path), err)
		}
	}()
	d.owner, err = os.OpenFile(d.file(ownerFile), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if _, serr := os.Lstat(path); serr == nil {
			return nil, fmt.Errorf("%w: no owner file", ErrBad)
		}
	}
	if err != nil {
		return nil, err
	}
	switch err := filelock.TryLock(d.owner); {
	case errors.Is(err, filelock.ErrLocked):
		return nil, ErrOwned
	case err != nil:
		return nil, err
	}
	// The last owner may have deleted the directory while we came for the lock.
	if is, err := sameFile(d.owner, d.file(ownerFile)); err != nil || !is {
		return nil, errors.Join(fs.ErrNotExist, err)
	}
	if d.Spec, err = readSpec(d.path); err != nil {
		return nil, err
	}
	d.mark, err = openMark(d.file(markFile))
	return d, err
}

// SchemaFile is where the schema of a run is, in the run's directory below root.
func SchemaFile(root, run string) string { return filepath.Join(root, run, schemaFile) }

// runDir is where the directory of a run is.
func (w *Worker) runDir(run string) string { return filepath.Join(w.cfg.Root, run) }

// Path returns where the directory is.
func (d *Dir) Path() string { return d.path }

// Close gives the directory back, for the next owner.
func (d *Dir) Close() error {
	var errs []error
	if spool := d.spool.Swap(nil); spool != nil {
		errs = append(errs, spool.Close())
	}
	if d.mark != nil {
		errs = append(errs, d.mark.close())
		d.mark = nil
	}
	if d.owner != nil {
		errs = append(errs, filelock.Close(d.owner))
		d.owner = nil
	}
	return errors.Join(errs...)
}

// Remove deletes the directory and closes it. What a kill leaves of it is no
// run any more.
func (d *Dir) Remove() error {
	defer d.Close() // last: until then nobody else may touch it
	gone := filepath.Join(filepath.Dir(d.path), gonePrefix+filepath.Base(d.path))
	if err := os.RemoveAll(gone); err != nil {
		return fmt.Errorf("remove run directory %s: %w", d.Spec.Run, err)
	}
	if err := os.Rename(d.path, gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove run directory %s: %w", d.Spec.Run, err)
	}
	if err := os.RemoveAll(gone); err != nil {
		return fmt.Errorf("remove run directory %s: %w", d.Spec.Run, err)
	}
	return nil
}

func (d *Dir) file(name string) string { return filepath.Join(d.path, name) }

// tell sends one command to the shim. Without a shim that listens the error
// is ENXIO.
func (d *Dir) tell(command byte) error {
	fd, err := unix.Open(d.file(ctlFile), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("tell shim of %s: %w", d.Spec.Run, err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte{command}); err != nil && !errors.Is(err, unix.EAGAIN) {
		return fmt.Errorf("tell shim of %s: %w", d.Spec.Run, err)
	}
	return nil // a full FIFO holds the same command many times over
}

// claimStart makes the file that says that the agent was started. Whoever
// makes it may start the agent, or decide that nobody ever does; all others
// get false.
func claimStart(dir string) (bool, error) {
	f, err := os.OpenFile(filepath.Join(dir, startedFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, errors.Join(f.Close(), atomicfile.SyncDir(dir))
}

// addIdentity adds what is known of the run's processes to the file that
// claimStart made, with one write.
func addIdentity(dir string, id identity) error {
	f, err := os.OpenFile(filepath.Join(dir, startedFile), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(append(runs.Encode(id), '\n'))
	return errors.Join(err, f.Close())
}

// readIdentity returns what the file says. A directory of an older version
// says nothing, and of what a kill tore the rest counts.
func readIdentity(dir string) (id identity) {
	body, err := readBounded(filepath.Join(dir, startedFile), 4096)
	if err != nil {
		return id
	}
	for d := json.NewDecoder(bytes.NewReader(body)); ; {
		if err := d.Decode(&id); err != nil {
			return id
		}
	}
}

func readSpec(dir string) (Spec, error) {
	var spec Spec
	body, err := readBounded(filepath.Join(dir, specFile), maxSpec)
	if errors.Is(err, fs.ErrNotExist) {
		return spec, fmt.Errorf("%w: no %s", ErrBad, specFile)
	}
	if err != nil {
		return spec, err
	}
	if err := json.Unmarshal(body, &spec); err != nil {
		return spec, fmt.Errorf("%w: %s is no valid JSON", ErrBad, specFile)
	}
	if err := spec.check(); err != nil {
		return spec, fmt.Errorf("%w: %s: %w", ErrBad, specFile, err)
	}
	if spec.Run != filepath.Base(dir) {
		return spec, fmt.Errorf("%w: %s is of another run", ErrBad, specFile)
	}
	return spec, nil
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

func writeSynced(path string, body []byte) error { return writeFile(path, body, true) }

func writeFile(path string, body []byte, synced bool) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	if err == nil && synced {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
