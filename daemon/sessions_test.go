package daemon_test

import (
	"slices"
	"testing"
	"time"

	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
)

func TestPlacesOfSessionsFollowTheEnvironment(t *testing.T) {
	c := daemon.Config{Environ: []string{"HOME=/home/dev", "CODEX_HOME=/srv/codex"}}
	for kind, want := range map[string][]string{
		"":            {"/srv/codex", "/home/dev/.claude"},
		"codex":       {"/srv/codex"},
		"claude_code": {"/home/dev/.claude"},
		"gemini_cli":  nil,
	} {
		spec, err := c.Sessions(kind, worker.SessionsSpec{Idle: time.Minute})
		var got []string
		for _, p := range spec.Places {
			got = append(got, p.Dir)
		}
		if !slices.Equal(got, want) || (err != nil) != (want == nil) {
			t.Errorf("%q: %q, %v; want %q", kind, got, err, want)
		}
	}
	if spec, err := (daemon.Config{}).Sessions("", worker.SessionsSpec{Idle: time.Minute}); err == nil {
		t.Errorf("without an environment: %v", spec.Places)
	}
	if _, err := c.Sessions("", worker.SessionsSpec{}); err == nil {
		t.Error("no idle time is accepted")
	}
}

// Whether a session is that of a run is not answered before what the run has stored is in its record.
func TestSessionIsThatOfARunThatIsNotRecordedYet(t *testing.T) {
	t.Parallel()
	s, b := session(t)
	if own, err := s.OfRun(t.Context(), "first"); own || err != nil { // nothing is stored, so there is no checkpoint
		t.Errorf("before all runs: %t, error %v", own, err)
	}
	for _, thread := range []string{"t1", "t2", "t3"} {
		_, err := b.AppendIf(t.Context(), "codex", "r-"+thread, runs.Mark{}, func(runs.Mark) *runs.Entry {
			return &runs.Entry{Kind: runs.Started, Time: time.Now().UnixMilli(), Body: runs.Encode(runs.Start{
				Source: runs.SourcePipe, Worker: "w", Attributes: runs.Attributes{Agent: "codex", Thread: thread},
			})}
		})
		if err != nil {
			t.Fatal(err)
		}
		if own, err := s.OfRun(t.Context(), thread); !own || err != nil {
			t.Errorf("%s: %t, error %v", thread, own, err)
		}
	}
	if own, err := s.OfRun(t.Context(), "other"); own || err != nil {
		t.Errorf("of none: %t, error %v", own, err)
	}
}
