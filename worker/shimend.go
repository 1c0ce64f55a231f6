package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

// end starts to terminate the agent and its process group, unless that has
// started already.
func (s *shim) end(reason runs.Reason) {
	if !s.killAt.IsZero() {
		return
	}
	s.reason = reason
	s.killAt = time.Now().Add(s.spec.Limits.Grace)
	s.signal(unix.SIGTERM)
}

// signal sends sig to the process group of the agent. After the agent was
// reaped, its process ID may be reused, so the group is checked first.
func (s *shim) signal(sig unix.Signal) {
	if s.adopted != nil {
		for _, p := range s.adopted.group(s.adopted.find()) {
			p.signal(sig)
		}
		return
	}
	if s.status == nil || groupAlive(s.pid) {
		_ = unix.Kill(-s.pid, sig) // fails when all have ended
	}
	if s.status != nil {
		signalChildren(sig)
	}
}

func (s *shim) groupAlive() bool {
	if s.adopted != nil {
		return len(s.adopted.group(s.adopted.find())) > 0
	}
	return groupAlive(s.pid)
}

// reap reaps all children that have exited, including orphans of the agent. It
// reports whether there are other children.
func (s *shim) reap() (others bool) {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return err == nil
		}
		if pid == s.pid && (status.Exited() || status.Signaled()) {
			s.status, s.endedAt, s.outAt = &status, time.Now(), s.sizes()[0]
		}
	}
}

// sweepFor bounds a sweep. Some processes do not end on SIGKILL, such as those
// in uninterruptible disk I/O, and some fork faster than they can be killed.
var sweepFor = 5 * time.Second

var errLeft = fmt.Errorf("processes of the run may be left: not all had ended %v after SIGKILL", sweepFor)

// sweep kills the descendants that have left the process group. Orphans among
// them are children of the shim, and killing them makes their children
// orphans.
func (s *shim) sweep() error {
	const pause = 20 * time.Millisecond
	// The kernel tells when our own agent has no descendants left. The members of
	// an adopted run are not our children, and one scan can miss a process that
	// forks all the time: several scans in a row must find none.
	done, needed := 0, 1
	if s.adopted != nil {
		needed = 5
	}
	for deadline := time.Now().Add(sweepFor); ; time.Sleep(pause) {
		if s.killAll() {
			done = 0
		} else {
			done++
		}
		switch {
		case done == needed:
			return nil
		case time.Now().After(deadline):
			return errLeft
		}
	}
}

// killAll kills all processes of the run that can be found. It reports whether
// some are left, or may be.
func (s *shim) killAll() bool {
	if s.adopted == nil {
		signalChildren(unix.SIGKILL)
		return s.reap()
	}
	s.reap()
	found := s.adopted.find()
	for _, p := range found {
		p.signal(unix.SIGKILL)
	}
	return len(found) > 0 || s.adopted.unclear || !s.ended()
}

// exit is how and when the agent ended. An adopted agent that ended by itself did
// so within the second before this is called, or after the last sign of it.
func (s *shim) exit() runs.Exit {
	if s.endedAt.IsZero() {
		s.endedAt = time.Now()
	}
	ex := runs.Exit{Reason: runs.ReasonExited, At: s.endedAt.UnixMilli()}
	if s.adopted != nil {
		ex.Reason = runs.ReasonLost // its exit status is unknown
	}
	if s.reason != "" {
		ex.Reason = s.reason
	}
	if s.status != nil {
		ex.Out = &s.outAt
	}
	switch {
	case s.status == nil:
	case s.status.Signaled():
		ex.Signal = int(s.status.Signal())
	default:
		ex.Code = new(s.status.ExitStatus())
	}
	return ex
}

// reportExit encodes how the run ended, and sends it to the worker that
// started this shim.
func (s *shim) reportExit(ex runs.Exit) {
	s.exitRecord = sealed(ex, s.key)
	if len(s.key) > 0 {
		_, _ = unix.Write(int(os.Stdout.Fd()), s.exitRecord) // the worker may be gone
	}
}

// If the disk is full or read-only, exit.json is tried for a minute.
const (
	exitTries = 60
	exitPause = time.Second
)

// passes reports an error of a disk that is full or read-only.
func passes(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EROFS)
}

// recordExit writes exit.json once. If that is to be tried again, the caller
// does its other work meanwhile.
func (s *shim) recordExit(now time.Time) {
	if s.recorded || now.Before(s.retryAt) {
		return
	}
	if s.exitRecord == nil {
		s.reportExit(s.exit())
	}
	err := writeExit(s.dir, s.exitRecord)
	s.tries++
	switch {
	case passes(err) && s.tries < exitTries:
		s.retryAt = now.Add(exitPause)
		return
	case errors.Is(err, fs.ErrNotExist): // the worker has read the pipe and removed the directory: the run has ended
		err = nil
	}
	s.recorded, s.failure = true, err
}

// recordExitRetrying calls recordExit until exit.json is written or given up.
func (s *shim) recordExitRetrying() {
	for !s.recorded {
		time.Sleep(time.Until(s.retryAt))
		s.recordExit(time.Now())
	}
}
