package telemetry

import (
	"container/list"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/spans"
)

// known are the open runs whose events were read, up to a size. The others are read again
// from EVENTS when they continue.
type known struct {
	most, size int // bytes
	runs       map[string]*list.Element
	order      list.List // of *state, the one that was used last in front
}

// state is an open run.
type state struct {
	run   string
	fold  *spans.Run
	size  int
	lined bool   // it has had a line
	facts *facts // nil: not needed so far

	captured *captured // nil: not needed so far
}

func newKnown(most int) *known { return &known{most: most, runs: map[string]*list.Element{}} }

// get returns the state of a run; nil: it is not known.
func (k *known) get(run string) *state {
	el, ok := k.runs[run]
	if !ok {
		return nil
	}
	k.order.MoveToFront(el)
	return el.Value.(*state)
}

// add adds a run.
func (k *known) add(run string, fold *spans.Run) *state {
	s := &state{run: run, fold: fold}
	k.runs[run] = k.order.PushFront(s)
	return s
}

// apply folds an event.
func (k *known) apply(s *state, e runs.Event) []spans.Span {
	out := s.fold.Apply(e)
	s.lined = s.lined || e.Line > 0
	k.weigh(s)
	return out
}

// weigh notes the size of a run, and drops the runs that were not used for longest if all take
// too much memory.
func (k *known) weigh(s *state) {
	size := s.fold.Size() + len(s.run) + s.captured.size()
	k.size += size - s.size
	s.size = size
	for k.size > k.most && k.order.Len() > 1 {
		k.drop(k.order.Back().Value.(*state).run)
	}
}

// drop forgets a run.
func (k *known) drop(run string) {
	if el, ok := k.runs[run]; ok {
		k.size -= el.Value.(*state).size
		k.order.Remove(el)
		delete(k.runs, run)
	}
}
