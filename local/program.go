package local

import (
	"os"
	"os/exec"
)

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
