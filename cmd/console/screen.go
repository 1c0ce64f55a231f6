package console

import (
	"bytes"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// Screen is the terminal that stdout and stderr share. Events, log and status
// line are all written through it, so that they do not
// mix: the status line is removed before anything is written, and drawn again below.
type Screen struct {
	mu     sync.Mutex
	status string    // the status line that is on the screen, "" for none
	on     io.Writer // where it was drawn
}

// pane is stdout or stderr, on a screen.
type pane struct {
	*Screen
	file *os.File
}

// Pane returns w on the screen, if w is a terminal, else w itself.
func (s *Screen) Pane(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &pane{s, f}
	}
	return w
}

const eraseLine = "\r\x1b[K"

// show writes text to w, with a status line below, or none if it is empty.
func (s *Screen) show(w io.Writer, text, status string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status != "" && s.on == w { // in one write
		text, s.status = eraseLine+text, ""
	}
	if err := s.erase(); err != nil {
		return err
	}
	s.status, s.on = status, w
	_, err := io.WriteString(w, text+status)
	return err
}

// shown reports whether there is a status line.
func (s *Screen) shown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status != ""
}

// Write writes whole lines above the status line.
func (p *pane) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := p.status
	if err := p.erase(); err != nil {
		return 0, err
	}
	n, err := p.file.Write(b)
	if err != nil || status == "" || !bytes.HasSuffix(b, []byte("\n")) {
		return n, err
	}
	p.status = status
	_, err = io.WriteString(p.on, status)
	return n, err
}

// erase leaves the cursor at the start of an empty line.
func (s *Screen) erase() error {
	if s.status == "" {
		return nil
	}
	s.status = ""
	_, err := io.WriteString(s.on, eraseLine)
	return err
}
