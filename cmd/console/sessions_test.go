package console

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

func TestSessionsAreLinesWithWhyTheyAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session := func(thread, title, refused string, ago time.Duration) api.Session {
			return api.Session{Refused: refused, Newest: runs.Summary{ID: "T-1", State: runs.StateCompleted,
				Attributes: runs.Attributes{Agent: "codex", Thread: thread, Title: title, Dir: "/srv"},
				ActiveAt:   api.TimeOf(time.Now().Add(-ago))}}
		}
		all := api.Sessions{Next: "x", Sessions: []api.Session{
			session("t1", "Fix it", "it is used", time.Minute), session("t2", "a\x1b[2Jb", "", time.Hour),
		}}
		for width, want := range map[int]string{
			0: "t1  1m00s ago  codex  Fix it  /srv  it is used\nt2  1h00m ago  codex  a\\x1b[2Jb  /srv\n" +
				"older ones are not shown: --limit\n",
			40: "THREAD  CHANGED    AGENT  TITLE\nt1      1m00s ago  codex  Fix it\nt2      1h00m ago  codex  a\\x1b[2Jb\n" +
				"older ones are not shown: --limit\n",
		} {
			var out bytes.Buffer
			if err := renderTo(&out, width > 0, false, width).Sessions(all); err != nil || out.String() != want {
				t.Errorf("width %d, error %v:\n%q, want\n%q", width, err, out.String(), want)
			}
		}
	})
}
