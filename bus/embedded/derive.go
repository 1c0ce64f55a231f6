package embedded

import (
	"math"
	"net/textproto"
	"slices"
	"strings"

	"github.com/linesman/linesman/bus"
)

// following is what can be read of a stream from its first damage on.
type following struct {
	records int
	deleted bool // there is a mark that a message was deleted, maybe one before the damage
}

// following reads the blocks from the first damage on.
func (s *storedStream) following() (f following, err error) {
	d := s.damaged[0]
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
			f.deleted = f.deleted || r.deleted
		}
	}
	return f, nil
}

// canDerive reports whether RAW has all that the events from the first damage on come from. A RAW
// of which blocks were set aside may have lost entries. Events of forgotten runs would come back without
// the marks that delete them.
func (v verifier) canDerive(s *storedStream) (bool, error) {
	rest, err := s.following()
	if err != nil || rest.deleted {
		return false, err
	}
	aside, err := glob(v.store, damagedDir, "*", v.names.Raw(), "*.blk")
	if err != nil || len(aside) > 0 {
		return false, err
	}
	first, err := v.firstRaw()
	if err != nil {
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
			return ok && raw+1 >= first.seq && r.time >= first.time, nil
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
	from, _ := raw.readIndex()
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

// positionOf returns the sequence in RAW that an event comes from.
func positionOf(r record) (raw uint64, ok bool) {
	for line := range strings.SplitSeq(string(r.header), "\r\n") {
		key, value, _ := strings.Cut(line, ":")
		if textproto.CanonicalMIMEHeaderKey(key) == bus.HeaderPos {
			pos, ok := bus.ParsePos(strings.TrimSpace(value))
			return pos.Raw, ok
		}
	}
	return 0, false
}
