package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/filelock"
	"github.com/linesman/linesman/runs"
)

// Pipe copies in to the spool of a new run with [SourcePipe], which d is the
// directory of and which is driven at the same time. It returns at the end of
// in, at the spool's limit, or when ctx ends; an in that is a file, such as
// stdin, is left within a moment, any other after the Read in progress.
//
// The run ends once Pipe has returned, however it did: when the process is
// killed, the next worker reads the spool to its end.
func Pipe(ctx context.Context, in io.Reader, d *Dir) error {
	spool := d.spool.Swap(nil)
	if spool == nil {
		return fmt.Errorf("pipe %s: not a new run with the source pipe", d.Spec.Run)
	}
	defer spool.Close() // and gives the lock back: the run may end

	reason, err := copyUpTo(ctx, spool, in, d.Spec.Limits.Spool)
	err = errors.Join(err, writeExit(d.path, sealed(runs.Exit{Reason: reason}, nil)))
	if err != nil {
		return fmt.Errorf("pipe %s: %w", d.Spec.Run, err)
	}
	return nil
}

func copyUpTo(ctx context.Context, spool *os.File, in io.Reader, limit int64) (runs.Reason, error) {
	buf := make([]byte, runs.MaxChunk)
	for left := limit; ; {
		if err := readable(ctx, in); err != nil {
			return runs.ReasonEOF, err
		}
		n, err := in.Read(buf)
		if _, werr := spool.Write(buf[:min(int64(n), left)]); werr != nil {
			return runs.ReasonSpool, werr // there is no room for more
		}
		if left -= int64(n); left < 0 {
			return runs.ReasonSpool, nil
		}
		switch {
		case errors.Is(err, io.EOF):
			return runs.ReasonEOF, nil
		case err != nil:
			return runs.ReasonLost, err
		}
	}
}

// readable waits until a Read of in would not block, or ctx ends. Where it
// cannot ask it does not wait.
func readable(ctx context.Context, in io.Reader) error {
	f, ok := in.(*os.File)
	if !ok {
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

// piped is the spool that a Pipe writes.
type piped struct {
	dir     *Dir
	done    bool // the reason is there, the lock will be free at once
	stopped bool
}

func (p *piped) ended(time.Time) (*runs.Exit, error) {
	if p.stopped {
		return &runs.Exit{Reason: runs.ReasonEOF}, nil
	}
	busy, err := filelock.Held(p.dir.file(outFile))
	if err != nil {
		return nil, err
	}
	ex, err := readExit(p.dir.path)
	p.done = ex != nil
	if busy || err != nil {
		return nil, err
	}
	if ex == nil { // it was killed
		ex = &runs.Exit{Reason: runs.ReasonEOF}
	}
	return ex, nil
}

func (p *piped) stop() { p.stopped = true }

func (p *piped) next() time.Duration {
	if p.done {
		return 5 * time.Millisecond
	}
	return time.Second
}

func (p *piped) lasting() bool { return false }
