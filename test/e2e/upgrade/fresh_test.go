package upgrade

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/minio/highwayhash"
)

// fresh makes what a fixture holds some minutes old, and its receiver of
// notifications one of now, at an address of the same length: linesman forgets
// by the clock, and no port is free for ever. Every byte else of the streams
// stays.
func fresh(t *testing.T, data, receiver string) {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(data, "jetstream", "*", "*", "streams", "*", "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatalf("no streams: %v", err)
	}
	var last int64
	for _, at := range blocks {
		records(t, at, func(r record) { last = max(last, int64(binary.LittleEndian.Uint64(r.time))) })
	}
	later := time.Now().Add(-5 * time.Minute).Sub(time.Unix(0, last))
	for _, at := range blocks {
		records(t, at, func(r record) {
			was := int64(binary.LittleEndian.Uint64(r.time))
			binary.LittleEndian.PutUint64(r.time, uint64(was+int64(later)))
			for _, found := range deadline.FindAllSubmatchIndex(r.body, -1) {
				digits := r.body[found[2]:found[3]]
				ms, _ := strconv.ParseInt(string(digits), 10, 64)
				copy(digits, strconv.FormatInt(ms+later.Milliseconds(), 10))
			}
			copy(r.body, bytes.ReplaceAll(r.body, []byte(awayReceiver), []byte(receiver)))
		})
	}
}

// awayReceiver is where make.sh has notifications sent.
const awayReceiver = "127.0.0.1:59999"

var deadline = regexp.MustCompile(`"(?:due|due_at|expires)":([0-9]{13})\b`)

// record is a message as a block of a stream holds it.
type record struct{ time, body []byte }

// records has change see each record of a block, and change it in place: the
// block is written back with checksums that fit.
//
//	length(4) sequence(8) time(8) subject length(2) subject [header length(4)] header and body, hash(8)
func records(t *testing.T, path string, change func(record)) {
	t.Helper()
	block, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	stream := filepath.Base(filepath.Dir(filepath.Dir(path)))
	number := filepath.Base(path[:len(path)-len(".blk")])
	key := sha256.Sum256(fmt.Appendf(nil, "%s-%s", stream, number))
	hash, err := highwayhash.New64(key[:])
	if err != nil {
		t.Fatal(err)
	}
	const head, withHeader = 22, 1 << 31
	for rest := block; len(rest) > 0; {
		if len(rest) < head+8 {
			t.Fatalf("%s ends in the middle of a record", path)
		}
		length := binary.LittleEndian.Uint32(rest)
		from := head + int(binary.LittleEndian.Uint16(rest[20:]))
		sum := int(length&^withHeader) - 8
		if sum < from || sum+8 > len(rest) {
			t.Fatalf("%s holds a record of %d bytes", path, sum+8)
		}
		subject := rest[head:from]
		if length&withHeader != 0 {
			from += 4
		}
		digest := func() []byte {
			hash.Reset()
			for _, part := range [][]byte{rest[4:20], subject, rest[from:sum]} {
				_, _ = hash.Write(part)
			}
			return hash.Sum(nil)
		}
		if !bytes.Equal(digest(), rest[sum:sum+8]) {
			t.Fatalf("a record of %s has another checksum than its bytes", path)
		}
		change(record{rest[12:20], rest[from:sum]})
		copy(rest[sum:], digest())
		rest = rest[sum+8:]
	}
	if err := os.WriteFile(path, block, 0o600); err != nil {
		t.Fatal(err)
	}
}
