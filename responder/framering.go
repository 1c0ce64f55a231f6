package responder

import (
	"cmp"
	"slices"

	"github.com/linesman/linesman/runs"
)

// frame is an event in the form in which streams write it.
type frame struct {
	event runs.Event // without its body, once there are
	bytes []byte
}

// frameCost is about how many bytes a frame takes beside those that are written.
const frameCost = 256

func (f *frame) size() int { return len(f.bytes) + frameCost }

// frameRing has the newest frames of a selection of events, in the order of their sequences: all that are after the
// sequence floor. It knows no clock, and is for one goroutine at a time.
type frameRing struct {
	floor  uint64
	frames []*frame
	size   int // bytes
}

// add adds the frames that come next.
func (r *frameRing) add(frames []*frame) {
	r.frames = append(r.frames, frames...)
	for _, f := range frames {
		r.size += f.size()
	}
}

// trim drops the oldest frames until so many bytes are left at most.
func (r *frameRing) trim(most int) {
	n := 0
	for ; r.size > most; n++ {
		r.floor = r.frames[n].event.Seq
		r.size -= r.frames[n].size()
		r.frames[n] = nil
	}
	if r.frames = r.frames[n:]; len(r.frames) == 0 {
		r.frames = nil
	}
}

// after appends the frames after a sequence to dst, until they have so many bytes. It reports false if some of them
// were dropped.
func (r *frameRing) after(seq uint64, most int, dst []*frame) ([]*frame, bool) {
	if seq < r.floor {
		return dst, false
	}
	from, _ := slices.BinarySearchFunc(r.frames, seq+1, func(f *frame, seq uint64) int {
		return cmp.Compare(f.event.Seq, seq)
	})
	for _, f := range r.frames[from:] {
		if most <= 0 {
			break
		}
		dst, most = append(dst, f), most-len(f.bytes)
	}
	return dst, true
}
