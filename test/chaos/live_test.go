package chaos

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// live submits a task for a live run, and returns it. The name of its directory tells the agent the key.
func (s *site) live(key, prompt string) (run string, answer gjson.Result, err error) {
	dir := filepath.Join(s.dir, "work", key)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", answer, err
	}
	out, err := exec.CommandContext(s.t.Context(), program, s.at(s.data[0], "submit", "--agent", "codex", "--live", "--no-ask",
		"--json", "--skip-git-repo-check", "--dir", dir, prompt)...).Output()
	answer = gjson.ParseBytes(out)
	return answer.Get("run").String(), answer, err
}

// killLive kills the shim of a live run, whose end does not depend on it.
var killLive = fault{"kill the shim of a live run", func(s *site) bool {
	shims := slices.DeleteFunc(s.shims(), func(p stranger) bool { return filepath.Base(p.argv[2]) != "p1" })
	return len(shims) > 0 && shims[s.rng.IntN(len(shims))].kill(s.t)
}}

// Live runs are under way while the whole linesman and their shims are killed. Each ends with its turn, and its agent
// has taken the lines that RAW has, each once.
func TestLiveRunsSurviveUpAndShims(t *testing.T) {
	sieges(t, 12, func(t *testing.T, rng *rand.Rand, rounds uint64) {
		s := newUp(t, rng, "")
		faults := []fault{killLive, killUp, killLive}
		fired := map[string]int{}
		for n := range rounds {
			for range 3 {
				s.submit("live")
			}
			<-time.After(time.Duration(s.rng.Int64N(int64(400 * time.Millisecond)))) // the moment
			if f := faults[n%uint64(len(faults))]; f.strike(s) {
				fired[f.name]++
			}
			if t.Failed() {
				return
			}
		}
		e := s.check()
		t.Logf("%d runs, %d entries, %d events; fired: %v", len(e.Runs), len(e.Raw), len(e.Events), fired)
		if fired[killLive.name] == 0 && rounds > 3 {
			t.Error("no shim was killed")
		}
	})
}
