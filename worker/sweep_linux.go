package worker

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// becomeReaper makes orphaned descendants of this process its children, so
// that none is lost by forking twice.
func becomeReaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become child subreaper: %w", err)
	}
	return nil
}

// groupAlive reports whether a process of this session lives in the process
// group. The session makes sure that the group is no stranger's: numbers are
// used again, sessions that live are not.
func groupAlive(group int) bool {
	if unix.Kill(-group, 0) == unix.ESRCH {
		return false
	}
	session, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	for _, p := range processes() {
		if p.group == group && p.session == session && !p.dead {
			return true
		}
	}
	return false
}

// childProcesses returns the children of this process that live.
func childProcesses() (pids []int) {
	self := os.Getpid()
	for _, p := range processes() {
		if p.parent == self && !p.dead {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

type process struct {
	pid, parent, group, session int
	dead                        bool // and not reaped yet
}

// processes lists what /proc shows. Without one it shows nothing.
func processes() (list []process) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue // gone meanwhile
		}
		// The name in parentheses may hold anything, also parentheses.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 4 {
			continue
		}
		p := process{pid: pid, dead: fields[0][0] == 'Z' || fields[0][0] == 'X'}
		p.parent, _ = strconv.Atoi(string(fields[1]))
		p.group, _ = strconv.Atoi(string(fields[2]))
		p.session, _ = strconv.Atoi(string(fields[3]))
		list = append(list, p)
	}
	return list
}
