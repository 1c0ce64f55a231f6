package worker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/linesman/linesman/filelock"
	"github.com/linesman/linesman/runs"
)

// Backlog is the amount of local data that is not yet in the raw log.
type Backlog struct {
	Runs  int   // directories of runs
	Bytes int64 // of stdout that are not published yet, according to the marks
}

// runDirs lists the run directories in root, and the entries that a killed
// process may have left there. A missing root is empty.
func runDirs(root string) (names, left []string, err error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case isLeftover(name):
			left = append(left, name)
		case e.IsDir() && runs.CheckID(name) == nil:
			names = append(names, name)
		}
	}
	return names, left, err
}

// ReadBacklog reads the run directories below root, whoever owns them, and
// changes nothing. Marks are written concurrently, so the result is an
// estimate, and never too low. It does not count the bytes of tailed files.
func ReadBacklog(root string) (b Backlog, err error) {
	names, _, err := runDirs(root)
	if err != nil {
		return b, err
	}
	for _, name := range names {
		b.Runs++
		dir := filepath.Join(root, name)
		out, err := os.Stat(filepath.Join(dir, outFile))
		if err != nil { // a tailed file, or the run has just ended
			continue
		}
		m := mark{}
		line, err := readBounded(filepath.Join(dir, markFile), markSize)
		if err != nil || copy(m.line[:], line) < markSize || !m.decode() {
			m.progress = progress{}
		}
		b.Bytes += max(m.Out.Base+out.Size()-m.Log.Out, 0)
	}
	return b, nil
}

// StillWriting returns the number of runs below root with a process that can
// still write output: an agent, its children, or a pipe.
func StillWriting(root string) (n int) {
	names, _, _ := runDirs(root)
	for _, name := range names {
		if busy, err := filelock.Held(filepath.Join(root, name, outFile)); busy && err == nil {
			n++
		}
	}
	return n
}

// Unsupervised names the runs below root that have agent processes but no
// shim, and so no limits. A worker that drives such a run starts a shim within
// two seconds.
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
		if supervised, err := filelock.Held(filepath.Join(dir, shimFile)); supervised || err != nil {
			continue
		}
		writing, err := filelock.Held(filepath.Join(dir, outFile))
		if err != nil {
			continue
		}
		m := &members{id: readIdentity(dir), dir: dir}
		if _, running := m.agent(); writing || running {
			list = append(list, name)
		}
	}
	return list, nil
}
