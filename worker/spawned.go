package worker

import (
	"crypto/ed25519"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/filelock"
	"github.com/linesman/linesman/runs"
)

// spawned is an agent behind a shim. It knows them by their locks and files
// alone, so it does not matter which worker started them.
type spawned struct {
	dir      *Dir
	shim     []string
	program  func() string // of the file to execute as shim[0]; may be nil
	log      *zap.Logger
	out, err *stream

	tries   int                         // to start a shim
	overs   int                         // shims that were started to take over
	again   time.Time                   // not before; zero: at once
	pause   *backoff.ExponentialBackOff // between those that take over
	child   int                         // pid of the shim, if we are its parent and it lives; else 0
	failed  bool                        // our last shim exited with an error, which is not logged yet
	told    *os.File                    // pipe by which the shim that we started tells the exit; nil: none
	started time.Time                   // when the agent was; zero: not yet, as far as we know
	exit    *runs.Exit
	exitAt  time.Time // when exit was first seen
	stopped bool

	keys atomic.Pointer[[][]byte] // those of the mark, for others than who drives the run
}

// maxTries bounds how often a shim is started that ends without starting the
// agent, or without telling how one ended that nobody sees any more.
const maxTries = 3

// launchAgain is how long a shim waits that cannot be started because the
// machine or this process is short of something. That passes, and is no try.
const launchAgain = time.Second

// maxPause is the longest wait before another shim is started to take over.
// A shim that lasted for longer than that has no part in how long it is.
const maxPause = time.Minute

// maxShimLog is the size beyond which shim.log is emptied when a shim starts.
const maxShimLog = 64 << 10

func (s *spawned) ended(now time.Time) (*runs.Exit, error) {
	if s.started.IsZero() {
		if begun, err := s.start(); !begun || err != nil {
			return nil, err
		}
	}
	watched, err := s.watched(now)
	if err != nil {
		return nil, err
	}
	busy, err := filelock.Held(s.dir.file(outFile))
	if err != nil {
		return nil, err
	}
	hopeless := len(s.shim) == 0 || !busy && s.overs >= maxTries
	if s.exit == nil && !watched && hopeless {
		s.log.Warn("shim is gone, nobody knows how the agent ends", zap.String("shim", s.lastWords()))
		s.exit, s.exitAt = &runs.Exit{Reason: runs.ReasonLost}, now
	}
	switch {
	case s.exit != nil && !busy && !(watched && s.killing(now)):
		return s.exit, nil
	case watched: // and whoever holds the output in silence is ended
		return nil, nil
	case s.exit == nil, now.Sub(s.active()) < s.dir.Spec.Limits.Linger && !(s.stopped && s.overs >= maxTries):
		s.takeOver(now)
		return nil, nil
	}
	s.log.Warn("output is still held by somebody, given up after silence", zap.Duration("silence", now.Sub(s.active())))
	return s.exit, nil
}

// killing reports whether the shim may still be killing what the agent left,
// because the run was cancelled or passed a limit: then it has not ended yet.
func (s *spawned) killing(now time.Time) bool {
	stopped := s.stopped
	switch s.exit.Reason {
	case runs.ReasonIdle, runs.ReasonHard, runs.ReasonSpool:
		stopped = true
	}
	return stopped && now.Sub(s.exitAt) < s.dir.Spec.Limits.Grace+sweepFor
}

// tend starts another shim in the place of one that is gone, and repeats a
// cancel. Other than ended it starts no agent and does not judge when the run
// is over, so that it can be called before the raw log is known to be ours, and
// while nobody reads the output.
func (s *spawned) tend(now time.Time) {
	if !exists(s.dir.file(startedFile)) {
		return
	}
	watched, err := s.watched(now)
	if watched || err != nil { // then it is looked again
		return
	}
	busy, err := filelock.Held(s.dir.file(outFile))
	if err == nil && (busy || s.exit == nil && s.overs < maxTries) {
		s.takeOver(now)
	}
}

func (s *spawned) stop() {
	s.stopped = true
	s.again = time.Time{}     // who is to end it is not to wait
	_ = s.dir.tell(ctlCancel) // nobody there yet: then ended repeats it
}

func (s *spawned) next() time.Duration {
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

func (s *spawned) lasting() bool { return true }

// lives reports whether the agent was started and is not known to have ended.
func (s *spawned) lives() bool { return !s.started.IsZero() && s.exit == nil }

// active is when the agent last wrote something, started, or ended.
func (s *spawned) active() time.Time {
	latest := s.started
	for _, t := range []time.Time{s.out.grown, s.err.grown, s.exitAt} {
		if t.After(latest) {
			latest = t
		}
	}
	return latest
}

// watched reports whether a shim has the run, and finds out how the agent
// ended, once that is recorded.
func (s *spawned) watched(now time.Time) (bool, error) {
	// In this order: a shim locks, then claims the start; it writes exit.json,
	// then gives the lock back.
	ours := s.running()
	alive, err := filelock.Held(s.dir.file(shimFile))
	if err != nil {
		return false, err
	}
	if s.exit == nil {
		ex := s.hear()
		if ex == nil {
			ex, err = readExit(s.dir.path, s.dir.mark.Keys...)
		}
		if err != nil {
			return false, err
		}
		if ex != nil {
			s.exit, s.exitAt = ex, now
			s.complain()
		}
	}
	if !alive && !ours {
		return false, nil
	}
	if s.stopped {
		_ = s.dir.tell(ctlCancel)
	}
	return true, nil
}

// takeOver starts a shim in the place of one that is gone: as often as it
// takes while there may be an agent, but at ever longer intervals.
func (s *spawned) takeOver(now time.Time) {
	if s.running() || now.Before(s.again) {
		return
	}
	if s.overs < maxTries {
		s.log.Warn("shim is gone, another one takes over", zap.String("shim", s.lastWords()))
	}
	if s.pause == nil || now.Sub(s.again) > maxPause {
		s.pause = backoff.NewExponentialBackOff()
		s.pause.InitialInterval, s.pause.MaxInterval = launchAgain, maxPause
	}
	s.overs++
	s.again = now.Add(s.pause.NextBackOff())
	if err := s.launch(true); err != nil && s.overs <= maxTries {
		s.log.Error("start shim", zap.Error(err))
	}
}

// start reports whether the agent was started. If not, and nobody is about to,
// it starts a shim or decides that there will be no agent.
func (s *spawned) start() (bool, error) {
	running := s.running() // asked first: a shim that has ended starts nothing any more
	if info, err := os.Stat(s.dir.file(startedFile)); err == nil {
		s.started = steady(time.Now(), info.ModTime())
		return true, nil
	}
	if running {
		return false, nil
	}
	s.failed = false // there was no agent that could have left processes
	if alive, err := filelock.Held(s.dir.file(shimFile)); alive || err != nil {
		return false, err
	}
	switch {
	case s.stopped:
		return false, s.settle(runs.Exit{Reason: runs.ReasonCancelled})
	case s.dir.Spec.Attended && !s.dir.fresh:
		return false, s.settle(runs.Exit{Reason: runs.ReasonLost})
	case s.tries == maxTries:
		s.log.Error("shim does not start", zap.String("shim", s.lastWords()))
		return false, s.settle(runs.Exit{Reason: runs.ReasonSpawn, Spawn: runs.SpawnOther})
	case time.Now().Before(s.again):
		return false, nil
	}
	err := s.launch(false)
	if err != nil && short(err) {
		if s.again.IsZero() {
			s.log.Error("start shim: tried until it can be", zap.Error(err))
		}
		s.again = time.Now().Add(launchAgain)
		return false, nil
	}
	s.tries++
	if err != nil {
		s.log.Error("start shim", zap.Error(err))
	}
	return false, nil
}

// short reports whether an error says that something is used up: descriptors,
// processes, memory, or the disk, be it that it cannot be written.
func short(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// settle ends a run whose agent was never started, in such a way that no shim
// can start it any more. A shim that was faster wins.
func (s *spawned) settle(ex runs.Exit) error {
	claimed, err := claimStart(s.dir.path)
	if !claimed || err != nil {
		return err
	}
	seed, err := s.newKey()
	if err != nil {
		return err
	}
	return writeExit(s.dir.path, sealed(ex, seed))
}

// newKey makes a key that may seal the exit from now on, and returns its
// secret half, which is kept nowhere.
func (s *spawned) newKey() ([]byte, error) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	m := s.dir.mark
	keys := append(slices.Clone(m.Keys[max(0, len(m.Keys)-maxKeys+1):]), public)
	m.Keys = keys
	s.keys.Store(&keys)
	return private.Seed(), m.save()
}

// launch starts a shim in a session of its own, so that nothing that happens
// to us happens to it. Its stdin tells it what to do, its stdout us what came
// of it: the agent has neither.
func (s *spawned) launch(over bool) error {
	if len(s.shim) == 0 {
		return errors.New("no command configured")
	}
	words, err := os.OpenFile(s.dir.file(shimLogFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer words.Close()
	if info, err := words.Stat(); err == nil && info.Size() > maxShimLog {
		_ = words.Truncate(0) // else it grows by a line
	}
	in, give, err := os.Pipe()
	if err != nil {
		return err
	}
	defer in.Close()
	defer give.Close()
	told, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	s.hangUp()
	s.told = told

	o := order{Over: over, Ended: s.exit != nil}
	if !o.Ended {
		if o.Seed, err = s.newKey(); err != nil {
			return err
		}
	}
	o.Keys = s.dir.mark.Keys
	if _, err := give.Write(runs.Encode(o)); err != nil { // less than a pipe takes at once
		return err
	}
	argv := append(s.shim[:len(s.shim):len(s.shim)], s.dir.path)
	file := argv[0]
	if s.program != nil {
		file = s.program()
	}
	p, err := os.StartProcess(file, argv, &os.ProcAttr{
		Dir:   "/",
		Files: []*os.File{in, out, words},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return err
	}
	s.child, s.failed = p.Pid, false
	return p.Release() // reaped by number, whenever we come by
}

// hear returns the exit that our shim has told, if it has.
func (s *spawned) hear() (ex *runs.Exit) {
	if s.told == nil {
		return nil
	}
	conn, err := s.told.SyscallConn()
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

// hangUp stops listening to the shim. What it records is in its file as well.
func (s *spawned) hangUp() {
	if s.told != nil {
		s.told.Close()
		s.told = nil
	}
}

// running reports whether a shim that we started lives, and takes it in if not.
func (s *spawned) running() bool {
	if s.child == 0 {
		return false
	}
	ended, code := reaped(s.child)
	if !ended {
		return true
	}
	s.child, s.failed = 0, mayLeave(code)
	s.complain()
	return false
}

// mayLeave reports whether a shim with this exit code may have left processes.
func mayLeave(code int) bool { return code > 0 && code != NotNeeded }

// complain logs that our last shim failed, once the end of the agent is known.
// While it is not, another shim is started, and the log says why.
func (s *spawned) complain() {
	if s.failed && s.exit != nil {
		s.failed = false
		s.log.Warn("shim failed after the end of the agent, processes of the run may be left", zap.String("shim", s.lastWords()))
	}
}

// lastWords returns the end of what the shims had to say about themselves.
func (s *spawned) lastWords() string {
	const most = 512
	words, err := readBounded(s.dir.file(shimLogFile), maxShimLog)
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(words[max(0, len(words)-most):]), "")
}
