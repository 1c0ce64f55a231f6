package responder_test

import (
	"testing"

	"github.com/linesman/linesman/responder"
)

func TestOneCallerCannotTakeAllSlots(t *testing.T) {
	for most, each := range map[int]int{1: 1, 2: 2, 4: 3, 8: 6, 256: 192} {
		s := responder.NewSlots(most)
		take := func(caller string) (frees []func()) {
			for {
				free, ok := s.Take(caller)
				if !ok {
					return frees
				}
				frees = append(frees, free)
			}
		}
		greedy := take("greedy")
		if len(greedy) != each {
			t.Errorf("of %d slots one caller takes %d, want %d", most, len(greedy), each)
		}
		others := take("other")
		if len(others) != most-each {
			t.Errorf("of %d slots %d are left for another, want %d", most, len(others), most-each)
		}
		for _, free := range append(greedy, others...) {
			free()
		}
		if again := take("other"); len(again) != each {
			t.Errorf("of %d slots that were given back one caller takes %d, want %d", most, len(again), each)
		}
	}
}
