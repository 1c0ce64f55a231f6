package live

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// The record agrees with the conversation: after any interleaving of commands, lines and turns the same messages wait
// in the same order, they are held in both or in none, a turn has the same number, and a process the same state. Many
// texts are the same, that of the task among them.
func TestRecordAgreesWithTheConversation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := config()
		cfg.Task.Keep = true
		tells := rapid.SampledFrom([]acp.Agent{{}, {Tokens: acp.PerTurn}, {Tokens: acp.PerProcess}}).Draw(rt, "tokens")
		cfg.Agent.Tokens = tells.Tokens
		cfg.Agent.Silent = cfg.Agent.Tokens != 0
		texts := []string{cfg.Task.Prompt, "one", "two"}
		if rapid.IntRange(0, 5).Draw(rt, "long") == 0 {
			texts = append(texts, "") // one of several entries, and of its own
		}
		cfg.Agent.Modes = map[string]string{"read-only": "asks", "workspace-write": "edits"}
		s := newStage(t, cfg)
		s.log[0].Body = runs.Encode(runs.Start{Source: "queue", Keep: true})
		s.quick = true
		fold, folded := normalizer.NewFold(acp.Backend{Kind: "codex", Live: &cfg.Agent}, "r", 0), 0
		n, parts := 0, 0
		resumes := rapid.Bool().Draw(rt, "resumes")
		rt.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for ; folded < len(s.log); folded++ {
					e := s.log[folded]
					e.Time = int64(folded + 1)
					fold.Apply(uint64(folded+1), e, func(normalizer.Message) {})
				}
				if s.c.s.Running && s.c.expects(doPrompt) && len(s.c.s.Due) > 0 {
					return // the record follows at the end of the line
				}
				standing := func(process, turn int, alive bool, q runs.Queue) string {
					text := fmt.Sprintf("process %d, alive %t, turn %d, held %t:", process, alive, turn, q.Held)
					for _, m := range q.Messages {
						text += fmt.Sprintf(" %s of %d bytes", m.ID, m.Bytes)
					}
					return text
				}
				l, now := fold.Record.Live, s.c.Status()
				over, _ := s.c.Ended()
				if over != nil && !now.Alive {
					return // the end of the run follows
				}
				c := standing(now.Process, now.Turn, now.Alive, *s.c.Queue())
				if r := standing(l.Process, l.Turn, l.Awake, l.Queue); c != r {
					t.Fatalf("the conversation is at %s\nthe record at %s", c, r)
				}
				if over == nil && now.Asleep && now.Wakes == (l.WaitsFor == runs.WaitsMessage) {
					t.Fatalf("it has something to send: %t; the record is %+v", now.Wakes, l)
				}
			},
			"worker sends": func(*rapid.T) {
				if offset, body := s.c.Due(); len(body) > 0 {
					s.append(runs.Entry{Kind: runs.Sent, Offset: offset, Body: append([]byte(nil), body...)})
					parts++
				}
			},
			"command": func(t *rapid.T) {
				n++
				c := runs.Command{
					ID:      fmt.Sprint("c", rapid.IntRange(max(n-3, 0), n).Draw(t, "id")),
					Do:      rapid.SampledFrom([]string{"send", "send", "send", "edit", "unsend", "release", "stop"}).Draw(t, "do"),
					Message: fmt.Sprint("c", rapid.IntRange(max(n-6, 0), n).Draw(t, "message")),
					Text:    texts[rapid.IntRange(0, len(texts)-1).Draw(t, "text")],
					Turn:    rapid.IntRange(0, s.c.Status().Turn).Draw(t, "turn"),
				}
				if c.Text == "" && len(s.c.Queue().Messages) > 3 {
					c.Text = texts[0] // else what is full depends on the line that is being sent
				} else if c.Text == "" {
					c.Text = fmt.Sprintf("%*d", 2*runs.MaxChunk, n)
				}
				if c.Do == "send" && rapid.IntRange(0, 3).Draw(t, "now") == 0 {
					c.When = runs.WhenNow
				}
				if s.c.Rule(&c).Open {
					s.order(c)
				}
			},
			"options": func(t *rapid.T) {
				n++
				c := runs.Command{
					ID: fmt.Sprint("set", n), Do: runs.DoSet,
					Mode:  rapid.SampledFrom(append(runs.Modes[:3:3], "", "")).Draw(t, "mode"),
					Model: rapid.SampledFrom([]string{"", "m1", "m2"}).Draw(t, "model"),
				}
				open := s.c.Rule(&c).Open
				s.order(c)
				if effect, _ := s.c.Obeyed(c.ID); effect != open {
					t.Fatalf("%+v: %t, but has an effect: %t", c, open, effect)
				}
			},
			"agent ends": func(t *rapid.T) {
				now := s.c.Status()
				if !now.Alive || rapid.IntRange(0, 2).Draw(t, "dies") > 0 {
					return
				}
				p := runs.Process{N: now.Process, Do: runs.ProcessEnd, Reason: runs.ReasonExited}
				p.Unsent = s.c.Unsent(rapid.Int64Range(0, s.c.s.Sent).Draw(t, "fed"))
				p.Stays = s.c.Stays(p.Unsent)
				s.process(p)
			},
			"agent starts": func(*rapid.T) {
				if now := s.c.Status(); now.Wakes {
					s.process(runs.Process{N: now.Process + 1, Do: runs.ProcessStart, How: "resume"})
				}
			},
			"sleep": func(*rapid.T) {
				n++
				s.order(runs.Command{ID: fmt.Sprint("sleep", n), Do: runs.DoSleep, By: runs.ByLimit})
			},
			"agent answers": func(t *rapid.T) {
				if len(s.c.s.Await) == 0 {
					return
				}
				switch first := s.c.s.Await[0]; first.Do {
				case doInitialize:
					s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"protocolVersion":1,"agentCapabilities":{`+
						`"loadSession":%t,"sessionCapabilities":{"close":{},"resume":{}}}}}`, first.ID, resumes))
				case doNew:
					s.say(created)
				case doResume:
					if !resumes || rapid.Bool().Draw(t, "continues") {
						s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, first.ID))
					} else {
						s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32602,"message":"no"}}`, first.ID))
					}
				case doModel:
					if rapid.Bool().Draw(t, "refuses") {
						s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32602,"message":"no"}}`, first.ID))
						return
					}
					s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, first.ID))
				case doLoad, doClose, doMode:
					s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, first.ID))
				default:
					reason := rapid.SampledFrom([]string{"end_turn", "end_turn", "refusal", "cancelled"}).Draw(t, "reason")
					s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"stopReason":%q,"usage":{"outputTokens":%d}}}`,
						first.ID, reason, rapid.IntRange(0, 2).Draw(t, "tokens")))
				}
			},
		})
	})
}

// waiting returns the messages that wait, and those that wait in the record.
func (s *stage) waiting() (is, told string) {
	fold := normalizer.NewFold(acp.Backend{Kind: "codex", Live: &s.config.Agent}, "r", 0)
	for i, e := range s.log {
		e.Time = int64(i + 1)
		fold.Apply(uint64(i+1), e, func(normalizer.Message) {})
	}
	ids := func(q *runs.Queue) (all string) {
		for _, m := range q.Messages {
			all += m.ID + " "
		}
		return all
	}
	return ids(s.c.Queue()), ids(&fold.Record.Live.Queue)
}

// A message that is repeated with its key has no effect, whatever the policy has decided meanwhile: that pushes out no
// command of a caller. Callers themselves push out old ones, and then the record has the message again, too.
func TestRecordAgreesOnAMessageThatIsRepeatedLate(t *testing.T) {
	for by, waits := range map[string]string{runs.ByPolicy: "", runs.ByTimeout: "", runs.ByLimit: "", "ann": "key "} {
		t.Run(by, func(t *testing.T) {
			cfg := config()
			cfg.Task.Keep = true
			s := newStage(t, cfg)
			s.log[0].Body = runs.Encode(runs.Start{Source: "queue", Keep: true})
			s.quick = true
			s.order(send("key", "once"))
			s.order(runs.Command{ID: "back", Do: runs.DoUnsend, Message: "key", By: runs.ByPolicy})
			for n := range maxCommands {
				cmd := answerOf(fmt.Sprint("other", n), "q1", "no")
				cmd.By = by
				s.order(cmd)
			}
			s.order(send("key", "once"))
			if is, told := s.waiting(); is != waits || told != waits {
				t.Errorf("%q waits, %q in the record, want %q", is, told, waits)
			}
		})
	}
}

// A command that had no effect has none when it is repeated, in the record as in the conversation.
func TestRecordAgreesOnACommandThatHadNoEffect(t *testing.T) {
	cfg := config()
	cfg.Task.Keep = true
	s := newStage(t, cfg)
	s.log[0].Body = runs.Encode(runs.Start{Source: "queue", Keep: true})
	unsend := runs.Command{ID: "u", Do: runs.DoUnsend, Message: "m"}
	for _, cmd := range []runs.Command{unsend, send("m", "text"), unsend, send("", "no id")} {
		s.order(cmd)
	}
	if is, told := s.waiting(); is != "m " || told != is {
		t.Errorf("%q waits, %q in the record", is, told)
	}
}
