package worker

import (
	"iter"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// processes yields the processes of this user. They have no session.
func processes() iter.Seq[process] {
	return func(yield func(process) bool) {
		all, err := unix.SysctlKinfoProcSlice("kern.proc.uid", os.Getuid())
		for i := range all {
			if err != nil || !yield(fromKinfo(&all[i])) {
				return
			}
		}
	}
}

// lookup returns the process with this process ID.
func lookup(pid int) (process, bool) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid {
		return process{}, false
	}
	return fromKinfo(k), true
}

func fromKinfo(k *unix.KinfoProc) process {
	const stop, zombie = 4, 5 // SSTOP, SZOMB
	return process{
		pid: int(k.Proc.P_pid), parent: int(k.Eproc.Ppid), group: int(k.Eproc.Pgid),
		start: uint64(k.Proc.P_starttime.Nano()), dead: k.Proc.P_stat == zombie, halted: k.Proc.P_stat == stop,
	}
}

// age is the time since the process started.
func (p process) age() time.Duration {
	return max(0, time.Since(time.Unix(0, int64(p.start))))
}
