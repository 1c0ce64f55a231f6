package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/linesman/linesman/runs"
)

// Rules are the restrictions of a worker on tasks.
type Rules struct {
	// Dir is the absolute working directory of the worker, and of tasks that name
	// no directory.
	Dir string

	// Roots are the absolute directories in or below which tasks may work. One that
	// does not exist allows nothing. If there are none, Dir and the home directory
	// of the worker's user are allowed, except for the root of the file system,
	// which is the working directory of many services and must be named explicitly.
	Roots []string

	// ToAllow says how to allow another directory, for the refusals of Outside; "": nothing.
	ToAllow string

	// Danger allows tasks that run without a sandbox.
	Danger bool

	// Boxed says that there is a sandbox around the worker: it allows tasks that rely on that.
	Boxed bool
}

// Allows returns the capabilities of agents that depend on the settings of a worker, and are allowed.
func (r Rules) Allows() (ids []string) {
	if r.Boxed {
		ids = append(ids, runs.CanUnboxed)
	}
	return ids
}

// Modes are the modes that [Rules.Allow] allows.
func (r Rules) Modes() []string {
	all := []string{string(runs.ReadOnly), string(runs.WorkspaceWrite)}
	if r.Danger {
		all = append(all, string(runs.DangerFull))
	}
	return all
}

// Allow reports, as a [runs.FieldError], why the mode of t is not allowed.
func (r Rules) Allow(t runs.Task) error {
	switch {
	case t.IsUnboxed() && !r.Boxed:
		return &runs.FieldError{Field: "externalSandbox", Problem: "is not allowed by this worker: see its setting " +
			"work.external_sandbox"}
	case t.IsUnboxed():
		return nil
	}
	switch t.Mode {
	case runs.ReadOnly, runs.WorkspaceWrite:
		return nil
	case runs.DangerFull:
		if r.Danger {
			return nil
		}
		return &runs.FieldError{Field: "mode", Problem: string(runs.DangerFull) + " is not allowed by this worker"}
	}
	return &runs.FieldError{Field: "mode", Problem: "is not known to this worker"}
}

// Directory returns the working directory of t: absolute, without symbolic
// links, and inside a root. The agent must be started in this directory,
// because the path in t may point elsewhere later. The error is a
// [runs.FieldError] of the field workingDir, and does not contain the path.
func (r Rules) Directory(t runs.Task) (string, error) {
	given, whose := r.given(t)
	dir, problem := r.find(given)
	if problem != "" {
		return "", &runs.FieldError{Field: "workingDir", Problem: whose + problem}
	}
	if t.Within == "" {
		return dir, nil
	}
	root, err := filepath.EvalSymlinks(t.Within)
	if err != nil || !in(root, dir) {
		return "", &runs.FieldError{Field: "workingDir", Problem: "is not in the directory that is allowed for it"}
	}
	return dir, nil
}

// in reports whether dir is root or below it; both are absolute, and without links.
func in(root, dir string) bool {
	rel, err := filepath.Rel(root, dir)
	return err == nil && filepath.IsLocal(rel)
}

// AddDirs returns the further directories of t, like [Rules.Directory], each once.
func (r Rules) AddDirs(t runs.Task) (dirs []string, err error) {
	t.Dir, _ = r.given(t)
	t.PlaceAddDirs()
	for i, given := range t.AddDirs {
		dir, problem := r.find(given)
		if problem != "" {
			return nil, &runs.FieldError{Field: "addDirs." + strconv.Itoa(i), Problem: problem}
		}
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// find returns a directory inside a root without symbolic links, or why there is none.
func (r Rules) find(given string) (dir, problem string) {
	if !filepath.IsAbs(given) {
		return "", "is not an absolute path"
	}
	dir, err := filepath.EvalSymlinks(given)
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(dir)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", missing
	case errors.Is(err, fs.ErrPermission):
		return "", "cannot be reached: permission denied"
	case errors.Is(err, syscall.ENOTDIR):
		return "", noDirectory
	case err != nil:
		return "", "cannot be looked up"
	case !info.IsDir():
		return "", noDirectory
	case !r.inside(dir):
		return "", outside
	}
	return dir, ""
}

// Problems of a directory that no change of its rights solves.
const (
	missing     = "does not exist"
	noDirectory = "is not a directory"
	outside     = "is not in a directory that this worker allows"
)

// given returns the directory of t, and a prefix for errors about it.
func (r Rules) given(t runs.Task) (dir, whose string) {
	if t.Dir == "" {
		return r.Dir, "none given, and the worker's own "
	}
	return t.Dir, ""
}

// maxNamed bounds the number of roots in an error.
const maxNamed = 8

// Outside returns a [runs.FieldError] if a directory of t is outside of the
// roots, which it names, or is none or does not exist. It checks a submission on the worker's
// machine; other problems may be solved before a worker takes t.
func (r Rules) Outside(t runs.Task) error {
	given, whose := r.given(t)
	if err := r.outside("workingDir", given, whose); err != nil {
		return err
	}
	t.Dir = given
	t.PlaceAddDirs()
	for i, dir := range t.AddDirs {
		if err := r.outside("addDirs."+strconv.Itoa(i), dir, ""); err != nil {
			return err
		}
	}
	return nil
}

func (r Rules) outside(field, given, whose string) error {
	if !filepath.IsAbs(given) {
		return nil
	}
	_, problem := r.find(given)
	switch problem {
	case missing, noDirectory:
		return &runs.FieldError{Field: field, Problem: whose + problem}
	case outside:
	default:
		return nil
	}
	roots, more := r.Allowed(), ""
	if n := len(roots) - maxNamed; n > 0 {
		roots, more = roots[:maxNamed], fmt.Sprintf(" and %d more", n)
	}
	if r.ToAllow != "" {
		more += "; " + r.ToAllow
	}
	return &runs.FieldError{Field: field, Problem: whose +
		"is outside of the directories of the setting work.roots: " + strings.Join(roots, ", ") + more}
}

// Why says for people why a task was refused with an error of [Rules.Directory],
// [Rules.Allow] or the agent. It names the roots if the directory is outside of them.
func (r Rules) Why(t runs.Task, refusal error) string {
	var field *runs.FieldError
	if !errors.As(refusal, &field) {
		return ""
	}
	if field.Field != "workingDir" {
		return field.Error()
	}
	var outside *runs.FieldError
	given, _ := r.given(t)
	if _, err := filepath.EvalSymlinks(given); err == nil && errors.As(r.Outside(t), &outside) {
		return "working directory: " + outside.Problem
	}
	return "working directory: " + field.Problem + " on the worker's machine; it must not be outside of the directories " +
		"of its setting work.roots, either"
}

// Allowed returns the directories in and below which tasks may work.
func (r Rules) Allowed() (all []string) {
	roots, byDefault := r.Roots, len(r.Roots) == 0
	if byDefault {
		home, _ := os.UserHomeDir() // if there is none, only Dir is allowed
		roots = []string{r.Dir, home}
	}
	for _, root := range roots {
		if filepath.IsAbs(root) && !(byDefault && IsWhole(root)) && !slices.Contains(all, root) {
			all = append(all, root)
		}
	}
	return all
}

// IsWhole reports whether a directory is the root of the file system, or a link to it.
func IsWhole(dir string) bool {
	real, err := filepath.EvalSymlinks(dir)
	return err == nil && real == "/"
}

// inside reports whether dir, without symbolic links, is in or below a root.
func (r Rules) inside(dir string) bool {
	for _, root := range r.Allowed() {
		root, err := filepath.EvalSymlinks(root)
		if err == nil && in(root, dir) {
			return true
		}
	}
	return false
}
