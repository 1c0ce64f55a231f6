package worker

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

// ErrNotNeeded reports a shim that has nothing to supervise, because another
// shim was faster. Its process exits with NotNeeded, so that the worker does
// not log a failure that may have left processes.
var ErrNotNeeded = errors.New("not needed")

// NotNeeded is the exit code of a shim that fails with [ErrNotNeeded].
const NotNeeded = 75

// shimVariable is set in the environment of a shim. A program whose main function does not call [Shim] would begin
// again as a worker, adopt the run, and start itself as its shim, without end: [New] fails there.
const shimVariable = "_LINESMAN_SHIM"

// Shim is the main function of the process that owns one agent. It starts the
// agent of the run directory dir at most once, enforces its limits, and
// records how it ended. It returns when the agent and the processes of the run
// are gone. On stdin it reads a shimConfig; without one it starts the agent
// and signs nothing. For a live run, dir is the directory of one of its processes.
//
// It outlives the worker that started it, and terminates the agent on SIGTERM,
// SIGINT and SIGHUP, or as one that has printed its result on SIGUSR1. Its error
// reports a failure of the shim itself; how the agent ended is in exit.json.
func Shim(dir string) error {
	if err := shimRun(dir); err != nil {
		return fmt.Errorf("shim: %w", err)
	}
	return nil
}

func shimRun(dir string) error {
	own := inheritedLock(dir)
	if err := closeInherited(); err != nil {
		return err
	}
	spec, err := specOf(dir)
	if err != nil {
		return err
	}
	if !spec.process() {
		return fmt.Errorf("run %s has no agent to start", spec.Run)
	}
	var config shimConfig
	body, err := io.ReadAll(io.LimitReader(os.Stdin, maxExit))
	if err == nil && len(body) > 0 {
		err = json.Unmarshal(body, &config)
	}
	if err != nil {
		return fmt.Errorf("read stdin: %w", err)
	}
	if own == nil {
		if own, err = openOwn(dir+"/"+shimFile, os.O_RDWR|os.O_CREATE); err != nil {
			return err
		}
	}
	defer own.Close()
	if err := lockWithin(own, time.Second); err != nil {
		return err
	}
	// By this process ID a worker finds a shim that was stopped; without it, only the one that started it does.
	if own.Truncate(0) == nil {
		_, _ = own.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	switch begun := exists(dir+"/"+startedFile) || exists(dir+"/"+exitFile); {
	case begun && !config.Adopt:
		return fmt.Errorf("%w: the agent was started before", ErrNotNeeded)
	case !begun && config.Adopt:
		return fmt.Errorf("%w: the agent was not started yet", ErrNotNeeded)
	}
	if err := becomeReaper(); err != nil {
		return err
	}
	s := &shim{dir: dir, spec: spec, key: config.Key}
	if spec.Live {
		s.feeder = newFeeder(dir)
		defer s.feeder.close()
	}
	return s.run(config)
}

// shim is the state of a shim process. One goroutine uses it.
type shim struct {
	dir      string
	spec     Spec
	key      []byte // the private key that signs exit.json; none: it is not signed
	watchdog *watchdog
	feeder   *feeder  // of a live run; else nil
	held     bool     // the limits stand still
	pid      int      // of the agent, a child of this process, and of its process group
	adopted  *members // instead of pid: the processes of a run that another shim started

	status     *unix.WaitStatus // of the agent, once it was reaped
	endedAt    time.Time        // when that was; of an adopted agent that was gone, the last sign of it
	outAt      int64            // bytes of stdout then
	exitRecord []byte           // for exit.json, once the agent has ended
	tries      int              // attempts to write exitRecord
	retryAt    time.Time        // no attempt before
	recorded   bool             // exitRecord was written, or the shim gave up
	failure    error            // why it was not written
	reason     runs.Reason      // why the shim terminates the agent; "": it does not
	killAt     time.Time        // when SIGKILL follows SIGTERM; zero: the agent is not being terminated
}

// run starts or adopts the agent, and supervises the run until all its processes
// that the shim is responsible for have ended.
func (s *shim) run(config shimConfig) error {
	// The shim handles these signals from here on; the agent gets them with their
	// default action.
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGUSR1)
	defer signal.Stop(stop)
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	defer signal.Stop(died)

	commands, closeCtl, err := listen(s.dir + "/" + ctlFile)
	if err != nil {
		return err
	}
	defer closeCtl()

	if config.Adopt {
		err = s.takeOver(config)
	} else {
		var started bool
		if started, err = s.start(); !started {
			return err
		}
	}
	if err != nil {
		return err
	}
	defer recordTimes(s.dir)()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-died:
		case <-timer.C:
		case sig := <-stop:
			if sig == unix.SIGUSR1 {
				s.end(runs.ReasonFinished)
			} else {
				s.end(runs.ReasonCancelled)
			}
		case c := <-commands:
			switch c {
			case ctlInterrupt:
				s.signal(unix.SIGINT)
			case ctlCancel:
				s.end(runs.ReasonCancelled)
			case ctlFinish:
				s.end(runs.ReasonFinished)
			case ctlFeed: // by the step
			}
		}
		next, err := s.step(time.Now())
		if err != nil || next == 0 {
			return errors.Join(s.failure, err)
		}
		timer.Reset(next)
	}
}

// start starts the agent. It returns false without one: the agent could not be
// started, which is recorded, or another process claimed the start.
func (s *shim) start() (bool, error) {
	out, err := openSpool(s.dir + "/" + outFile)
	if err != nil {
		return false, err
	}
	defer out.Close() // the agent has its own copy, which keeps the lock
	stderr, err := openSpool(s.dir + "/" + errFile)
	if err != nil {
		return false, err
	}
	defer stderr.Close()
	in, err := s.openInput()
	if err != nil {
		return false, err
	}
	defer in.Close()
	if err := files.Lock(out); err != nil {
		return false, err
	}
	env := s.spec.Env
	if env == nil {
		env = os.Environ()
	}
	for _, name := range s.spec.Keys {
		if value, set := os.LookupEnv(name); set {
			env = launch.Override(env, []string{name + "=" + value})
		}
	}
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return strings.HasPrefix(v, markVariable+"=") || strings.HasPrefix(v, shimVariable+"=")
	})
	path, failure := launch.LookPath(s.spec.Argv[0], s.spec.Dir, env)

	claimed, err := claimStart(s.dir)
	if err != nil || !claimed {
		return false, err
	}
	// From here on the agent can be found if this shim is killed. If the identity
	// cannot be written, for example on a full disk, only the agent's open files
	// identify it.
	id := identity{Mark: rand.Text(), Boot: bootID()}
	if session, err := unix.Getsid(0); err == nil && session == os.Getpid() {
		id.Session = session
	}
	_ = addIdentity(s.dir, id)
	if failure == "" {
		s.pid, err = syscall.ForkExec(path, s.spec.Argv, &syscall.ProcAttr{
			Dir:   s.spec.Dir,
			Env:   append(env, markVariable+"="+id.Mark),
			Files: []uintptr{in.Fd(), out.Fd(), stderr.Fd()},
			Sys:   &syscall.SysProcAttr{Setpgid: true},
		})
		failure = launch.SpawnFailure(err)
	}
	if failure != "" {
		s.reportExit(runs.Exit{Reason: runs.ReasonSpawn, Spawn: failure, At: time.Now().UnixMilli()})
		s.recordExitRetrying()
		return false, s.failure
	}
	if p, ok := lookup(s.pid); ok { // its process ID is not reused before it is reaped
		_ = addIdentity(s.dir, identity{Agent: s.pid, Start: p.start})
	}
	s.watchdog = newWatchdog(s.spec.ofProcess(), time.Now())
	return true, nil
}

// takeOver starts to supervise the run of another shim.
func (s *shim) takeOver(o shimConfig) error {
	s.recorded = o.Ended
	if !o.Ended { // it may have been recorded since the worker started this shim
		ex, err := readExit(s.dir, o.Keys...)
		if err != nil {
			return err
		}
		s.recorded = ex != nil
	}
	id, _ := readIdentity(s.dir)
	s.adopted = &members{id: id, dir: s.dir}
	now := time.Now()
	s.watchdog = newWatchdog(s.spec.ofProcess(), now)
	if agent, ok := s.adopted.agent(); ok {
		s.watchdog.began = now.Add(-agent.age())
	} else if info, err := os.Lstat(s.dir + "/" + startedFile); err == nil {
		s.watchdog.began = changeTime(now, info.ModTime())
	}
	if s.spec.Live {
		s.watchdog.hold(heldBefore(s.dir, now))
		s.watchdog.grew = now
	}
	if _, running := s.adopted.agent(); !running {
		s.endedAt = time.UnixMilli(lastSign(s.dir, now))
	}
	return nil
}

// ended reports whether the agent has ended.
func (s *shim) ended() bool {
	if s.adopted == nil {
		return s.status != nil
	}
	_, running := s.adopted.agent()
	return s.recorded || s.exitRecord != nil || !running
}

// step checks the state of the run and acts on it. It returns the time until
// the next step, or 0 when all is done.
func (s *shim) step(now time.Time) (time.Duration, error) {
	s.reap()
	if s.adopted != nil && now.Sub(s.adopted.at) >= time.Second {
		s.adopted.find() // known members are found again after their parents have exited
	}
	ended := s.ended()
	if ended {
		s.recordExit(now) // a failure is retried later: the remaining processes must be terminated all the same
	}
	if s.killAt.IsZero() {
		if limit := s.watchdog.check(now, s.sizes(), s.holds(now)); limit != "" && (limit != runs.ReasonIdle || !ended) {
			s.end(limit)
		}
	}
	feeds := s.feeder != nil && !ended && s.killAt.IsZero()
	if feeds && !s.feeder.feed(now) {
		s.end(runs.ReasonIdle)
	}
	if ended && s.killAt.IsZero() {
		busy, err := held(s.dir + "/" + outFile)
		switch {
		case !busy && s.leaves():
			s.recordExitRetrying()
			if s.spec.Live && (s.status == nil || s.status.Signaled()) { // killed: what it left must not work on
				s.killAt = now
			} else {
				s.end("")
			}
		case err != nil, !busy: // if the directory is gone, the run has ended
			s.recordExitRetrying()
			return 0, err
		case busy && s.spec.Live: // nobody feeds what is left: nothing that it would still say counts
			s.killAt = now
		case busy && s.watchdog.silence(now) >= s.spec.Limits.Linger:
			s.end("")
		}
	}
	if s.killAt.IsZero() {
		next := s.watchdog.next(now)
		if s.held && s.adopted == nil { // no signal tells of the end of an agent that another shim started
			next = calmly
		}
		if ended {
			next = min(next, 100*time.Millisecond)
		}
		if feeds {
			next = min(next, s.feeder.pause)
		}
		return next, nil
	}
	left := s.reason == "" && s.adopted == nil && s.reap() // perhaps in other groups
	if (left || s.groupAlive()) && now.Before(s.killAt) {
		return min(s.killAt.Sub(now), 50*time.Millisecond) + 1, nil
	}
	s.signal(unix.SIGKILL)
	err := s.sweep()
	s.recordExitRetrying() // the sweep may have reaped the agent, or not even SIGKILL ends it
	return 0, err
}

// leaves reports whether the agent has left processes that end with it, such as a server without
// stdout. It needs no directory: the worker may have removed it.
func (s *shim) leaves() bool {
	if s.spec.Limits.Keep {
		return false
	}
	if s.adopted == nil {
		return s.reap()
	}
	return len(s.adopted.find()) > 0
}

func (s *shim) sizes() (sizes [2]int64) {
	for i, name := range []string{outFile, errFile} {
		if info, err := os.Stat(s.dir + "/" + name); err == nil {
			sizes[i] = info.Size()
		}
	}
	return sizes
}

// openInput opens the stdin of the agent. A FIFO it gets for reading and writing: as long as it
// has it open itself, it reads no end.
func (s *shim) openInput() (*os.File, error) {
	if s.spec.Live {
		path := s.dir + "/" + stdinFile
		fd, err := openPipe(path, unix.O_RDWR)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", stdinFile, err)
		}
		return os.NewFile(uintptr(fd), path), nil
	}
	if s.spec.Stdin {
		return openOwn(s.dir+"/"+inFile, os.O_RDONLY)
	}
	return os.Open(os.DevNull)
}

func openSpool(path string) (*os.File, error) {
	return openOwn(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
}

// lockWithin locks f, and retries while other processes check the lock.
func lockWithin(f *os.File, timeout time.Duration) error {
	const pause = 5 * time.Millisecond
	for range timeout / pause {
		if err := files.TryLock(f); !errors.Is(err, files.ErrLocked) {
			return err
		}
		time.Sleep(pause)
	}
	return fmt.Errorf("%w: another shim supervises this run", ErrNotNeeded)
}

// listen returns the commands from the FIFO at path, and a function that stops
// listening. The FIFO is also open for writing, so reads never return EOF.
func listen(path string) (<-chan byte, func(), error) {
	f, err := openFIFO(path)
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
		if f.SetReadDeadline(time.Now()) != nil { // FIFOs have no deadlines on this system
			_, _ = f.Write([]byte{ctlQuit})
		}
		<-done
		f.Close()
	}, nil
}

// inheritedLock returns the file with the lock of this shim, if the worker that started it has passed that.
func inheritedLock(dir string) *os.File {
	const fd = 3
	var passed, there unix.Stat_t
	if unix.Fstat(fd, &passed) != nil || unix.Lstat(dir+"/"+shimFile, &there) != nil ||
		passed.Dev != there.Dev || passed.Ino != there.Ino {
		return nil
	}
	unix.CloseOnExec(fd)
	return os.NewFile(fd, shimFile)
}

// closeInherited closes descriptors that the parent process leaked. Our own
// files are all marked close-on-exec.
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
