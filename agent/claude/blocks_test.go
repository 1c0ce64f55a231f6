package claude_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// The ids of a line are in the events of all of its blocks, and its other strings are read for each: neither multiplies
// what the line needs.
func TestLongStringsOfALineWithManyBlocks(t *testing.T) {
	const blocks = 4096
	all := func(block string) []string { return strings.Split(strings.Repeat(block+"\n", blocks), "\n")[:blocks] }
	calls := assistant(all(`{"type":"tool_use"}`)...)
	results := user(all(`{"type":"tool_result"}`)...)
	texts := assistant(all(`{"type":"text","text":""}`)...)
	long := func(n int) string { return strings.Repeat("i", n) }
	escaped := strings.Repeat(`\u0041`, 1_200_000)
	for why, lines := range map[string][]string{
		"calls, a long id":            {with(calls, `"uuid":"`+long(60_000)+`"`)},
		"results, a long id":          {with(results, `"uuid":"`+long(60_000)+`"`)},
		"calls, an id of the limit":   {with(calls, `"uuid":"`+long(8_200_000)+`"`)},
		"calls, an escaped id":        {with(calls, `"uuid":"`+escaped+`"`)},
		"calls, a long session":       {with(start, `"session_id":"`+long(60_000)+`"`), calls},
		"calls, one of the limit":     {with(calls, `"session_id":"`+long(8_200_000)+`"`)},
		"texts, an escaped parent":    {with(texts, `"parent_tool_use_id":"`+escaped+`"`)},
		"calls, an escaped parent":    {with(calls, `"parent_tool_use_id":"`+escaped+`"`)},
		"texts, a blank error":        {with(texts, `"error":"`+strings.Repeat(" ", 8_200_000)+`"`)},
		"results in the log, long id": {with(results, `"sessionId":"s","parentUuid":null,"uuid":"`+long(60_000)+`"`)},
	} {
		t.Run(why, func(t *testing.T) {
			out := []byte(strings.Join(lines, "\n") + "\n")
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			fold := normalizer.NewFold(backend, "T-local-test", 0)
			bodies := 0
			fold.Apply(1, backendtest.Output(out)[1], func(m normalizer.Message) { bodies += len(m.Body) })
			runtime.ReadMemStats(&after)
			if bodies > 4<<20 {
				t.Errorf("%d bytes of events of a line of %d", bodies, len(out))
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 128<<20 {
				t.Errorf("%d bytes are allocated for a line of %d", n, len(out))
			}
		})
	}
}

// Blocks whose events have too many bytes together are as those beyond the number of a message: one Unknown event.
func TestBlocksBeyondTheBytesOfALine(t *testing.T) {
	call := `{"type":"tool_use","id":"` + strings.Repeat("i", 60_000) + `"}`
	blocks := strings.Split(strings.Repeat(call+"\n", 40), "\n")[:40]
	got := feed(t, assistant(append(blocks, hello)...))
	if n := len(got); n < 17 || n > 19 || got[n-1].Token != "unknown" || got[n-2].Token != "tool_call" {
		t.Errorf("%d events", n)
	}
	if got := feed(t, assistant(append(blocks[:10], hello)...)); len(got) != 11 || got[10].Token != "text_output" {
		t.Errorf("%d events of fewer bytes", len(got))
	}
}
