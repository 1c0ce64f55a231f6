package console

import (
	"testing"

	"github.com/linesman/linesman/agent/known"
)

// It sees each event of a run.
func TestAdviceIsFreeOnceItIsDecided(t *testing.T) {
	m := Misread{Argv: []string{"codex", "exec", "--json"}, Agents: known.Agents, decided: true}
	r := Record{Run: "T-1", Event: []byte(`{"kind":"TextOutput","event":{"text":"x"}}`)}
	if n := testing.AllocsPerRun(10, func() { m.Advice(r) }); n > 0 {
		t.Errorf("it takes %v allocations", n)
	}
}
