package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/runs"
)

// importSlots returns how many files are imported at a time. Each import uses
// a few descriptors, and the process needs some for its connections and an
// embedded server.
func importSlots(descriptors uint64) int { return int(min(64, max(1, descriptors/32))) }

// importing imports one file: the parts of it that are not in a run yet,
// according to the ledger and the raw log.
//
// The order of the steps makes this safe against a kill at any point: the run
// id is written to the lock file of the import; the run directory is created
// and says which part of the file the run holds; the entries are stored; the
// exit entry is stored; a line is appended to the ledger; the directory is
// removed. The next import of the file finds the directory and resumes the
// run, or it finds the line. If the line is missing, as after a power failure,
// the new run gets the id of the old one, and the raw log refuses it.
type importing struct {
	w      *Worker
	spec   TailSpec
	path   string
	open   []string // directories of interrupted runs, oldest first
	ledger *ledgerIndex
	lock   *importLock // for the file at path; nil: not locked
	force  bool        // --again, until a run from the beginning of the file is complete
	done   string      // the run that this call has completed, or ""

	waiting func(path string) // called at most once per Tail
}

// errFollowed reports an import of a file that is being followed: it has no
// end.
var errFollowed = errors.New("another `linesman tail` follows this file")

// run imports the file: first it resumes interrupted runs, then it starts a
// new one.
func (i *importing) run(ctx context.Context) error {
	defer func() { i.lock.release() }()
	for {
		d, err := i.next(ctx)
		if d == nil || err != nil {
			return err
		}
		r := i.w.Run(d)
		r.source.(*tailed).once = true
		r.stores = i.ledger.stores
		r.onStarted = func() {
			i.done = d.Spec.Run
			if i.spec.Began != nil {
				i.spec.Began(d.Spec.Run, i.path)
			}
		}
		fresh := d.fresh
		_, err = r.Drive(ctx)
		if err != nil && !errors.Is(err, ErrEnded) && !(errors.Is(err, ErrKnown) && r.progress.Log.Exited) {
			return err
		}
		if d.Spec.Part == nil || d.Spec.Part.From == 0 {
			i.force = false
		}
		if err != nil && !r.recorded && !r.out.replaced { // the ledger was not written
			return err
		}
		if !fresh { // path may name another file now
			i.w.removeImportLock(i.w.importPath(d.Spec.File.inode))
		}
		if fresh && err == nil && !r.out.replaced {
			return nil // lines that were added meanwhile are left to the next call
		}
	}
}

// next returns the directory of the next run, or nil if there is none. It
// locks the file first, which excludes other imports from these directories.
func (i *importing) next(ctx context.Context) (*Dir, error) {
	for {
		f, file, size, missing := openRegular(i.path)
		if missing == nil && (i.lock == nil || i.lock.file != file.inode) {
			f.Close()
			if err := i.acquire(ctx, file.inode); err != nil {
				return nil, err
			}
			continue // another process may have imported the file, and the file may have grown
		}
		if len(i.open) > 0 {
			f.Close() // f may be nil
			d, err := i.resume(ctx, i.open[0])
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err
			}
			i.open = i.open[1:]
			if err == nil {
				return d, nil
			}
			continue
		}
		if missing != nil {
			return nil, missing
		}
		err := refuseCompressed(f)
		var spec *Spec
		if err == nil {
			spec, err = i.plan(f, file, size)
		}
		f.Close()
		if err != nil || spec == nil {
			return nil, err
		}
		if err := i.lock.setRun(spec.Run); err != nil {
			return nil, err
		}
		d, err := Create(i.w.cfg.Root, *spec)
		// A directory that exists was left by a killed process, and a power failure removed the lock file.
		if !errors.Is(err, fs.ErrExist) {
			return d, err
		}
		i.open = append(i.open, i.w.runDir(spec.Run))
	}
}

// resume opens the directory of an interrupted run. While another process
// drives the run to its end, it waits. The run of a followed file, which is
// still at its path, has no end.
func (i *importing) resume(ctx context.Context, path string) (*Dir, error) {
	for {
		d, err := openRetrying(ctx, path)
		if errors.Is(err, errBad) { // not synced before a power failure
			i.w.quarantine(path, err)
			return nil, fs.ErrNotExist
		}
		if !errors.Is(err, errOwned) {
			return d, err
		}
		if spec, err := readSpec(path); err == nil && spec.Part == nil {
			if info, err := os.Stat(spec.File.Path); err == nil && spec.File.is(info) {
				return nil, errFollowed
			}
		}
		i.waiting(i.path)
		if err := sleep(ctx, i.w.tailPause); err != nil {
			return nil, err
		}
	}
}

// acquire locks the file for this import, and adds the run of the previous
// holder to the interrupted ones: that holder may have been killed.
func (i *importing) acquire(ctx context.Context, file inode) error {
	i.lock.release()
	lock, err := i.w.lockImport(ctx, file, func() { i.waiting(i.path) })
	if i.lock = lock; err != nil {
		return err
	}
	if run := lock.run(); run != "" {
		i.open = append(i.open, i.w.runDir(run))
	}
	return nil
}

// plan returns the part of the file for a new run, or nil if all of the file
// is in runs.
func (i *importing) plan(f *os.File, file file, size int64) (*Spec, error) {
	part := part{To: size}
	last, err := i.ledger.last(file.inode)
	if err != nil {
		return nil, err
	}
	if last != nil && !i.force {
		sum, err := sumOf(f, last.Size)
		switch {
		case err == nil && sum == last.Sum && last.Size == size:
			if i.done == "" && i.spec.Skipped != nil {
				i.spec.Skipped(last.Run, i.path)
			}
			return nil, nil
		case err == nil && sum == last.Sum:
			if part.From, err = lineBefore(f, last.Size); err != nil {
				return nil, err
			}
		case err == nil, errors.Is(err, io.ErrUnexpectedEOF): // other content
		default:
			return nil, err
		}
	}
	sum, err := sumOf(f, size)
	if err != nil {
		return nil, err
	}
	spec := &Spec{
		Attributes: runs.Attributes{Agent: i.spec.Agent, Title: i.w.title(i.spec, file.Path, f), Labels: i.spec.Labels},
		Source:     runs.SourceTail, File: &file,
		Part: &part,
	}
	if i.force {
		spec.Run = runs.LocalID(time.Now().UnixMilli(), rand.Uint64())
		return spec, nil
	}
	c := content{
		Worker: i.w.cfg.Name, Agent: spec.Agent, File: file.inode, From: part.From, To: part.To, Sum: sum,
	}
	if last != nil {
		c.Before = last.Run
	}
	spec.Run = importID(c)
	return spec, nil
}

// content identifies what an import adds to the raw log.
type content struct {
	Worker, Agent string
	File          inode
	From, To      int64  // offsets in the file
	Sum           string // see sumOf
	Before        string // the last run of the file
}

// importID returns the run id of an import. Equal content has equal ids.
func importID(c content) string {
	const base, width = 36, 25 // 36^25 is a little more than 2^128
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %d %d %d %q %q",
		c.Worker, c.Agent, c.File.Dev, c.File.Inode, c.From, c.To, c.Sum, c.Before))
	return fmt.Sprintf("T-local-%0*s", width, new(big.Int).SetBytes(sum[:16]).Text(base))
}

// ledgerOf returns the index for the files at paths.
func (w *Worker) ledgerOf(ctx context.Context, spec TailSpec, paths []string) (*ledgerIndex, error) {
	stores, err := w.cfg.Stores(ctx)
	x := &ledgerIndex{ledger: &w.ledger, agent: spec.Agent, stores: stores, files: make(map[wanted]*imported, len(paths))}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil { // else the import reports the error
			x.files[wanted{file: fileOf(path, info).inode}] = nil
		}
	}
	return x, err
}

// record adds a line to the ledger for the file of an ended run, unless the
// file was removed or has other content now. Of a session whose log has other content,
// it adds that nothing of it is in a run.
func (r *Run) record(ctx context.Context) error {
	spec := &r.dir.Spec
	if spec.Source != runs.SourceTail || !r.progress.Log.Exited || r.out.replaced && spec.Session == nil {
		return nil
	}
	f := r.out.f
	if f == nil || r.out.replaced {
		file, now, _, err := openRegular(r.out.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		defer file.Close() // file may be nil
		if err != nil || now.inode != spec.File.inode {
			r.out.replaced = true
			return nil
		}
		f = file
	}
	if r.out.replaced = r.out.replaced || !r.begins(f); r.out.replaced {
		if spec.Session == nil {
			return nil
		}
		return r.enter(ctx, f, 0)
	}
	m := r.progress.Log
	size := m.Out - r.progress.Out.Base
	if part := spec.Part; part != nil && (m.Cancelled || !m.Started || m.At == 0) {
		size = part.To // the rest was cancelled; or the log has aged out, and its size is unknown
	} else if info, err := f.Stat(); err == nil && part == nil && m.Cancelled {
		size = info.Size()
	}
	err := r.enter(ctx, f, size)
	if errors.Is(err, io.ErrUnexpectedEOF) { // the file was truncated
		if r.out.replaced = true; spec.Session == nil {
			return nil
		}
		return r.enter(ctx, f, 0)
	}
	return err
}

// begins reports whether f begins as the file of the run did.
func (r *Run) begins(f *os.File) bool {
	head := make([]byte, len(r.progress.Out.Head))
	n, _ := f.ReadAt(head, 0)
	return bytes.Equal(head[:n], r.progress.Out.Head)
}

// enter adds a line to the ledger: the first bytes of the file are in runs. The error is
// [io.ErrUnexpectedEOF] if the file has fewer.
func (r *Run) enter(ctx context.Context, f *os.File, size int64) error {
	sum, err := sumOf(f, size)
	if err != nil {
		return err
	}
	spec, stores := &r.dir.Spec, r.stores
	if stores == nil {
		if stores, err = r.w.cfg.Stores(ctx); err != nil {
			return err
		}
	}
	entry := imported{Agent: spec.Agent, Stores: stores, inode: spec.File.inode, Size: size, Sum: sum, Run: spec.Run}
	if spec.Session != nil {
		entry.Log = spec.Session.Log
	}
	err = r.w.ledger.add(entry)
	r.recorded = err == nil
	return err
}

// importPrefix begins the names of the lock files of imports, one per file
// that is being imported. They are in the directory that holds the run
// directories.
const importPrefix = ".import-"

// importLock excludes other imports of a file, in this and other processes.
// The lock file holds the id of the last planned run: if the process is
// killed, the next holder resumes that run. The lock file is removed on
// release, unless the directory of that run still exists.
type importLock struct {
	file inode
	root string
	f    *os.File
}

// lockImport waits until no other import of the file holds the lock. If that
// takes longer than tailPause, it calls waiting.
func (w *Worker) lockImport(ctx context.Context, file inode, waiting func()) (*importLock, error) {
	const pause = 50 * time.Millisecond
	began := time.Now()
	if err := MakeDir(w.cfg.Root); err != nil {
		return nil, err
	}
	for {
		f, err := openLocked(w.importPath(file), 0, files.TryLock)
		if err == nil {
			return &importLock{file: file, root: w.cfg.Root, f: f}, nil
		}
		if !errors.Is(err, files.ErrLocked) {
			return nil, err
		}
		if time.Since(began) > w.tailPause {
			waiting()
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func (w *Worker) importPath(file inode) string {
	return filepath.Join(w.cfg.Root, fmt.Sprintf("%s%x-%x", importPrefix, file.Dev, file.Inode))
}

// run returns the id of the last planned run, or "".
func (l *importLock) run() string {
	const longest = 1 << 10
	text, _ := io.ReadAll(io.NewSectionReader(l.f, 0, longest))
	if id := strings.TrimSpace(string(text)); runs.CheckID(id) == nil {
		return id
	}
	return ""
}

// setRun stores the id of the run whose directory is created next. The
// directory of the previous run is gone.
func (l *importLock) setRun(run string) error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err := l.f.WriteAt([]byte(run+"\n"), 0)
	return err
}

// release removes the lock file, if it is not needed, and releases the lock.
func (l *importLock) release() {
	if l == nil {
		return
	}
	if run := l.run(); run == "" || !exists(filepath.Join(l.root, run)) {
		_ = os.Remove(l.f.Name()) // else the next scan removes it
	}
	_ = files.Close(l.f)
}

// removeImportLock removes the lock file of a killed import, if its run
// directory is gone.
func (w *Worker) removeImportLock(path string) {
	if f, err := openLocked(path, 0, files.TryLock); err == nil {
		(&importLock{root: w.cfg.Root, f: f}).release()
	}
}
