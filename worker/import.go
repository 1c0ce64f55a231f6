package worker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"math/rand/v2"
	"os"
	"time"

	"github.com/linesman/linesman/runs"
)

// importSlots is how many files are imported at a time. Each takes a few
// descriptors, and the process needs some for its connections and, perhaps,
// for a server's store.
func importSlots(descriptors uint64) int {
	return int(min(64, max(1, descriptors/32)))
}

// An importing path is read to its end, once: what is in runs already, by the
// ledger or by the raw log, is not imported again.
//
// The order is what makes that hold when the process is killed anywhere: the
// run directory, which says what part of the file the run holds; the entries;
// the exit entry; the line of the ledger; the end of the directory. Whoever
// comes next finds the directory, and carries on, or the line. Should the line
// be missing, as after a power failure, the run gets the same id as before,
// and its raw log refuses it.
type importing struct {
	w     *Worker
	spec  TailSpec
	path  string
	open  []string           // directories of runs that were interrupted, oldest first
	known map[inode]imported // what the ledger said when the call began
	last  *imported          // what it says of the file; nil: nothing
	anew  bool               // --again, and not yet done
	done  string             // the run that this call finished, "" while there is none
}

// run imports the file: what was interrupted, then what is in no run.
func (i *importing) run(ctx context.Context) error {
	for {
		d, err := i.next(ctx)
		if d == nil || err != nil {
			return err
		}
		r := i.w.Run(d)
		r.source.(*tailed).once = true
		r.begun = func() {
			i.done = d.Spec.Run
			if i.spec.Began != nil {
				i.spec.Began(d.Spec.Run, i.path)
			}
		}
		fresh := d.fresh
		_, err = r.Drive(ctx)
		if err != nil && !errors.Is(err, ErrEnded) && !(errors.Is(err, ErrKnown) && r.place.Log.Exited) {
			return err
		}
		if d.Spec.Part == nil || d.Spec.Part.From == 0 {
			i.anew = false
		}
		switch {
		case r.recorded != nil:
			i.last = r.recorded
		case err != nil && !r.out.replaced: // the ledger could not be written
			return err
		}
		if fresh && err == nil && !r.out.replaced {
			return nil // what was added meanwhile is for the next call
		}
	}
}

// next returns the directory of the run to drive, or nil when there is none.
func (i *importing) next(ctx context.Context) (*Dir, error) {
	for len(i.open) > 0 {
		d, err := openWhenFree(ctx, i.open[0])
		if errors.Is(err, ErrBad) { // it was not synced before a power failure
			i.w.setAside(i.open[0], err)
			err = fs.ErrNotExist
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		i.open = i.open[1:]
		if err == nil {
			return d, nil
		}
		// Another process had it, and has written to the ledger.
		if err := i.lookUp(); err != nil {
			return nil, err
		}
	}
	spec, err := i.plan()
	if err != nil || spec == nil {
		return nil, err
	}
	d, err := Create(i.w.cfg.Root, *spec)
	if errors.Is(err, fs.ErrExist) { // another process was faster
		i.open = append(i.open, i.w.runDir(spec.Run))
		return i.next(ctx)
	}
	return d, err
}

// plan says which part of the file is a new run, or nil where all of it is in
// runs.
func (i *importing) plan() (*Spec, error) {
	f, file, size, err := openRegular(i.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	part := Part{To: size}
	if e, ok := i.known[inode{file.Dev, file.Inode}]; ok && i.last == nil {
		i.last = &e
	}
	last := i.last
	if last != nil && !i.anew && last.Dev == file.Dev && last.Inode == file.Inode {
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
	spec := &Spec{Agent: i.spec.Agent, Source: SourceTail, Labels: i.spec.Labels, File: &file, Part: &part}
	if i.anew {
		spec.Run = runs.LocalID(time.Now().UnixMilli(), rand.Uint64())
		return spec, nil
	}
	before := ""
	if i.last != nil {
		before = i.last.Run
	}
	spec.Run = importID(fmt.Sprintf("%q", []any{i.w.cfg.Name, i.spec.Agent, file.Dev, file.Inode, part.From, part.To, sum, before}))
	return spec, nil
}

// importID makes a run id of what is imported: the same for the same.
func importID(what string) string {
	const base, width = 36, 25 // 36^25 is a little more than 2^128
	sum := sha256.Sum256([]byte(what))
	text := new(big.Int).SetBytes(sum[:16]).Text(base)
	return fmt.Sprintf("T-local-%0*s", width, text)
}

// lookUp reads again what the ledger says of the file.
func (i *importing) lookUp() error {
	info, err := os.Stat(i.path)
	if err != nil {
		return err
	}
	file := fileOf(i.path, info)
	key := inode{file.Dev, file.Inode}
	found, err := i.w.ledger.find(map[inode]bool{key: true})
	if e, ok := found[key]; ok {
		i.last = &e
	}
	return err
}

// ledgerOf is what the ledger says of the files at paths.
func (w *Worker) ledgerOf(paths []string) (map[inode]imported, error) {
	wanted := make(map[inode]bool, len(paths))
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil { // else it is said when its turn comes
			file := fileOf(path, info)
			wanted[inode{file.Dev, file.Inode}] = true
		}
	}
	return w.ledger.find(wanted)
}

// record puts into the ledger how far the file of an ended run is in runs. A
// file that has gone, or got other content, needs no line.
func (r *Run) record() error {
	spec := &r.dir.Spec
	if spec.Source != SourceTail || r.out.replaced || !r.place.Log.Exited {
		return nil
	}
	f := r.out.f
	if f == nil {
		file, now, _, err := openRegular(spec.File.Path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		defer file.Close() // where it is nil, too
		if r.out.replaced = err != nil || now != *spec.File; r.out.replaced {
			return nil
		}
		f = file
	}
	m := r.place.Log
	size := m.Out - r.place.Out.Base
	if part := spec.Part; part != nil && (m.Cancelled || !m.Started || m.At == 0) {
		size = part.To // nobody wants the rest; or the log has aged out, and does not tell
	} else if info, err := f.Stat(); err == nil && part == nil && m.Cancelled {
		size = info.Size()
	}
	sum, err := sumOf(f, size)
	if errors.Is(err, io.ErrUnexpectedEOF) { // it was cut short
		r.out.replaced = true
		return nil
	}
	if err != nil {
		return err
	}
	e := imported{Dev: spec.File.Dev, Inode: spec.File.Inode, Size: size, Sum: sum, Run: spec.Run}
	if err := r.w.ledger.add(e); err != nil {
		return err
	}
	r.recorded = &e
	return nil
}

// openWhenFree opens a run directory, as soon as nobody else drives its run.
func openWhenFree(ctx context.Context, path string) (*Dir, error) {
	for {
		d, err := openSoon(ctx, path)
		if !errors.Is(err, ErrOwned) {
			return d, err
		}
		if err := sleep(ctx, tailPause); err != nil {
			return nil, err
		}
	}
}
