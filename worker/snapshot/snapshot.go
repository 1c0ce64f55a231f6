// Package snapshot finds what changed in a directory of a git work tree between two moments.
//
// Each snapshot is a git tree in a bare repository of linesman's own, the scratch repository.
// The repository of the user is only read: no file of it is written, locked or replaced.
//
//	user's repository ──index, objects, exclude file──▶ scratch repository ──▶ tree
//	work tree ─────────────────changed files────────────────┘
//
// The one rule: nothing runs that a repository configures. The program that changed the directory
// may have written .git/config and .gitattributes, and linesman is not in its sandbox. So git gets
// a configuration of linesman's own, from which hooks, filters, fsmonitor, text conversions and
// external diffs are absent, and only commands that do not visit submodules.
package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/runs"
)

// The reasons why there is no snapshot. Another error is one of the file system or of git.
var (
	errNoGit    = errors.New("the program git is missing")
	errTooLarge = errors.New("too much has to be read")
)

// Limits of a snapshot.
const (
	maxFiles  = 100_000   // files that differ from the index, or are marked in it
	maxBytes  = 256 << 20 // bytes of those that must be read
	maxIndex  = 256 << 20 // bytes of the index of the repository, and of all that it may share together
	maxShared = 16        // files of those
	maxState  = 256 << 10 // bytes of the state file
)

// stateFile is in the scratch directory, once that has a snapshot or the reason why not.
const stateFile = "state.json"

// scratchPrefix is the beginning of the names of scratch repositories.
const scratchPrefix = "git-"

// state is what the second snapshot needs of the first one.
type state struct {
	Reason runs.NoChanges `json:"reason,omitempty"` // why there is no snapshot
	Name   string         `json:"name,omitempty"`   // of the scratch repository
	Tree   string         `json:"tree,omitempty"`
	place
	settings
}

// place is where a directory is in a work tree.
type place struct {
	Root   string `json:"root"`   // of the work tree, without symbolic links
	Below  string `json:"below"`  // of the directory, relative to Root; "." for Root itself
	GitDir string `json:"gitdir"` // of the work tree
	Common string `json:"common"` // of the repository, which several work trees may share
}

// InWorkTree reports whether a directory is in a git work tree, without starting a process.
func InWorkTree(dir string) bool {
	_, err := find(dir)
	return err == nil
}

// find looks for the work tree of a directory. The error is an [fs.ErrNotExist] if there is none.
func find(dir string) (p place, err error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return p, err
	}
	for p.Root = real; ; p.Root = filepath.Dir(p.Root) {
		p.GitDir = filepath.Join(p.Root, ".git")
		if info, err := os.Stat(p.GitDir); err == nil && info.Mode().IsRegular() { // a linked work tree or a submodule
			if p.GitDir, err = pointer(p.GitDir, "gitdir: "); err != nil {
				return p, err
			}
		}
		if exists(filepath.Join(p.GitDir, "HEAD")) {
			break
		}
		if p.Root == filepath.Dir(p.Root) {
			return p, fs.ErrNotExist
		}
	}
	p.Common = p.GitDir
	if file := filepath.Join(p.GitDir, "commondir"); exists(file) {
		if p.Common, err = pointer(file, ""); err != nil {
			return p, err
		}
	}
	p.Below, err = filepath.Rel(p.Root, real)
	return p, err
}

// pointer reads a file that names a directory, behind a prefix.
func pointer(file, prefix string) (string, error) {
	text, err := readBounded(file, 8<<10)
	if err != nil {
		return "", err
	}
	at, found := strings.CutPrefix(strings.TrimRight(string(text), "\r\n"), prefix)
	if !found || at == "" {
		return "", errors.New("a file of the repository is damaged")
	}
	if !filepath.IsAbs(at) {
		at = filepath.Join(filepath.Dir(file), at)
	}
	return filepath.Clean(at), nil
}

// Take stores a snapshot of dir in scratch, a directory that it creates. Files below private
// do not belong to the snapshot. If there can be no snapshot the reason is stored, and the error is
// the cause. A scratch directory that was completed before is kept.
func Take(ctx context.Context, dir, scratch, private string) error {
	if exists(filepath.Join(scratch, stateFile)) {
		return nil
	}
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return err
	}
	clean(scratch, "") // what a worker that was killed has left
	s := state{}
	err := s.take(ctx, dir, scratch, private)
	if err != nil {
		clean(scratch, "")
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	s.Reason = Reason(err)
	body, encodeErr := json.Marshal(s)
	if encodeErr != nil {
		return encodeErr
	}
	return errors.Join(files.Replace(filepath.Join(scratch, stateFile), stateFile+".*", body), err)
}

func (s *state) take(ctx context.Context, dir, scratch, private string) (err error) {
	if s.place, err = find(dir); err != nil {
		return err
	}
	git, err := program()
	if err != nil {
		return err
	}
	if s.settings, err = readSettings(ctx, git, s.GitDir); err != nil {
		return err
	}
	s.exclude(s.place, private)
	r, err := create(scratch, git, s.place, s.settings, filepath.Join(s.Common, "objects"))
	if err != nil {
		return err
	}
	if err := r.copyIndex(s.GitDir); err != nil {
		return err
	}
	s.Name = filepath.Base(r.dir)
	s.Tree, err = r.snapshot(ctx)
	return err
}

// clean removes the repositories in scratch but one. Each may have hundreds of megabytes.
func clean(scratch, but string) {
	all, _ := filepath.Glob(filepath.Join(literalGlob.Replace(scratch), scratchPrefix+"*")) // the pattern is valid
	for _, dir := range all {
		if dir != but {
			_ = os.RemoveAll(dir) // the directory of the run is removed later
		}
	}
}

// Reason returns the reason of an error of this package.
func Reason(err error) runs.NoChanges {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errNoGit):
		return runs.NoGit
	case errors.Is(err, errTooLarge):
		return runs.TooLarge
	case errors.Is(err, context.DeadlineExceeded):
		return runs.TooSlow
	}
	return runs.SnapshotFailed
}

// Diff compares dir with the snapshot in scratch. A difference that cannot be found has its
// reason in it; the error is the cause, if there is one.
func Diff(ctx context.Context, dir, scratch string) (d runs.Diff, err error) {
	s, err := readState(scratch)
	if err == nil && s.Reason != "" {
		d.Changes.Reason = s.Reason
		return d, nil
	}
	if err == nil {
		d, err = s.diff(ctx, dir, scratch)
	}
	if err != nil {
		d = runs.Diff{Changes: runs.Changes{Reason: Reason(err)}}
	}
	return d, err
}

func (s *state) diff(ctx context.Context, dir, scratch string) (d runs.Diff, err error) {
	git, err := program()
	if err != nil {
		return d, err
	}
	// The program that ran in dir may have written the state, where nothing prevents it.
	if real, err := filepath.EvalSymlinks(dir); err == nil && filepath.Join(s.Root, s.Below) != real {
		return d, errors.New("the directory was moved")
	}
	before := filepath.Join(scratch, filepath.Base(s.Name))
	clean(scratch, before) // what a worker that was killed has left
	defer clean(scratch, before)
	r, err := create(scratch, git, s.place, s.settings, filepath.Join(before, "objects"),
		filepath.Join(s.Common, "objects"))
	if err != nil {
		return d, err
	}
	if err := r.copyIndex(before); err != nil {
		return d, err
	}
	tree, err := r.snapshot(ctx)
	if err != nil {
		return d, err
	}
	return r.compare(ctx, s.Tree, tree)
}

func readState(scratch string) (*state, error) {
	body, err := readBounded(filepath.Join(scratch, stateFile), maxState)
	if err != nil {
		return nil, err
	}
	s := new(state)
	if err := json.Unmarshal(body, s); err != nil {
		return nil, fmt.Errorf("read the state of a snapshot: %w", err)
	}
	if s.Reason == "" && (!isObjectID(s.Tree) || s.Name == "" || !filepath.IsAbs(s.Root)) {
		return nil, errors.New("the state of a snapshot is damaged")
	}
	return s, nil
}

// program returns the path of git.
func program() (string, error) {
	path, err := exec.LookPath("git")
	if err != nil || !filepath.IsAbs(path) {
		return "", errNoGit
	}
	return path, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}
