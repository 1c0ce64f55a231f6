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
	ownerFile   = "owner"       // locked by the worker that drives the run
	markFile    = "mark"        // how much the raw log is known to hold
	shimFile    = "shim"        // locked by a running shim
	shimLogFile = "shim.log"    // errors and warnings of the shims; no agent output
	startedFile = "started"     // created right before the agent starts, at most once; holds an identity
	outFile     = "out"         // stdout of the agent, locked by every process that may write to it
	errFile     = "err"         // stderr of the agent
	exitFile    = "exit.json"   // how the run ended, as a sealedExit
	schemaFile  = "schema.json" // the Schema of the Spec
	ctlFile     = "ctl"         // FIFO to the shim, one byte per command
)

// Commands to a shim.
const (
	ctlInterrupt = 'i' // send SIGINT to the process group of the agent
	ctlCancel    = 'c' // terminate the agent
	ctlQuit      = 'q' // from the shim to itself: stop listening
)

// Prefixes of entries that are not runs. Run ids do not begin with a dot.
const (
	newPrefix  = ".new-"  // incomplete
	gonePrefix = ".gone-" // being removed
	badPrefix  = ".bad-"  // unreadable, kept for manual inspection
)

// maxSpec bounds run.json, in bytes. The kernel accepts no longer argument
// list.
const maxSpec = 8 << 20

var (
	// errOwned reports a run directory that another worker drives.
	errOwned = errors.New("another process drives this run")
	// errBad reports a directory that is not a valid run directory.
	errBad = errors.New("not a run directory")
)

// Dir is a run directory with its owner lock held. It holds all local state of
// a run, so the next owner can resume the run from it.
type Dir struct {
	Spec Spec

	path  string
	owner *os.File
	mark  *mark
	fresh bool // created by this process

	spool atomic.Pointer[os.File] // SourcePipe, fresh: the locked file that Pipe writes to
}

// Create makes the directory of a new run below root and takes its owner lock.
// The directory appears complete or not at all. The error is an [fs.ErrExist]
// if the run already has one.
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
	if err := d.createFiles(at, body); err != nil {
		return nil, err
	}
	if spec.durable() {
		if err := errors.Join(d.mark.f.Sync(), atomicfile.SyncDir(at)); err != nil {
			return nil, err
		}
	}
	if err := os.Rename(at, d.path); err != nil { // cannot replace a run directory: those are not empty
		return nil, err
	}
	at = d.path
	if spec.durable() {
		err = atomicfile.SyncDir(root)
	}
	return d, err
}

// createFiles creates and locks the files of a new run directory at the
// temporary path at. spec is the content of run.json.
func (d *Dir) createFiles(at string, spec []byte) error {
	var err error
	if d.owner, err = os.OpenFile(filepath.Join(at, ownerFile), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return err
	}
	if err := filelock.TryLock(d.owner); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(at, specFile), spec, d.Spec.durable()); err != nil {
		return err
	}
	if d.mark, err = createMark(filepath.Join(at, markFile)); err != nil {
		return err
	}
	if len(d.Spec.Schema) > 0 {
		if err := writeSynced(filepath.Join(at, schemaFile), d.Spec.Schema); err != nil {
			return err
		}
	}
	switch {
	case d.Spec.process():
		if err := unix.Mkfifo(filepath.Join(at, ctlFile), 0o600); err != nil {
			return fmt.Errorf("make fifo: %w", err)
		}
	case d.Spec.Source == SourcePipe:
		// Locked before the directory is visible: a free lock means that the input
		// has ended.
		spool, err := os.OpenFile(filepath.Join(at, outFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		d.spool.Store(spool)
		if err := filelock.TryLock(spool); err != nil {
			return err
		}
	}
	return nil
}

// Open takes ownership of the run directory at path. The error is [errOwned]
// if another worker drives the run, an [fs.ErrNotExist] if the directory is
// gone, and [errBad] if it is not a run directory.
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
			return nil, fmt.Errorf("%w: no owner file", errBad)
		}
	}
	if err != nil {
		return nil, err
	}
	switch err := filelock.TryLock(d.owner); {
	case errors.Is(err, filelock.ErrLocked):
		return nil, errOwned
	case err != nil:
		return nil, err
	}
	// The previous owner may have removed the directory before it released the
	// lock.
	if same, err := sameFile(d.owner, d.file(ownerFile)); err != nil || !same {
		return nil, errors.Join(fs.ErrNotExist, err)
	}
	if d.Spec, err = readSpec(d.path); err != nil {
		return nil, err
	}
	d.mark, err = openMark(d.file(markFile))
	return d, err
}

// SchemaFile returns the path of a run's schema, in its run directory below
// root.
func SchemaFile(root, run string) string { return filepath.Join(root, run, schemaFile) }

// runDir returns the path of the directory of a run.
func (w *Worker) runDir(run string) string { return filepath.Join(w.cfg.Root, run) }

// Path returns the path of the directory.
func (d *Dir) Path() string { return d.path }

// Close releases the owner lock and closes the directory.
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

// Remove deletes the directory and closes it. If the process is killed
// meanwhile, the rest of the directory no longer counts as a run.
func (d *Dir) Remove() error {
	defer d.Close() // last: the lock excludes other owners until the directory is gone
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

// sendCommand sends one command to the shim. The error is ENXIO if no shim is
// listening.
func (d *Dir) sendCommand(command byte) error {
	fd, err := unix.Open(d.file(ctlFile), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("send command to shim of %s: %w", d.Spec.Run, err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte{command}); err != nil && !errors.Is(err, unix.EAGAIN) {
		return fmt.Errorf("send command to shim of %s: %w", d.Spec.Run, err)
	}
	return nil // a full FIFO already holds the command many times
}

// claimStart creates the started file. The caller that creates it has the
// right to start the agent, or to decide that the agent is never started. For
// all other callers the result is false.
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

// addIdentity appends what is known about the processes of the run to the
// started file, with one write.
func addIdentity(dir string, id identity) error {
	f, err := os.OpenFile(filepath.Join(dir, startedFile), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(append(runs.Encode(id), '\n'))
	return errors.Join(err, f.Close())
}

// readIdentity returns the content of the started file. Run directories of
// older versions have none. If a kill cut the last value off, the values
// before it count.
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
		return spec, fmt.Errorf("%w: no %s", errBad, specFile)
	}
	if err != nil {
		return spec, err
	}
	if err := json.Unmarshal(body, &spec); err != nil {
		return spec, fmt.Errorf("%w: %s is not valid JSON", errBad, specFile)
	}
	if err := spec.check(); err != nil {
		return spec, fmt.Errorf("%w: %s: %w", errBad, specFile, err)
	}
	if spec.Run != filepath.Base(dir) {
		return spec, fmt.Errorf("%w: %s belongs to another run", errBad, specFile)
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
