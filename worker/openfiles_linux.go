package worker

import (
	"os"
	"strconv"
	"strings"
)

// openForWriting returns the files below a directory that a process has open for writing, by
// their paths without symbolic links: of the processes that this one may look into. It is nil if
// there are none of those.
func openForWriting(dir string) map[string]bool {
	open, any := make(map[string]bool), false
	below := strings.TrimSuffix(dir, "/") + "/"
	self := os.Getpid()
	for _, name := range procNames() {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == self {
			continue
		}
		base := "/proc/" + name + "/fd"
		fds, err := os.Open(base)
		if err != nil {
			continue
		}
		names, err := fds.Readdirnames(-1)
		fds.Close()
		if err != nil {
			continue
		}
		any = true
		for _, fd := range names {
			path, err := os.Readlink(base + "/" + fd)
			if err == nil && strings.HasPrefix(path, below) && writable("/proc/"+name+"/fdinfo/"+fd) {
				open[path] = true
			}
		}
	}
	if !any {
		return nil
	}
	return open
}

// pidNamespace says where process IDs of this process are valid.
func pidNamespace() string {
	link, _ := os.Readlink("/proc/self/ns/pid") // "": not known, and no other equals it
	return link
}
