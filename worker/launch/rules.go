package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/linesman/linesman/runs"
)

// Rules are what a worker lets tasks do to its machine.
type Rules struct {
	// Dir is where the worker was started, absolute: the working directory of
	// a task that names none.
	Dir string

	// Roots are the directories, absolute, in or below which a task may work.
	// One that does not exist allows nothing. None at all means Dir and the
	// home directory of the worker's user, but not the root of the file
	// system, where a service is started that was not told otherwise: who
	// wants that says so.
	Roots []string

	// Danger allows tasks without a sandbox.
	Danger bool
}

// Allow reports, as a [runs.FieldError], why t may not run here in its mode.
func (r Rules) Allow(t runs.Task) error {
	switch t.Mode {
	case runs.ReadOnly, runs.WorkspaceWrite:
		return nil
	case runs.DangerFull:
		if r.Danger {
			return nil
		}
		return &runs.FieldError{Field: "mode", Problem: string(runs.DangerFull) + " is not allowed by this worker"}
	}
	return &runs.FieldError{Field: "mode", Problem: "is none that this worker knows"}
}

// Directory returns the working directory of t: absolute, without symbolic
// links, and inside one of the roots. The agent must be started there and not
// where t says, which may come to lead elsewhere meanwhile. The error is a
// [runs.FieldError] of the field workingDir, and does not quote the path.
func (r Rules) Directory(t runs.Task) (string, error) {
	given, whose := r.given(t)
	wrong := func(problem string) (string, error) {
		return "", &runs.FieldError{Field: "workingDir", Problem: whose + problem}
	}
	if !filepath.IsAbs(given) {
		return wrong("is not an absolute path")
	}
	dir, err := filepath.EvalSymlinks(given)
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(dir)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return wrong("does not exist")
	case errors.Is(err, fs.ErrPermission):
		return wrong("cannot be reached: permission denied")
	case errors.Is(err, syscall.ENOTDIR):
		return wrong("is not a directory")
	case err != nil:
		return wrong("cannot be looked up")
	case !info.IsDir():
		return wrong("is not a directory")
	case !r.inside(dir):
		return wrong("is not in a directory that this worker allows")
	}
	return dir, nil
}

// given is the directory of t, and how a problem with it begins.
func (r Rules) given(t runs.Task) (dir, whose string) {
	if t.Dir == "" {
		return r.Dir, "none given, and the worker's own "
	}
	return t.Dir, ""
}

// maxNamed bounds how many roots an error names.
const maxNamed = 8

// Outside returns a [runs.FieldError] of the field dir, which names the roots,
// where the directory of t exists and is outside of them. It checks the
// submission of t on the worker's machine: whatever else Directory refuses may
// be there once a worker takes t.
func (r Rules) Outside(t runs.Task) error {
	given, whose := r.given(t)
	if !filepath.IsAbs(given) {
		return nil
	}
	dir, err := filepath.EvalSymlinks(given)
	if err != nil || r.inside(dir) {
		return nil
	}
	roots, more := r.Allowed(), ""
	if n := len(roots) - maxNamed; n > 0 {
		roots, more = roots[:maxNamed], fmt.Sprintf(" and %d more", n)
	}
	return &runs.FieldError{Field: "dir", Problem: whose + "is outside of the directories of the setting work.roots: " + strings.Join(roots, ", ") + more}
}

// Allowed are the directories in and below which tasks may work.
func (r Rules) Allowed() (all []string) {
	roots, byDefault := r.Roots, len(r.Roots) == 0
	if byDefault {
		home, _ := os.UserHomeDir() // without one, Dir alone
		roots = []string{r.Dir, home}
	}
	for _, root := range roots {
		if filepath.IsAbs(root) && !(byDefault && root == "/") {
			all = append(all, root)
		}
	}
	return all
}

// inside reports whether dir, which has no symbolic links, is in or below a root.
func (r Rules) inside(dir string) bool {
	for _, root := range r.Allowed() {
		root, err := filepath.EvalSymlinks(root)
		if err != nil || len(r.Roots) == 0 && root == "/" {
			continue
		}
		if rel, err := filepath.Rel(root, dir); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}
