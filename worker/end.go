package worker

import (
	"errors"
	"fmt"
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
			s.status = &status
		}
	}
}

// sweepFor bounds a sweep. Some processes do not end on SIGKILL, such as those
// in uninterruptible disk I/O, and some fork faster than they can be killed.
const sweepFor = 5 * time.Second

var errLeft = fmt.Errorf("processes of the run may be left: not all had ended %v after SIGKILL", sweepFor)

// sweep kills the descendants that have left the process group. Orphans among
// them are children of the shim, and killing them makes their children
// orphans.
func (s *shim) sweep() error {
	const pause = 20 * time.Millisecond
	// The kernel tells when our own agent has no descendants left. The members of
	// an adopted run are not our children, and one scan can miss a process, for
	// example during exec: several scans in a row must find none.
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
// some are left.
func (s *shim) killAll() bool {
	if s.adopted == nil {
		killChildren()
		return s.reap()
	}
	s.reap()
	found := s.adopted.find()
	for _, p := range found {
		p.signal(unix.SIGKILL)
	}
	return len(found) > 0 || !s.ended()
}
