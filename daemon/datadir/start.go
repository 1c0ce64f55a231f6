package datadir

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

// ExitLocked is the exit code of an `up` in the background that ended because
// another process holds the lock of the data directory.
const ExitLocked = 75

// ready begins the line that an `up` in the background prints once it is ready.
const ready = "ready "

// startup is a `linesman up` that is starting in the background.
type startup struct {
	output *os.File      // its stdout and stderr, until it is ready
	pid    int           // its process ID
	note   string        // what it lacks; "": nothing
	done   chan struct{} // closed once it is ready, or has ended
	err    error         // valid after done: why it ended; [ErrLocked] if another process holds the lock
}

// finished returns a channel that is closed once the startup has succeeded or
// failed. It is nil if nothing was started.
func (s *startup) finished() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.done
}

// leave stops reading the output. The process then ends, unless it holds the
// lock already.
func (s *startup) leave() {
	if s != nil {
		_ = s.output.Close()
	}
}

// start starts `linesman up` in the background, in a session of its own. It
// inherits nothing from this process except the settings and the environment
// that every program needs, because it serves other commands, too, and outlives
// this process. What the command does not set itself is as in the `up` before.
func (d *Dialer) start() (*startup, error) {
	previous, err := readPrevious(d.Config.DataDir)
	if err != nil {
		return nil, err
	}
	from := previous.sources(d.File, d.Environ, d.Config.DataDir)
	settings, err := config.Load(from)
	if err != nil {
		return nil, fmt.Errorf("`linesman up` cannot start in the background with the settings of the one before, which are "+
			"in %s; start `linesman up` with others:\n%w", previousFile(d.Config.DataDir), err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start `linesman up` in the background: %w", err)
	}
	args := []string{"up", "--background", "--nats=", "--data-dir", d.Config.DataDir}
	if from.File != "" { // absolute: it is read again in another directory
		path, err := filepath.Abs(from.File)
		if err != nil {
			return nil, fmt.Errorf("find the configuration file: %w", err)
		}
		args = append(args, "--config", path)
	}
	cmd := exec.Command(nextProgram(self), args...)
	cmd.Args[0] = self
	cmd.Env = backgroundEnviron(settings, from.Environ)
	cmd.Stdout, cmd.Stderr = write, write
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = write.Close()
	if err != nil {
		_ = read.Close()
		return nil, fmt.Errorf("start `linesman up` in the background: %w", err)
	}
	s := &startup{output: read, pid: cmd.Process.Pid, note: previous.missing(cmd.Env), done: make(chan struct{})}
	go func() { // until the `up` ends, or this process
		s.follow(cmd, logFile(d.Config.DataDir))
		close(s.done)
		_ = cmd.Wait() // reap it
	}()
	return s, nil
}

// follow reads the output until the process is ready or ends. Its last output
// is the reason for the end.
func (s *startup) follow(cmd *exec.Cmd, log string) {
	defer s.leave()
	const limit = 64 << 10
	output, _ := io.ReadAll(io.LimitReader(s.output, limit)) // the process closes its end in any case
	if bytes.HasPrefix(output, []byte(ready)) {
		return
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	switch reason := strings.TrimSpace(string(output)); {
	case errors.As(err, &exit) && exit.ExitCode() == ExitLocked:
		s.err = ErrLocked
	case reason != "":
		s.err = errors.New(strings.ReplaceAll(strings.TrimPrefix(reason, "linesman: "), "\nlinesman: ", "\n"))
	case err != nil:
		s.err = fmt.Errorf("`linesman up` in the background ended as it started: %w; its log is %s", err, log)
	default:
		s.err = fmt.Errorf("`linesman up` in the background was ended as it started; its log is %s", log)
	}
}

// backgroundEnviron returns the environment of an `up` in the background: the
// variables of linesman and of the Go runtime, what every program needs, and what
// the settings pass to tasks. Other variables of the command that happens to
// start it, including secrets, would reach the tasks of all other commands.
func backgroundEnviron(settings config.Config, environ []string) []string {
	own := []string{"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GORACE", "GOTRACEBACK",
		"XDG_CONFIG_HOME"} // where the configuration file of the user is
	for _, variable := range environ {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "LINESMAN_") {
			own = append(own, name)
		}
	}
	for _, how := range settings.Launches(settings.Table()) {
		own = append(own, how.Env...)
	}
	return launch.Environ(runs.EnvPolicy{}, own, environ)
}

// logFile returns the path of the log of an `up` in the background.
func logFile(data string) string { return filepath.Join(data, "up.log") }

// ownImage executes the program of the calling process, even if its file was
// removed, as `go run` does at its end, or replaced. Only Linux has it.
const ownImage = "/proc/self/exe"

// SameProgram returns the file to execute for another process of exactly this
// program, which was started from path. A shim must be one: after an upgrade the
// program at path may be of another version than the worker that starts it.
func SameProgram(path string) string {
	if now, err := os.Readlink(ownImage); err == nil && now != path {
		return ownImage
	}
	return path
}

// nextProgram returns the file to execute for a process that is to be of the
// installed version, such as the next `up`: the one at path, else this program.
func nextProgram(path string) string {
	if _, err := exec.LookPath(path); err != nil {
		return SameProgram(path)
	}
	return path
}
