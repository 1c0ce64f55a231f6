package datadir

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// log is the log file of an `up` in the background. At maxLog bytes it is
// renamed to FILE.1, which replaces the previous one. Its methods may be called
// from several goroutines.
type log struct {
	path string

	mu       sync.Mutex
	file     *os.File
	size     int64
	isStderr bool // stderr is the file, for the output of the runtime
}

const maxLog = 1 << 20

func openLog(path string) (*log, error) {
	l := &log{path: path}
	return l, l.open()
}

// open is called with mu held, or before the log is shared.
func (l *log) open() error {
	if info, err := os.Stat(l.path); err == nil && info.Size() >= maxLog {
		if err := os.Rename(l.path, l.path+".1"); err != nil {
			return fmt.Errorf("log: %w", err)
		}
	}
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("log: %w", err)
	}
	if l.file != nil {
		_ = l.file.Close()
	}
	l.file, l.size = file, info.Size()
	if l.isStderr {
		return unix.Dup2(int(file.Fd()), 2)
	}
	return nil
}

// Write appends to the file.
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size >= maxLog {
		_ = l.open() // if that fails, the current file is used, and the next write retries
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

// becomeStderr makes the file stderr, and closes stdout: both were a pipe to the
// command that started this process.
func (l *log) becomeStderr() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isStderr = true
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	return errors.Join(unix.Dup2(int(l.file.Fd()), 2), unix.Dup2(int(null.Fd()), 1))
}

// IsStderr reports whether stderr is the file: what is printed there is logged.
func (l *log) IsStderr() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isStderr
}

// close closes the file, if there is one.
func (l *log) close() {
	if l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		_ = l.file.Close()
	}
}
