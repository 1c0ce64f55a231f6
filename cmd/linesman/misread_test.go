package main

import (
	"testing"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/cmd/console"
)

// It sees each event of a run.
func TestAdviceIsFreeOnceItIsDecided(t *testing.T) {
	m := misread{argv: []string{"codex", "exec", "--json"}, agents: known.Agents, decided: true}
	r := console.Record{Run: "T-1", Event: []byte(`{"kind":"TextOutput","event":{"text":"x"}}`)}
	if n := testing.AllocsPerRun(10, func() { m.advice(r) }); n > 0 {
		t.Errorf("it takes %v allocations", n)
	}
}
