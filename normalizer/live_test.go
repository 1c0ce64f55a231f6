package normalizer_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

const prompt = `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"prompt":[]}}`

func (r *run) sent(offset int, text string) {
	r.entry(runs.Entry{Kind: runs.Sent, Time: 2_000, Offset: int64(offset), Body: []byte(text)})
}

func (r *run) process(do string) {
	p := runs.Process{Do: do}
	if r.Record.Live != nil {
		p.N = r.Record.Live.Process
	}
	if do == runs.ProcessStart {
		p.N++
	}
	r.entry(runs.Entry{Kind: runs.Proc, Time: 2_000, Body: runs.Encode(p)})
}

// messages returns the messages of the events, and where they are.
func (r *run) messages() (all []string) {
	for _, m := range r.got {
		_, text, _ := strings.Cut(string(m.Body), `"message":"`)
		text, _, _ = strings.Cut(text, `"`)
		all = append(all, text)
	}
	return all
}

// Both directions have unfinished lines of their own, and both hold the checkpoint back.
func TestBothDirectionsHaveAnUnfinishedLine(t *testing.T) {
	r := newRun(codex.Backend{}, 0)
	from := func(want uint64, pending int) {
		t.Helper()
		if r.From() != want || r.Pending() != pending {
			t.Errorf("%d bytes from entry %d, want %d from %d", r.Pending(), r.From(), pending, want)
		}
	}
	from(0, 0)
	r.sent(0, prompt[:10])
	from(1, 10)
	r.out(0, "{}\n{")
	from(1, 11)
	r.sent(10, prompt[10:]+"\n")
	from(2, 1)
	r.sent(len(prompt)+1, "{")
	from(2, 2)
	r.out(4, "}\n")
	from(4, 1)
	r.restore(t, codex.Backend{}, 0)
	from(0, 0)
	r.Apply(4, runs.Entry{Kind: runs.Sent, Offset: int64(len(prompt) + 1), Body: []byte("{")}, nil)
	from(4, 1)
	if got := r.messages(); !slices.Contains(got, "turn started") || len(got) != 3 {
		t.Errorf("%q", got)
	}
}

// A line that a process has left unfinished is no line of the next one, in neither direction.
func TestALineEndsWithItsProcess(t *testing.T) {
	const long = runs.MaxLiveLine + 10
	r := newRun(codex.Backend{}, 40) // which is not for a conversation
	r.process(runs.ProcessStart)
	r.out(0, `{"jsonrpc":"2.0"`)
	r.sent(0, prompt[:10])
	r.process(runs.ProcessEnd)
	r.process(runs.ProcessStart)
	r.out(16, strings.Repeat("x", long))
	r.process(runs.ProcessEnd)
	r.process(runs.ProcessStart)
	r.sent(10, prompt+"\n")
	r.out(16+long, "\n")
	const unfinished = "codex stream parse error (redacted): unfinished line (line_bytes="
	want := []string{"agent started", unfinished + "16)", "agent ended", "agent started",
		unfinished + strconv.Itoa(long) + ")", "agent ended", "agent started", "turn started"}
	if got := r.messages(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if m := r.got[1]; m.Line != 1 || m.Part != 1 || r.got[2].Line != 0 || r.Record.Malformed != 2 {
		t.Errorf("the error is at %+v, then %+v", m.Pos, r.got[2].Pos)
	}
}

// A dialect without a conversation has no events of the entries, and a scrubbed one scrubs them.
func TestDialectsOfConversations(t *testing.T) {
	r := newRun(normalizer.Opaque("x"), 0)
	r.process(runs.ProcessStart)
	r.sent(0, prompt+"\n")
	if len(r.got) != 0 || r.Record.Live == nil || !r.Record.Live.Awake || r.Record.Lines != 0 {
		t.Errorf("%q, %+v", r.messages(), r.Record.Live)
	}
	scrub := func(s string) string { return strings.ReplaceAll(s, "turn", "T") }
	r = newRun(normalizer.Scrubbed(codex.Backend{}, scrub), 0)
	r.sent(0, prompt+"\n")
	if got := r.messages(); !slices.Equal(got, []string{"T started"}) {
		t.Errorf("%q", got)
	}
}
