package worker

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/metrics"
	"github.com/linesman/linesman/worker/launch"
)

// spawned is an agent with a shim. Its state comes from locks and files only,
// so any worker can continue with it.
type spawned struct {
	dir      *Dir
	path     string // directory of its files: that of the run, or of a process of a live run
	shim     []string
	program  func() string // path of the file to execute as shim[0]; may be nil
	log      *zap.Logger
	metrics  *metrics.Worker
	out, err *stream

	tries     int           // shims started to start the agent
	takeovers int           // shims started to take over
	retryAt   time.Time     // no start of a shim before; zero: at once
	pause     time.Duration // between shims that take over
	child     int           // process ID of the shim, while it is a running child of this process; else 0
	failed    bool          // the last shim of this worker exited with an error that is not logged yet
	looked    time.Time     // when it was last seen that the shim was not stopped by a signal
	known     process       // the shim that another process started; zero: not known yet
	exitPipe  *os.File      // from the shim of this worker; nil: none
	started   time.Time     // start time of the agent; zero: not started, as far as known
	exit      *runs.Exit
	exitAt    time.Time // when exit was first seen
	stopped   bool
	told      bool      // a shim has taken the command to cancel
	deaf      time.Time // since when the shim takes no commands; zero: it does, as far as known
	toldAt    time.Time // when the shim that runs took a command to end the run, as far as known; zero: not yet

	keys atomic.Pointer[[][]byte] // copy of the mark's keys for other goroutines
}

// maxTries bounds how many shims are started in a row that end without
// starting the agent, or without recording the exit of an agent that is gone.
const maxTries = 3

// launchRetryDelay is the delay after a shim could not be started for lack of
// resources. Such failures do not count as tries.
const launchRetryDelay = time.Second

// maxShimLog is the size in bytes beyond which shim.log is truncated when a
// shim starts.
const maxShimLog = 64 << 10

func (s *spawned) file(name string) string { return filepath.Join(s.path, name) }

func (s *spawned) ended(now time.Time) (*runs.Exit, error) {
	if s.started.IsZero() {
		if started, err := s.start(); !started || err != nil {
			return nil, err
		}
	}
	supervised, err := s.hasShim(now)
	if err != nil {
		return nil, err
	}
	busy, err := held(s.file(outFile))
	if err != nil {
		return nil, err
	}
	giveUp := len(s.shim) == 0 || !busy && s.takeovers >= maxTries
	if s.exit == nil && !supervised && giveUp {
		s.log.Warn("shim is gone, the exit of the agent is unknown", zap.String("shim", s.shimLogTail()))
		s.exit, s.exitAt = &runs.Exit{Reason: runs.ReasonLost, At: lastSign(s.path, now)}, now
	}
	switch {
	case s.exit != nil && !busy && !(supervised && s.killing(now)):
		return s.exit, nil
	case supervised: // the shim terminates processes that hold the output without writing
		return nil, nil
	case s.exit == nil, now.Sub(s.lastActivity()) < s.dir.Spec.Limits.Linger && !(s.stopped && s.takeovers >= maxTries):
		s.takeOver(now)
		return nil, nil
	}
	s.log.Warn("a process still holds the output, giving up after silence",
		zap.Duration("silence", now.Sub(s.lastActivity())))
	return s.exit, nil
}

// killing reports whether the shim may still be killing processes of the run,
// because the run was cancelled or passed a limit: then the run has not ended
// yet.
func (s *spawned) killing(now time.Time) bool {
	limits := []runs.Reason{runs.ReasonIdle, runs.ReasonHard, runs.ReasonSpool, runs.ReasonFinished}
	return (s.stopped || slices.Contains(limits, s.exit.Reason)) && now.Sub(s.exitAt) < s.dir.Spec.Limits.Grace+sweepFor
}

// supervise replaces a shim that is gone, and repeats a cancel. Unlike ended
// it does not start the agent and does not decide whether the run has ended,
// so it can be called before the raw log is known to be ours, and while the
// output is not read.
func (s *spawned) supervise(now time.Time) {
	if !exists(s.file(startedFile)) {
		return
	}
	supervised, err := s.hasShim(now)
	if supervised || err != nil { // an error is retried at the next call
		return
	}
	busy, err := held(s.file(outFile))
	if err == nil && (busy || s.exit == nil && s.takeovers < maxTries) {
		s.takeOver(now)
	}
}

func (s *spawned) stop() {
	s.stopped = true
	s.retryAt = time.Time{}          // a cancel must not wait
	s.command(time.Now(), ctlCancel) // if no shim is listening yet, ended repeats it
}

func (s *spawned) pollInterval() time.Duration {
	switch {
	case s.exit != nil, s.stopped:
		return 50 * time.Millisecond
	case s.started.IsZero():
		return 20 * time.Millisecond
	}
	if idle := s.dir.Spec.Limits.Idle; idle > 0 {
		return min(time.Second, max(idle/20, 10*time.Millisecond))
	}
	return time.Second
}

// agentAlive reports whether the agent was started and has no known exit.
func (s *spawned) agentAlive() bool { return !s.started.IsZero() && s.exit == nil }

// lastActivity is when the agent last wrote output, started, or ended.
func (s *spawned) lastActivity() time.Time {
	return slices.MaxFunc([]time.Time{s.started, s.out.grown, s.err.grown, s.exitAt}, time.Time.Compare)
}

// left returns how many bytes of stdout there were when the agent ended; false: it has not, or it is
// not known. Bytes that were read before the call and follow these are of others.
func (s *spawned) left() (int64, bool) {
	if s.exit == nil {
		_ = s.readExit(time.Now()) // the next check of the source reports the error
	}
	if s.exit == nil || s.exit.Out == nil {
		return 0, false
	}
	return *s.exit.Out, true
}

// hasShim reports whether a shim supervises the run, and reads how the agent
// ended, once that is recorded.
func (s *spawned) hasShim(now time.Time) (bool, error) {
	// The order matters: a shim takes its lock before it claims the start, and
	// releases it after it has written exit.json.
	ours := s.running()
	alive, err := held(s.file(shimFile))
	if err != nil {
		return false, err
	}
	if s.exit == nil {
		if err := s.readExit(now); err != nil {
			return false, err
		}
	}
	if !alive {
		s.deaf, s.toldAt = time.Time{}, time.Time{} // it takes its lock right before it listens
	}
	if !alive && !ours {
		return false, nil
	}
	if s.stopped || now.Sub(s.looked) >= haltedEvery {
		s.looked = now
		s.endHalted()
	}
	if s.stopped {
		s.command(now, ctlCancel)
	}
	return true, nil
}

// takeOver starts a shim to replace one that is gone. It retries with growing
// delays for as long as there may be an agent.
func (s *spawned) takeOver(now time.Time) {
	if s.running() || now.Before(s.retryAt) {
		return
	}
	switch _, copied := readIdentity(s.path); {
	case copied && s.takeovers == 0:
		s.log.Warn("this is a copy of the directory of a run: its agent may still work for the original, and is not touched")
	case s.takeovers < maxTries:
		s.log.Warn("shim is gone, starting another one", zap.String("shim", s.shimLogTail()))
	}
	if now.Sub(s.retryAt) > maxRetryDelay { // the last one ran for longer than any delay
		s.pause = 0
	}
	s.takeovers++
	s.pause = longerDelay(s.pause)
	s.retryAt = now.Add(s.pause)
	if err := s.launch(true); err != nil && !errors.Is(err, files.ErrLocked) && s.takeovers <= maxTries {
		s.log.Error("start shim", zap.Error(err))
	}
}

// start reports whether the agent was started. If not, and no shim is about to
// start it, start launches a shim or ends the run without an agent.
func (s *spawned) start() (bool, error) {
	running := s.running() // first: a shim that has exited can no longer start the agent
	if info, err := os.Lstat(s.file(startedFile)); err == nil {
		s.started = changeTime(time.Now(), info.ModTime())
		return true, nil
	}
	if running {
		return false, nil
	}
	s.failed = false // without an agent there are no processes left
	if alive, err := held(s.file(shimFile)); alive || err != nil {
		return false, err
	}
	switch {
	case s.stopped:
		return false, s.endUnstarted(runs.Exit{Reason: runs.ReasonCancelled})
	case s.dir.Spec.Attended && !s.dir.fresh:
		return false, s.endUnstarted(runs.Exit{Reason: runs.ReasonLost})
	case s.tries == maxTries:
		s.log.Error("shim does not start", zap.String("shim", s.shimLogTail()))
		return false, s.endUnstarted(runs.Exit{Reason: runs.ReasonSpawn, Spawn: runs.SpawnOther})
	case time.Now().Before(s.retryAt):
		return false, nil
	}
	err := s.launch(false)
	if errors.Is(err, files.ErrLocked) {
		return false, nil
	}
	if err != nil && resourceExhausted(err) {
		if s.retryAt.IsZero() {
			s.log.Error("start shim: retrying", zap.Error(err))
		}
		s.retryAt = time.Now().Add(launchRetryDelay)
		return false, nil
	}
	s.tries++
	if err != nil {
		s.log.Error("start shim", zap.Error(err))
	}
	return false, nil
}

// resourceExhausted reports whether an error is a lack of resources:
// descriptors, processes, memory, disk space, or a writable disk.
func resourceExhausted(err error) bool {
	return slices.ContainsFunc([]error{
		syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS,
	}, func(e error) bool { return errors.Is(err, e) })
}

// endUnstarted records the end of a run whose agent was not started, and
// prevents shims from starting it. It does nothing if a shim was faster.
func (s *spawned) endUnstarted(ex runs.Exit) error {
	claimed, err := claimStart(s.path)
	if !claimed || err != nil {
		return err
	}
	key, err := s.newKey()
	if err != nil {
		return err
	}
	ex.At = time.Now().UnixMilli()
	return writeExit(s.path, sealed(ex, key))
}

// newKey creates a key that may sign the exit from now on, and returns its
// private part, which is stored nowhere.
func (s *spawned) newKey() ([]byte, error) {
	private, hash, err := newKey()
	if err != nil {
		return nil, err
	}
	m := s.dir.mark
	keys := append(slices.Clone(m.Keys[max(0, len(m.Keys)-maxKeys+1):]), hash)
	m.Keys = keys
	s.keys.Store(&keys)
	return private, m.save()
}

// launch starts a shim in its own session, so that signals to the worker do
// not reach it. The shim reads its shimConfig from stdin, writes the exit to
// stdout, and inherits its lock, so that a later worker sees it before it runs;
// the agent inherits none of them. The error is [files.ErrLocked] if there is
// another shim.
func (s *spawned) launch(adopt bool) error {
	if len(s.shim) == 0 {
		return errors.New("no command configured")
	}
	log, err := openOwn(s.file(shimLogFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return err
	}
	defer log.Close()
	lock, err := openOwn(s.file(shimFile), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := files.TryLock(lock); err != nil {
		return err
	}
	if info, err := log.Stat(); err == nil && info.Size() > maxShimLog {
		_ = log.Truncate(0) // if it fails, the log is a little longer
	}
	in, stdin, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	defer stdin.Close()
	exitPipe, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	s.closeExitPipe()
	s.exitPipe = exitPipe

	o := shimConfig{Adopt: adopt, Ended: s.exit != nil}
	if !o.Ended {
		if o.Key, err = s.newKey(); err != nil {
			return err
		}
	}
	o.Keys = s.dir.mark.Keys
	if _, err := stdin.Write(runs.Encode(o)); err != nil { // fits into the pipe buffer
		return err
	}
	argv := append(s.shim[:len(s.shim):len(s.shim)], s.path)
	file := argv[0]
	if s.program != nil {
		file = s.program()
	}
	p, err := os.StartProcess(file, argv, &os.ProcAttr{
		Dir:   "/",
		Env:   append(launch.Override(os.Environ(), s.dir.Spec.credentials), shimVariable+"=1"), // Override copies
		Files: []*os.File{in, out, log, lock},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return err
	}
	s.child, s.failed = p.Pid, false
	s.metrics.Shim(adopt)
	return p.Release() // reaped by process ID
}

// readExit reads how the agent ended, if that is recorded.
func (s *spawned) readExit(now time.Time) (err error) {
	ex := s.readExitPipe()
	if ex == nil {
		ex, err = readExit(s.path, s.dir.mark.Keys...)
	}
	if ex != nil && err == nil {
		s.exit, s.exitAt = ex, now
		s.logShimFailure()
	}
	return err
}

// readExitPipe returns the exit from the pipe of our shim, or nil.
func (s *spawned) readExitPipe() (ex *runs.Exit) {
	if s.exitPipe == nil {
		return nil
	}
	conn, err := s.exitPipe.SyscallConn()
	if err != nil {
		return nil
	}
	_ = conn.Read(func(fd uintptr) bool {
		var buf [maxExit]byte
		if n, err := unix.Read(int(fd), buf[:]); err == nil && n > 0 {
			ex = unseal(buf[:n], s.dir.mark.Keys) // written in one piece
		}
		return true
	})
	return ex
}

// closeExitPipe stops reading from the shim, which also writes exit.json.
func (s *spawned) closeExitPipe() {
	if s.exitPipe != nil {
		s.exitPipe.Close()
		s.exitPipe = nil
	}
}

// running reports whether a shim of this worker is running, and reaps it if
// not.
func (s *spawned) running() bool {
	if s.child == 0 {
		return false
	}
	ended, code := reaped(s.child)
	if !ended {
		return true
	}
	s.child, s.failed = 0, mayLeaveProcesses(code)
	s.logShimFailure()
	return false
}

// mayLeaveProcesses reports whether a shim with this exit code may have left
// processes.
func mayLeaveProcesses(code int) bool { return code > 0 && code != NotNeeded }

// logShimFailure logs that our last shim failed, once the exit of the agent is
// known. Before that, takeOver starts another shim and logs the reason.
func (s *spawned) logShimFailure() {
	if s.failed && s.exit != nil {
		s.failed = false
		s.log.Warn("shim failed after the end of the agent, processes of the run may be left",
			zap.String("shim", s.shimLogTail()))
	}
}

// shimLogTail returns the end of shim.log.
func (s *spawned) shimLogTail() string {
	const tail = 512
	log, err := readBounded(s.file(shimLogFile), maxShimLog)
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(log[max(0, len(log)-tail):]), "")
}
