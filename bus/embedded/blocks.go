package embedded

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"

	"github.com/minio/highwayhash"
)

// A block is a file with records of a stream, one after the other, as the NATS server
// writes it:
//
//	4 length of the record; its highest bit: has a header
//	8 sequence; its two highest bits: erased, and a mark that another message was deleted
//	8 time
//	2 length of the subject
//	  subject, [4 length of the header, header,] body
//	8 hash of all but the two lengths, under a key of the block
const (
	recordHead   = 4 + 8 + 8 + 2
	recordHash   = 8
	maxRecord    = 32 << 20
	headerBit    = 1 << 31
	erasedBit    = 1 << 63
	tombstoneBit = 1 << 62
)

// record is one valid record of a block.
type record struct {
	from, to int    // where it is in the block
	seq      uint64 // of the message, or of a deleted one
	time     int64  // when it was stored, in Unix nanoseconds
	deleted  bool   // it has no message
	subject  []byte // of the message
	header   []byte // of the message, nil without one
}

// span is a range of a block that no valid record has.
type span struct{ from, to int }

// newHash returns the hash of the settings and the index of a stream.
func newHash(stream string) hash.Hash64 {
	key := sha256.Sum256([]byte(stream))
	h, err := highwayhash.New64(key[:])
	if err != nil {
		panic(err) // the key has the right size
	}
	return h
}

// newBlockHash returns the hash of the records of a block.
func newBlockHash(stream string, number int) hash.Hash64 {
	return newHash(fmt.Sprintf("%s-%d", stream, number))
}

// scan returns the valid records of a block, and the rest. After a damaged record it
// continues where that ends, according to its length, or else at the next bytes that are a
// valid record. A message in a damaged record can contain such bytes, written by an agent: the
// length goes first, so that they count only if it is damaged, too.
func scan(block []byte, h hash.Hash64) (good []record, bad []span) {
	bad = scanEach(block, h, func(r record) { good = append(good, r) })
	return good, bad
}

// scanEach is scan without memory for the records.
func scanEach(block []byte, h hash.Hash64, each func(record)) (bad []span) {
	for at := 0; at < len(block); {
		if r, ok := recordAt(block, at, h); ok {
			each(r)
			at = r.to
			continue
		}
		next := nextRecord(block, at, h)
		bad = append(bad, span{at, next})
		at = next
	}
	return bad
}

// nextRecord returns where the first valid record after a damaged one is, or the end.
func nextRecord(block []byte, at int, h hash.Hash64) int {
	if end, ok := recordEnd(block, at); ok {
		if _, valid := recordAt(block, end, h); valid || end == len(block) {
			return end
		}
	}
	for at++; at < len(block); at++ {
		if _, ok := recordAt(block, at, h); ok {
			return at
		}
	}
	return len(block)
}

// recordEnd returns the end of the record at a position, if it can be one.
func recordEnd(block []byte, at int) (int, bool) {
	if len(block)-at < recordHead+recordHash {
		return 0, false
	}
	size := int(binary.LittleEndian.Uint32(block[at:]) &^ headerBit)
	ok := size >= recordHead+recordHash && size <= maxRecord && size <= len(block)-at
	return at + size, ok
}

// recordAt returns the record at a position, if it is valid.
func recordAt(block []byte, at int, h hash.Hash64) (r record, ok bool) {
	end, ok := recordEnd(block, at)
	if !ok {
		return r, false
	}
	head, data := block[at:at+recordHead], block[at+recordHead:end-recordHash]
	subject, rest := int(binary.LittleEndian.Uint16(head[20:])), 0
	hasHeader := binary.LittleEndian.Uint32(head)&headerBit != 0
	if hasHeader {
		rest = 4
	}
	if subject+rest > len(data) {
		return r, false
	}
	h.Reset()
	_, _ = h.Write(head[4:20]) // a hash returns no errors
	_, _ = h.Write(data[:subject])
	_, _ = h.Write(data[subject+rest:])
	if h.Sum64() != binary.LittleEndian.Uint64(block[end-recordHash:]) {
		return r, false
	}
	seq := binary.LittleEndian.Uint64(head[4:])
	stored := binary.LittleEndian.Uint64(head[12:])
	r = record{from: at, to: end, seq: seq &^ (erasedBit | tombstoneBit), time: int64(stored), subject: data[:subject]}
	r.deleted = seq != r.seq || seq == 0
	if hasHeader { // its length has no hash
		size := int(binary.LittleEndian.Uint32(data[subject:]))
		if size > len(data)-subject-rest {
			return r, false
		}
		r.header = data[subject+rest:][:size]
		return r, bytes.HasPrefix(r.header, []byte("NATS/1.0")) && bytes.HasSuffix(r.header, []byte("\r\n\r\n"))
	}
	return r, true
}

// readInto reads a file into a buffer, which it returns, or a larger one.
func readInto(buf []byte, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return buf[:0], err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return buf[:0], err
	}
	buf = slices.Grow(buf[:0], int(info.Size())+1)[:info.Size()]
	n, err := io.ReadFull(f, buf)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) { // it became shorter meanwhile
		err = nil
	}
	return buf[:n], err
}

// without returns a block without some ranges of it.
func without(block []byte, bad []span) []byte {
	good := make([]byte, 0, len(block))
	at := 0
	for _, b := range bad {
		good = append(good, block[at:b.from]...)
		at = b.to
	}
	return append(good, block[at:]...)
}
