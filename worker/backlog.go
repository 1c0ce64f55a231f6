package worker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/linesman/linesman/filelock"
	"github.com/linesman/linesman/runs"
)

// Backlog is what the run directories below a root hold that the raw log is
// not known to have.
type Backlog struct {
	Runs  int   // directories of runs
	Bytes int64 // of stdout that are not published yet, as far as the marks tell
}

// runDirs lists the names of the run directories in root, and of what a killed
// process may have left there. A root that is missing has none.
func runDirs(root string) (names, left []string, err error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case leftover(name):
			left = append(left, name)
		case e.IsDir() && runs.CheckID(name) == nil:
			names = append(names, name)
		}
	}
	return names, left, err
}

// ReadBacklog looks at the run directories below root, whoever has them, and
// changes nothing. The marks are written while it looks, so what it finds is
// about right, and never less than there is. The bytes of tailed files are not
// counted.
func ReadBacklog(root string) (b Backlog, err error) {
	names, _, err := runDirs(root)
	if err != nil {
		return b, err
	}
	for _, name := range names {
		b.Runs++
		dir := filepath.Join(root, name)
		out, err := os.Stat(filepath.Join(dir, outFile))
		if err != nil { // it has none: it tails a file, or it went just now
			continue
		}
		m := mark{}
		line, err := readBounded(filepath.Join(dir, markFile), markSize)
		if err != nil || copy(m.line[:], line) < markSize || !m.decode() {
			m.place = place{}
		}
		b.Bytes += max(m.Out.Base+out.Size()-m.Log.Out, 0)
	}
	return b, nil
}

// StillWriting is how many runs below root have a process that can still write
// output: an agent, its children, or a pipe.
func StillWriting(root string) (n int) {
	names, _, _ := runDirs(root)
	for _, name := range names {
		if busy, err := filelock.Held(filepath.Join(root, name, outFile)); busy && err == nil {
			n++
		}
	}
	return n
}

// Unsupervised names the runs below root whose agent, or what it left behind,
// lives without a shim, and so without limits. A worker that drives such a run
// changes that within a second or two.
func Unsupervised(root string) (list []string, err error) {
	names, _, err := runDirs(root)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		dir := filepath.Join(root, name)
		if !exists(filepath.Join(dir, startedFile)) {
			continue
		}
		if watched, err := filelock.Held(filepath.Join(dir, shimFile)); watched || err != nil {
			continue
		}
		writing, err := filelock.Held(filepath.Join(dir, outFile))
		if err != nil {
			continue
		}
		m := &members{id: readIdentity(dir), dir: dir}
		if _, lives := m.agent(); writing || lives {
			list = append(list, name)
		}
	}
	return list, nil
}
