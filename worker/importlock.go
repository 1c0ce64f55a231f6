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

// importPrefix begins the names of the lock files of imports, in the directory
// of the run directories: one for each file that is being imported.
const importPrefix = ".import-"

// importLock keeps other imports of a file away, in this process and in others.
// The lock file holds the id of the last run that was planned: if the process is
// killed, the next holder resumes that run. The file is removed with the lock,
// unless the directory of the run is left.
type importLock struct {
	file inode
	root string
	f    *os.File
}

// lockImport waits until no other import of the file holds the lock. It calls
// waiting where that takes longer.
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

// run returns the id of the last run that was planned, "" if there is none.
func (l *importLock) run() string {
	const longest = 1 << 10
	text, _ := io.ReadAll(io.NewSectionReader(l.f, 0, longest))
	if id := strings.TrimSpace(string(text)); runs.CheckID(id) == nil {
		return id
	}
	return ""
}

// name stores the id of the run whose directory is made next. The directory of
// the last one is gone.
func (l *importLock) name(run string) error {
	if err := l.f.Truncate(0); err != nil {
		return err
	}
	_, err := l.f.WriteAt([]byte(run+"\n"), 0)
	return err
}

// release gives the lock back.
func (l *importLock) release() {
	if l == nil {
		return
	}
	if run := l.run(); run == "" || !exists(filepath.Join(l.root, run)) {
		_ = os.Remove(l.f.Name()) // else the next scan removes it
	}
	_ = filelock.Close(l.f)
}

// clearImport removes the lock file of a killed import, once its run directory
// is gone.
func (w *Worker) clearImport(path string) {
	if f, err := openLocked(path, 0, filelock.TryLock); err == nil {
		(&importLock{root: w.cfg.Root, f: f}).release()
	}
}
