package page

import (
	"encoding/json"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/browsertest"
)

var soak = flag.Duration("page.soak", 0, "how long the page shows a run with 200 events a second; 0: not at all")

// The page shows a run that writes 200 events a second: the memory and the elements of the
// browser stay, and the newest events are on the screen.
func TestSoakOfThePage(t *testing.T) {
	if *soak == 0 {
		t.Skip("takes minutes: make page-soak")
	}
	b := browsertest.Start(t)
	s := newStage(t)
	may := s.calls()
	may["pour"] = func(json.RawMessage) any { return s.pour() }
	may["stop"] = may["end"]
	result := b.Do(t, "soak", map[string]any{"seconds": soak.Seconds(), "shots": s.shots}, may)
	var all []struct {
		Second, Line, OverviewNodes, RunNodes int
		OverviewMB, RunMB                     float64
	}
	if err := json.Unmarshal(result, &all); err != nil || len(all) < 6 {
		t.Fatalf("%d samples, at least a minute is needed: %v", len(all), err)
	}
	for _, one := range all {
		t.Logf("%+v", one)
	}
	// The greatest values of the second and of the last third: the number of elements goes up and down.
	third := len(all) / 3
	for what, of := range map[string]func(i int) float64{
		"heap of the run in MB":      func(i int) float64 { return all[i].RunMB },
		"heap of the overview in MB": func(i int) float64 { return all[i].OverviewMB },
		"nodes of the run":           func(i int) float64 { return float64(all[i].RunNodes) },
		"nodes of the overview":      func(i int) float64 { return float64(all[i].OverviewNodes) },
	} {
		var before, after float64
		for i := third; i < len(all); i++ {
			if i < 2*third {
				before = max(before, of(i))
			} else {
				after = max(after, of(i))
			}
		}
		if after > before*5/4+2 {
			t.Errorf("%s: at most %.1f in the second third of the time, %.1f in the last one", what, before, after)
		}
	}
	early, late := all[third], all[len(all)-1]
	if rate := float64(late.Line-early.Line) / float64(late.Second-early.Second); rate < 100 {
		t.Errorf("%.0f events a second arrive", rate)
	}
}

// pour starts a run that writes about 200 events a second until end. It returns its title.
func (s *stage) pour() string {
	s.t.Helper()
	s.write("pour.sh", fmt.Sprintf(`words='Some **words** of a real message, as long as a short one.'
echo '{"type":"thread.started","thread_id":"0199a213-81c0-7800-8aa1-bbab2a035a77"}'
echo '{"type":"turn.started"}'
i=0
while [ ! -e '%s/next' ]; do
	for n in 1 2 3 4 5 6 7 8 9 10; do
		i=$((i+1))
		echo '{"type":"item.completed","item":{"id":"item_'$i'","type":"agent_message","text":"Line number '"$i. $words"'"}}'
	done
	sleep 0.045
done
echo '{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":0,"output_tokens":5}}'
`, s.lab))
	const title = "A run that writes much"
	s.running = fixture.Start(s.t, exec.Command(program, "run", "--data-dir", s.data, "--title", title, "--agent",
		"codex", "--", "/bin/sh", filepath.Join(s.lab, "pour.sh")))
	return title
}
