package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/config"
)

// inBackground is the `linesman up` that [app.launch] starts. Whoever did so
// reads its stdout and stderr until it is ready; then it has its log alone.
func (a *app) inBackground(ctx context.Context) error {
	gone := make(chan os.Signal, 1)
	signal.Notify(gone, syscall.SIGPIPE) // whoever reads may have been killed: an error then, not the end
	defer signal.Stop(gone)
	lock, err := lockDataSoon(ctx, a.config.DataDir, func() bool { return isRead(syscall.Stdout) })
	switch {
	case errors.Is(err, errLocked):
		return exitWith(exitBusy, nil)
	case err != nil:
		return err
	}
	a.lock = lock // given back by the end of the process, so that nothing of it is left then
	closeInherited()
	// Before the directory is left, for the settings may be in a file below it.
	natsListen, httpListen := a.freeUnlessGiven("nats_listen", a.config.NATSListen), a.freeUnlessGiven("http", a.config.HTTP)
	if err := a.leaveStarter(); err != nil {
		return err
	}
	log, err := openLog(backgroundLog(a.config.DataDir))
	if err != nil {
		return err
	}
	defer log.Close()
	starter := a.stdout
	a.background, a.stderr, a.log = true, log, newLogger(a.config, log)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = a.everything(ctx, natsListen, httpListen, func(ctx context.Context, u *upRole) error {
		a.log.Info("ready", zap.String("nats", u.here.NATS), zap.String("http", u.here.HTTP))
		fmt.Fprintf(starter, "ready nats=%s\n", u.here.NATS)
		if err := log.becomeStderr(); err != nil {
			return err
		}
		if u.idle(ctx, a.config.Background.Idle) {
			a.log.Info("idle, ending", zap.Duration("for", a.config.Background.Idle))
			cancel()
		}
		return nil
	})
	if err != nil && !log.isStderr() { // else the log gets what is said on stderr
		a.log.Error("cannot start", zap.Error(err))
	}
	return err
}

// isRead reports whether a pipe has a reader. What is no pipe counts as read.
func isRead(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd)}}
	n, err := unix.Poll(fds, 0)
	return err != nil || n == 0 || fds[0].Revents&(unix.POLLERR|unix.POLLHUP) == 0
}

// freeUnlessGiven is the address of a setting where somebody has set it, and
// else a free port: one that was started for a single command stands in nobody's
// way.
func (a *app) freeUnlessGiven(key, address string) string {
	if config.Given(config.Sources{Environ: a.environ, File: a.file}, key) {
		return address
	}
	return "127.0.0.1:0"
}

// leaveStarter leaves what was the starter's alone: its directory, which it may
// want to remove, and a umask by which others could write. Tasks that name no
// directory would otherwise work where some command happened to be called.
func (a *app) leaveStarter() error {
	began, _ := os.Getwd() // "" where it was removed
	home := lookup(a.environ, "HOME")
	if !isDir(home) {
		home = a.config.DataDir
	}
	if err := os.Chdir(home); err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	if len(a.config.Work.Roots) == 0 {
		a.config.Work.Roots = config.List{home}
		if began != "" && began != "/" { // the root is that of a service that was not told otherwise
			a.config.Work.Roots = append(a.config.Work.Roots, began)
		}
	}
	syscall.Umask(syscall.Umask(0o022) | 0o022)
	return nil
}

// closeInherited closes the files that the starter had from its own parent, such
// as the lock of a shell script: they would be held as long as this process
// lives. Our own are closed by any exec, and so are told apart.
func closeInherited() {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

// logFile is the log of an `up` in the background. It is kept short: at
// maxLog it becomes FILE.1, in the place of the one before. Loggers and what
// prints on stderr write to it at the same time.
type logFile struct {
	path string

	mu     sync.Mutex
	file   *os.File
	size   int64
	stderr bool // what the runtime says goes there, too
}

const maxLog = 1 << 20

func openLog(path string) (*logFile, error) {
	l := &logFile{path: path}
	return l, l.open()
}

// open is called with mu held, or before the log is shared.
func (l *logFile) open() error {
	if info, err := os.Stat(l.path); err == nil && info.Size() >= maxLog {
		if err := os.Rename(l.path, l.path+".1"); err != nil {
			return fmt.Errorf("log: %w", err)
		}
	}
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("log: %w", err)
	}
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file, l.size = file, info.Size()
	if l.stderr {
		return unix.Dup2(int(file.Fd()), 2)
	}
	return nil
}

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size >= maxLog {
		_ = l.open() // else it goes on with what it has, and tries again
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

// becomeStderr lets go of the pipe of whoever started this process.
func (l *logFile) becomeStderr() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stderr = true
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	return errors.Join(unix.Dup2(int(l.file.Fd()), 2), unix.Dup2(int(null.Fd()), 1))
}

func (l *logFile) isStderr() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stderr
}

func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// idle returns true once nobody has needed this `up` for so long, false when
// ctx ends. Then linesman.json is gone: who connects now looks again.
func (u *upRole) idle(ctx context.Context, most time.Duration) bool {
	if most == 0 {
		<-ctx.Done()
		return false
	}
	tick := time.NewTicker(min(max(most/10, 20*time.Millisecond), 10*time.Second))
	defer tick.Stop()
	needed, requests := time.Now(), u.Requests()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		now := u.Requests()
		if now != requests || u.Busy(ctx) {
			needed, requests = time.Now(), now
			continue
		}
		if time.Since(needed) < most {
			continue
		}
		u.hide()
		if !u.Busy(ctx) && u.Requests() == requests {
			return true
		}
		u.show()
		needed = time.Now()
	}
}
