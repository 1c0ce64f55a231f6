package launch_test

import (
	"slices"
	"testing"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

func TestModesAreThoseThatAreAllowed(t *testing.T) {
	t.Parallel()
	for _, danger := range []bool{false, true} {
		rules := launch.Rules{Danger: danger}
		for _, mode := range []runs.Mode{runs.ReadOnly, runs.WorkspaceWrite, runs.DangerFull, "other"} {
			allowed := rules.Allow(runs.Task{Attributes: runs.Attributes{Mode: mode}}) == nil
			if listed := slices.Contains(rules.Modes(), string(mode)); listed != allowed {
				t.Errorf("danger %v: %s is listed: %v, allowed: %v", danger, mode, listed, allowed)
			}
		}
	}
}
