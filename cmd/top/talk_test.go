package top

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/runs"
)

// talking is a screen of a run that takes messages: between two turns, or in the second one.
func talking(t *testing.T, width int, idle bool) (*model, *server) {
	s := newServer(0)
	m := stage(width, 24, false)
	m.svc, m.ctx = s, t.Context
	m.Update(found(oneRun(askingRun, runs.StateWorking, func(r *api.Run) {
		r.Turn, r.Doing = 2, &runs.Doing{Phase: runs.Thinking, Since: at(-20)}
		if idle {
			r.State, r.Doing = runs.StateInputRequired, &runs.Doing{Phase: runs.YourTurn, Since: at(-20)}
		}
	})))
	return m, s
}

func TestMessageIsTypedAndSent(t *testing.T) {
	for _, view := range []string{"", "enter"} {
		m, s := talking(t, 80, true)
		if view != "" {
			press(m, view)
		}
		press(m, "m", "Now its tests, q c x.")
		checkGolden(t, "message"+view, screen(m))
		checkSafe(t, m)
		m.Update(press(m, "enter")())
		if got := fmt.Sprint(s.ordered); got != fmt.Sprintf("[send %+v]", api.SendRequest{Run: askingRun,
			Text: "Now its tests, q c x."}) {
			t.Errorf("it sends %s", got)
		}
		if got := screen(m); !strings.Contains(got, "message m1 is turn 3") || m.input != nil {
			t.Errorf("nothing is said of it:\n%s", got)
		}
		if press(m, "m", " ", "enter") != nil || press(m, "m", "x", "esc") != nil || m.input != nil {
			t.Error("a blank message is sent, or one that was dropped")
		}
	}
}

// Of a long message the end is on the screen, and not more than its bound is taken.
func TestLongMessageIsOnOneRow(t *testing.T) {
	m, s := talking(t, 60, true)
	press(m, "m", strings.Repeat("日本\u202e ", 600), "end")
	checkSafe(t, m)
	if got := screen(m); !strings.Contains(got, "message: …") {
		t.Errorf("its end is not shown:\n%s", got)
	}
	press(m, "enter")()
	if len(s.ordered) != 1 || len(s.ordered[0]) > maxMessage+100 {
		t.Errorf("%d are sent", len(s.ordered))
	}
}

// What got no answer is asked for once more, and then comes back as it was typed: the same again is sent once.
func TestWhatGotNoAnswerIsSentOnce(t *testing.T) {
	for key, done := range map[string]string{"m": "sent", "F": "submitted"} {
		unknown := "it is not known whether it was " + done + ": the server is away; " + key + " has its text"
		m, s := talking(t, 100, true)
		m.table.all[askingRun].Thread = "the-thread"
		// ids are those of what was sent since the last call.
		ids := func() (all []string) {
			all, s.keys = s.keys, nil
			for _, q := range s.submitted {
				all = append(all, q.Run)
			}
			s.submitted = nil
			return all
		}
		s.lost = 1
		m.Update(press(m, key, "Go.", "enter")())
		first := ids()
		if len(first) != 2 || first[0] == "" || first[1] != first[0] || strings.Contains(screen(m), "not known") {
			t.Errorf("%s: %q:\n%s", key, first, screen(m))
		}
		s.lost = 2
		m.Update(press(m, key, "Go.", "enter")())
		lost := ids()
		if len(lost) != 2 || lost[0] == first[0] || lost[1] != lost[0] || !strings.Contains(screen(m), unknown) {
			t.Errorf("%s: lost: %q:\n%s", key, lost, screen(m))
		}
		press(m, "up") // a key that was on its way is no text
		if press(m, key); !strings.Contains(screen(m), "perhaps") || !strings.HasSuffix(screen(m), ": Go.") {
			t.Errorf("%s: its text:\n%s", key, screen(m))
		}
		m.Update(press(m, "enter")())
		if again := ids(); len(again) != 1 || again[0] != lost[0] {
			t.Errorf("%s: again: %q, it was %q", key, again, lost)
		}
		s.lost = 2
		m.Update(press(m, key, "Go.", "enter")())
		lost = ids()
		m.Update(press(m, key, " Now.", "enter")()) // that is another one
		if other := ids(); len(other) != 1 || other[0] == lost[0] || s.ordered[len(s.ordered)-1] == s.ordered[0] {
			t.Errorf("%s: another text: %q, it was %q", key, other, lost)
		}
		if press(m, key); strings.Contains(screen(m), "Go.") {
			t.Errorf("%s: what was sent is there again:\n%s", key, screen(m))
		}
		press(m, "esc")
		s.err = &api.Error{Code: api.Unavailable, Retryable: true, Err: client.ErrNoResponder}
		m.Update(press(m, key, "Go.", "enter")())
		if none := ids(); len(none) != 1 || !strings.Contains(screen(m), "not "+done+": no responder is running") {
			t.Errorf("%s: no responder: %q\n%s", key, none, screen(m))
		}
	}
}

func TestTurnIsCancelledAfterAConfirmation(t *testing.T) {
	for _, view := range []string{"", "enter"} {
		m, s := talking(t, 80, false)
		if view != "" {
			press(m, view)
		}
		press(m, "x")
		if got := screen(m); !strings.Contains(got, "cancel turn 2 of "+askingRun+"?") {
			t.Errorf("no confirmation:\n%s", got)
		}
		if press(m, "n") != nil || len(s.ordered) > 0 {
			t.Error("n cancels")
		}
		press(m, "x")
		m.Update(press(m, "y")())
		if got := fmt.Sprint(s.ordered); got != fmt.Sprintf("[stop %+v]", api.TurnRequest{Run: askingRun, Turn: 2}) ||
			len(s.cancelled) > 0 || !strings.Contains(screen(m), "cancel requested: turn 2") {
			t.Errorf("it asks for %s, and cancels %v:\n%s", got, s.cancelled, screen(m))
		}
		press(m, "c", "y")
		if strings.Contains(screen(m), "turn 2") {
			t.Errorf("the cancel of the run is that of a turn:\n%s", screen(m))
		}
	}
	m, s := talking(t, 80, true)
	if press(m, "x", "y"); m.asking != "" || len(s.ordered) > 0 {
		t.Error("a turn is cancelled that does not run")
	}
}

func TestOtherRunsTakeNoMessages(t *testing.T) {
	for state, want := range map[runs.State]string{
		runs.StateWorking: "takes no messages", runs.StateCompleted: "has ended", runs.StateQueued: "takes no messages",
	} {
		m := stage(80, 24, false)
		m.Update(found(oneRun(askingRun, state, nil)))
		for _, key := range []string{"m", "x"} {
			if press(m, key); m.input != nil || m.asking != "" || !strings.Contains(screen(m), want) {
				t.Errorf("%s, %s:\n%s", state, key, screen(m))
			}
		}
	}
}

// A run in any state can be continued as a copy, with its mode, if it has a thread.
func TestARunGoesOnAsACopy(t *testing.T) {
	for _, view := range []string{"", "enter"} {
		m, s := stage(80, 24, false), newServer(0)
		m.svc, m.ctx = s, t.Context
		m.Update(found(oneRun(askingRun, runs.StateCompleted, func(r *api.Run) {
			r.Agent, r.Thread, r.Mode = "claude_code", "the-thread", runs.WorkspaceWrite
		})))
		if view != "" {
			press(m, view)
		}
		press(m, "F", "Another way.")
		if got := screen(m); !strings.Contains(got, "task of a copy, workspace-write: Another way.") {
			t.Errorf("what is typed:\n%s", got)
		}
		m.Update(press(m, "enter")())
		if len(s.submitted) != 1 || runs.CheckID(s.submitted[0].Run) != nil {
			t.Fatalf("submitted %+v", s.submitted)
		}
		want := api.Submission{
			Run: s.submitted[0].Run,
			Task: runs.Task{Attributes: runs.Attributes{Agent: "claude_code", Mode: runs.WorkspaceWrite},
				Prompt: "Another way."},
			Fork: &api.ThreadRef{Selector: api.SelectID, ID: "the-thread"}, Confirm: true,
		}
		if !reflect.DeepEqual(s.submitted[0], want) ||
			!strings.Contains(screen(m), "submitted: T-local-0copy0000000001") {
			t.Errorf("submitted %+v:\n%s", s.submitted, screen(m))
		}
		if press(m, "F", "x", "esc") != nil || press(m, "F", " ", "enter") != nil || len(s.submitted) != 1 {
			t.Error("a task is submitted that is blank, or was dropped")
		}
		s.err = errors.New("no responder")
		m.Update(press(m, "F", "x", "enter")())
		if got := screen(m); !strings.Contains(got, "not submitted: ") {
			t.Errorf("a failure:\n%s", got)
		}
	}
	m := stage(80, 24, false)
	m.Update(found(oneRun(askingRun, runs.StateQueued, nil)))
	if press(m, "F"); m.input != nil || !strings.Contains(screen(m), "no thread to copy") {
		t.Errorf("without a thread:\n%s", screen(m))
	}
}
