package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

// Shim is the body of the process that owns one agent: it starts the agent of
// the run directory dir at most once, holds it to its limits, and records how
// it ended. It returns when the agent and all it is responsible for are gone.
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
	own, err := os.OpenFile(dir+"/"+shimFile, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer own.Close()
	if err := lockSoon(own, time.Second); err != nil {
		return err
	}
	if exists(dir+"/"+startedFile) || exists(dir+"/"+exitFile) {
		return errors.New("the agent was started before")
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

	s := &shim{dir: dir, spec: spec}
	started, err := s.start()
	if err != nil || !started {
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
			return err
		}
		timer.Reset(next)
	}
}

// shim is the state of one agent. Its methods are called by one goroutine.
type shim struct {
	dir  string
	spec Spec
	dog  *watchdog
	pid  int // of the agent; its process group has the same number

	status   *unix.WaitStatus // of the agent, once it was reaped
	recorded bool             // exit.json is written
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
	if err := lock(out); err != nil {
		return false, err
	}
	path, failure := lookPath(s.spec.Argv[0], s.spec.Dir, s.env())

	claimed, err := claimStart(s.dir)
	if err != nil || !claimed {
		return false, err
	}
	if failure == "" {
		s.pid, err = syscall.ForkExec(path, s.spec.Argv, &syscall.ProcAttr{
			Dir:   s.spec.Dir,
			Env:   s.env(),
			Files: []uintptr{null.Fd(), out.Fd(), stderr.Fd()},
			Sys:   &syscall.SysProcAttr{Setpgid: true},
		})
		failure = spawnFailure(err)
	}
	if failure != "" {
		return false, s.record(runs.Exit{Reason: runs.ReasonSpawn, Spawn: failure})
	}
	s.dog = newWatchdog(s.spec.Limits, time.Now())
	return true, nil
}

// step looks at what happened and does what follows. It returns how long
// nothing needs to be done, or 0 when all is done.
func (s *shim) step(now time.Time) (time.Duration, error) {
	s.reap()
	if s.status != nil && !s.recorded {
		if err := s.record(s.exit()); err != nil {
			return 0, err
		}
	}
	if s.kill.IsZero() {
		if limit := s.dog.look(now, s.sizes()); limit != "" && (limit != runs.ReasonIdle || s.status == nil) {
			s.end(limit)
		}
	}
	if s.status != nil && s.kill.IsZero() {
		busy, err := held(s.dir + "/" + outFile)
		if err != nil || !busy {
			return 0, err // also when the directory is gone: the run is over
		}
		if s.dog.quiet(now) >= s.spec.Limits.Linger {
			s.end("")
		}
	}
	if s.kill.IsZero() {
		next := s.dog.next(now)
		if s.status != nil {
			next = min(next, 100*time.Millisecond)
		}
		return next, nil
	}
	if groupAlive(s.pid) && now.Before(s.kill) {
		return min(s.kill.Sub(now), 50*time.Millisecond) + 1, nil
	}
	s.signal(unix.SIGKILL)
	s.sweep()
	if !s.recorded { // an agent that not even SIGKILL ends
		return 0, s.record(s.exit())
	}
	return 0, nil
}

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
	if s.status == nil || groupAlive(s.pid) {
		_ = unix.Kill(-s.pid, sig) // fails when all are gone
	}
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
		children := childProcesses()
		if len(children) == 0 && s.status != nil {
			return
		}
		for _, pid := range children {
			_ = unix.Kill(pid, unix.SIGKILL) // not reaped yet, so the number is still theirs
		}
		time.Sleep(pause)
	}
}

func (s *shim) exit() runs.Exit {
	ex := runs.Exit{Reason: runs.ReasonExited}
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

// record writes exit.json. On a disk that is full, or cannot be written, it
// tries for a minute: somebody may mend that.
func (s *shim) record(ex runs.Exit) (err error) {
	s.recorded = true
	for range 60 {
		err = writeExit(s.dir, ex)
		if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) && !errors.Is(err, unix.EROFS) {
			return err
		}
		time.Sleep(time.Second)
	}
	return err
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
		if err := tryLock(f); !errors.Is(err, errLocked) {
			return err
		}
		time.Sleep(pause)
	}
	return errors.New("another shim has this run")
}

// listen returns the commands that come in through the FIFO at path, and how
// to stop that. The FIFO is open for writing too, so it never ends.
func listen(path string) (<-chan byte, func(), error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	commands, quit, done := make(chan byte), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var buf [64]byte
		for {
			n, err := f.Read(buf[:])
			if err != nil {
				return
			}
			for _, c := range buf[:n] {
				select {
				case commands <- c:
				case <-quit:
					return
				}
			}
		}
	}()
	return commands, func() {
		close(quit)
		if f.SetReadDeadline(time.Now()) != nil { // no deadlines on this system's FIFOs
			_, _ = f.Write([]byte{ctlQuit})
		}
		<-done
		f.Close()
	}, nil
}

// closeInherited closes what the process that started this one left open by
// mistake. Our own files are all marked close-on-exec.
func closeInherited() error {
	dir, err := os.Open("/dev/fd")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
	return nil
}
