package worker

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/filelock"
	"github.com/linesman/linesman/runs"
)

// ErrNotNeeded reports a shim that had nothing to supervise: another one was
// faster. Its process exits with NotNeeded, which the worker does not take for a
// failure that may have left processes.
var ErrNotNeeded = errors.New("not needed")

// NotNeeded is the exit code of a shim that ends with [ErrNotNeeded].
const NotNeeded = 75

// Shim is the body of the process that owns one agent: it starts the agent of
// the run directory dir at most once, holds it to its limits, and records how
// it ended. It returns when the agent and all it is responsible for are gone.
// Its stdin has an order, see [order]; without one it starts the agent and seals
// nothing.
//
// It outlives the worker that started it, and ends the agent on SIGTERM,
// SIGINT and SIGHUP. Its error says what went wrong with the shim itself; how
// the agent ended stands in exit.json.
func Shim(dir string) error {
	if err := shimRun(dir); err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	return nil
}

func shimRun(dir string) error {
	if err := closeInherited(); err != nil {
		return err
	}
	spec, err := readSpec(dir)
	if err != nil {
		return err
	}
	if !spec.process() {
		return fmt.Errorf("run %s has no agent to start", spec.Run)
	}
	order, err := readOrder(os.Stdin)
	if err != nil {
		return fmt.Errorf("read stdin: %w", err)
	}
	own, err := os.OpenFile(dir+"/"+shimFile, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer own.Close()
	if err := lockSoon(own, time.Second); err != nil {
		return err
	}
	switch begun := exists(dir+"/"+startedFile) || exists(dir+"/"+exitFile); {
	case begun && !order.Over:
		return fmt.Errorf("%w: the agent was started before", ErrNotNeeded)
	case !begun && order.Over:
		return fmt.Errorf("%w: the agent was not started yet", ErrNotNeeded)
	}
	if err := becomeReaper(); err != nil {
		return err
	}

	// From here on these signals are ours; the agent gets them as if nobody
	// had ever ignored them.
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	defer signal.Stop(stop)
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	defer signal.Stop(died)

	commands, closeCtl, err := listen(dir + "/" + ctlFile)
	if err != nil {
		return err
	}
	defer closeCtl()

	s := &shim{dir: dir, spec: spec, seed: order.Seed}
	if order.Over {
		err = s.takeOver(order)
	} else {
		var started bool
		if started, err = s.start(); !started {
			return err
		}
	}
	if err != nil {
		return err
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-died:
		case <-timer.C:
		case <-stop:
			s.end(runs.ReasonCancelled)
		case c := <-commands:
			switch c {
			case ctlInterrupt:
				s.signal(unix.SIGINT)
			case ctlCancel:
				s.end(runs.ReasonCancelled)
			}
		}
		next, err := s.step(time.Now())
		if err != nil || next == 0 {
			return errors.Join(s.failure, err)
		}
		timer.Reset(next)
	}
}

// shim is the state of one agent. Its methods are called by one goroutine.
type shim struct {
	dir  string
	spec Spec
	seed []byte // of the key that seals exit.json
	dog  *watchdog
	pid  int      // of the agent, our child; its process group has the same number
	over *members // instead of pid: of a run that another shim started

	status   *unix.WaitStatus // of the agent, once it was reaped
	record   []byte           // for exit.json, once the agent has ended
	tries    int              // to write it
	again    time.Time        // the next one, not before
	recorded bool             // it is written, as far as that was possible
	failure  error            // why it could not be written
	reason   runs.Reason      // why the shim ends the agent; "" while it does not
	kill     time.Time        // when SIGKILL follows the SIGTERM; zero: no end in progress
}

// start starts the agent. It reports false when there is none: it could not
// be started, which is recorded, or somebody decided that it never should be.
func (s *shim) start() (bool, error) {
	out, err := openSpool(s.dir + "/" + outFile)
	if err != nil {
		return false, err
	}
	defer out.Close() // the agent has its own: our copy of the lock ends here
	stderr, err := openSpool(s.dir + "/" + errFile)
	if err != nil {
		return false, err
	}
	defer stderr.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return false, err
	}
	defer null.Close()
	if err := filelock.Lock(out); err != nil {
		return false, err
	}
	env := slices.DeleteFunc(slices.Clone(s.env()), func(v string) bool { return strings.HasPrefix(v, markVariable+"=") })
	path, failure := lookPath(s.spec.Argv[0], s.spec.Dir, env)

	claimed, err := claimStart(s.dir)
	if err != nil || !claimed {
		return false, err
	}
	// Whoever kills us from here on, the agent can be found. Where there is no
	// room on the disk it is so by its output alone.
	id := identity{Mark: rand.Text(), Boot: bootID()}
	if session, err := unix.Getsid(0); err == nil && session == os.Getpid() {
		id.Session = session
	}
	_ = addIdentity(s.dir, id)
	if failure == "" {
		s.pid, err = syscall.ForkExec(path, s.spec.Argv, &syscall.ProcAttr{
			Dir:   s.spec.Dir,
			Env:   append(env, markVariable+"="+id.Mark),
			Files: []uintptr{null.Fd(), out.Fd(), stderr.Fd()},
			Sys:   &syscall.SysProcAttr{Setpgid: true},
		})
		failure = spawnFailure(err)
	}
	if failure != "" {
		s.tell(runs.Exit{Reason: runs.ReasonSpawn, Spawn: failure})
		s.insist()
		return false, s.failure
	}
	if p, ok := lookup(s.pid); ok { // ours until it is reaped
		_ = addIdentity(s.dir, identity{Agent: s.pid, Start: p.start})
	}
	s.dog = newWatchdog(s.spec.Limits, time.Now())
	return true, nil
}

// takeOver begins to supervise what another shim started.
func (s *shim) takeOver(o order) error {
	s.recorded = o.Ended
	if !o.Ended { // it may have been recorded since we were sent
		ex, err := readExit(s.dir, o.Keys...)
		if err != nil {
			return err
		}
		s.recorded = ex != nil
	}
	s.over = &members{id: readIdentity(s.dir), dir: s.dir}
	now := time.Now()
	s.dog = newWatchdog(s.spec.Limits, now)
	if agent, ok := s.over.agent(); ok {
		s.dog.began = now.Add(-agent.age())
	} else if info, err := os.Stat(s.dir + "/" + startedFile); err == nil {
		s.dog.began = steady(now, info.ModTime())
	}
	return nil
}

// ended reports whether the agent has ended.
func (s *shim) ended() bool {
	if s.over == nil {
		return s.status != nil
	}
	_, lives := s.over.agent()
	return s.recorded || s.record != nil || !lives
}

// step looks at what happened and does what follows. It returns how long
// nothing needs to be done, or 0 when all is done.
func (s *shim) step(now time.Time) (time.Duration, error) {
	s.reap()
	if s.over != nil && now.Sub(s.over.at) >= time.Second {
		s.over.find() // so that they are known when their parents are gone
	}
	ended := s.ended()
	if ended {
		s.note(now) // what fails is tried again: the processes that are left have to end all the same
	}
	if s.kill.IsZero() {
		if limit := s.dog.look(now, s.sizes()); limit != "" && (limit != runs.ReasonIdle || !ended) {
			s.end(limit)
		}
	}
	if ended && s.kill.IsZero() {
		busy, err := filelock.Held(s.dir + "/" + outFile)
		switch {
		case err != nil, !busy: // also when the directory is gone: the run is over
			s.insist()
			return 0, err
		case busy && s.dog.quiet(now) >= s.spec.Limits.Linger:
			s.end("")
		}
	}
	if s.kill.IsZero() {
		next := s.dog.next(now)
		if ended {
			next = min(next, 100*time.Millisecond)
		}
		return next, nil
	}
	if s.groupAlive() && now.Before(s.kill) {
		return min(s.kill.Sub(now), 50*time.Millisecond) + 1, nil
	}
	s.signal(unix.SIGKILL)
	err := s.sweep()
	s.insist() // on an exit as well that the sweep reaped, or of an agent that not even SIGKILL ends
	return 0, err
}

func (s *shim) exit() runs.Exit {
	ex := runs.Exit{Reason: runs.ReasonExited}
	if s.over != nil {
		ex.Reason = runs.ReasonLost // nobody saw it
	}
	if s.reason != "" {
		ex.Reason = s.reason
	}
	switch {
	case s.status == nil:
	case s.status.Signaled():
		ex.Signal = int(s.status.Signal())
	default:
		code := s.status.ExitStatus()
		ex.Code = &code
	}
	return ex
}

// tell fixes how the run ended, and tells it the worker that started us.
func (s *shim) tell(ex runs.Exit) {
	s.record = sealed(ex, s.seed)
	if len(s.seed) > 0 {
		_, _ = unix.Write(int(os.Stdout.Fd()), s.record) // which nobody may listen to any more
	}
}

// note writes exit.json for those that come later, unless that is done. On a disk
// that is full, or cannot be written, it is to be called again for a minute:
// somebody may mend that, and what else there is to do does not wait.
func (s *shim) note(now time.Time) {
	const tries, pause = 60, time.Second
	if s.recorded || now.Before(s.again) {
		return
	}
	if s.record == nil {
		s.tell(s.exit())
	}
	err := writeExit(s.dir, s.record)
	s.tries++
	full := errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EROFS)
	switch {
	case full && s.tries < tries:
		s.again = now.Add(pause)
		return
	case errors.Is(err, fs.ErrNotExist): // the worker has heard, and removed the directory: the run is over
		err = nil
	}
	s.recorded, s.failure = true, err
}

// insist calls note until there is no more to do for it.
func (s *shim) insist() {
	for !s.recorded {
		time.Sleep(time.Until(s.again))
		s.note(time.Now())
	}
}

func (s *shim) sizes() (sizes [2]int64) {
	for i, name := range []string{outFile, errFile} {
		if info, err := os.Stat(s.dir + "/" + name); err == nil {
			sizes[i] = info.Size()
		}
	}
	return sizes
}

func (s *shim) env() []string {
	if s.spec.Env == nil {
		return os.Environ()
	}
	return s.spec.Env
}

func openSpool(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
}

// lockSoon takes the lock of f, over those who only ask whether it is held.
func lockSoon(f *os.File, patience time.Duration) error {
	const pause = 5 * time.Millisecond
	for range patience / pause {
		if err := filelock.TryLock(f); !errors.Is(err, filelock.ErrLocked) {
			return err
		}
		time.Sleep(pause)
	}
	return fmt.Errorf("%w: another shim has this run", ErrNotNeeded)
}
