package worker

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"time"

	"github.com/linesman/linesman/runs"
)

// The shim of a run keeps an index of out in the file [timesFile]: how many
// bytes it had at which times. From it a worker that reads output late knows
// when the output was written.
//
// The file is a sequence of records. Only the shim writes it, but the agent can
// write it too, and a kill or a full disk can cut it off: a reader ignores each
// record that is not valid.
const (
	timesEvery = 50 * time.Millisecond // at least, between two records
	maxTimes   = 1 << 20               // bytes of the file; then every second record is dropped
	timeSize   = 20                    // bytes of a record
)

// growth says that the first size bytes of out were written at or before at, in
// Unix milliseconds. A record holds both numbers and a checksum.
type growth struct{ size, at int64 }

func (g growth) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(g.size))
	b = binary.BigEndian.AppendUint64(b, uint64(g.at))
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[len(b)-16:]))
}

// parseGrowth decodes a record of timeSize bytes.
func parseGrowth(b []byte) (growth, bool) {
	g := growth{int64(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:]))}
	return g, binary.BigEndian.Uint32(b[16:]) == crc32.ChecksumIEEE(b[:16])
}

// follows reports whether g can be the record after last: both numbers grow.
func (g growth) follows(last growth) bool { return g.size > last.size && g.at >= last.at }

// backlog assigns times to the output of an agent that is read late: because
// no worker was running, the raw log was unreachable, or reading is slow.
type backlog struct {
	dir     string
	created int64 // of the run, Unix milliseconds: no output is older

	ahead  []growth // of output that is not sent yet
	last   growth   // last valid record that was read
	read   int64    // bytes of the index that were read
	caught time.Time
	debt   time.Duration // how much output time the next chunk must cover, see sent
}

// late reports whether output that is read now may be older than timesEvery.
func (b *backlog) late(now time.Time) bool { return now.Sub(b.caught) > timesEvery }

// load reads new records of the index, up to those of output beyond size, the
// current size of out. Without a usable index there are none.
func (b *backlog) load(size int64, now time.Time) {
	f, err := openOwn(b.dir+"/"+timesFile, os.O_RDONLY)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() < b.read { // the shim has shortened it
		b.rewind()
	}
	body, err := io.ReadAll(io.NewSectionReader(f, b.read, maxTimes))
	if err != nil {
		return
	}
	for ; len(body) >= timeSize; body = body[timeSize:] {
		g, valid := parseGrowth(body)
		if valid && g.size > size { // of output that was written since
			return
		}
		b.read += timeSize
		if valid && g.follows(b.last) && g.at >= b.created && g.at <= now.UnixMilli() {
			b.ahead, b.last = append(b.ahead, g), g
		}
	}
}

// cut returns how many bytes of chunk to send, see [wholeLines], and when the
// last of them was written, or 0 if that is unknown. The chunk begins at the
// offset at of out. It is cut where the index has another time, but not into
// pieces that cover less than half of timesEvery.
func (b *backlog) cut(chunk []byte, at int64, final bool) (n int, written int64) {
	for len(b.ahead) > 0 && b.ahead[0].size <= at {
		b.ahead = b.ahead[1:]
	}
	least := max(timesEvery/2, b.debt).Milliseconds()
	if len(b.ahead) == 0 {
		b.ahead = nil
	}
	first := 0 // of the records that are merged
	for i, g := range b.ahead {
		if g.size-at >= int64(len(chunk)) {
			break
		}
		if i+1 < len(b.ahead) && b.ahead[i+1].at-b.ahead[first].at < least {
			continue
		}
		if n := bytes.LastIndexByte(chunk[:g.size-at], '\n') + 1; n > 0 {
			return n, g.at
		}
		first = i + 1
	}
	n = wholeLines(chunk, final)
	for _, g := range b.ahead {
		if g.size >= at+int64(n) {
			return n, g.at
		}
	}
	return n, 0
}

// sent counts the time that an append took for a chunk that covered some time
// of the agent's output. If appends are slow, later chunks cover more: output
// is sent at least twice as fast as it was written. An append that waited for
// an outage counts as one of a second.
func (b *backlog) sent(covered, took time.Duration) {
	const slow = time.Second
	if b == nil {
		return
	}
	b.debt = max(0, b.debt+2*min(took, slow)-max(0, covered))
}

// caughtUp says that all output up to now was read.
func (b *backlog) caughtUp(now time.Time) {
	if b != nil {
		b.caught, b.debt = now, 0
	}
}

// rewind forgets what was read of the index: output before its position may be sent
// again.
func (b *backlog) rewind() {
	if b != nil {
		b.ahead, b.last, b.read = nil, growth{}, 0
	}
}

// outTime cuts the chunk that was read from out at the offset at, and returns
// the time when its last byte was written. For output of an agent that is read
// late this is a time of the index or, at the end of the file, the modification
// time. Otherwise it is now.
func (r *Run) outTime(s *stream, chunk []byte, at int64, now time.Time, final bool) (int, time.Time) {
	b, base := r.backlog, int64(0)
	final = final || s.endsLine(at+int64(len(chunk)))
	if r.talk != nil {
		base = r.talk.place.out
	}
	if b == nil || !b.late(now) || s.segment.Base != base || s != &r.out { // the index has no offsets of truncated output
		return wholeLines(chunk, final), now
	}
	if at -= base; b.last.size < at+int64(len(chunk)) {
		b.load(s.end()-base, now)
	}
	n, written := b.cut(chunk, at, final)
	switch {
	case written != 0:
		return n, time.UnixMilli(written)
	case at+base+int64(n) == s.end() && s.mod.Before(now):
		return n, s.mod
	}
	return n, now
}

// errTime is when the output on stderr was written at the latest. There is no
// index of it.
func (r *Run) errTime(now time.Time) time.Time {
	if r.backlog != nil && r.err.mod.Before(now) {
		return r.err.mod
	}
	return now
}

// notBefore returns t, or the time of the last entry if that is later: from the
// start entry on the times of a run do not go backwards. An entry before may be
// of another machine, with another clock.
func (r *Run) notBefore(t int64) int64 {
	if m := r.progress.Log; m.Started && m.Seq != 0 {
		return max(t, m.At)
	}
	return t
}

// startTime is the time of the start entry: now or, if the raw log was lost
// while the agent was running, when it was started.
func (r *Run) startTime(now time.Time) time.Time {
	started := r.dir.file(startedFile)
	if r.dir.Spec.Live {
		started = r.dir.processDir(1) + "/" + startedFile
	}
	if info, err := os.Stat(started); err == nil && info.ModTime().Before(now) {
		return info.ModTime()
	}
	return now
}

// exitTime is the time of the exit entry: when the agent ended. It is later if
// processes that the agent left have written output since, see notBefore.
func (r *Run) exitTime(ex runs.Exit, now time.Time) time.Time {
	if ex.At > 0 && ex.At < now.UnixMilli() {
		return time.UnixMilli(ex.At)
	}
	return now
}

// lasted is how long the agent ran or, if there is none, the run.
func (r *Run) lasted(ex runs.Exit, now time.Time) time.Duration {
	began := time.UnixMilli(r.dir.Spec.Created)
	if exists(r.file(startedFile)) {
		began = r.startTime(now)
	}
	return max(0, r.exitTime(ex, now).Sub(began)).Round(time.Millisecond)
}

// lastSign is when the processes of the run in dir last wrote output or were
// started, in Unix milliseconds: the agent ended later, if nothing else is known.
func lastSign(dir string, now time.Time) (at int64) {
	for _, name := range []string{startedFile, outFile, errFile} {
		if info, err := os.Stat(dir + "/" + name); err == nil {
			at = max(at, info.ModTime().UnixMilli())
		}
	}
	return min(at, now.UnixMilli())
}
