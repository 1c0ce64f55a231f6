package worker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/linesman/linesman/runs"
)

// maxJournal bounds a journal, in bytes. One that would grow longer is removed: the run goes on as if it had none.
const maxJournal = 64 << 20

// journal is a file with the entries of a live run of which the raw log has the only other copy: what was sent to the
// agent, commands, starts and ends of processes. With the output, which is in files, they make the conversation. The
// raw log has an entry first, the journal next, and then the agent, so
//
//   - a new worker folds the journal, and reads the raw log only after it;
//   - a raw log that was lost gets the entries again, in their order, each at its place in the output.
//
// A record is a line: JSON and its checksum, as in a slot. A record that was cut off is dropped.
type journal struct {
	f    *os.File // nil: there is none, or it became too long
	size int64    // of the records
	rest *bufio.Reader
	read int64  // bytes read
	head *noted // the next record with an entry that is to be read; nil: none
	last noted  // the last record that was read
	late bool   // a record that was read says so of a cancel
}

// noted is a record: an entry and its place, or only how far the raw log is known. An entry without kind is no entry,
// nor is that of a cancel, which is noted if it came after the end of the turn.
type noted struct {
	Seq uint64 `json:"seq"` // in the raw log, when it was written
	Out int64  `json:"out"` // bytes of stdout before
	runs.Entry
}

// journaled reports whether entries of the kind are in a journal.
func journaled(k runs.Kind) bool {
	return slices.Contains([]runs.Kind{runs.Proc, runs.Sent, runs.Ordered}, k)
}

// is reports whether the record is of an entry of the raw log.
func (n *noted) is(e runs.Entry) bool {
	switch n.Kind {
	case runs.Cancelled:
		return n.Kind == e.Kind
	case "":
		return e.Kind == runs.Out && e.Offset+int64(len(e.Body)) == n.Out
	}
	return n.Kind == e.Kind && n.Offset == e.Offset && bytes.Equal(n.Body, e.Body)
}

// openJournal opens the journal at path, or creates it.
func openJournal(path string) (*journal, error) {
	f, err := openOwn(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j := &journal{f: f, size: maxJournal}
	for err = j.rewind(); err == nil && j.head != nil; {
		err = j.next()
	}
	if j.size = j.read; err == nil {
		err = f.Truncate(j.size)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read journal: %w", err), f.Close())
	}
	return j, nil
}

func (j *journal) close() {
	if j.f != nil {
		j.f.Close()
	}
}

// rewind makes the first record the next one.
func (j *journal) rewind() error {
	if j.f == nil {
		return nil
	}
	j.rest, j.read, j.late = bufio.NewReader(io.NewSectionReader(j.f, 0, j.size)), 0, false
	return j.next()
}

// next reads up to the next record with an entry.
func (j *journal) next() error {
	for j.head = nil; ; {
		line, err := j.rest.ReadBytes('\n')
		var n noted
		switch {
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case err != nil || len(line) < slotSum || !readSlot(line, &n):
			return nil
		}
		j.read, j.last = j.read+int64(len(line)), n
		if journaled(n.Kind) {
			j.head = &n
			return nil
		}
		j.late = j.late || n.Kind == runs.Cancelled
	}
}

// take says that the raw log has an entry. It reports whether that is the next one of the journal, which gets it if
// there is none.
func (j *journal) take(n noted) (same bool, err error) {
	if j.head != nil {
		if !j.head.is(n.Entry) {
			return false, nil
		}
		return true, j.next()
	}
	return true, j.write(n)
}

func (j *journal) write(n noted) error {
	if j.f == nil {
		return nil
	}
	line, err := json.Marshal(n)
	if err != nil {
		return err
	}
	line = append(line, slotChecksum(line)...)
	if j.size+int64(len(line)) > maxJournal {
		err := errors.Join(os.Remove(j.f.Name()), j.f.Close())
		j.f, j.last = nil, noted{}
		return err
	}
	if _, err := j.f.WriteAt(line, j.size); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	j.size += int64(len(line))
	return nil
}
