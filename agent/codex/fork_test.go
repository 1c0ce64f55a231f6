package codex_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// The log of a fork that has no copy, but begins with the total of the other thread.
func TestForkHasItsOwnTokens(t *testing.T) {
	log, err := os.ReadFile("../../test/corpus/forks/codex-fork2.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	_, fold := backendtest.Fold(codex.Backend{}, backendtest.Output(log))
	r := fold.Record
	if s := r.Spent(); s.Own == nil || s.Own.Input != 1200 || s.Own.Output != 80 || *s.Total != *s.Own ||
		r.Usage.Input != 13200 || r.TurnsDone != 1 || r.ForkedFrom != "01a218b5-f484-78d0-9bb6-3a27774cade9" {
		t.Errorf("%s", r.JSON())
	}
}

// The log of a fork begins with a copy of lines of another thread, in one of several forms. Turns,
// calls, texts and tokens of the copy are those of the other thread.
func TestCopyInTheLogOfAForkIsOfTheOtherThread(t *testing.T) {
	const (
		parent = "01a21d3a-a9d8-7673-90a0-b1a8c86561e2"
		child  = "01a21d3a-ac35-77c0-b023-edd143a7b9b6"
		begun  = "2026-11-27T13:38:34.195Z"
		later  = "2026-11-27T13:38:35.500Z"
	)
	ordinal := 0
	line := func(at, typ, payload string) string {
		ordinal++
		return fmt.Sprintf(`{"timestamp":%q,"ordinal":%d,"type":%q,"payload":%s}`, at, ordinal-1, typ, payload)
	}
	meta := func(at, id, more string) string {
		return line(at, "session_meta", fmt.Sprintf(`{"id":%q,"cwd":"/home/dev","cli_version":"0.171.0"%s}`, id, more))
	}
	usage := func(n int) string {
		return fmt.Sprintf(`{"input_tokens":%d,"cached_input_tokens":%d,"output_tokens":%d}`, 1200*n, 1000*n, 80*n)
	}
	counted := func(at string, total int) string {
		return line(at, "event_msg", `{"type":"token_count","info":{"total_token_usage":`+usage(total)+
			`,"last_token_usage":`+usage(1)+`}}`)
	}
	turn := func(at, id, prompt, text string, totals ...int) (all []string) {
		all = append(all, line(at, "event_msg", fmt.Sprintf(`{"type":"task_started","turn_id":%q}`, id)),
			line(at, "event_msg", fmt.Sprintf(`{"type":"user_message","message":%q}`, prompt)))
		if len(totals) > 1 { // the old total is repeated before the first answer
			all = append(all, counted(at, totals[0]))
		}
		return append(all,
			line(at, "response_item", fmt.Sprintf(`{"type":"function_call","name":"shell","arguments":"{}","call_id":"call %s"}`, text)),
			line(at, "response_item", fmt.Sprintf(`{"type":"function_call_output","call_id":"call %s","output":"x"}`, text)),
			line(at, "response_item",
				fmt.Sprintf(`{"type":"message","role":"assistant","content":[{"type":"output_text","text":%q}]}`, text)),
			counted(at, totals[len(totals)-1]),
			line(at, "event_msg", fmt.Sprintf(`{"type":"task_complete","turn_id":%q}`, id)))
	}
	forked := func(more string) string { return `,"forked_from_id":"` + parent + `"` + more }
	const old, own = "01a21d3a-aa0b-7000-8000-000000000000", "01a21d3a-ac3a-7000-8000-000000000000" // turns, by time
	for _, c := range []struct {
		why  string
		log  func() [][]string
		want int64 // requests of the fork
	}{
		{"with the first line of the other log", func() [][]string {
			return [][]string{{meta(begun, child, forked("")), meta(begun, parent, "")},
				turn(begun, old, "PARENT", "PARENT", 4), turn(begun, own, "child", "child", 4, 5)}
		}, 1},
		{"without it", func() [][]string {
			return [][]string{{meta(begun, child, forked(""))},
				turn(begun, old, "PARENT", "PARENT", 4), turn(begun, own, "child", "child", 4, 6)}
		}, 2},
		{"with it, and without a word about the fork", func() [][]string {
			return [][]string{{meta(begun, child, ""), meta(begun, parent, "")},
				turn(begun, old, "PARENT", "PARENT", 4), turn(begun, own, "child", "child", 4, 5)}
		}, 1},
		{"its totals begin again", func() [][]string {
			return [][]string{{meta(begun, child, forked("")), meta(begun, parent, "")},
				turn(begun, old, "PARENT", "PARENT", 4), turn(begun, own, "child", "child", 1)}
		}, 1},
		{"a line tells where its own begin", func() [][]string {
			return [][]string{{meta(begun, child, forked(`,"subagent_history_start_ordinal":8`))},
				turn(begun, "1", "PARENT", "PARENT", 4), turn(begun, "2", "child", "child", 1)}
		}, 1},
		{"turns without a time in their ids, and the times of the copy are old", func() [][]string {
			return [][]string{{meta(begun, child, forked(""))},
				turn("2026-11-27T13:00:00.000Z", "t1", "PARENT", "PARENT", 4), turn(later, "t2", "child", "child", 5)}
		}, 1},
		{"the same, and the times are those of the fork", func() [][]string {
			return [][]string{{meta(begun, child, forked("")), meta(begun, parent, "")},
				turn(begun, "t1", "PARENT", "PARENT", 4), turn(later, "t2", "child", "child", 4, 5)}
		}, 1},
		{"of a fork of a fork", func() [][]string {
			return [][]string{{meta(begun, child, forked("")), meta(begun, parent, `,"forked_from_id":"x"`), meta(begun, "x", "")},
				turn(begun, old, "PARENT", "PARENT", 4), turn(begun, own, "child", "child", 5)}
		}, 1},
		{"no copy", func() [][]string {
			return [][]string{{meta(begun, child, forked(""))}, turn(begun, own, "child", "child", 5)}
		}, 1},
		{"no fork", func() [][]string {
			return [][]string{{meta(begun, child, "")}, turn(begun, own, "child", "child", 1)}
		}, 1},
		{"the log is read from its middle", func() [][]string { return [][]string{turn(begun, own, "child", "child", 4, 5)} }, 1},
		{"the same, and it tells the total after the answer alone", func() [][]string {
			return [][]string{turn(begun, own, "child", "child", 5)}
		}, 1},
	} {
		ordinal = 0
		var lines []string
		for _, part := range c.log() {
			lines = append(lines, part...)
		}
		messages, fold := backendtest.Fold(codex.Backend{}, backendtest.Output([]byte(strings.Join(lines, "\n")+"\n")))
		r, texts, calls := fold.Record, 0, 0
		for _, m := range messages {
			if body := string(m.Body); strings.Contains(body, "PARENT") {
				t.Errorf("%s: an event of the other thread: %s", c.why, body)
			} else if strings.Contains(body, `"TextOutput"`) {
				texts++
			} else if strings.Contains(body, `"ToolCall"`) {
				calls++
			}
		}
		want := runs.Usage{Input: 1200 * c.want, CachedInput: 1000 * c.want, Output: 80 * c.want}
		s := r.Spent()
		if s.Total == nil || *s.Total != want || texts != 1 || calls != 1 || r.TurnsDone != 1 || r.Title != "child" ||
			r.Thread != child && r.Thread != "" {
			t.Errorf("%s: total %+v, %d texts, %d calls, %d turns, title %q, thread %s",
				c.why, s.Total, texts, calls, r.TurnsDone, r.Title, r.Thread)
		}
		if of := strings.Contains(lines[0], forked("")); of != (r.ForkedFrom == parent) || !of && r.ForkedFrom != "" {
			t.Errorf("%s: it is a copy of %q", c.why, r.ForkedFrom)
		}
	}
}
