package datadir

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/linesman/linesman/config"
)

// An agent that only the configuration file defines has settings, too. What may be a secret is not kept.
func TestSettingsOfOwnAgentsAreTakenOver(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "linesman.toml")
	if err := os.WriteFile(file, []byte("[agents.own]\nacp = ['/bin/cat']\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	from := config.Sources{File: file, Environ: []string{
		"HOME=" + t.TempDir(),
		"LINESMAN_AGENTS_OWN_ENV=A_KEY", "LINESMAN_ANNOUNCE_NATS=nats://user:secret@127.0.0.1:4222",
		"LINESMAN_ANNOUNCE_CREDS=/announce.creds",
	}}
	cfg, err := config.Load(from)
	if err != nil {
		t.Fatal(err)
	}
	previous := Describe(from, cfg)
	again := previous.sources("", nil, t.TempDir())
	if again.File != file || !slices.Equal(again.Environ, []string{"LINESMAN_AGENTS_OWN_ENV=A_KEY"}) {
		t.Errorf("%+v", again)
	}
	if _, err := config.Load(again); err != nil {
		t.Errorf("no command can start an `up` again: %v", err)
	}
}
