package worker

import (
	"bufio"
	"bytes"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// becomeReaper makes orphaned descendants children of this process, so that
// double forks do not escape.
func becomeReaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become child subreaper: %w", err)
	}
	return nil
}

// groupAlive reports whether the process group has a running process of this
// session. The session check excludes a reused group ID: session IDs are not
// reused while the session exists.
func groupAlive(group int) bool {
	if unix.Kill(-group, 0) == unix.ESRCH {
		return false
	}
	session, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	for p := range processes() {
		if p.group == group && p.session == session && !p.dead {
			return true
		}
	}
	return false
}

// signalChildren signals the children of this process together with their process
// groups. A process that forks and exits continuously changes its process ID
// before it can be signalled, but a signal to its group also reaches a process
// that is being forked. A zombie works too: its group ID is not reused until
// it is reaped.
func signalChildren(sig unix.Signal) {
	self, own := os.Getpid(), unix.Getpgrp()
	session, err := unix.Getsid(0)
	for p := range processes() {
		if p.parent != self {
			continue
		}
		// A session that this process does not lead may contain unrelated groups.
		descendants := err == nil && (p.session != session || session == self)
		if descendants && p.group > 1 && p.group != own {
			_ = unix.Kill(-p.group, sig)
		}
		if !p.dead {
			p.signal(sig)
		}
	}
}

// processes yields the processes in /proc, or nothing without /proc. A process
// can fork another one during a listing and exit before it is read, so /proc
// is listed repeatedly until a listing has nothing new, but at most 16 times.
func processes() iter.Seq[process] {
	const listings = 16
	return func(yield func(process) bool) {
		listed := make(map[string]bool)
		for range listings {
			before := len(listed)
			for _, name := range procNames() {
				pid, err := strconv.Atoi(name)
				if err != nil || listed[name] {
					continue
				}
				listed[name] = true
				if p, ok := lookup(pid); ok && !yield(p) { // else it has exited
					return
				}
			}
			if len(listed) == before {
				return
			}
		}
	}
}

func procNames() []string {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	return names
}

// kernelThread is the kernel's PF_KTHREAD, in the flags of /proc/PID/stat.
const kernelThread = 0x200000

// lookup returns the process with this process ID.
func lookup(pid int) (process, bool) {
	var buf [1024]byte // more than the fields below
	stat, err := readProc("/proc/"+strconv.Itoa(pid)+"/stat", buf[:])
	if err != nil {
		return process{}, false
	}
	// The name in parentheses may contain any characters, including parentheses.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return process{}, false
	}
	state := fields[0][0]
	p := process{pid: pid, dead: state == 'Z' || state == 'X', halted: state == 'T'}
	p.parent, _ = strconv.Atoi(string(fields[1]))
	p.group, _ = strconv.Atoi(string(fields[2]))
	p.session, _ = strconv.Atoi(string(fields[3]))
	flags, _ := strconv.ParseUint(string(fields[6]), 10, 64)
	p.kernel = flags&kernelThread != 0
	p.start, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return p, err == nil
}

// readProc reads a file of /proc, which one read returns.
func readProc(path string, buf []byte) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	n, err := unix.Read(fd, buf)
	_ = unix.Close(fd)
	return buf[:max(n, 0)], err
}

// age is the time since the process started, on a monotonic clock.
func (p process) age() time.Duration {
	const tick = 10 * time.Millisecond // the unit of times in /proc, on all systems
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0
	}
	return max(0, time.Duration(now.Nano())-time.Duration(p.start)*tick)
}

// bootID identifies the current boot: start times are relative to it.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

// hasVariable reports whether the initial environment of the process has a
// variable that starts with prefix (NAME= or NAME=value). The error is that it
// cannot be read, or errNoEnvironment.
func hasVariable(pid int, prefix string) (bool, error) {
	const limit = 8 << 20 // the kernel allows no more
	environ, err := readBounded("/proc/"+strconv.Itoa(pid)+"/environ", limit)
	if err != nil {
		return false, err
	}
	if len(environ) == 0 {
		return false, errNoEnvironment
	}
	return bytes.Contains(append([]byte{0}, environ...), []byte("\x00"+prefix)), nil
}

// isShim reports whether the process is a shim of the run directory.
func isShim(pid int, dir string) bool {
	const limit = 64 << 10
	line, err := readBounded("/proc/"+strconv.Itoa(pid)+"/cmdline", limit)
	return err == nil && bytes.HasSuffix(line, []byte("\x00"+dir+"\x00"))
}

// writesOutput reports whether the process has the output of the run directory
// open for writing. Any process may read the output, so readers do not count.
// The error is that its open files cannot be listed.
func writesOutput(pid int, dir string) (bool, error) {
	base := "/proc/" + strconv.Itoa(pid)
	fds, err := os.ReadDir(base + "/fd")
	if err != nil {
		return false, err
	}
	for _, fd := range fds {
		path, err := os.Readlink(base + "/fd/" + fd.Name())
		if err != nil {
			continue
		}
		name := filepath.Base(path)
		if name != outFile && name != errFile || filepath.Base(filepath.Dir(path)) != filepath.Base(dir) {
			continue
		}
		opened, err := os.Stat(base + "/fd/" + fd.Name())
		if err != nil {
			continue
		}
		ours, err := os.Stat(filepath.Join(dir, name))
		if err == nil && os.SameFile(opened, ours) && writable(base+"/fdinfo/"+fd.Name()) {
			return true, nil
		}
	}
	return false, nil
}

// writable reports whether a file of /proc/PID/fdinfo shows a writable access
// mode.
func writable(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if octal, ok := strings.CutPrefix(lines.Text(), "flags:"); ok {
			flags, err := strconv.ParseUint(strings.TrimSpace(octal), 8, 64)
			return err == nil && flags&unix.O_ACCMODE != unix.O_RDONLY
		}
	}
	return false
}
