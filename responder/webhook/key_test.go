package webhook

import (
	"testing"

	"github.com/linesman/linesman/runs"
)

func TestKeysAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range []entry{
		{Registration: Registration{Run: "r", Protocol: AdCP, ID: "x"}, Seed: "1"},
		{Registration: Registration{Run: "r", Protocol: A2A, ID: "x"}, Seed: "1"},
		{Registration: Registration{Run: "s", Protocol: AdCP, ID: "x"}, Seed: "1"},
		{Registration: Registration{Run: "r", Protocol: AdCP, ID: "x"}, Seed: "2"},
		{Registration: Registration{Run: "r", Protocol: AdCP, ID: "y"}, Seed: "1"},
	} {
		for _, state := range []runs.State{runs.StateWorking, runs.StateCompleted, runs.StateFailed} {
			key := e.key(state)
			if seen[key] || len(key) != 44 || key != e.key(state) {
				t.Errorf("%s of %s: %s", state, e, key)
			}
			seen[key] = true
		}
	}
	if a, b := seed(), seed(); a == b || len(a) != 32 {
		t.Errorf("seeds %s and %s", a, b)
	}
}
