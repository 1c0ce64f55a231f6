package daemon_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon/daemontest"
	"github.com/linesman/linesman/test/fixture"
)

// A server that comes later is connected to; until then the responder does all else, as Start shows.
func TestAgentsAreAnnouncedAtAnotherServer(t *testing.T) {
	address := fixture.FreeAddresses(t, 1)[0]
	dir := t.TempDir()
	script := filepath.Join(dir, "codex")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n[ \"$1\" = --version ] && { echo codex-cli 0.169.0; exit; }\n"+
		"exec cat '"+fixture.Path(t, "test", "corpus", "codex", "hello.jsonl")+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	daemontest.Start(t, func(s *config.Config) {
		s.Work.MaxRuns, s.Work.Roots = 1, config.List{dir}
		s.Agents["codex"].Command = config.List{script}
		s.Announce.Owner, s.Announce.NATS = "ada", "nats://"+address
		profiles := fmt.Sprintf(`[{"name":"hello","agent":"codex","working_dir":%q,"labels":{"team":"x"}}]`, dir)
		if err := json.Unmarshal([]byte(profiles), &s.Announce.Profiles); err != nil {
			t.Fatal(err)
		}
	})
	host, port, _ := net.SplitHostPort(address)
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	other, err := server.NewServer(&server.Options{Host: host, Port: number, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	go other.Start()
	t.Cleanup(func() {
		other.Shutdown()
		other.WaitForShutdown()
	})
	if !other.ReadyForConnections(fixture.Patience) {
		t.Fatal("the other server does not start")
	}
	nc, err := nats.Connect("nats://"+address, nats.Timeout(fixture.Patience))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	sub, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	fixture.Eventually(t, fixture.Patience, "the agent", func() bool {
		_, err := nc.Request("agents.status.codex.ada.hello", nil, fixture.Patience)
		return err == nil
	})
	if err := nc.PublishRequest("agents.prompt.codex.ada.hello", sub.Subject, []byte("Say hello.")); err != nil {
		t.Fatal(err)
	}
	var all []string
	for {
		m, err := sub.NextMsg(fixture.Patience)
		if err != nil {
			t.Fatalf("after %q: %v", all, err)
		}
		if len(m.Data) == 0 {
			break
		}
		all = append(all, string(m.Data))
	}
	if text := strings.Join(all, ""); !strings.Contains(text, `{"type":"response","data":"Hello. Nothing to do."}`) ||
		!strings.Contains(text, `"state":"completed"`) {
		t.Errorf("%q", all)
	}
}
