package acp_test

import (
	"testing"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/normalizer"
)

// counted is a dialect with one line of its own. It counts these lines and the calls of State.
type counted struct{ told, states int }

func (c *counted) Line(line []byte, _ *normalizer.Out) normalizer.Fault {
	if string(line) != `{"type":"own"}` {
		return normalizer.MissingType
	}
	c.told++
	return normalizer.NoFault
}

func (c *counted) IsNew() bool { return c.told == 0 }

func (c *counted) State() ([]byte, error) {
	c.states++
	return []byte{'0' + byte(c.told)}, nil
}

func (c *counted) Restore([]byte) error { return nil }

// A line that could be of the protocol costs no encoding of what the agent's own lines have told.
func TestLinesOfTheProtocolAfterOwnOnesAreCheap(t *testing.T) {
	own := new(counted)
	d, out := acp.Within(own, &acp.Agent{}), new(normalizer.Out)
	if fault := d.Line([]byte(`{"type":"own"}`), out); fault != normalizer.NoFault {
		t.Fatal(fault)
	}
	for range 1000 {
		for _, line := range []string{`{"jsonrpc":1}`, chunk("a"), hello} {
			if fault := d.Line([]byte(line), out); fault != normalizer.MissingType {
				t.Fatalf("%s: fault %d", line, fault)
			}
		}
	}
	if own.states > 0 {
		t.Errorf("the state was encoded %d times", own.states)
	}
}
