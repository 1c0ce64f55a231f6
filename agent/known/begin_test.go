package known_test

import (
	"slices"
	"testing"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// A line of another program that speaks JSON-RPC costs one Error event. It does not make what follows lines of the
// Agent Client Protocol.
func TestAnOddFirstLineIsOneError(t *testing.T) {
	for _, a := range known.Agents {
		for _, odd := range []string{
			`{"jsonrpc":1}`, `{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":0,"method":"initialize"}`,
			`{"jsonrpc":"2.0","method":"notifications/message","params":{}}`,
			`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-06-18","serverInfo":{"version":"1"}}}`,
		} {
			for _, p := range recordings(t, a) {
				log := slices.Clone(p.log[1:])
				for i := range log {
					if log[i].Kind == runs.Out {
						log[i].Offset += int64(len(odd) + 1)
					}
				}
				log = slices.Insert(log, 0, p.log[0], runs.Entry{Kind: runs.Out, Time: 2_000, Body: []byte(odd + "\n")})
				want, _ := backendtest.Fold(a.Backend, p.log)
				got, fold := backendtest.Fold(a.Backend, log)
				if len(got) != len(want)+1 || got[0].Token != normalizer.ErrorMessage("").Kind.Token() {
					t.Errorf("%s after %s: %d events, want %d and an error", p.name, odd, len(got), len(want))
					continue
				}
				if fold.Record.Malformed != p.record.Malformed+1 {
					t.Errorf("%s after %s: %d malformed lines, want %d and 1", p.name, odd, fold.Record.Malformed, p.record.Malformed)
				}
				for i, m := range got[1:] {
					if w := want[i]; m.Token != w.Token || string(m.Body) != string(w.Body) {
						t.Errorf("%s after %s: event %d is %.300s\nwant %.300s", p.name, odd, i, m.Body, w.Body)
						break
					}
				}
			}
		}
	}
}

// What begins to speak the protocol depends on the saved state alone: here on one that is empty again.
func TestARestoredRunBeginsTheProtocolAsAnother(t *testing.T) {
	const update = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":` +
		`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}}}`
	use := `{"type":"tool_use","tool_id":"c","tool_name":"glob"}`
	for _, c := range []struct {
		lines []string
		want  normalizer.Fault
	}{
		{nil, normalizer.NoFault}, {[]string{use}, normalizer.MissingType},
		{[]string{use, `{"type":"tool_result","tool_id":"c","status":"success"}`}, normalizer.NoFault},
		{[]string{update}, normalizer.NoFault},
	} {
		a, _ := known.Agents.Find("gemini")
		var out normalizer.Out
		d, restored := a.Backend.Dialect(), a.Backend.Dialect()
		for _, line := range c.lines {
			if fault := d.Line([]byte(line), &out); fault != normalizer.NoFault {
				t.Fatal(line, fault)
			}
		}
		state, err := d.State()
		if err == nil {
			err = restored.Restore(state)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range []normalizer.Dialect{d, restored} {
			if got := d.Line([]byte(update), &out); got != c.want {
				t.Errorf("after %q, the state %s: fault %d, want %d", c.lines, state, got, c.want)
			}
		}
	}
}
