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
			fold := normalizer.NewFold(acp.Backend{Kind: "codex", Live: &cfg.Agent}, "r", most)
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
			if len(want) != 2 || strings.Join(got, "; ") != strings.Join(want, "; ") {
				t.Errorf("the record has the questions %q\nthe conversation %q", got, want)
			}
			if l := fold.Record.Live; l.Turn != 1 || fold.Record.State != runs.StateInputRequired {
				t.Errorf("the record: %s, turn %d", fold.Record.State, l.Turn)
			}
		})
	}
}
