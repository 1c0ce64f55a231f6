package responder

import "sync"

// Slots bounds what is held for long at a time: streams and waits. One caller
// gets three quarters of them at most, so that it cannot keep all others out.
type Slots struct {
	mu    sync.Mutex
	most  int
	taken int
	by    map[string]int // callers that hold some
}

// NewSlots returns slots, most in all.
func NewSlots(most int) *Slots { return &Slots{most: most, by: map[string]int{}} }

// Take takes a slot until free is called, once. It reports false where there
// is none for this caller.
func (s *Slots) Take(caller string) (free func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.most || s.by[caller] >= s.most-s.most/4 {
		return nil, false
	}
	s.taken++
	s.by[caller]++
	return func() { s.give(caller) }, true
}

func (s *Slots) give(caller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.by[caller]--; s.by[caller] == 0 {
		delete(s.by, caller)
	}
}
