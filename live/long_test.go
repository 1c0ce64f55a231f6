package live

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// What is long for the setting max_line_bytes is not for a conversation: else the record would not know the turn of a
// long prompt, nor that people are asked, and its questions would have other numbers.
func TestRecordOfLongLinesAgreesWithTheConversation(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return `,"rawInput":{"text":"` + strings.Repeat("x", n) + `"}` }
	for _, most := range []int{64 << 10, 8 << 20, 64 << 20} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			t.Parallel()
			cfg := config()
			cfg.Task.Prompt = strings.Repeat("p", 100<<10)
			s := newStage(t, cfg)
			s.quick = true
			s.drain()
			s.say(hello)
			s.drain()
			s.say(created)
			s.drain()
			s.say(permission("7", "execute", long(100<<10)), permission("8", "execute", long(runs.MaxLiveLine)),
				permission("9", "execute", long(0)))
			for _, q := range s.c.Open() {
				s.order(runs.Command{ID: "ask-" + q.ID, Do: runs.DoAsk, Question: q.ID})
			}
			record := agree(t, s, most, 2)
			if record.Live.Turn != 1 || record.State != runs.StateInputRequired {
				t.Errorf("the record: %s, turn %d", record.State, record.Live.Turn)
			}
		})
	}
}

// A process that is to sleep gets no answer. What it asks has a number all the same, as in the record: else the
// questions of the next process would have others there.
func TestQuestionOfAProcessThatIsToSleepHasANumber(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Task.Keep = true
	s := newStage(t, cfg)
	s.drain()
	const resumes = `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{` +
		`"sessionCapabilities":{"resume":{}}}}}`
	s.say(resumes)
	s.drain()
	s.say(created)
	s.drain()
	s.say(turned)
	s.order(runs.Command{ID: "sleep", Do: runs.DoSleep})
	s.say(permission("7", "execute", ""))
	s.want("")
	p := runs.Process{N: 1, Do: runs.ProcessEnd, Reason: runs.ReasonFinished}
	p.Stays = s.c.Stays(false)
	s.process(p)
	s.order(runs.Command{ID: "m", Do: runs.DoSend, Text: "more"})
	s.process(runs.Process{N: 2, Do: runs.ProcessStart, How: "resume"})
	s.want("initialize")
	s.say(resumes)
	s.want("session/resume")
	s.say(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	s.want("session/prompt")
	s.say(permission("7", "execute", ""))
	for _, q := range s.c.Open() {
		s.order(runs.Command{ID: "ask-" + q.ID, Do: runs.DoAsk, Question: q.ID})
	}
	agree(t, s, 0, 1)
}

// agree compares the open questions of the record, which was folded with a limit for lines, with those of the
// conversation.
func agree(t testing.TB, s *stage, most, n int) *runs.Record {
	t.Helper()
	record, got, want := questions(s, most)
	if len(want) != n || !slices.Equal(got, want) {
		t.Errorf("the record has the questions %q\nthe conversation %q", got, want)
	}
	return record
}

// questions returns the open questions of the record and of the conversation.
func questions(s *stage, most int) (record *runs.Record, got, want []string) {
	fold := normalizer.NewFold(acp.Backend{Kind: "codex", Live: &s.config.Agent}, "r", most)
	for i, e := range s.log {
		e.Time = int64(i + 1)
		fold.Apply(uint64(i+1), e, func(normalizer.Message) {})
	}
	for _, q := range s.c.Open() {
		want = append(want, fmt.Sprintf("%s at %d, people %t", q.ID, q.Offset, q.People))
	}
	for _, q := range fold.Record.Live.Questions {
		got = append(got, fmt.Sprintf("%s at %d, people %t", q.ID, q.Offset, q.People))
	}
	return fold.Record, got, want
}

// The record has the questions of the conversation, whatever the agent asks, and whenever.
func TestRecordHasTheQuestionsOfTheConversation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := config()
		cfg.Task.Keep = true
		s := newStage(t, cfg)
		s.log[0].Body = runs.Encode(runs.Start{Source: "queue", Keep: true})
		s.quick = true
		closes := rapid.Bool().Draw(rt, "closes")
		n := 0
		tells := func(line string) {
			if s.c.Status().Alive {
				s.say(line)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				if outcome, over := s.c.Ended(); len(s.c.s.Due) > 0 || outcome != nil || over {
					return // an answer, or the end of the process, follows
				}
				if _, got, want := questions(s, 0); !slices.Equal(got, want) {
					t.Fatalf("the record has the questions %q\nthe conversation %q", got, want)
				}
			},
			"goes on": func(*rapid.T) {
				if s.c.Status().Wakes {
					s.process(runs.Process{N: s.c.Status().Process + 1, Do: runs.ProcessStart, How: "resume"})
				}
				s.drain()
				for len(s.c.s.Await) > 0 && s.c.s.Await[0].Do != doPrompt {
					switch first := s.c.s.Await[0]; first.Do {
					case doInitialize:
						ends := `"resume":{}}}}}`
						if closes {
							ends = `"close":{},` + ends
						}
						s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"protocolVersion":1,"agentCapabilities":{`+
							`"sessionCapabilities":{`, first.ID) + ends)
					case doNew:
						s.say(created)
					default:
						s.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, first.ID))
					}
					s.drain()
				}
			},
			"turn ends": func(t *rapid.T) {
				if len(s.c.s.Await) > 0 && s.c.s.Await[0].Do == doPrompt {
					reason := rapid.SampledFrom([]string{"end_turn", "end_turn", "cancelled", "refusal"}).Draw(t, "reason")
					tells(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"stopReason":%q}}`, s.c.s.Await[0].ID, reason))
				}
			},
			"asks": func(t *rapid.T) {
				tells(permission(fmt.Sprint(rapid.IntRange(70, 72).Draw(t, "request")), "execute", ""))
			},
			"asks, too": func(t *rapid.T) {
				tells(permission(fmt.Sprint(rapid.IntRange(73, 90).Draw(t, "request")), "execute", ""))
			},
			"asks for more": func(t *rapid.T) {
				tells(rapid.SampledFrom([]string{
					`{"jsonrpc":"2.0","id":91,"method":"elicitation/create","params":{"mode":"form","message":"Which?"}}`,
					`{"jsonrpc":"2.0","id":92,"method":"elicitation/create","params":{"mode":"url"}}`,
					`{"jsonrpc":"2.0","id":93,"method":"fs/read_text_file","params":{"path":"/a"}}`,
					permission(`"long `+strings.Repeat("x", 200)+`"`, "execute", ""), permission("null", "execute", ""),
					`{"jsonrpc":"2.0","id":94,"method":"session/request_permission","params":{}}`,
					strings.Replace(permission("95", "execute", ""), `"sessionId":"s"`, `"sessionId":"other"`, 1),
				}).Draw(t, "line"))
			},
			"tells": func(t *rapid.T) {
				status := rapid.SampledFrom([]string{"pending", "in_progress", "completed", "failed"}).Draw(t, "status")
				tells(update("tool_call_update", `"toolCallId":"c","status":"`+status+`"`))
			},
			"withdraws": func(t *rapid.T) {
				tells(fmt.Sprintf(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":%d}}`,
					rapid.IntRange(70, 90).Draw(t, "request")))
			},
			"people": func(t *rapid.T) {
				n++
				if open := s.c.Open(); len(open) > 0 {
					q := rapid.SampledFrom(open).Draw(t, "question")
					if !q.People {
						s.order(runs.Command{ID: fmt.Sprint("ask", n), Do: runs.DoAsk, Question: q.ID})
					} else {
						s.answer(fmt.Sprint("answer", n), q.ID, rapid.SampledFrom([]string{"yes", "no", ""}).Draw(t, "option"))
					}
				}
			},
			"message": func(t *rapid.T) {
				n++
				c := runs.Command{ID: fmt.Sprint("m", n), Do: runs.DoSend, Text: fmt.Sprint("text ", n)}
				if rapid.IntRange(0, 3).Draw(t, "now") == 0 {
					c.When = runs.WhenNow
				}
				s.order(c)
			},
			"stop": func(*rapid.T) {
				n++
				s.order(runs.Command{ID: fmt.Sprint("s", n), Do: runs.DoStop, Turn: s.c.Status().Turn})
			},
			"sleep": func(*rapid.T) { n++; s.order(runs.Command{ID: fmt.Sprint("z", n), Do: runs.DoSleep, By: runs.ByLimit}) },
			"dies": func(t *rapid.T) {
				now := s.c.Status()
				if !now.Alive || !now.Sleeps && rapid.IntRange(0, 3).Draw(t, "dies") > 0 {
					return
				}
				p := runs.Process{N: now.Process, Do: runs.ProcessEnd, Reason: runs.ReasonExited}
				p.Unsent = s.c.Unsent(s.c.s.Sent)
				p.Stays = s.c.Stays(p.Unsent)
				s.process(p)
			},
		})
	})
}

// A long command is the usual way to write a file: a rule about its words cannot read it, and does not let it pass.
func TestALongCommandIsNoWayAroundARule(t *testing.T) {
	t.Parallel()
	s := newStage(t, config())
	s.drain()
	s.say(hello)
	s.drain()
	s.say(created)
	s.drain()
	long := "git push # " + strings.Repeat("x", 512)
	s.say(permission("7", "execute", `,"rawInput":{"command":"`+long+`"}`))
	open := s.c.Open()
	if len(open) != 1 {
		t.Fatalf("%+v", open)
	}
	p := Policy{Mode: runs.DangerFull, Rules: rulesOf(t, "deny execute: git push")}
	if cmd, _ := p.Decide(open[0], 1); cmd.Rule != "a rule denies execute" {
		t.Errorf("%+v", cmd)
	}
}
