package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/linesman/linesman/filelock"
	"github.com/linesman/linesman/runs"
)

// importPrefix begins the names of the lock files of imports, one per file
// that is being imported. They are in the directory that holds the run
// directories.
const importPrefix = ".import-"

// importLock excludes other imports of a file, in this and other processes.
// The lock file holds the id of the last planned run: if the process is
// killed, the next holder resumes that run. The lock file is removed on
// release, unless the directory of that run still exists.
type importLock struct {
	file inode
	root string
	f    *os.File
}

// lockImport waits until no other import of the file holds the lock. If that
// takes longer than tailPause, it calls waiting.
func (w *Worker) lockImport(ctx context.Context, file inode, waiting func()) (*importLock, error) {
	const pause = 50 * time.Millisecond
	began := time.Now()
	if err := MakeDir(w.cfg.Root); err != nil {
		return nil, err
	}
	for {
		f, err := openLocked(w.importPath(file), 0, filelock.TryLock)
		if err == nil {
			return &importLock{file: file, root: w.cfg.Root, f: f}, nil
		}
		if !errors.Is(err, filelock.ErrLocked) {
			return nil, err
		}
		if time.Since(began) > tailPause {
			waiting()
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func (w *Worker) importPath(file inode) string {
	return filepath.Join(w.cfg.Root, fmt.Sprintf("%s%x-%x", importPrefix, file.Dev, file.Inode))
}

// run returns the id of the last planned run, or "".
func (l *importLock) run() string {
	const longest = 1 << 10
	text, _ := io.ReadAll(io.NewSectionReader(l.f, 0, longest))
	if id := strings.TrimSpace(string(text)); runs.CheckID(id) == nil {
		return id
	}
	return ""
}

// setRun stores the id of the run whose directory is created next. The
// directory of the previous run is gone.
func (l *importLock) setRun(run string) error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err := l.f.WriteAt([]byte(run+"\n"), 0)
	return err
}

// release removes the lock file, if it is not needed, and releases the lock.
func (l *importLock) release() {
	if l == nil {
		return
	}
	if run := l.run(); run == "" || !exists(filepath.Join(l.root, run)) {
		_ = os.Remove(l.f.Name()) // else the next scan removes it
	}
	_ = filelock.Close(l.f)
}

// removeImportLock removes the lock file of a killed import, if its run
// directory is gone.
func (w *Worker) removeImportLock(path string) {
	if f, err := openLocked(path, 0, filelock.TryLock); err == nil {
		(&importLock{root: w.cfg.Root, f: f}).release()
	}
}
