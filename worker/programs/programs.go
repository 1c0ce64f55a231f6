// Package programs finds the programs of the agents on a machine, and learns their
// versions from PROGRAM --version.
//
//	settings ─▶ Find ─▶ Program ─┬─▶ List: what `linesman agents` and doctor print
//	                             └─▶ Versions: remembered, for the start entries of runs
//
// It starts a program with the environment that the agent would get, and only to ask for
// the version.
package programs

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/internal/lazy"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

// Program is the program of an agent, as a file on this machine.
type Program struct {
	// Path is the file that is executed, absolute.
	Path string
	// Own reports that the file has the name of the agent's program. Any other may be a
	// program of the user, or one that starts others: env, npx.
	Own bool

	argv []string // Path and the first arguments
	env  []string
}

// Find finds the program that a command starts in the directory dir, which is absolute, with
// its part of the environment environ. It returns false if there is none, or if it cannot be
// executed.
func Find(a agent.Agent, how agent.Launch, dir string, environ []string) (Program, bool) {
	env := launch.Environ(runs.EnvPolicy{}, how.Env, environ)
	if how.Set != nil {
		env = launch.Override(env, how.Set(runs.Task{Attributes: runs.Attributes{Mode: runs.ReadOnly}}))
	}
	path, failure := launch.LookPath(how.Command[0], dir, env)
	if failure != "" {
		return Program{}, false
	}
	argv := append([]string{path}, how.Command[1:]...)
	return Program{Path: path, Own: filepath.Base(path) == a.Program, argv: argv, env: env}, true
}

// errLate reports a program that did not end in time.
var errLate = errors.New("no answer")

// version is what [runs.CheckVersion] accepts, within a longer text.
var version = lazy.Regexp(`\bv?([0-9]{1,8}(\.[0-9]{1,8}){2,3}(-[a-z]{1,12}(\.[0-9]{1,10}){0,2})?)\b`)

// Version starts the program with --version, and returns the first version that it prints. It
// waits at most for limit, and then ends the program and its process group.
func (p Program) Version(ctx context.Context, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.argv[0], append(p.argv[1:len(p.argv):len(p.argv)], "--version")...)
	cmd.Env = p.env
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	// The codex of npm starts another process.
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = time.Second
	out := &beginning{limit: 4096}
	cmd.Stdout = out
	err := cmd.Run()
	if cmd.Process != nil { // what it left
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	}
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%w in %v", errLate, limit)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay): // that is a process which it left
		return "", err
	}
	v, ok := parse(string(out.b))
	if !ok {
		return "", errors.New("what it prints has no version")
	}
	return v, nil
}

// parse returns the first version in a text. A suffix of another form than that of
// [runs.CheckVersion] makes another version of it, and there is none.
func parse(text string) (string, bool) {
	at := version().FindStringSubmatchIndex(text)
	if at == nil || strings.HasPrefix(text[at[3]:], "-") {
		return "", false
	}
	v := text[at[2]:at[3]]
	return v, runs.CheckVersion(v) == nil
}

// beginning keeps the first bytes that are written to it.
type beginning struct {
	limit int
	b     []byte
}

func (w *beginning) Write(b []byte) (int, error) {
	w.b = append(w.b, b[:min(len(b), w.limit-len(w.b))]...)
	return len(b), nil
}
