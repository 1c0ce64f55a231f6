package live

import (
	"fmt"
	"strings"
	"testing"

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

// A process that is to sleep gets no answer any more. What it asks has a number all the same, as in the record: else the
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
func agree(t *testing.T, s *stage, most, n int) *runs.Record {
	t.Helper()
	fold := normalizer.NewFold(acp.Backend{Kind: "codex", Live: &s.config.Agent}, "r", most)
	for i, e := range s.log {
		e.Time = int64(i + 1)
		fold.Apply(uint64(i+1), e, func(normalizer.Message) {})
	}
	var want, got []string
	for _, q := range s.c.Open() {
		want = append(want, fmt.Sprintf("%s at %d, people %t", q.ID, q.Offset, q.People))
	}
	for _, q := range fold.Record.Live.Questions {
		got = append(got, fmt.Sprintf("%s at %d, people %t", q.ID, q.Offset, q.People))
	}
	if len(want) != n || strings.Join(got, "; ") != strings.Join(want, "; ") {
		t.Errorf("the record has the questions %q\nthe conversation %q", got, want)
	}
	return fold.Record
}
