package normalizer

import (
	"slices"

	"github.com/linesman/linesman/runs"
)

// Observer receives what counts in the lines of a run, in their order: the ends of turns and
// of tool calls, the questions and the messages of live runs. Its methods must not keep the strings,
// which may be in memory that is used again. A duration is in milliseconds, by the times of the lines;
// -1: unknown.
type Observer interface {
	// TurnEnded reports the end of a turn: TurnCompleted or TurnFailed, or TurnStarted for a
	// turn that was open when its run ended.
	TurnEnded(how runs.Turn, took int64)
	// CallEnded reports the end of a tool call: kind, name and status are those of its
	// [Facet], or statusUnfinished if the call was open when its run ended.
	CallEnded(kind, name, status string, took int64)
	// Asked reports a question: permission or form.
	Asked(kind string)
	// Settled reports that a question is over: outcome and by are those of its event, "" if there was none.
	Settled(kind, outcome, by string, took int64)
	// Message reports what became of a message: queued, sent or removed.
	Message(status string)
}

// statusUnfinished is the status of a tool call that was open when its run ended.
const statusUnfinished = "unfinished"

// Observe reports to o from the next entry on; nil: to none.
func (f *Fold) Observe(o Observer) { f.observer = o }

// endedCall is the end of a tool call in a line, in the memory of the line.
type endedCall struct{ kind, name, status string }

// observe reports what ends in the line that out is of. It must be called before the record
// folds the line, because the record has the times when calls began.
func (f *Fold) observe(out *Out) {
	if f.observer == nil {
		return
	}
	took := int64(-1)
	if since, open := f.Record.CallSince(out.Facts.Closed); open && len(out.ended) == 1 {
		took = max(f.pos.Time-since, 0)
	}
	for _, call := range out.ended {
		f.observer.CallEnded(call.kind, call.name, call.status, took)
	}
	if turn := out.Facts.Turn; turn == runs.TurnCompleted || turn == runs.TurnFailed {
		f.observer.TurnEnded(turn, f.turnTook())
	}
	if told := out.Facts.Live; told != nil {
		f.observeTold(told)
	}
}

func (f *Fold) observeTold(told *runs.Told) {
	for _, id := range told.Settled {
		if live := f.Record.Live; live != nil {
			if i := slices.IndexFunc(live.Questions, func(q runs.Asked) bool { return q.ID == id }); i >= 0 {
				q := &live.Questions[i]
				f.observer.Settled(q.Kind, told.Outcome, told.By, max(f.pos.Time-q.At, 0))
			}
		}
	}
	if told.Asked != nil {
		f.observer.Asked(told.Asked.Kind)
	}
	if told.Message != "" {
		f.observer.Message(told.Message)
	}
}

// turnTook returns how long the current turn has taken; -1: unknown.
func (f *Fold) turnTook() int64 {
	if f.state.TurnAt == 0 {
		return -1
	}
	return max(f.pos.Time-f.state.TurnAt, 0)
}

// foldTurn keeps when the current turn began.
func (f *Fold) foldTurn(turn runs.Turn) {
	switch turn {
	case runs.TurnNone:
	case runs.TurnStarted:
		f.state.TurnAt = f.pos.Time
	default:
		f.state.TurnAt = 0
	}
}

// observeEnd reports what was open when the run ended.
func (f *Fold) observeEnd() {
	if f.observer == nil {
		return
	}
	for _, call := range f.Record.OpenCalls {
		f.observer.CallEnded(call.Kind, call.Name, statusUnfinished, -1)
	}
	if f.state.TurnAt != 0 {
		f.observer.TurnEnded(runs.TurnStarted, f.turnTook())
	}
}
