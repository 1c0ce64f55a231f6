package datadir

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/worker/launch"
)

// Detached is this process as an `up` in the background, which another command
// started with [Dialer.DialOrStart]. That command reads the stdout and stderr of
// the process until it is ready.
type Detached struct {
	// Lock is the lock of the data directory, nil without one. Keep it until the
	// process ends, so that nothing of the process is left when another one takes it.
	Lock *Lock
	// Log is the log of the process.
	Log *log
	// NATSListen and HTTPListen are the addresses to listen on. Those that no
	// setting names are those of the `up` before, if they are free.
	NATSListen, HTTPListen string
	// Notes are as in [Instance], without the new addresses.
	Notes []string

	previous Previous

	starter io.Writer // stdout, read by the command that started the process
	sigpipe chan os.Signal
}

// Detach takes the lock of the data directory, and makes this process independent
// of the command that started it: of its files, its directory and its umask. It
// works in the directory of the `up` before, if that exists. It sets
// cfg.Work.Roots if that is empty. The result is never nil: close it after
// an error, too. The error is [ErrLocked] if the process is not needed.
func Detach(ctx context.Context, cfg *config.Config, from config.Sources, stdout io.Writer) (*Detached, error) {
	d := &Detached{starter: stdout, sigpipe: make(chan os.Signal, 1)}
	// The command may be killed: writing to it is an error then, not the end.
	signal.Notify(d.sigpipe, syscall.SIGPIPE)
	var err error
	if d.Lock, err = lockWhileWanted(ctx, cfg.DataDir, func() bool { return hasReader(syscall.Stdout) }); err != nil {
		return d, err
	}
	closeInherited()
	// Before the directory is changed: the path of the configuration file may be relative.
	if d.previous, err = readPrevious(cfg.DataDir); err != nil {
		return d, err
	}
	var notes [2]string
	d.NATSListen, notes[0] = address(from, "nats_listen", cfg.NATSListen, d.previous.NATSListen)
	d.HTTPListen, notes[1] = address(from, "http", cfg.HTTP, d.previous.HTTP)
	d.Notes = slices.DeleteFunc(notes[:], func(note string) bool { return note == "" })
	if err := leaveDirectory(cfg, from.Environ, d.previous.Dir); err != nil {
		return d, err
	}
	d.Log, err = openLog(logFile(cfg.DataDir))
	return d, err
}

// Previous returns what the next `up` in the background takes over: what this one did, and
// where it listens. An address of the `up` before that is in use is kept for the next one.
func (d *Detached) Previous(natsListen, http string) Previous {
	p := d.previous
	if p.NATSListen == "" || p.NATSListen == d.NATSListen {
		p.NATSListen = natsListen
	}
	if p.HTTP == "" || p.HTTP == d.HTTPListen {
		p.HTTP = http
	}
	return p
}

// Ready tells the command that this process is ready, and closes the pipe to it.
// From then on stderr is the log.
func (d *Detached) Ready(natsURL string) error {
	fmt.Fprintf(d.starter, ready+"nats=%s\n", natsURL)
	return d.Log.becomeStderr()
}

// Close closes the log. It does not release the lock.
func (d *Detached) Close() {
	d.Log.close()
	signal.Stop(d.sigpipe)
}

// hasReader reports whether a pipe has a reader. True for other files.
func hasReader(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd)}}
	n, err := unix.Poll(fds, 0)
	return err != nil || n == 0 || fds[0].Revents&(unix.POLLERR|unix.POLLHUP) == 0
}

// leaveDirectory changes to the directory of the `up` before, or to the user's
// home directory, else the data directory, because the working directory of the
// command may be removed, and is no place for the tasks of others. Tasks may still
// work there, as with an `up` that was started in it, and in the home directory. It
// also removes write permission for others from the umask.
func leaveDirectory(cfg *config.Config, environ []string, before string) error {
	began, _ := os.Getwd() // "" if it was removed
	home, dir := homeDir(environ), cfg.DataDir
	switch {
	case isDir(before):
		dir = before
	case isDir(home) && !launch.IsWhole(home):
		dir = home
	}
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	if len(cfg.Work.Roots) == 0 {
		for _, dir := range []string{home, before, began} {
			// A service without a working directory or a home has the root.
			if isDir(dir) && !launch.IsWhole(dir) && !slices.Contains(cfg.Work.Roots, dir) {
				cfg.Work.Roots = append(cfg.Work.Roots, dir)
			}
		}
		if len(cfg.Work.Roots) == 0 {
			cfg.Work.Roots = config.List{""} // allows nothing: without any root the working directory would be one
		}
	}
	syscall.Umask(syscall.Umask(0o022) | 0o022)
	return nil
}

func homeDir(environ []string) string {
	for _, variable := range environ {
		if home, ok := strings.CutPrefix(variable, "HOME="); ok {
			return home
		}
	}
	return ""
}

// closeInherited closes the files that the command had inherited, such as the
// lock of a shell script: this process would hold them until it ends. The
// files of the program itself are closed at an exec, which distinguishes them.
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
