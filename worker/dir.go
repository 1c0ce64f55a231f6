package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/runs"
)

// The files of a run directory.
const (
	specFile    = "run.json"    // the Spec, written once; no values of credentials
	ownerFile   = "owner"       // locked by the worker that drives the run
	markFile    = "mark"        // how much the raw log is known to hold
	shimFile    = "shim"        // locked by a running shim
	shimLogFile = "shim.log"    // errors and warnings of the shims; no agent output
	startedFile = "started"     // created at most once: before the agent starts, with an identity; or to prevent the start
	outFile     = "out"         // stdout of the agent, locked by every process that may write to it
	errFile     = "err"         // stderr of the agent
	timesFile   = "times"       // when outFile had which size, see timesEvery
	exitFile    = "exit.json"   // how the run ended, as a sealedExit
	schemaFile  = "schema.json" // the Schema of the Spec
	inFile      = "in"          // stdin of the agent, if it has any; of a live run, all lines for the process
	diffDir     = "diff"        // snapshot of the directory before the agent started, see package snapshot
	ctlFile     = "ctl"         // FIFO to the shim, one byte per command
	stdinFile   = "stdin"       // FIFO, stdin of a process of a live run
	fedFile     = "fed"         // how much of inFile was written to stdinFile, see fed
	askingFile  = "asking"      // people are asked, or a tool call is open: until when, see asks
	journalFile = "journal"     // of a live run, see journal
	heldFile    = "held"        // how long the limits stood still, see hold
	threadFile  = "thread"      // of a live run: the session that it has begun
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

	spool atomic.Pointer[os.File] // runs.SourcePipe, fresh: the locked file that Pipe writes to
}

// Create makes the directory of a new run below root and takes its owner lock.
// The directory appears complete or not at all. The error is an [fs.ErrExist]
// if the run already has one.
func Create(root string, spec Spec) (*Dir, error) {
	spec.setDefaults(time.Now())
	d, err := create(root, spec)
	if err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	return d, nil
}

func create(root string, spec Spec) (_ *Dir, err error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	spec.hideCredentials()
	root, err = filepath.Abs(root)
	if err == nil {
		err = MakeDir(root)
	}
	if err != nil {
		return nil, err
	}
	at, err := os.MkdirTemp(root, newPrefix+spec.Run+"-")
	if err != nil {
		return nil, err
	}
	d := &Dir{Spec: spec, path: filepath.Join(root, spec.Run), fresh: true}
	defer func() {
		if err != nil {
			d.Close()
			os.RemoveAll(at)
		}
	}()
	if err := d.createFiles(at); err != nil {
		return nil, err
	}
	if spec.durable() {
		if err := errors.Join(d.mark.f.Sync(), files.SyncDir(at)); err != nil {
			return nil, err
		}
	}
	if err := os.Rename(at, d.path); err != nil { // cannot replace a run directory: those are not empty
		return nil, err
	}
	at = d.path
	if spec.durable() {
		err = files.SyncDir(root)
	}
	return d, err
}

// createFiles creates and locks the files of a new run directory at the
// temporary path at.
func (d *Dir) createFiles(at string) error {
	var err error
	if d.owner, err = os.OpenFile(filepath.Join(at, ownerFile), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return err
	}
	if err := files.TryLock(d.owner); err != nil {
		return err
	}
	if d.Spec.Input != nil {
		n, err := copyInput(filepath.Join(at, inFile), d.Spec.Input)
		if err != nil {
			return err
		}
		d.Spec.Input, d.Spec.Stdin = nil, n > 0
	}
	spec, err := json.Marshal(d.Spec)
	if err == nil && len(spec) > maxSpec {
		err = fmt.Errorf("run.json has %d bytes, at most %d", len(spec), maxSpec)
	}
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(at, specFile), spec, d.Spec.durable()); err != nil {
		return err
	}
	if d.mark, err = openMark(filepath.Join(at, markFile)); err != nil {
		return err
	}
	d.mark.progress = progress{}
	if err := d.mark.save(); err != nil {
		return err
	}
	if len(d.Spec.Schema) > 0 {
		if err := writeFile(filepath.Join(at, schemaFile), d.Spec.Schema, true); err != nil {
			return err
		}
	}
	switch {
	case d.Spec.Live: // each process has a FIFO of its own
	case d.Spec.process():
		if err := unix.Mkfifo(filepath.Join(at, ctlFile), 0o600); err != nil {
			return fmt.Errorf("make fifo: %w", err)
		}
	case d.Spec.Source == runs.SourcePipe:
		// Locked before the directory is visible: a free lock means that the input
		// has ended.
		spool, err := os.OpenFile(filepath.Join(at, outFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		d.spool.Store(spool)
		if err := files.TryLock(spool); err != nil {
			return err
		}
	}
	return nil
}

// open takes ownership of the run directory at path. The error is [errOwned]
// if another worker drives the run, an [fs.ErrNotExist] if the directory is
// gone, and [errBad] if it is not a run directory.
func open(path string) (_ *Dir, err error) {
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
	d.owner, err = openOwn(d.file(ownerFile), os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		if _, serr := os.Lstat(path); serr == nil {
			return nil, fmt.Errorf("%w: no owner file", errBad)
		}
	}
	if err != nil {
		return nil, err
	}
	switch err := files.TryLock(d.owner); {
	case errors.Is(err, files.ErrLocked):
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

// schemaPath returns the path of a run's schema, in its run directory below
// root.
func schemaPath(root, run string) string { return filepath.Join(root, run, schemaFile) }

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
		errs = append(errs, d.mark.f.Close())
		d.mark = nil
	}
	if d.owner != nil {
		errs = append(errs, files.Close(d.owner))
		d.owner = nil
	}
	return errors.Join(errs...)
}

// Remove deletes the directory and closes it. If the process is killed
// meanwhile, the rest of the directory no longer counts as a run.
func (d *Dir) Remove() error {
	defer d.Close() // last: the lock excludes other owners until the directory is gone
	gone := filepath.Join(filepath.Dir(d.path), gonePrefix+filepath.Base(d.path))
	err := os.Rename(d.path, gone)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // of a run that was removed before, and not wholly
		if err = os.RemoveAll(gone); err == nil {
			err = os.Rename(d.path, gone)
		}
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		for _, name := range []string{markFile, specFile, ownerFile} { // what every run has; of an import it is all
			_ = os.Remove(filepath.Join(gone, name))
		}
		err = os.Remove(gone)
		for range 10 { // a shim or an agent that is about to exit may add a file meanwhile
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			err = os.RemoveAll(gone)
		}
	}
	if err != nil {
		return fmt.Errorf("remove run directory %s: %w", d.Spec.Run, err)
	}
	return nil
}

func (d *Dir) file(name string) string { return filepath.Join(d.path, name) }

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
	return true, errors.Join(f.Close(), files.SyncDir(dir))
}

// addIdentity appends what is known about the processes of the run to the
// started file, with one write.
func addIdentity(dir string, id identity) error {
	f, err := openOwn(filepath.Join(dir, startedFile), os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return err
	}
	if info, err := f.Stat(); err == nil {
		id.File = new(fileOf("", info).inode)
	}
	_, err = f.Write(append(runs.Encode(id), '\n'))
	return errors.Join(err, f.Close())
}

// readIdentity returns the content of the started file. It is empty if the shim
// could not write it. If a kill cut the last value off, the values before it
// count. In a copy of the directory of a run it says whose processes they are
// not: copied is true, and nothing is known of processes.
func readIdentity(dir string) (id identity, copied bool) {
	path := filepath.Join(dir, startedFile)
	body, err := readBounded(path, 4096)
	if err != nil {
		return identity{}, false
	}
	for d := json.NewDecoder(bytes.NewReader(body)); err == nil; {
		err = d.Decode(&id)
	}
	if info, err := os.Stat(path); err == nil && id.File != nil && *id.File != fileOf("", info).inode {
		return identity{}, true
	}
	return id, false
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

// progress is how far a run has come: the content of the mark file.
type progress struct {
	Log   runs.Mark `json:"log"`          // what the raw log is known to hold
	Begun bool      `json:"begun"`        // the start entry may have been sent: entries in the log are ours
	As    string    `json:"as,omitempty"` // name of this worker in the start entry
	Noted int64     `json:"noted"`        // 1 + bytes written at the last idle note; 0: no note
	Out   segment   `json:"out"`
	Err   segment   `json:"err"`
	Of    int       `json:"of,omitempty"`   // the process of a live run whose files Out and Err are of; 0: not known
	Seen  bool      `json:"seen,omitempty"` // the program of the session was seen to run
	Keys  [][]byte  `json:"keys,omitempty"` // hashes of the public keys of the last shims, that may sign the exit; at most maxKeys
}

// maxKeys is how many shims may be starting for one run: the last one of this
// worker, and one of a previous worker.
const maxKeys = 2

// markSize is the size of a mark file, in bytes. It is constant, so that an
// update needs no space on a full disk.
const markSize = 1024

// mark stores the progress of a run in a file. It saves reading the raw log
// from its beginning, and only the mark knows how often a spool was truncated.
// Where it differs from the raw log, the log is right.
type mark struct {
	progress
	f    *os.File
	line [markSize]byte
}

// openMark reads or creates the mark at path. If it is invalid, the run resumes
// at the beginning of its log.
func openMark(path string) (*mark, error) {
	f, err := openOwn(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	m := &mark{f: f}
	if n, _ := f.ReadAt(m.line[:], 0); n < markSize || !m.decode() {
		m.progress = progress{Begun: true} // assume that entries in the log are ours
	}
	return m, nil
}

// save writes the mark with one write, so that a kill leaves the old or the
// new content. Only a power failure can tear it, which the checksum detects.
func (m *mark) save() error {
	err := fillSlot(m.line[:], &m.progress)
	if err == nil {
		_, err = m.f.WriteAt(m.line[:], 0)
	}
	if err != nil {
		return fmt.Errorf("save mark: %w", err)
	}
	return nil
}

func (m *mark) decode() bool { return readSlot(m.line[:], &m.progress) }

// A slot is a line of constant size in a file: a JSON value, spaces, and a
// checksum, of 8 hex digits and a newline.
const slotSum = 9

// fillSlot writes v into the slot.
func fillSlot(slot []byte, v any) error {
	end := len(slot) - slotSum
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(body) > end {
		return fmt.Errorf("%d bytes, at most %d", len(body), end)
	}
	n := copy(slot, body)
	copy(slot[n:end], bytes.Repeat([]byte{' '}, end-n))
	copy(slot[end:], slotChecksum(slot[:end]))
	return nil
}

// readSlot reads the value of the slot into v. It reports whether the slot is valid.
func readSlot(slot []byte, v any) bool {
	end := len(slot) - slotSum
	return string(slot[end:]) == slotChecksum(slot[:end]) && json.Unmarshal(slot[:end], v) == nil
}

func slotChecksum(body []byte) string { return fmt.Sprintf("%08x\n", crc32.ChecksumIEEE(body)) }
