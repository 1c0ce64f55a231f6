package worker

import (
	"iter"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// processes yields those of this user. Sessions are not shown here.
func processes() iter.Seq[process] {
	return func(yield func(process) bool) {
		all, err := unix.SysctlKinfoProcSlice("kern.proc.uid", os.Getuid())
		for i := range all {
			if err != nil || !yield(from(&all[i])) {
				return
			}
		}
	}
}

// lookup returns the process that has the number pid now.
func lookup(pid int) (process, bool) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid {
		return process{}, false
	}
	return from(k), true
}

func from(k *unix.KinfoProc) process {
	const zombie = 5 // SZOMB
	return process{
		pid: int(k.Proc.P_pid), parent: int(k.Eproc.Ppid), group: int(k.Eproc.Pgid),
		start: uint64(k.Proc.P_starttime.Nano()), dead: k.Proc.P_stat == zombie,
	}
}

// age is how long the process has run.
func (p process) age() time.Duration {
	return max(0, time.Since(time.Unix(0, int64(p.start))))
}
