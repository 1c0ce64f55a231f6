package main

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

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

// launched is a `linesman up` that was started in the background.
type launched struct {
	says *os.File      // its stdout and stderr, until it is ready
	done chan struct{} // closed once it is ready, or has ended
	err  error         // then: why it ended; [errLocked] where another one has the data directory
}

// answered is closed once there is an answer; never, where nothing was started.
func (l *launched) answered() <-chan struct{} {
	if l == nil {
		return nil
	}
	return l.done
}

// leave stops reading what it says. If it does not have the data directory by
// then, it ends.
func (l *launched) leave() {
	if l != nil {
		_ = l.says.Close()
	}
}

// launch starts `linesman up` in the background. It has a session of its own,
// and of this process nothing but the settings and what every program needs:
// it serves others, too, and stays when this one is gone.
func (a *app) launch() (*launched, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start `linesman up` in the background: %w", err)
	}
	args := []string{"up", "--background", "--nats=", "--data-dir", a.config.DataDir}
	if a.file != "" {
		args = append(args, "--config", a.file)
	}
	cmd := exec.Command(nextProgram(self), args...)
	cmd.Args[0] = self
	cmd.Env = a.backgroundEnviron()
	cmd.Stdout, cmd.Stderr = write, write
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = write.Close()
	if err != nil {
		_ = read.Close()
		return nil, fmt.Errorf("start `linesman up` in the background: %w", err)
	}
	l := &launched{says: read, done: make(chan struct{})}
	go func() { // until it ends, if this process does not before
		l.listen(cmd, backgroundLog(a.config.DataDir))
		close(l.done)
		_ = cmd.Wait() // it is nobody's child but ours
	}()
	return l, nil
}

// listen reads what it says until it is ready or ends: its last words say why.
func (l *launched) listen(cmd *exec.Cmd, log string) {
	defer l.leave()
	const most = 64 << 10
	words, _ := io.ReadAll(io.LimitReader(l.says, most)) // it closes its end in any case
	if bytes.HasPrefix(words, []byte("ready ")) {
		return
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	switch reason := strings.TrimSpace(string(words)); {
	case errors.As(err, &exit) && exit.ExitCode() == exitBusy:
		l.err = errLocked
	case reason != "":
		l.err = errors.New(strings.ReplaceAll(strings.TrimPrefix(reason, "linesman: "), "\nlinesman: ", "\n"))
	case err != nil:
		l.err = fmt.Errorf("`linesman up` in the background ended as it started: %w; its log is %s", err, log)
	default:
		l.err = fmt.Errorf("`linesman up` in the background was ended as it started; its log is %s", log)
	}
}

// tuning are the variables by which a Go program is tuned.
var tuning = []string{"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GORACE", "GOTRACEBACK"}

// backgroundEnviron is the environment of an `up` in the background: linesman's
// own variables, what every program needs, and what the settings say that tasks
// get. What else the first command happened to have, secrets among it, would
// reach the tasks of all others.
func (a *app) backgroundEnviron() []string {
	own := append([]string{}, tuning...)
	for _, variable := range a.environ {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "LINESMAN_") {
			own = append(own, name)
		}
	}
	return launch.Environ(runs.EnvPolicy{}, append(own, a.config.Agents.Codex.Env...), a.environ)
}

func backgroundLog(data string) string { return filepath.Join(data, "up.log") }
