package worker

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

// Commands to a shim.
const (
	ctlInterrupt = 'i' // send SIGINT to the process group of the agent
	ctlCancel    = 'c' // terminate the agent
	ctlFinish    = 'f' // terminate an agent that has printed its result, or what it left
	ctlFeed      = 'l' // there are new lines for the agent
	ctlQuit      = 'q' // from the shim to itself: stop listening
)

// sendCommand sends one command to the shim whose files are in dir. The error is
// ENXIO if no shim is listening, or the FIFO was replaced.
func sendCommand(dir string, command byte) error {
	fd, err := openPipe(filepath.Join(dir, ctlFile), unix.O_WRONLY|unix.O_NONBLOCK)
	if err == nil {
		_, err = unix.Write(fd, []byte{command})
		_ = unix.Close(fd)
	}
	if err != nil && !errors.Is(err, unix.EAGAIN) { // a full FIFO already holds the command many times
		return fmt.Errorf("send command to shim of %s: %w", filepath.Base(dir), err)
	}
	return nil
}

// haltedEvery is how often a worker looks whether a shim was stopped by a signal.
const haltedEvery = 900 * time.Millisecond

// answerTime is how long a shim that has its lock may take no command.
const answerTime = 2 * time.Second

// command sends a command to the shim. One that takes none is ended, and another one takes over: an agent
// can remove the FIFO.
func (s *spawned) command(now time.Time, command byte) {
	switch err := sendCommand(s.path, command); {
	case err == nil:
		s.deaf = time.Time{}
		s.told = s.told || command == ctlCancel
		s.insist(now, command)
	case s.deaf.IsZero():
		s.deaf = now
	case now.Sub(s.deaf) >= answerTime:
		if p, ok := s.shimProcess(); ok {
			s.log.Warn("shim takes no commands, ending it", zap.Error(err))
			p.signal(unix.SIGKILL)
			s.deaf = time.Time{}
		}
	}
}

// insists has the signals for shims that do not act on a command.
var insists = map[byte]unix.Signal{ctlCancel: unix.SIGTERM, ctlFinish: unix.SIGUSR1}

// insist ends a run by a signal that goes on after a command to end it: an agent, or what it has left, can put another
// FIFO there, and read the commands itself.
func (s *spawned) insist(now time.Time, command byte) {
	sig, ends := insists[command]
	if !ends || !s.toldAt.IsZero() && now.Sub(s.toldAt) < s.dir.Spec.Limits.Grace+answerTime {
		return
	}
	if p, ok := s.shimProcess(); ok && !s.toldAt.IsZero() {
		s.log.Warn("shim does not end the run, sending it a signal")
		p.signal(sig)
	}
	s.toldAt = now
}

// endHalted ends a shim that was stopped by a signal, as an agent can: it enforces no limit and takes no
// command. Once it is gone another one takes over.
func (s *spawned) endHalted() {
	if p, ok := s.shimProcess(); ok && p.halted {
		s.log.Warn("shim was stopped by a signal, ending it")
		p.signal(unix.SIGKILL)
	}
}

// shimProcess returns the process of the shim, if it is known.
func (s *spawned) shimProcess() (process, bool) {
	if s.child != 0 {
		return lookup(s.child)
	}
	if s.known.pid != 0 {
		if p, ok := lookup(s.known.pid); ok && !p.dead && p.start == s.known.start {
			return p, true
		}
	}
	text, _ := readBounded(s.file(shimFile), 32)
	pid, _ := strconv.Atoi(string(text))
	if pid == 0 || !isShim(pid, s.path) {
		return process{}, false
	}
	p, ok := lookup(pid)
	s.known = p
	return p, ok
}
