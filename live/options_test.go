package live

import (
	"fmt"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/runs"
)

// chooses returns a conversation with modes that goes on after its first turn, which runs.
func chooses(t testing.TB) *stage {
	cfg := config()
	cfg.Task.Keep, cfg.Task.Model = true, "m0"
	cfg.Agent = acp.Agent{Modes: map[string]string{
		"read-only": "asks", "workspace-write": "edits", "danger-full-access": "all",
	}}
	s := newStage(t, cfg)
	s.want("initialize")
	s.say(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"close":{},` +
		`"resume":{}}}}}`)
	s.want("session/new")
	s.say(created)
	s.chosen("session/set_mode", 3)
	s.chosen("session/set_model", 4)
	s.want("session/prompt")
	return s
}

// chosen sends a request of an option, the nth, which the agent confirms.
func (s *stage) chosen(method string, n int) {
	s.t.Helper()
	s.want(method)
	s.says(n)
}

func (s *stage) says(n int) { s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, n)) }

func set(id string, mode runs.Mode, model string) runs.Command {
	return runs.Command{ID: id, Do: runs.DoSet, Mode: mode, Model: model}
}

// What people choose is set when no turn runs, before the next prompt, whose message waits until the agent has
// confirmed it.
func TestOptionsAreSetBetweenTurns(t *testing.T) {
	s := chooses(t)
	s.order(set("a", runs.ReadOnly, "m1"))
	s.order(send("m", "Next."))
	s.want("")
	if s.c.Mode() != runs.ReadOnly {
		t.Errorf("the policy is that of %s", s.c.Mode())
	}
	s.ends(5, "end_turn")
	s.want("session/set_mode")
	if st := s.c.Status(); st.Idle || st.Running {
		t.Errorf("%+v", st)
	}
	s.say(update("current_mode_update", `"currentModeId":"asks"`))
	s.says(6)
	s.chosen("session/set_model", 7)
	s.wantPrompt("Next.")
	s.ends(8, "end_turn")
	s.order(set("b", "", "m2"))
	s.chosen("session/set_model", 9)
	if st := s.c.Status(); !st.Idle {
		t.Errorf("%+v", st)
	}
	s.order(set("c", runs.ReadOnly, "m2")) // it has them
	s.want("")
	s.order(set("d", runs.WorkspaceWrite, ""))
	s.chosen("session/set_mode", 10)
	s.say(update("current_mode_update", `"currentModeId":"all"`)) // the agent by itself
	s.ended(TurnFailed, false)
}

// An agent that leaves its mode in a turn that is cancelled already is in that mode for no further turn.
func TestAnAgentThatLeavesItsModeInACancelledTurnEndsTheRun(t *testing.T) {
	for _, dies := range []bool{false, true} {
		s := chooses(t)
		s.order(send("m", "Next."))
		s.order(runs.Command{ID: "stop", Do: runs.DoStop, Turn: 1})
		s.want("session/cancel")
		s.say(update("current_mode_update", `"currentModeId":"all"`))
		s.want("")
		if dies {
			s.process(runs.Process{N: 1, Do: runs.ProcessEnd, Reason: runs.ReasonExited})
			s.ended(Interrupted, true)
		} else {
			s.ends(5, "cancelled")
			s.want("session/close")
			s.ended(TurnFailed, false)
		}
		if o, _ := s.c.Ended(); o.Why != "the agent left its mode" {
			t.Errorf("dies %t: %+v", dies, o)
		}
	}
}

// The agent has left the mode that it confirmed, for one that may do less. People choose theirs again.
func TestAModeThatTheAgentLeftIsSetAgain(t *testing.T) {
	s := chooses(t)
	s.say(update("current_mode_update", `"currentModeId":"plan"`))
	s.order(set("a", "", "m1")) // of the model alone
	s.ends(5, "end_turn")
	s.chosen("session/set_model", 6)
	s.order(set("b", runs.WorkspaceWrite, ""))
	s.chosen("session/set_mode", 7)
	s.order(set("c", runs.WorkspaceWrite, ""))
	s.want("")
	s.order(send("m", "Next."))
	s.wantPrompt("Next.")
}

func TestOptionsThatAreRefused(t *testing.T) {
	s := chooses(t)
	for why, c := range map[string]runs.Command{
		runs.WhyCeiling: set("a", runs.DangerFull, ""),
		runs.WhyFixed:   set("a1", "plan", ""),
		runs.WhyUnfit:   set("a2", "", ""),
	} {
		if ruling := s.c.Rule(&c); ruling.Open || ruling.Why != why {
			t.Errorf("%s: %+v", why, ruling)
		}
		s.order(c)
	}
	s.ends(5, "end_turn")
	s.want("")

	// A model that the agent refuses leaves the one before.
	s.order(set("b", "", "none"))
	s.want("session/set_model")
	s.order(send("m", "Go on."))
	s.want("")
	s.say(`{"jsonrpc":"2.0","id":6,"error":{"code":-32602,"message":"secret"}}`)
	s.wantPrompt("Go on.")
	if got := s.c.wants(); got != (options{"edits", "m0"}) {
		t.Errorf("%+v", got)
	}
	s.ends(7, "end_turn")

	// There is no turn in a mode that was not confirmed.
	s.order(set("c", runs.ReadOnly, ""))
	s.order(send("n", "More."))
	s.want("session/set_mode")
	s.say(update("current_mode_update", `"currentModeId":"edits"`))
	s.says(8)
	s.want("session/close")
	s.ended(NoSession, false)
	c := set("d", "", "m1")
	if ruling := s.c.Rule(&c); ruling.Why != runs.WhyEnds {
		t.Errorf("%+v", ruling)
	}
}

// A process that is put to sleep has not failed, even if nothing was sent to it: its message was taken back.
func TestProcessesThatSleepAreNoFailedStarts(t *testing.T) {
	s := chooses(t)
	s.ends(5, "end_turn")
	for n := 2; n < 10; n++ {
		s.order(runs.Command{ID: fmt.Sprint("sleep", n), Do: runs.DoSleep})
		s.want("session/close")
		s.process(runs.Process{N: n - 1, Do: runs.ProcessEnd, Reason: runs.ReasonFinished, Stays: true})
		if st := s.c.Status(); !st.Asleep {
			t.Fatalf("after %d starts: %+v", n-1, st)
		}
		s.order(send(fmt.Sprint("m", n), "Go on."))
		s.process(runs.Process{N: n, Do: runs.ProcessStart, How: "resume"})
		s.order(runs.Command{ID: fmt.Sprint("back", n), Do: runs.DoUnsend, Message: fmt.Sprint("m", n)})
		s.want("initialize")
		s.say(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"close":{},` +
			`"resume":{}}}}}`)
		s.chosen("session/resume", 2)
		s.chosen("session/set_mode", 3)
		s.chosen("session/set_model", 4)
	}
}

// Each process has what people chose last, also what they chose while there was none.
func TestOptionsSurviveTheProcess(t *testing.T) {
	s := chooses(t)
	s.ends(5, "end_turn")
	s.order(set("a", runs.ReadOnly, ""))
	s.want("session/set_mode")
	s.process(runs.Process{N: 1, Do: runs.ProcessEnd, Reason: runs.ReasonExited, Stays: true})
	s.order(set("b", "", "m1"))
	s.restart()
	if st := s.c.Status(); !st.Asleep || st.Wakes || !st.Idle {
		t.Fatalf("%+v", st)
	}
	s.order(send("m", "Go on."))
	s.process(runs.Process{N: 2, Do: runs.ProcessStart, How: "resume"})
	s.want("initialize")
	s.say(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"resume":{}}}}}`)
	s.want("session/resume")
	s.says(2)
	lines := s.drain()
	if kinds(lines) != "session/set_mode" || string(lines[0].Params) != `{"modeId":"asks","sessionId":"s"}` {
		t.Errorf("%s %s", kinds(lines), lines[0].Params)
	}
	s.says(3)
	if lines = s.drain(); kinds(lines) != "session/set_model" || string(lines[0].Params) != `{"modelId":"m1","sessionId":"s"}` {
		t.Errorf("%s %s", kinds(lines), lines[0].Params)
	}
	s.says(4)
	s.wantPrompt("Go on.")
}

// A session has the directories that were added, also where it is continued. An agent that does not offer them gets
// none.
func TestASessionHasFurtherDirectories(t *testing.T) {
	hello := func(dirs string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,` +
			`"sessionCapabilities":{"resume":{}` + dirs + `}}}}`
	}
	has := func(line sent) string { return gjson.GetBytes(line.Params, "additionalDirectories").Raw }
	cfg := config()
	cfg.Task.AddDirs = []string{"/one", "/two"}
	s := newStage(t, cfg)
	s.want("initialize")
	s.say(hello(`,"additionalDirectories":{}`))
	if lines := s.drain(); len(lines) != 1 || lines[0].Method != "session/new" || has(lines[0]) != `["/one","/two"]` {
		t.Errorf("%+v", lines)
	}
	cfg.Task.Thread = "s1"
	s = newStage(t, cfg)
	s.want("initialize")
	s.say(hello(`,"additionalDirectories":{}`))
	resumed := s.drain()
	s.say(`{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"no"}}`)
	loaded := s.drain()
	if len(resumed) != 1 || resumed[0].Method != "session/resume" || has(resumed[0]) != `["/one","/two"]` ||
		len(loaded) != 1 || loaded[0].Method != "session/load" || has(loaded[0]) != `["/one","/two"]` {
		t.Errorf("%+v, %+v", resumed, loaded)
	}
	for _, none := range []string{"", `,"additionalDirectories":null`} {
		s = newStage(t, cfg)
		s.want("initialize")
		s.say(hello(none))
		o, over := s.c.Ended()
		if lines := s.drain(); len(lines) > 0 || o == nil || !over || o.State != NoSession ||
			o.Why != "the agent does not offer further directories: it lacks the capability "+runs.CanAddDirs {
			t.Errorf("%q: %+v, %+v", none, lines, o)
		}
	}
}
