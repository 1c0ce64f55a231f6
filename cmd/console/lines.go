package console

import (
	"bufio"
	"io"
	"sync"
	"time"
)

// linesTime is how long a writer of [Lines] keeps what it was given.
const linesTime = time.Millisecond

// Lines returns a writer that keeps what it is given for a moment, so that lines that come close together are written
// to w at once, and a function that writes the rest. On a terminal it is w itself. A write may return the error of an
// earlier one.
func Lines(w io.Writer) (lines io.Writer, flush func() error) {
	if _, terminal := w.(*pane); terminal {
		return w, func() error { return nil }
	}
	l := &lineWriter{to: bufio.NewWriterSize(w, 64<<10)}
	return l, l.flush
}

type lineWriter struct {
	mu  sync.Mutex
	to  *bufio.Writer
	due bool  // a flush is to come
	err error // of one that failed
}

func (l *lineWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0, l.err
	}
	if !l.due {
		l.due = true
		time.AfterFunc(linesTime, func() { _ = l.flush() }) // the next write has its error
	}
	return l.to.Write(p)
}

func (l *lineWriter) flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due = false
	if l.err == nil {
		l.err = l.to.Flush()
	}
	return l.err
}
