package live

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/runs"
)

// keeps returns a conversation that goes on after its first turn, which runs.
func keeps(t testing.TB) *stage {
	cfg := config()
	cfg.Task.Keep = true
	s := newStage(t, cfg)
	s.want("initialize")
	s.say(hello)
	s.want("session/new")
	s.say(created)
	s.want("session/prompt")
	return s
}

// prompts are the texts of prompts, and the methods of other lines.
func prompts(lines []sent) string {
	var all []string
	for _, m := range lines {
		var p struct{ Prompt []struct{ Text string } }
		if json.Unmarshal(m.Params, &p) == nil && m.Method == "session/prompt" && len(p.Prompt) == 1 {
			all = append(all, p.Prompt[0].Text)
			continue
		}
		all = append(all, kinds([]sent{m}))
	}
	return strings.Join(all, " ")
}

func (s *stage) wantPrompt(want string) {
	s.t.Helper()
	if got := prompts(s.drain()); got != want {
		s.t.Fatalf("sent %q, want %q", got, want)
	}
}

// ends lets the agent end its turn, the nth request.
func (s *stage) ends(n int, reason string) {
	s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"stopReason":%q}}`, n, reason))
}

func send(id, text string) runs.Command { return runs.Command{ID: id, Do: runs.DoSend, Text: text} }

func now(c runs.Command) runs.Command {
	c.When = runs.WhenNow
	return c
}

func TestMessagesWaitForTheirTurn(t *testing.T) {
	s := keeps(t)
	s.order(send("a", "one"))
	s.order(send("b", "two"))
	s.order(send("c", "three"))
	s.order(runs.Command{ID: "d", Do: runs.DoUnsend, Message: "b"})
	s.order(runs.Command{ID: "e", Do: runs.DoEdit, Message: "c", Text: "drei"})
	s.wantPrompt("")
	s.ends(3, "end_turn")
	s.wantPrompt("one")
	s.ends(4, "end_turn")
	s.wantPrompt("drei")
	s.order(runs.Command{ID: "f", Do: runs.DoEdit, Message: "c", Text: "late"})
	if effect, known := s.c.Obeyed("f"); effect || !known {
		t.Error("a message was changed that had been sent")
	}
	if s.c.Status().Idle {
		t.Error("idle in a turn")
	}
	s.ends(5, "end_turn")
	s.wantPrompt("")
	if got := s.c.Status(); !got.Idle || got.Turn != 3 || got.Running {
		t.Errorf("after three turns: %+v", got)
	}
	s.order(send("g", "four"))
	s.wantPrompt("four")
	s.order(send("g", "again"))
	s.ends(6, "end_turn")
	s.wantPrompt("")
	if o, _ := s.c.Ended(); o != nil {
		t.Errorf("ended: %+v", o)
	}
}

// A command with the key of another one is refused: its sender would take the answer for its own.
func TestAKeyIsForOneCommand(t *testing.T) {
	s := keeps(t)
	rule := func(id string) runs.Ruling {
		c := send(id, "text of "+id)
		c.By = "operator"
		return s.c.Rule(&c)
	}
	check := func(id string, open, holds bool, why string) {
		t.Helper()
		if got := rule(id); got.Open != open || got.Holds != holds || got.Why != why {
			t.Errorf("%s: %+v", id, got)
		}
	}
	check("k.1", true, false, "")
	s.order(send("k.1", "one"))
	for range 2 {
		check("k.1", false, true, "")
		check("k.2", false, false, runs.WhyKey)
		check("other.1", true, false, "")
		s.restart()
	}
	s.order(send("old", "of a version whose ids have no request"))
	check("old.1", false, true, "")
	s.order(send("k.2", "stored by such a version"))
	if effect, known := s.c.Obeyed("k.2"); !effect || !known {
		t.Errorf("stored: effect %v, known %v", effect, known)
	}
}

func TestMessagesAreHeldAfterATurnThatWasNotCompleted(t *testing.T) {
	for _, reason := range []string{"cancelled", "refusal", "max_tokens"} {
		s := keeps(t)
		s.order(send("a", "one"))
		s.order(send("b", "two"))
		s.ends(3, reason)
		s.wantPrompt("")
		if !s.c.Queue().Held || !s.c.Status().Idle {
			t.Errorf("%s: not held", reason)
		}
		s.order(runs.Command{ID: "c", Do: runs.DoUnsend, Message: "a"})
		s.wantPrompt("")
		s.order(runs.Command{ID: "d", Do: runs.DoRelease})
		s.wantPrompt("two")
		s.order(send("e", "three"))
		s.ends(4, reason)
		s.wantPrompt("")
		s.order(send("f", "four")) // releases the rest, in its order
		s.wantPrompt("three")
		s.ends(5, "end_turn")
		s.wantPrompt("four")
	}
}

func TestMessageThatIsUrgentCancelsTheTurn(t *testing.T) {
	s := keeps(t)
	s.order(send("a", "one"))
	s.order(now(send("b", "two")))
	s.wantPrompt("session/cancel")
	s.ends(3, "cancelled")
	s.wantPrompt("two")
	s.ends(4, "end_turn")
	s.wantPrompt("one")
	s.ends(5, "end_turn")
	s.order(now(send("c", "three"))) // no turn runs
	s.wantPrompt("three")
}

func TestTurnIsCancelledWithoutTheEndOfTheRun(t *testing.T) {
	s := keeps(t)
	s.order(runs.Command{ID: "a", Do: runs.DoStop, Turn: 2})
	s.wantPrompt("")
	s.order(runs.Command{ID: "b", Do: runs.DoStop, Turn: 1})
	s.wantPrompt("session/cancel")
	s.ends(3, "cancelled")
	s.order(send("c", "one"))
	s.order(runs.Command{ID: "d", Do: runs.DoStop, Turn: 2}) // it has not begun
	s.wantPrompt("one")
	s.order(runs.Command{ID: "f", Do: runs.DoStop, Turn: 2})
	s.wantPrompt("session/cancel")
	s.ends(4, "cancelled")
	if got := s.c.Status(); !got.Idle || got.Turn != 2 {
		t.Errorf("%+v", got)
	}
	s.order(runs.Command{ID: "e", Do: runs.DoStop, Turn: 2})
	if effect, _ := s.c.Obeyed("e"); effect {
		t.Error("a turn that had ended was cancelled")
	}
}

// While no worker sends it, a message waits as others do, and none is lost.
func TestMessageCanBeChangedUntilItIsSent(t *testing.T) {
	s := keeps(t)
	s.ends(3, "end_turn")
	s.order(send("a", "one"))
	s.order(runs.Command{ID: "b", Do: runs.DoEdit, Message: "a", Text: "eins"})
	s.order(send("c", "two"))
	s.order(runs.Command{ID: "d", Do: runs.DoUnsend, Message: "c"})
	s.order(now(send("e", "three")))
	s.order(runs.Command{ID: "f", Do: runs.DoStop, Turn: 2})
	if got := s.c.Status(); got.Turn != 1 || got.Running || got.Idle {
		t.Errorf("%+v", got)
	}
	s.wantPrompt("three")
	s.ends(4, "end_turn")
	s.wantPrompt("eins")
}

// The prompt of the task is sent first, whatever is asked before.
func TestPromptOfTheTaskComesFirst(t *testing.T) {
	cfg := config()
	cfg.Task.Keep = true
	s := newStage(t, cfg)
	s.order(send("a", "Go."))
	s.want("initialize")
	s.say(hello)
	s.want("session/new")
	s.say(created)
	s.order(now(send("b", "one")))
	stop := runs.Command{ID: "c", Do: runs.DoStop, Turn: 1}
	if s.order(stop); s.c.Rule(&stop).Holds {
		t.Error("a turn was cancelled that had not begun")
	}
	s.wantPrompt("Go.")
	s.ends(3, "refusal")
	s.wantPrompt("one")
	s.ends(4, "end_turn")
	s.wantPrompt("Go.")
}

// Taking the message back for which the turn was cancelled does not send the ones after it.
func TestWithoutTheUrgentMessageTheOthersAreHeld(t *testing.T) {
	s := keeps(t)
	s.order(send("a", "one"))
	s.order(now(send("b", "two")))
	s.order(runs.Command{ID: "c", Do: runs.DoUnsend, Message: "b"})
	s.wantPrompt("session/cancel")
	s.ends(3, "cancelled")
	s.wantPrompt("")
	if !s.c.Queue().Held {
		t.Error("not held")
	}
}

// Some agents end a turn that failed like others, without tokens.
func TestMessagesAreHeldAfterATurnWithoutTokens(t *testing.T) {
	cfg := config()
	cfg.Task.Keep, cfg.Agent.Silent, cfg.Agent.Tokens = true, true, acp.PerProcess
	s := newStage(t, cfg)
	s.want("initialize")
	s.say(hello)
	s.want("session/new")
	s.say(created)
	s.want("session/prompt")
	s.order(send("a", "one"))
	s.order(send("b", "two"))
	s.order(send("c", "three"))
	ends := func(n, tokens int) {
		s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"end_turn","usage":{"outputTokens":%d}}}`, n, tokens))
	}
	ends(3, 5)
	s.wantPrompt("one")
	s.restart()
	ends(4, 5)
	s.wantPrompt("")
	s.order(runs.Command{ID: "d", Do: runs.DoRelease})
	s.wantPrompt("two")
	ends(5, 6)
	s.wantPrompt("three")
}

func TestRunEndsWithItsTurn(t *testing.T) {
	end := runs.Command{ID: "x", Do: runs.DoEnd}
	s := keeps(t)
	s.order(send("a", "one"))
	s.order(end)
	s.order(send("b", "two"))
	s.wantPrompt("")
	s.ends(3, "end_turn")
	s.wantPrompt("session/close")
	s.ended(TurnCompleted, false)

	s = keeps(t)
	s.ends(3, "refusal")
	s.order(end)
	s.wantPrompt("session/close")
	s.ended(TurnFailed, false)

	s = keeps(t)
	s.ends(3, "end_turn")
	s.entry(runs.Cancelled, []byte("{}"))
	s.wantPrompt("session/close")
	s.ended(turnCancelled, false)

	s = keeps(t)
	s.entry(runs.Cancelled, []byte("{}"))
	s.wantPrompt("session/cancel")
	s.ends(3, "cancelled")
	s.wantPrompt("session/close")
	s.ended(turnCancelled, false)
}

func TestQueueIsBounded(t *testing.T) {
	s := keeps(t)
	for i := range runs.MaxQueued + 1 {
		c := send(fmt.Sprint("m", i), "text")
		ruling := s.c.Rule(&c)
		if s.order(c); ruling.Open != (i < runs.MaxQueued) || !ruling.Open && ruling.Why != runs.WhyFull {
			t.Fatalf("message %d: %+v", i, ruling)
		}
	}
	s = keeps(t)
	for i := range 5 {
		c := send(fmt.Sprint("m", i), strings.Repeat("x", runs.MaxMessage))
		if got := s.c.Rule(&c); got.Open != (i < runs.MaxQueuedBytes/runs.MaxMessage) {
			t.Fatalf("message %d: %+v", i, got)
		}
		s.order(c)
	}
	if s.c.State() != nil {
		t.Error("a state with a mebibyte")
	}
	for _, c := range []runs.Command{
		send("l", strings.Repeat("x", runs.MaxMessage+1)), send("e", ""),
		send("j", strings.Repeat("\x01", runs.MaxMessageJSON/6+1)),
	} {
		if got := s.c.Rule(&c); got.Why != runs.WhyUnfit {
			t.Errorf("%d bytes: %+v", len(c.Text), got)
		}
	}
}

// Any interleaving of messages, their changes, turns and restarts: each message that is not taken back is sent once,
// as it was written last, in the order of the queue, while no other turn runs; and what is said of a command is what
// it does.
func TestAnyInterleavingSendsEachMessageOnce(t *testing.T) {
	var turns int
	rapid.Check(t, func(rt *rapid.T) {
		s := keeps(t)
		s.quick = true
		var waiting []string // ids in order, by a model of its own
		texts := map[string]string{}
		urgent := map[string]bool{}
		held, ends, over := false, false, false
		running, cancelled, request := true, false, 3
		next := func() {
			if running || held || over || len(waiting) == 0 {
				return
			}
			want := texts[waiting[0]]
			waiting, running, cancelled = waiting[1:], true, false
			got := prompts(s.drain())
			if got != want {
				rt.Fatalf("sent %q, want %q", got, want)
			}
			request++
			turns++
		}
		seq := 0
		rt.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if got := s.drain(); len(got) > 0 && !over {
					t.Fatalf("sent %q", prompts(got))
				}
				if q := s.c.Queue(); !over && (len(q.Messages) != len(waiting) || q.Held != held) {
					t.Fatalf("%+v, want %q, %v", q, waiting, held)
				}
				if saved := s.c.State(); saved != nil && rapid.Bool().Draw(t, "restart") {
					c, err := restore(s.config, saved)
					if err != nil {
						t.Fatal(err)
					}
					s.c = c
				}
			},
			"command": func(t *rapid.T) {
				seq++
				c := runs.Command{
					ID:      fmt.Sprint("c", rapid.IntRange(max(seq-3, 0), seq).Draw(t, "id")),
					Do:      rapid.SampledFrom([]string{"send", "send", "send", "edit", "unsend", "release"}).Draw(t, "do"),
					Message: fmt.Sprint("c", rapid.IntRange(max(seq-6, 0), seq).Draw(t, "message")),
					Turn:    s.c.Status().Turn,
				}
				if rapid.IntRange(0, 12).Draw(t, "stop") == 0 {
					c.Do = runs.DoStop
				}
				if c.Text = fmt.Sprint("text ", seq); c.Do == "send" && rapid.IntRange(0, 4).Draw(t, "now") == 0 {
					c.When = runs.WhenNow
				}
				ruling := s.c.Rule(&c)
				_, again := s.c.Obeyed(c.ID)
				s.order(c)
				if effect, _ := s.c.Obeyed(c.ID); ruling.Open != (effect && !again) {
					t.Fatalf("%+v: %+v, but has an effect: %v", c, ruling, effect)
				}
				if !ruling.Open {
					return
				}
				cancel := false
				switch at := slices.Index(waiting, c.Message); c.Do {
				case "send":
					texts[c.ID], held = c.Text, false
					if c.When == "" {
						waiting = append(waiting, c.ID)
						break
					}
					waiting = slices.Insert(waiting, 0, c.ID)
					cancel, urgent[c.ID] = running && !cancelled, running
				case "edit":
					texts[c.Message] = c.Text
				case "unsend":
					waiting = slices.Delete(waiting, at, at+1)
					held = held && len(waiting) > 0
				case "release":
					held = false
				case "stop":
					cancel = true
				}
				if cancel {
					cancelled = true
					if got := prompts(s.drain()); got != "session/cancel" {
						t.Fatalf("sent %q for %+v", got, c)
					}
				}
				next()
			},
			"turn ends": func(t *rapid.T) {
				if !running {
					return
				}
				reason := rapid.SampledFrom([]string{"end_turn", "end_turn", "refusal", "cancelled"}).Draw(t, "reason")
				running = false
				held = reason != "end_turn" && len(waiting) > 0 && !urgent[waiting[0]]
				clear(urgent)
				over = ends
				s.ends(request, reason)
				next()
			},
			"end": func(t *rapid.T) {
				if seq < 40 || ends {
					return
				}
				s.order(runs.Command{ID: "end", Do: runs.DoEnd})
				ends, over, waiting, held = true, !running, nil, false
			},
		})
	})
	if turns < 100 {
		t.Errorf("%d turns: too few to say anything", turns)
	}
}
