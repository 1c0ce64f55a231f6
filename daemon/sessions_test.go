package daemon_test

import (
	"slices"
	"testing"
	"time"

	"github.com/linesman/linesman/daemon"
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
