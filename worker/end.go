package worker

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

// end begins to end the agent and all of its group. It does nothing when that
// has begun already.
func (s *shim) end(reason runs.Reason) {
	if !s.kill.IsZero() {
		return
	}
	s.reason = reason
	s.kill = time.Now().Add(s.spec.Limits.Grace)
	s.signal(unix.SIGTERM)
}

// signal sends sig to the agent's group. Once the agent was reaped its number
// may belong to strangers, so the group is looked at first.
func (s *shim) signal(sig unix.Signal) {
	if s.over != nil {
		for _, p := range s.over.group(s.over.find()) {
			p.signal(sig)
		}
		return
	}
	if s.status == nil || groupAlive(s.pid) {
		_ = unix.Kill(-s.pid, sig) // fails when all are gone
	}
}

func (s *shim) groupAlive() bool {
	if s.over != nil {
		return len(s.over.group(s.over.find())) > 0
	}
	return groupAlive(s.pid)
}

// reap takes in all children that died, the agent's orphans among them. It
// reports whether there are others.
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

// sweepFor bounds a sweep. Some processes do not die of SIGKILL, such as those
// that wait for a disk, and some fork faster than they can be killed.
const sweepFor = 5 * time.Second

var errLeft = fmt.Errorf("processes of the run may be left: not all had ended %v after SIGKILL", sweepFor)

// sweep kills the descendants that have left the group: the orphans among
// them are children of the shim, and killing those makes orphans of the next.
func (s *shim) sweep() error {
	const pause = 20 * time.Millisecond
	// The system tells when an agent of our own has left nobody. The members of
	// a run that was taken over are children of others, and one look may miss
	// a process, as while it calls exec: several in a row have to find none.
	done, needed := 0, 1
	if s.over != nil {
		needed = 5
	}
	for deadline := time.Now().Add(sweepFor); ; time.Sleep(pause) {
		if s.kills() {
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

// kills kills what can be found of the run's processes. It reports whether
// there is something left of them.
func (s *shim) kills() bool {
	if s.over == nil {
		killChildren()
		return s.reap()
	}
	s.reap()
	found := s.over.find()
	for _, p := range found {
		p.signal(unix.SIGKILL)
	}
	return len(found) > 0 || !s.ended()
}
