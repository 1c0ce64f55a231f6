package embedded

import (
	"math"
	"net/textproto"
	"slices"
	"strings"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
)

// following is what can be read of a stream from its first damage on.
type following struct {
	records int    // also marks
	deleted bool   // there is a mark that a message was deleted, maybe one before the damage
	raw     uint64 // highest sequence in RAW that an event comes from
	oldest  int64  // when the first of them was stored
}

// following reads the blocks from the first damage on.
func (s *storedStream) following() (f following, err error) {
	d := s.damaged[0]
	f.oldest = math.MaxInt64
	for _, number := range s.blocks[max(slices.Index(s.blocks, d.number), 0):] {
		good, bad, err := s.readBlock(number)
		if err != nil {
			return f, err
		}
		for _, r := range good {
			if number == d.number && len(bad) > 0 && r.from < bad[0].from {
				continue
			}
			f.records++
			if f.deleted = f.deleted || r.deleted; r.deleted {
				continue
			}
			raw, _ := positionOf(r)
			f.raw, f.oldest = max(f.raw, raw), min(f.oldest, r.time)
		}
	}
	return f, nil
}

// canDerive reports whether the events from the first damage on would be derived again as they are. RAW must begin
// before it, and have all entries up to that of the last event. Events of forgotten runs would come back without the
// marks that delete them, and those of runs whose record was removed are not derived again.
func (v verifier) canDerive(s *storedStream, rest following) (bool, error) {
	first, err := v.firstRaw()
	if err != nil || rest.deleted || rest.oldest < first.time { // some are of a former RAW
		return false, err
	}
	if whole, err := v.rawHas(first.seq, rest.raw); err != nil || !whole {
		return false, err
	}
	if removed, err := v.recordRemoved(first.time); err != nil || removed {
		return false, err
	}
	d := s.damaged[0]
	for i := slices.Index(s.blocks, d.number); i >= 0; i-- {
		good, bad, err := s.readBlock(s.blocks[i])
		if err != nil {
			return false, err
		}
		for _, r := range slices.Backward(good) {
			if r.deleted || s.blocks[i] == d.number && len(bad) > 0 && r.from > bad[0].from {
				continue
			}
			// Its time shows whether it is one of this RAW.
			raw, ok := positionOf(r)
			return ok && raw >= first.seq && r.time >= first.time, nil
		}
	}
	return first.seq == 1, nil // nothing is before the damage
}

// firstRaw returns the first entry that RAW will have when the server has started. Entries before it may
// still be in the blocks: a block with entries that were removed stays until all of it are.
func (v verifier) firstRaw() (record, error) {
	none := record{seq: math.MaxUint64}
	raw := &storedStream{name: v.names.Raw(), dir: v.dir(InsideAccount, v.names.Raw())}
	raw.hash = newHash(raw.name)
	age, known, err := raw.maxAge()
	if err != nil || !known {
		return none, err
	}
	numbers, err := blockNumbers(raw.dir)
	if err != nil || len(numbers) == 0 {
		return none, err
	}
	newest, _, err := raw.readBlock(numbers[len(numbers)-1])
	if err != nil {
		return none, err
	}
	for _, r := range newest {
		raw.newest = max(raw.newest, r.time)
	}
	oldest := int64(math.MinInt64)
	if age > 0 && !v.holds(raw, age) {
		oldest = v.now.Add(-age).UnixNano()
	}
	from, _, _ := raw.readIndex()
	for _, number := range numbers {
		good, _, err := raw.readBlock(number)
		if err != nil {
			return none, err
		}
		for _, r := range good {
			if !r.deleted && r.seq >= from && r.time > oldest {
				return r, nil
			}
		}
	}
	return none, nil
}

// rawHas reports whether RAW has all entries from one that it has up to another one.
func (v verifier) rawHas(from, to uint64) (bool, error) {
	raw := &storedStream{name: v.names.Raw(), dir: v.dir(InsideAccount, v.names.Raw())}
	numbers, err := blockNumbers(raw.dir)
	if err != nil {
		return false, err
	}
	next := from
	for _, number := range numbers {
		good, _, err := raw.readBlock(number)
		if err != nil {
			return false, err
		}
		for _, r := range good {
			switch {
			case r.seq < from || r.seq > to:
			case r.deleted || r.seq > next:
				return false, nil
			case r.seq == next:
				next++
			}
		}
	}
	return next > to, nil
}

// recordRemoved reports whether RUNS has a mark, written since a time, that the record of a run was removed.
func (v verifier) recordRemoved(since int64) (bool, error) {
	name := bucket.Stream(v.names.Runs())
	all := &storedStream{name: name, dir: v.dir(InsideAccount, name)}
	numbers, err := blockNumbers(all.dir)
	if err != nil {
		return false, err
	}
	for _, number := range numbers {
		good, _, err := all.readBlock(number)
		if err != nil {
			return false, err
		}
		for _, r := range good {
			if r.time >= since && headerOf(r, "Kv-Operation") != "" {
				return true, nil
			}
		}
	}
	return false, nil
}

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
