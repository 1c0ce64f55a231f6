package datadir

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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

// Credentials of announcing belong to a server, which may be that of a configuration file.
func TestCredentialsOfAnnouncingAreTakenOverWithTheirServer(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "linesman.toml")
	if err := os.WriteFile(file, []byte("[announce]\nnats = 'nats://127.0.0.1:4222'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	creds := "LINESMAN_ANNOUNCE_CREDS=/announce.creds"
	from := config.Sources{File: file, Environ: []string{"HOME=" + t.TempDir(), creds}}
	cfg, err := config.Load(from)
	if err != nil {
		t.Fatal(err)
	}
	again := Describe(from, cfg).sources("", nil, t.TempDir())
	if !slices.Equal(again.Environ, []string{creds}) {
		t.Errorf("%+v", again)
	}
}

// A server that was to listen at an address that is gone serves this machine alone; at one that is taken or not
// permitted, another port of it.
func TestAddressOfTheUpBeforeThatCannotBeListenedOn(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	before := map[string]string{
		"192.0.2.1:8422":      "cannot assign requested address",
		"[2001:db8::1]:8422":  "cannot assign requested address",
		"no..host:8422":       "no..host",
		taken.Addr().String(): "is in use by another process",
	}
	l, err := net.Listen("tcp", "127.0.0.1:1")
	if errors.Is(err, syscall.EACCES) {
		before["127.0.0.1:1"] = "permission denied"
	} else if err == nil {
		_ = l.Close()
	}
	for at, why := range before {
		got, note := address(config.Sources{}, "http", "", at)
		if got != "127.0.0.1:0" || !strings.Contains(note, at) || !strings.Contains(note, why) {
			t.Errorf("%s: %s, %q", at, got, note)
		}
	}
}
