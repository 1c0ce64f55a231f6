package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/linesman/linesman/agent"

	"golang.org/x/sys/unix"
)

// agents checks the programs that run tasks.
func (x *examination) agents(ctx context.Context) {
	how := x.Settings.Launches(x.table)
	for _, a := range x.table {
		x.agent(ctx, a, how[a.Kind()].Command)
	}
}

func (x *examination) agent(ctx context.Context, a agent.Agent, command []string) {
	name, setting := a.Kind(), "agents."+a.Kind()+".command"
	missing := Fail
	if x.Settings.NATS != "" || x.Settings.Work.MaxRuns == 0 { // tasks may run elsewhere
		missing = Warn
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		x.note(name, missing, command[0]+" is not on the PATH", a.Install+", or set "+setting)
		return
	}
	version, err := programVersion(ctx, append([]string{path}, command[1:]...))
	switch {
	case err != nil:
		x.note(name, missing, fmt.Sprintf("%s --version: %v", path, err), "install it again, or set "+setting)
	case version != a.Tested:
		x.note(name, Warn, path+", version "+version, "linesman was tested with "+a.Tested)
	default:
		x.note(name, OK, path+", version "+version, "")
	}
}

var versionNumber = regexp.MustCompile(`\b[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+-]*`)

// programVersion asks a program for its version, and waits at most five
// seconds for it.
func programVersion(ctx context.Context, command []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], append(command[1:len(command):len(command)], "--version")...)
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	// The codex of npm starts another process.
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = time.Second
	out := &beginning{limit: 4096}
	cmd.Stdout = out
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return "", errors.New("no answer in 5 s")
	case err != nil:
		return "", err
	}
	version := versionNumber.FindString(string(out.b))
	if version == "" {
		return "", errors.New("what it prints has no version")
	}
	return version, nil
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

// roots notes in which directories tasks may work with these settings.
func (x *examination) roots(context.Context) (Level, string, string) {
	roots := x.Settings.Work.Roots
	if len(roots) == 0 {
		return OK, "tasks may work where the worker was started, and in the user's home (work.roots)", ""
	}
	return OK, "tasks may work in " + strings.Join(roots, ", ") + " (work.roots)", ""
}

func (x *examination) git(context.Context) (Level, string, string) {
	path, err := exec.LookPath("git")
	if err != nil {
		return Warn, "git is not on the PATH", "install it: agents work in repositories"
	}
	return OK, path, ""
}

// inotify checks the limits of Linux on following files. Other systems have none.
func (x *examination) inotify(context.Context) (Level, string, string) {
	for _, l := range []struct {
		key   string
		least int
	}{{"max_user_watches", 8192}, {"max_user_instances", 128}} {
		b, err := os.ReadFile("/proc/sys/fs/inotify/" + l.key)
		if err != nil {
			break
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err == nil && n < l.least {
			return Warn, fmt.Sprintf("fs.inotify.%s is %d: files may be followed late", l.key, n),
				fmt.Sprintf("sysctl fs.inotify.%s=%d", l.key, l.least)
		}
	}
	return OK, "its limits are high enough", ""
}
