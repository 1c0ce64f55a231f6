package worker

import (
	"errors"
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

// descendants returns what can be found of the run's processes: of our own
// agent those that are our children by now.
func (s *shim) descendants() []process {
	if s.over != nil {
		return s.over.find()
	}
	return childProcesses()
}

// reap takes in all children that died, the agent's orphans among them.
func (s *shim) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if pid == s.pid && (status.Exited() || status.Signaled()) {
			s.status = &status
		}
	}
}

// sweep kills the descendants that have left the group: the orphans among
// them are children of the shim, and killing those makes orphans of the next.
func (s *shim) sweep() {
	const rounds, pause = 250, 20 * time.Millisecond // 5 s for processes that do not die
	for range rounds {
		s.reap()
		left := s.descendants()
		if len(left) == 0 && s.ended() {
			return
		}
		for _, p := range left {
			p.signal(unix.SIGKILL)
		}
		time.Sleep(pause)
	}
}
