package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// changed are the files that differ from the index, by what must be done with them.
type changed struct {
	read    []string // their content
	gone    []string
	assumed []string // they were marked as unchanged
	skipped []string // they were marked as not in the work tree
	bytes   int64
}

// snapshot updates the index with the files of the work tree, and returns the id of its tree.
func (r *repository) snapshot(ctx context.Context) (string, error) {
	c, err := r.changed(ctx)
	if err != nil {
		return "", err
	}
	for _, step := range []struct {
		files   []string
		options []string
	}{
		{c.gone, []string{"--force-remove"}},
		{c.assumed, []string{"--no-assume-unchanged"}},
		{c.skipped, []string{"--no-skip-worktree"}},
		{c.read, []string{"--add", "--remove", "--replace"}},
	} {
		if err := r.update(ctx, step.files, step.options...); err != nil {
			return "", err
		}
	}
	tree, err := r.writeTree(ctx)
	if err == nil || ctx.Err() != nil {
		return tree, err
	}
	// Files in conflict outside the directory have no content to compare.
	var conflicts []string
	err = r.each(ctx, nil, func(entry string) error {
		_, name, _ := strings.Cut(entry, "\t")
		conflicts = append(conflicts, name)
		return nil
	}, "ls-files", "-z", "--unmerged")
	if err == nil {
		err = r.update(ctx, conflicts, "--force-remove")
	}
	if err != nil {
		return "", err
	}
	return r.writeTree(ctx)
}

func (r *repository) update(ctx context.Context, files []string, options ...string) error {
	if len(files) == 0 {
		return nil
	}
	list := strings.NewReader(strings.Join(files, "\x00") + "\x00")
	args := append([]string{"update-index", "-z"}, append(options, "--stdin")...)
	return r.each(ctx, list, func(string) error { return nil }, args...)
}

func (r *repository) writeTree(ctx context.Context) (tree string, err error) {
	err = r.read(ctx, nil, func(out io.Reader) error {
		b, err := io.ReadAll(io.LimitReader(out, 128))
		if tree = strings.TrimSpace(string(b)); err == nil && !isObjectID(tree) {
			tree = ""
		}
		return err
	}, "write-tree", "--missing-ok")
	if err == nil && tree == "" {
		err = errors.New("git write-tree: no object id")
	}
	return tree, err
}

// changed lists the files in the directory that differ from the index, as far as their size and
// times tell.
func (r *repository) changed(ctx context.Context) (*changed, error) {
	c, links, seen := new(changed), links{root: r.root, known: map[string]bool{".": false}}, ""
	args := []string{"ls-files", "-z", "-v", "--cached", "--modified", "--others", "--exclude-standard"}
	if r.below != "." {
		args = append(args, "--", r.below)
	}
	err := r.each(ctx, nil, func(entry string) error {
		tag, name, ok := strings.Cut(entry, " ")
		if !ok || strings.HasSuffix(name, "/") { // another repository in the directory
			return nil
		}
		if r.private != "" && (name == r.private || strings.HasPrefix(name, r.private+"/")) {
			return nil
		}
		switch tag {
		case "H": // as in the index
			return nil
		case "h":
			c.assumed = append(c.assumed, name)
		case "S", "s":
			if !exists(filepath.Join(r.root, name)) {
				return nil
			}
			c.skipped = append(c.skipped, name)
			if tag == "s" {
				c.assumed = append(c.assumed, name)
			}
		}
		if name == seen { // of a file in conflict, several versions are listed
			return nil
		}
		seen = name
		if err := c.add(r.root, name, links.behind(name)); err != nil {
			return err
		}
		if n := len(c.read) + len(c.gone) + len(c.assumed) + len(c.skipped); n > maxFiles || c.bytes > maxBytes {
			return fmt.Errorf("%w: %d files, %d bytes", errTooLarge, n, c.bytes)
		}
		return nil
	}, args...)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// add adds a file that may have changed, or is gone if it is behind a symbolic link.
func (c *changed) add(root, name string, behind bool) error {
	at := filepath.Join(root, name)
	info, err := os.Lstat(at)
	switch {
	case behind, errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		c.gone = append(c.gone, name)
		return nil
	case err != nil:
		return nil // unreadable: as it was
	case info.Mode().IsRegular():
		f, err := os.OpenFile(at, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return nil
		}
		if err := f.Close(); err != nil {
			return err
		}
		c.bytes += info.Size()
	case info.IsDir() && exists(filepath.Join(at, ".git")): // a submodule
	case info.Mode()&fs.ModeSymlink == 0: // a directory, device, FIFO or socket in place of a file
		c.gone = append(c.gone, name)
		return nil
	}
	c.read = append(c.read, name)
	return nil
}

// links knows which directories of a work tree are behind symbolic links, which git does not follow.
type links struct {
	root  string
	known map[string]bool
}

// behind reports whether a file is behind a symbolic link.
func (l *links) behind(name string) bool {
	dir := path.Dir(name)
	found, ok := l.known[dir]
	if !ok {
		info, err := os.Lstat(filepath.Join(l.root, dir))
		found = err == nil && info.Mode()&fs.ModeSymlink != 0 || l.behind(dir)
		l.known[dir] = found
	}
	return found
}
