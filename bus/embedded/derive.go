package embedded

import (
	"bytes"
	"math"
	"net/textproto"
	"strings"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
)

// following is what can be read of a stream from its first damage on.
type following struct {
	before  record // the last message before
	records int    // also marks
	lasting bool   // one of them is not derived: a mark that a message was deleted, or a message of somebody else
	raw     uint64 // highest sequence in RAW that an event comes from
	oldest  int64  // when the first of them was stored
}

// following reads the stream, and returns what is in it from the first damage on.
func (s *storedStream) following() (f following, err error) {
	d := s.damaged[0]
	f.oldest = math.MaxInt64
	err = s.each(func(number int, r record) bool {
		if number < d.number || number == d.number && len(d.bad) > 0 && r.from < d.bad[0].from {
			if !r.deleted {
				f.before = r
			}
			return true
		}
		f.records++
		raw, ok := positionOf(r)
		if r.deleted || !ok {
			f.lasting = true
			return true
		}
		f.raw, f.oldest = max(f.raw, raw), min(f.oldest, r.time)
		return true
	})
	return f, err
}

// each calls visit with the records of all blocks, in order, until that returns false.
func (s *storedStream) each(visit func(number int, r record) bool) error {
	numbers, err := blockNumbers(s.dir)
	if err != nil {
		return err
	}
	for _, number := range numbers {
		good, _, err := s.readBlock(number)
		if err != nil {
			return err
		}
		for _, r := range good {
			if !visit(number, r) {
				return nil
			}
		}
	}
	return nil
}

// canDerive reports whether the events from the first damage on would be derived again as they are. RAW must begin
// before it, and have all entries up to that of the last event. Events of forgotten runs would come back without the
// marks that delete them, and those of runs whose record was removed are not derived again.
func (v verifier) canDerive(rest following) (bool, error) {
	first, whole, runs, err := v.readRaw(rest.raw)
	if err != nil || !whole || rest.lasting || rest.oldest < first.time { // some are of a former RAW
		return false, err
	}
	if removed, err := v.recordRemoved(runs); err != nil || removed {
		return false, err
	}
	if rest.before.seq == 0 { // nothing is before the damage
		return first.seq == 1, nil
	}
	// Its time shows whether it is one of this RAW.
	raw, ok := positionOf(rest.before)
	return ok && raw >= first.seq && rest.before.time >= first.time, nil
}

// readRaw returns the first entry that RAW will have when the server has started, whether it has all from there up to
// another one, and the runs of those that it has. Entries before the first one may still be in the blocks: a block with
// entries that were removed stays until all of it are.
func (v verifier) readRaw(to uint64) (first record, whole bool, runs map[string]bool, err error) {
	raw := &storedStream{name: v.names.Raw(), dir: v.dir(InsideAccount, v.names.Raw())}
	raw.hash = newHash(raw.name)
	age, known, err := raw.maxAge()
	if err != nil || !known {
		return first, false, nil, err
	}
	numbers, err := blockNumbers(raw.dir)
	if err != nil || len(numbers) == 0 {
		return first, false, nil, err
	}
	newest, _, err := raw.readBlock(numbers[len(numbers)-1])
	if err != nil {
		return first, false, nil, err
	}
	for _, r := range newest {
		raw.newest = max(raw.newest, r.time)
	}
	oldest := int64(math.MinInt64)
	if age > 0 && !v.holds(raw, age) {
		oldest = v.now.Add(-age).UnixNano()
	}
	from, _, _ := raw.readIndex()
	next, hole := uint64(0), false
	runs = map[string]bool{}
	err = raw.each(func(_ int, r record) bool {
		switch {
		case first.seq == 0 && (r.deleted || r.seq < from || r.time <= oldest), r.seq < first.seq:
			return true
		case first.seq == 0:
			first, next = r, r.seq
		}
		hole = hole || r.seq <= to && (r.deleted || r.seq > next)
		if r.seq == next {
			next++
		}
		runs[r.run()] = true
		return !hole
	})
	return first, first.seq != 0 && !hole && next > to, runs, err
}

// recordRemoved reports whether RUNS has a mark that the record of one of some runs was removed.
func (v verifier) recordRemoved(runs map[string]bool) (removed bool, err error) {
	name := bucket.Stream(v.names.Runs())
	all := &storedStream{name: name, dir: v.dir(InsideAccount, name)}
	err = all.each(func(_ int, r record) bool {
		removed = runs[r.run()] && headerOf(r, "Kv-Operation") != ""
		return !removed
	})
	return removed, err
}

// run returns the run of an entry of RAW or of a record of RUNS: the last token of its subject.
func (r record) run() string { return string(r.subject[bytes.LastIndexByte(r.subject, '.')+1:]) }

// positionOf returns the sequence in RAW that an event comes from.
func positionOf(r record) (raw uint64, ok bool) {
	pos, ok := bus.ParsePos(headerOf(r, bus.HeaderPos))
	return pos.Raw, ok
}

// headerOf returns the value of a header of a message, "" if it has none. The key is canonical.
func headerOf(r record, key string) string {
	for line := range strings.SplitSeq(string(r.header), "\r\n") {
		if k, value, _ := strings.Cut(line, ":"); textproto.CanonicalMIMEHeaderKey(k) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
