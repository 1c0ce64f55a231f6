package embedded

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"go.uber.org/zap"
)

// checkPositions removes the positions of consumers that cannot be relied on.
//
// A server ignores a consumer whose position it cannot read, and refuses to create another one with its name. A
// position has no checksum: a wrong one is not noticed, and its consumer skips messages. In a queue these would wait
// for ever. So consumers of queues begin with the oldest message at each start, and what was being processed is
// delivered a second time.
func (v verifier) checkPositions(s *storedStream) error {
	files, err := glob(s.dir, "obs", "*", stateFile)
	if err != nil {
		return err
	}
	for _, name := range files {
		if s.name == v.names.Work() || s.name == v.names.Outbox() {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if len(b) == 0 || isPosition(b) {
			continue
		}
		aside, err := v.aside(s.name)
		if err != nil {
			return err
		}
		consumer := filepath.Base(filepath.Dir(name))
		v.log.Error("the position of a consumer is damaged: it begins again", zap.String("stream", s.name),
			zap.String("consumer", consumer), zap.String("file", name), zap.String("set_aside", aside))
		if err := os.Rename(name, filepath.Join(aside, consumer+"."+stateFile)); err != nil {
			return err
		}
	}
	return nil
}

// isPosition reports whether the server can read the position of a consumer, as it writes it: a magic number, a
// version, and numbers of variable size.
func isPosition(b []byte) bool {
	const magic, version = 22, 2
	if len(b) < 2 || b[0] != magic || b[1] != version {
		return false
	}
	b = b[2:]
	next := func() uint64 { // a signed number has the same size
		n, size := binary.Uvarint(b)
		if size <= 0 {
			b = nil
			return 0
		}
		b = b[size:]
		return n
	}
	list := func(before, each int) (whole bool) { // its length, a few numbers unless that is 0, and a few for each entry
		n := next()
		for range min(n, uint64(before)) {
			next()
		}
		for whole = true; n > 0 && b != nil; n-- {
			whole = next() != 0 && whole // a sequence, after the acknowledged ones
			for range each - 1 {
				next()
			}
		}
		return whole
	}
	_, acknowledged, _, delivered := next(), next(), next(), next()
	pending := list(1, 3) // sequences in stream and consumer, and times after the first number
	list(0, 2)            // how often messages were delivered
	return pending && b != nil && len(b) == 0 && acknowledged <= delivered
}
