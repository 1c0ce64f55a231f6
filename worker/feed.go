package worker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// phase is what a shim is about to write: it is saved before. The next shim cannot know
// how much of it was written, but only the newline makes a line valid, and an agent
// ignores an empty line, and one that is not valid JSON. So each line is taken once,
// whatever is killed; docs/model/feed.pml is a model of this.
type phase string

// The phases of a line, and what the next shim does.
const (
	phaseBody phase = "body" // the line without its newline: makes an invalid line of what there is, and begins again
	phaseEnd  phase = "end"  // the newline: writes it
	phaseIdle phase = "idle" // nothing, until there is another line: goes on
)

// torn ends what may have been written of a line: no beginning of a JSON text is
// valid with this behind it.
const torn = "!\n"

// fed is how far an agent was fed: the content of the file fed. A line that begins
// at At was certainly not fed in the phases body and idle, unless the system was
// restarted since: the file is not synced.
type fed struct {
	N     uint64 `json:"n"`  // the slot with the higher number is valid
	At    int64  `json:"at"` // offset in the file in, of the line that is fed, or of the next one
	Phase phase  `json:"phase"`
}

// fedSize is the size of a slot, in bytes. There are two: a write that was cut off
// leaves the other one.
const fedSize = 128

// slot returns the slot of f.
func (f fed) slot() (slot [fedSize]byte, at int64, err error) {
	err = fillSlot(slot[:], f)
	return slot, int64(f.N%2) * fedSize, err
}

// newFed returns the content of a new file, with all that it ever holds: an
// update needs no space on a full disk.
func newFed() (body []byte) {
	for n := range uint64(2) {
		slot, _, _ := fed{N: n, Phase: phaseIdle}.slot()
		body = append(body, slot[:]...)
	}
	return body
}

// readFed reads the file fed. Without a valid slot it returns an error.
func readFed(r io.ReaderAt) (last fed, err error) {
	found := false
	for n := range int64(2) {
		var slot [fedSize]byte
		var one fed
		_, rerr := r.ReadAt(slot[:], n*fedSize)
		if rerr == nil && readSlot(slot[:], &one) && one.At >= 0 && (!found || one.N > last.N) {
			last, found = one, true
		}
	}
	if !found {
		return last, fmt.Errorf("%s has no valid slot", fedFile)
	}
	return last, nil
}

// Bounds of feeding.
const (
	feedTimeout = time.Minute            // then an agent that takes nothing is ended
	feedAtOnce  = 1 << 20                // bytes between two looks at the agent
	feedBuffer  = 32 << 10               // bytes of a line in memory
	feedPause   = time.Millisecond       // while the FIFO is full, at first
	feedPauses  = 250 * time.Millisecond // at most: each without progress is twice as long
)

// feeder feeds an agent: it writes whole lines of the file in to the FIFO stdin.
// One goroutine uses it.
type feeder struct {
	dir    string
	in     *os.File // nil: not open yet
	fedAt  *os.File
	stdin  int // does not block
	fed    fed
	buf    []byte
	debt   string // to be written before the body
	end    int64  // offset of the newline of the line, in the phases body and end
	next   int64  // of the body
	looked int64  // in has no newline between fed.At and this offset

	pause  time.Duration // until the next call of feed
	since  time.Time     // of the last progress; zero: nothing is due
	failed bool          // an error was logged
}

func newFeeder(dir string) *feeder { return &feeder{dir: dir} }

// beforeFeeding is called before each write of a feeder. Tests end the shim there.
var beforeFeeding = func() {}

// feed writes what is due, until the FIFO is full. It returns false if something was
// due for feedTimeout, and nothing was taken: the agent does not read, or its files
// are damaged.
func (f *feeder) feed(now time.Time) bool {
	progress, err := f.write()
	switch {
	case errors.Is(err, errFed):
		f.since, f.pause = time.Time{}, math.MaxInt64
	case progress || f.since.IsZero():
		f.since, f.pause = now, feedPause
	default:
		f.pause = min(2*f.pause, feedPauses)
	}
	if err != nil && !errors.Is(err, errFed) && !errors.Is(err, unix.EAGAIN) && !f.failed {
		f.failed = true
		fmt.Fprintln(os.Stderr, "feed the agent:", err) // once in the log of the shim
	}
	return f.since.IsZero() || now.Sub(f.since) < feedTimeout
}

// errFed reports that no line is due.
var errFed = errors.New("no whole line")

// write writes at most about feedAtOnce bytes. It reports whether it wrote any, and
// why it stopped before.
func (f *feeder) write() (progress bool, err error) {
	if f.in == nil {
		if err := f.open(); err != nil {
			return false, err
		}
	}
	for left := feedAtOnce; left > 0; {
		n, err := f.step()
		if err != nil {
			return progress, err
		}
		progress = progress || n > 0
		left -= n
	}
	return progress, nil
}

// open opens the files, and finds out what an earlier shim has left.
func (f *feeder) open() (err error) {
	var in, fedAt *os.File
	defer func() {
		if err != nil {
			in.Close()
			fedAt.Close()
		}
	}()
	if in, err = openOwn(f.dir+"/"+inFile, os.O_RDONLY); err != nil {
		return err
	}
	if fedAt, err = openOwn(f.dir+"/"+fedFile, os.O_RDWR); err != nil {
		return err
	}
	if f.fed, err = readFed(fedAt); err != nil {
		return err
	}
	f.buf, f.next, f.looked = make([]byte, feedBuffer), f.fed.At, f.fed.At
	if f.fed.Phase != phaseIdle {
		f.end, err = f.lineEnd(in)
		if errors.Is(err, errFed) {
			err = fmt.Errorf("%s has lost the line at offset %d", inFile, f.fed.At)
		}
		if err != nil {
			return err
		}
	}
	if f.fed.Phase == phaseBody {
		f.debt = torn
	}
	if f.stdin, err = openPipe(f.dir+"/"+stdinFile, unix.O_RDWR|unix.O_NONBLOCK); err != nil {
		return fmt.Errorf("open %s: %w", stdinFile, err)
	}
	f.in, f.fedAt = in, fedAt
	return nil
}

func (f *feeder) close() {
	if f.in != nil {
		f.in.Close()
		f.fedAt.Close()
		_ = unix.Close(f.stdin)
		f.in = nil
	}
}

// step does the next thing that is due. It returns how many bytes the agent got.
func (f *feeder) step() (n int, err error) {
	switch {
	case f.fed.Phase == phaseIdle:
		if f.end, err = f.lineEnd(f.in); err != nil {
			return 0, err
		}
		f.next = f.fed.At
		return 0, f.save(phaseBody, f.fed.At)
	case f.fed.Phase == phaseEnd:
		if n, err = f.put([]byte("\n")); err != nil {
			return n, err
		}
		f.looked = f.end + 1
		return n, f.save(phaseIdle, f.end+1)
	case f.debt != "":
		n, err = f.put([]byte(f.debt))
		f.debt = f.debt[n:]
		return n, err
	case f.next < f.end:
		part := f.buf[:min(int64(len(f.buf)), f.end-f.next)]
		if _, err = f.in.ReadAt(part, f.next); err != nil {
			return 0, err
		}
		n, err = f.put(part)
		f.next += int64(n)
		return n, err
	}
	return 0, f.save(phaseEnd, f.fed.At)
}

// lineEnd returns the offset of the newline of the line at fed.At, or errFed if in
// has none yet.
func (f *feeder) lineEnd(in io.ReaderAt) (int64, error) {
	for {
		n, err := in.ReadAt(f.buf, f.looked)
		if i := bytes.IndexByte(f.buf[:n], '\n'); i >= 0 {
			return f.looked + int64(i), nil
		}
		f.looked += int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return 0, errFed
		case err != nil:
			return 0, err
		}
	}
}

// save records the phase, before anything is written in it.
func (f *feeder) save(p phase, at int64) error {
	beforeFeeding()
	to := fed{N: f.fed.N + 1, At: at, Phase: p}
	slot, offset, err := to.slot()
	if err == nil {
		_, err = f.fedAt.WriteAt(slot[:], offset)
	}
	if err != nil {
		return fmt.Errorf("save %s: %w", fedFile, err)
	}
	f.fed = to
	return nil
}

// put writes to the FIFO. If that is full, the error is EAGAIN.
func (f *feeder) put(b []byte) (int, error) {
	beforeFeeding()
	for {
		n, err := unix.Write(f.stdin, b)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
}
