package responder

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/runs"
)

// Whatever is added and dropped: what a ring gives after a position is what was added after it, without a gap, or it
// says that it lacks some of it; and it has no more bytes than it may.
func TestRingHasAllAfterAPositionOrSaysSo(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		begin := rapid.Uint64Range(0, 5).Draw(t, "begin")
		r := frameRing{floor: begin}
		var all []*frame
		last, dropped := begin, begin
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				var group []*frame
				for range rapid.IntRange(0, 5).Draw(t, "frames") {
					last += rapid.Uint64Range(1, 3).Draw(t, "holes")
					size := rapid.IntRange(0, 3000).Draw(t, "size")
					group = append(group, &frame{event: runs.Event{Seq: last}, bytes: make([]byte, size)})
				}
				all = append(all, group...)
				r.add(group)
			},
			"trim": func(t *rapid.T) {
				most := rapid.IntRange(0, 20_000).Draw(t, "most")
				r.trim(most)
				size := 0
				for _, f := range r.frames {
					size += f.size()
				}
				if size != r.size || size > most {
					t.Fatalf("it has %d bytes, and says %d; it may have %d", size, r.size, most)
				}
				for _, f := range all[:len(all)-len(r.frames)] {
					dropped = max(dropped, f.event.Seq)
				}
			},
			"after": func(t *rapid.T) {
				pos := rapid.Uint64Range(0, last+3).Draw(t, "position")
				most := rapid.IntRange(1, 10_000).Draw(t, "most")
				got, has := r.after(pos, most, nil)
				if has != (pos >= dropped) {
					t.Fatalf("after %d, with %d dropped: %t", pos, dropped, has)
				}
				if !has {
					return
				}
				from := slices.IndexFunc(all, func(f *frame) bool { return f.event.Seq > pos })
				if from < 0 {
					from = len(all)
				}
				if len(got) > len(all)-from || !slices.Equal(got, all[from:from+len(got)]) {
					t.Fatalf("after %d: %d frames, which are not the next ones", pos, len(got))
				}
				size := 0
				for _, f := range got {
					if size >= most {
						t.Fatalf("more than %d bytes", most)
					}
					size += len(f.bytes)
				}
				if size < most && from+len(got) < len(all) {
					t.Fatalf("only %d of %d bytes, and there are more", size, most)
				}
			},
		})
	})
}
