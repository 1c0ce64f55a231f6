package daemon_test

import (
	"context"
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
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon"
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

// Credentials that others can read are shown to no server.
func TestAgentsAreNotAnnouncedWithCredentialsThatOthersCanRead(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	came := make(chan struct{})
	go func() {
		if c, err := listener.Accept(); err == nil {
			_ = c.Close()
			close(came)
		}
	}()
	dir := t.TempDir()
	if _, err := embedded.SignedConfig(embedded.Accounts(bus.Names{Prefix: bus.DefaultPrefix}), dir); err != nil {
		t.Fatal(err)
	}
	creds := filepath.Join(dir, "responder_agents.creds")
	if err := os.Chmod(creds, 0o644); err != nil {
		t.Fatal(err)
	}
	core, logged := observer.New(zap.WarnLevel)
	s := config.Default()
	s.DataDir, s.NATSListen, s.HTTP, s.Work.MaxRuns = t.TempDir(), "127.0.0.1:0", "", 0
	s.Announce.NATS, s.Announce.Creds = "nats://"+listener.Addr().String(), creds
	d, err := daemon.New(t.Context(), daemon.Config{Settings: s, Log: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	want := "announce.creds: " + creds + " can be read by others; make a new one, or `chmod 600` it if it was not read"
	fixture.Eventually(t, fixture.Patience, "the reason", func() bool {
		return logged.FilterField(zap.String("why", want)).Len() > 0
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	select {
	case <-came:
		t.Error("they were used")
	default:
	}
}
