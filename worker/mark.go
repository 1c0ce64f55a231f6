package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"

	"github.com/linesman/linesman/runs"
)

// progress is how far a run has come: the content of the mark file.
type progress struct {
	Log   runs.Mark `json:"log"`          // what the raw log is known to hold
	Begun bool      `json:"begun"`        // the start entry may have been sent: entries in the log are ours
	As    string    `json:"as,omitempty"` // name of this worker in the start entry
	Noted int64     `json:"noted"`        // 1 + bytes written at the last idle note; 0: no note
	Out   segment   `json:"out"`
	Err   segment   `json:"err"`
	Keys  [][]byte  `json:"keys,omitempty"` // public keys of the last shims, that may sign the exit; at most maxKeys
}

// maxKeys is how many shims may be starting for one run: the last one of this
// worker, and one of a previous worker.
const maxKeys = 2

// markSize is the size of a mark file, in bytes. It is constant, so that an
// update needs no space on a full disk.
const markSize = 1024

// mark stores the progress of a run in a file. It saves reading the raw log
// from its beginning, and only the mark knows how often a spool was truncated.
// Where it differs from the raw log, the log is right.
type mark struct {
	progress
	f    *os.File
	line [markSize]byte
}

// createMark creates the mark of a new run. The caller syncs it.
func createMark(path string) (*mark, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	m := &mark{f: f}
	if err := m.save(); err != nil {
		f.Close()
		return nil, err
	}
	return m, nil
}

// openMark reads the mark at path. If it is invalid, the run resumes at the
// beginning of its log.
func openMark(path string) (*mark, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil {
		return nil, err
	}
	m := &mark{f: f}
	if n, _ := f.ReadAt(m.line[:], 0); n < markSize || !m.decode() {
		m.progress = progress{Begun: true} // assume that entries in the log are ours
		m.line = [markSize]byte{}
	}
	return m, nil
}

// save writes the mark with one write, so that a kill leaves the old or the
// new content. Only a power failure can tear it, which the checksum detects.
func (m *mark) save() error {
	body, err := json.Marshal(&m.progress)
	if err != nil {
		return fmt.Errorf("save mark: %w", err)
	}
	const sum = markSize - 9 // 8 hex digits and a newline
	if len(body) > sum {
		return fmt.Errorf("save mark: %d bytes, at most %d", len(body), sum)
	}
	n := copy(m.line[:], body)
	for i := n; i < sum; i++ {
		m.line[i] = ' '
	}
	copy(m.line[sum:], fmt.Sprintf("%08x\n", crc32.ChecksumIEEE(m.line[:sum])))
	if _, err := m.f.WriteAt(m.line[:], 0); err != nil {
		return fmt.Errorf("save mark: %w", err)
	}
	return nil
}

func (m *mark) decode() bool {
	const sum = markSize - 9
	if string(m.line[sum:]) != fmt.Sprintf("%08x\n", crc32.ChecksumIEEE(m.line[:sum])) {
		return false
	}
	return json.Unmarshal(m.line[:sum], &m.progress) == nil
}

func (m *mark) close() error { return m.f.Close() }
