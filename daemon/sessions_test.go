package daemon_test

import (
	"slices"
	"testing"

	"github.com/linesman/linesman/daemon"
)

func TestPlacesOfSessionsFollowTheEnvironment(t *testing.T) {
	c := daemon.Config{Environ: []string{"HOME=/home/dev", "CODEX_HOME=/srv/codex"}}
	for kind, want := range map[string][]string{
		"":            {"/srv/codex/sessions", "/home/dev/.claude/projects"},
		"codex":       {"/srv/codex/sessions"},
		"claude_code": {"/home/dev/.claude/projects"},
		"gemini_cli":  nil,
	} {
		places, err := c.SessionPlaces(kind)
		var got []string
		for _, p := range places {
			got = append(got, p.Dir)
		}
		if !slices.Equal(got, want) || (err != nil) != (want == nil) {
			t.Errorf("%q: %q, %v; want %q", kind, got, err, want)
		}
	}
	if places, err := (daemon.Config{}).SessionPlaces(""); err == nil {
		t.Errorf("without an environment: %v", places)
	}
}
