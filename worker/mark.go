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

// place is where a run stands: what the mark file holds.
type place struct {
	Log   runs.Mark `json:"log"`          // what the raw log was known to hold
	Begun bool      `json:"begun"`        // the start entry may have been sent: a log with entries is ours
	As    string    `json:"as,omitempty"` // and names this worker
	Noted int64     `json:"noted"`        // 1 + the bytes written when the last idle note was made; 0: none
	Out   spot      `json:"out"`
	Err   spot      `json:"err"`
	Keys  [][]byte  `json:"keys,omitempty"` // public keys that may seal the exit, those of the last shims; at most maxKeys
}

// maxKeys is how many shims may be on their way to one run: the last one that
// was started, and one of a worker before.
const maxKeys = 2

// markSize is the size of a mark file, in bytes. It never changes, so that
// writing it again needs no space on a full disk.
const markSize = 1024

// mark keeps the place of a run in a file. It is a hint that saves reading the
// log from its beginning, and the only place that knows how often a spool was
// truncated. The log is right where the two differ.
type mark struct {
	place
	f    *os.File
	line [markSize]byte
}

// createMark makes the mark of a new run. Its caller syncs it.
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

// openMark reads the mark at path. One that cannot be read is replaced by the
// beginning of the log.
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
		m.place = place{Begun: true} // what the log holds is ours, as far as anybody can tell
		m.line = [markSize]byte{}
	}
	return m, nil
}

// save writes the place with one write, so that a kill leaves the old one or
// the new one. Only a power failure can tear it, and the checksum tells.
func (m *mark) save() error {
	body, err := json.Marshal(&m.place)
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
	return json.Unmarshal(m.line[:sum], &m.place) == nil
}

func (m *mark) close() error { return m.f.Close() }
