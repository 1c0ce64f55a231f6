package guard

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

var major = regexp.MustCompile(`^v[0-9]+$`)

// Build builds programs into dir, each under its own name. Packages are named as
// go build is given them at the root of the module: ./cmd/linesman.
//
// All test binaries build in one directory of the module, one at a time: what is
// up to date there is only copied, as linking takes seconds.
func Build(dir string, packages ...string) error {
	module, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("guard: where is the module: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(module)))
	shared := filepath.Join(root, "bin", "test")
	if err := os.MkdirAll(shared, 0o755); err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(shared, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("guard: lock: %w", err)
	}
	for _, p := range packages {
		name := path.Base(p)
		if major.MatchString(name) {
			name = path.Base(path.Dir(p))
		}
		built := filepath.Join(shared, strings.ReplaceAll(path.Clean(p), "/", "-")) // two packages may have one name
		build := exec.Command("go", "build", "-o", built, p)
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("guard: go build %s: %w\n%s", p, err, out)
		}
		if err := place(filepath.Join(dir, name), built); err != nil {
			return fmt.Errorf("guard: %w", err)
		}
	}
	return nil
}

// place copies a program. What is forked meanwhile would have the copy open for
// writing until its own exec, and the copy could not be started: so nothing is.
func place(to, from string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}
