package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/worker"
)

// brokenLink is the error of the first directory that is a symbolic link to no
// directory, as where a disk is not mounted.
func brokenLink(dirs ...string) error {
	for _, dir := range dirs {
		if _, err := os.Readlink(dir); err != nil {
			continue // no link
		}
		if err := worker.CheckDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// testedCodex is the version of Codex that linesman was tested with.
const testedCodex = "0.169.0"

// up says which process the `up` of the data directory is. One whose program
// file is gone starts agents on Linux alone.
func (d *doctor) up() {
	text := fmt.Sprintf("process %d, version %s", d.here.PID, d.here.Version)
	const do = "`linesman down`, and the next command starts the program that is there then"
	switch {
	case !d.here.programGone():
		d.note("up", levelOK, text, "")
	case runtime.GOOS == "linux":
		d.note("up", levelWarn, fmt.Sprintf("%s; its program %s was removed or replaced; agents start all the same", text, d.here.Program), do)
	default:
		d.note("up", levelFail, fmt.Sprintf("%s; its program %s was removed, and no agent can be started", text, d.here.Program), do)
	}
}

// programGone reports whether the program file of an `up` was removed or
// replaced since the start of the process. Without /proc a replaced one is not noticed.
func (i instance) programGone() bool {
	if now, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", i.PID)); err == nil {
		return i.Program != "" && now != i.Program
	}
	_, err := os.Stat(i.Program)
	return i.Program != "" && errors.Is(err, fs.ErrNotExist)
}

// agent looks at the program that tasks are given to.
func (d *doctor) agent(ctx context.Context) {
	const name = "codex"
	command := d.app.config.Agents.Codex.Command
	missing := levelFail
	if d.app.config.NATS != "" || d.app.config.Work.MaxRuns == 0 { // tasks may run elsewhere
		missing = levelWarn
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		d.note(name, missing, command[0]+" is not on the PATH", "npm install -g @openai/codex, or set agents.codex.command")
		return
	}
	version, err := programVersion(ctx, append([]string{path}, command[1:]...))
	switch {
	case err != nil:
		d.note(name, missing, fmt.Sprintf("%s --version: %v", path, err), "install it anew, or set agents.codex.command")
	case version != testedCodex:
		d.note(name, levelWarn, path+", version "+version, "linesman was tested with "+testedCodex)
	default:
		d.note(name, levelOK, path+", version "+version, "")
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
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) } // npm's codex is a launcher
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

// roots tells where a worker with these settings lets tasks work.
func (d *doctor) roots() {
	const name = "roots"
	roots := d.app.config.Work.Roots
	if len(roots) == 0 {
		d.note(name, levelOK, "tasks may work where the worker was started, and in the user's home (work.roots)", "")
		return
	}
	d.note(name, levelOK, "tasks may work in "+strings.Join(roots, ", ")+" (work.roots)", "")
}

func (d *doctor) git() {
	if path, err := exec.LookPath("git"); err == nil {
		d.note("git", levelOK, path, "")
	} else {
		d.note("git", levelWarn, "git is not on the PATH", "install it: agents want to work in repositories")
	}
}

// inotify looks at the limits of Linux on who follows files; elsewhere there
// are none of them.
func (d *doctor) inotify() {
	for _, l := range []struct {
		key   string
		least int
	}{{"max_user_watches", 8192}, {"max_user_instances", 128}} {
		b, err := os.ReadFile("/proc/sys/fs/inotify/" + l.key)
		if err != nil {
			return
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err == nil && n < l.least {
			d.note("inotify", levelWarn, fmt.Sprintf("fs.inotify.%s is %d: files may be followed late", l.key, n),
				fmt.Sprintf("sysctl fs.inotify.%s=%d", l.key, l.least))
			return
		}
	}
	d.note("inotify", levelOK, "its limits are wide enough", "")
}
