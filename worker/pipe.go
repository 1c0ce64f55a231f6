package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

// Pipe copies in to the spool of d, a new run with [runs.SourcePipe] that is driven
// at the same time. It returns at the end of in, at the spool limit, or when
// ctx ends. It stops within 100 ms if in is a file, such as stdin, else after
// the Read in progress.
//
// The run ends when Pipe returns, also when the process is killed: then the
// next worker reads the spool to its end.
func Pipe(ctx context.Context, in io.Reader, d *Dir) error {
	spool := d.spool.Swap(nil)
	if spool == nil {
		return fmt.Errorf("pipe %s: not a new run with the source pipe", d.Spec.Run)
	}
	defer spool.Close() // releases the lock: the run may end

	reason, err := copyUpTo(ctx, spool, in, d.Spec.Limits.Spool)
	err = errors.Join(err, recordEnd(ctx, d.path, runs.Exit{Reason: reason}))
	if err != nil {
		return fmt.Errorf("pipe %s: %w", d.Spec.Run, err)
	}
	return nil
}

// recordEnd writes exit.json, as [shim.recordExit] does. Until ctx ends it waits for room.
func recordEnd(ctx context.Context, dir string, ex runs.Exit) error {
	for try := 1; ; try++ {
		err := writeExit(dir, sealed(ex, nil))
		if !passes(err) || try == exitTries || sleep(ctx, exitPause) != nil {
			return err
		}
	}
}

func copyUpTo(ctx context.Context, spool *os.File, in io.Reader, limit int64) (runs.Reason, error) {
	buf := make([]byte, runs.MaxChunk)
	for left := limit; ; {
		if err := readable(ctx, in); err != nil {
			return runs.ReasonEOF, err
		}
		n, err := in.Read(buf)
		if _, werr := spool.Write(buf[:min(int64(n), left)]); werr != nil {
			return runs.ReasonLost, werr // the disk is full
		}
		if left -= int64(n); left < 0 {
			return runs.ReasonSpool, nil
		}
		switch {
		case errors.Is(err, io.EOF):
			return runs.ReasonEOF, nil
		case ctx.Err() != nil:
			return runs.ReasonEOF, ctx.Err()
		case err != nil:
			return runs.ReasonLost, err
		}
	}
}

// Interruptible returns a reader of in whose Read returns the error of ctx when ctx ends:
// within 100 ms if in is a file, such as stdin, else after the Read in progress.
func Interruptible(ctx context.Context, in io.Reader) io.Reader { return &interruptible{ctx, in} }

type interruptible struct {
	ctx context.Context
	in  io.Reader
}

func (r *interruptible) Read(b []byte) (int, error) {
	if err := readable(r.ctx, r.in); err != nil {
		return 0, err
	}
	return r.in.Read(b)
}

// Unread returns a reader of the bytes that were read of in, and then of the rest of in.
func Unread(read []byte, in io.Reader) io.Reader { return &unread{read, in} }

type unread struct {
	read []byte
	in   io.Reader
}

func (r *unread) Read(b []byte) (int, error) {
	if len(r.read) == 0 {
		return r.in.Read(b)
	}
	n := copy(b, r.read)
	r.read = r.read[n:]
	return n, nil
}

// readable waits until a Read of in would not block, or ctx ends. It returns
// at once if in cannot be polled.
func readable(ctx context.Context, in io.Reader) error {
	var f *os.File
	switch r := in.(type) {
	case *os.File:
		f = r
	case *interruptible:
		return readable(ctx, r.in)
	case *unread:
		if len(r.read) == 0 {
			return readable(ctx, r.in)
		}
	}
	if f == nil {
		return ctx.Err()
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return ctx.Err()
	}
	const pause = 100 // milliseconds
	for ready := false; !ready; {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := conn.Control(func(fd uintptr) {
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, err := unix.Poll(fds, pause)
			ready = n > 0 || err != nil && !errors.Is(err, unix.EINTR)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// piped is the spool of a Pipe.
type piped struct {
	dir          *Dir
	exitRecorded bool // the exit is recorded, the lock will be released soon
	stopped      bool
}

func (p *piped) ended(time.Time) (*runs.Exit, error) {
	if p.stopped {
		return &runs.Exit{Reason: runs.ReasonEOF}, nil
	}
	busy, err := held(p.dir.file(outFile))
	if err != nil {
		return nil, err
	}
	ex, err := readExit(p.dir.path)
	p.exitRecorded = ex != nil
	if busy || err != nil {
		return nil, err
	}
	if ex == nil { // the process was killed
		ex = &runs.Exit{Reason: runs.ReasonEOF}
	}
	return ex, nil
}

func (p *piped) stop() { p.stopped = true }

func (p *piped) pollInterval() time.Duration {
	if p.exitRecorded {
		return 5 * time.Millisecond
	}
	return time.Second
}
