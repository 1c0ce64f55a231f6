package launch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

// LookPath finds the executable name for an agent with the working directory
// dir and the environment env. If there is none, failure is one of the Spawn
// constants of package runs. Like [os/exec.LookPath], it ignores relative
// directories of the PATH.
func LookPath(name, dir string, env []string) (path, failure string) {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", runs.SpawnOther
	}
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, executable(name)
	}
	failure = runs.SpawnNotFound
	for _, entry := range filepath.SplitList(Value(env, "PATH")) {
		if !filepath.IsAbs(entry) {
			continue
		}
		path := filepath.Join(entry, name)
		switch executable(path) {
		case "":
			return path, ""
		case runs.SpawnNotExecutable:
			failure = runs.SpawnNotExecutable // unless a later entry has one
		}
	}
	return "", failure
}

// executable returns "" if path can be executed, else a Spawn constant.
func executable(path string) string {
	info, err := os.Stat(path)
	if err == nil && (info.IsDir() || unix.Access(path, unix.X_OK) != nil) {
		return runs.SpawnNotExecutable
	}
	return SpawnFailure(err)
}

// SpawnFailure returns the Spawn constant for an error of fork and exec, or of
// looking up the file.
func SpawnFailure(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR): // maybe the interpreter of a script
		return runs.SpawnNotFound
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ENOEXEC):
		return runs.SpawnNotExecutable
	}
	return runs.SpawnOther
}

// Value returns the value of a variable in an environment: of several the last one; "" without one.
func Value(env []string, key string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], key+"="); ok {
			return value
		}
	}
	return ""
}
