package runs

import "testing"

// A run that is kept needs a prompt between two turns, and an answer only while a question is open.
func TestKeptRunNeedsAPromptBetweenTurns(t *testing.T) {
	r := NewRecord("r", "codex")
	r.Entry(Entry{Kind: Started, Time: 1, Body: Encode(Start{Source: SourceQueue, Keep: true})})
	r.Entry(Entry{Kind: Proc, Time: 2, Body: Encode(Process{N: 1, Do: ProcessStart})})
	step := func(at int64, f Facts, state State, waits string, need Need) {
		t.Helper()
		r.Seq++
		r.Line(f, at)
		var told Doing
		if h := r.Header(); h.Doing != nil {
			told = *h.Doing
		}
		if r.State != state || r.Live.WaitsFor != waits || r.Doing.Need(r.State, at) != need ||
			told.Phase != r.Doing.Phase {
			t.Errorf("at %d: %s, waits for %q, %+v", at, r.State, r.Live.WaitsFor, r.Doing)
		}
	}
	begins := Facts{Turn: TurnStarted, MustEnd: true, Doing: Doing{Phase: Thinking}, Live: &Told{Turn: 1}}
	step(3, begins, StateWorking, "", noNeed)
	asked := &Asked{ID: "q1", Kind: WaitsPermission}
	waits := Facts{Live: &Told{Asked: asked, People: "q1"}, Doing: Doing{Phase: AwaitingInput}}
	step(4, waits, StateInputRequired, WaitsPermission, NeedsAnswer)
	step(5, Facts{Live: &Told{Settled: []string{"q1"}}, Resumed: true}, StateWorking, "", noNeed)
	step(6, Facts{Turn: TurnCompleted}, StateInputRequired, WaitsMessage, NeedsPrompt)
	step(7, Facts{Live: &Told{Queue: &Queue{Messages: []Message{{ID: "m"}}}, Changed: "m"}}, StateWorking, "", noNeed)
	if m := r.Live.Queue.Of("m"); m == nil || m.Seq != r.Seq {
		t.Errorf("queue %+v", r.Live.Queue)
	}
	begins.Live = &Told{Turn: 2, Queue: &Queue{}}
	step(8, begins, StateWorking, "", noNeed)
	step(9, Facts{Turn: TurnFailed, Live: &Told{Queue: &Queue{Messages: []Message{{ID: "n"}}, Held: true}}},
		StateInputRequired, WaitsMessage, NeedsPrompt)
}

func TestARecordKnowsWhetherOptionsMayLast(t *testing.T) {
	for _, always := range []bool{false, true} {
		for _, keep := range []bool{false, true} {
			r := NewRecord("r", "codex")
			r.Entry(Entry{Kind: Queued, Time: 1, Body: Encode(Start{Source: SourceQueue, Keep: keep})})
			r.Entry(Entry{Kind: Started, Time: 2, Body: Encode(Start{Source: SourceQueue, Keep: keep, Always: always})})
			if got := r.Live != nil && r.Live.Always; got != always || r.Live != nil && r.Live.Keep != keep {
				t.Errorf("always %t, keep %t: %+v", always, keep, r.Live)
			}
		}
	}
}
