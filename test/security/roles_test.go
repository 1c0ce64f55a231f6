package security

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/test/fixture"
)

// role starts a role of linesman, until the test ends, and waits for what it
// says when it is ready.
func role(t *testing.T, ready string, args ...string) *fixture.Process {
	t.Helper()
	cmd := exec.Command(program(t, "linesman"), args...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	p := fixture.Start(t, cmd)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if code := p.Code(); code != 0 {
			t.Errorf("linesman %s: exit %d", args[0], code)
		}
	})
	p.AwaitEither(ready)
	return p
}

// Each role has what its own user shows, and that suffices for a task from its
// submission to its events.
func TestRolesWorkOnAnOwnServerWithTheirOwnKeysAlone(t *testing.T) {
	t.Parallel()
	recording, err := filepath.Abs("../corpus/codex/hello.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for name, how := range identities {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startOwn(t, how)
			lab := t.TempDir()
			agent := filepath.Join(lab, "agent.sh")
			for path, body := range map[string]string{
				agent: "cat '" + recording + "'\n",
				filepath.Join(lab, "linesman.toml"): fmt.Sprintf(
					"[work]\nroots = [%q]\n[agents.codex]\ncommand = ['/bin/sh', %q]\n", lab, agent),
			} {
				if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			at := func(command string, keys string, args ...string) []string {
				return append([]string{command, "--nats", s.url, "--creds", keys, "--data-dir", t.TempDir()}, args...)
			}
			role(t, "normalizer reading", at("normalizer", s.only(t, embedded.NormalizerUser,
				embedded.NormalizerUser+"_public"))...)
			role(t, "worker ready", at("worker", s.only(t, embedded.WorkerUser), "--config",
				filepath.Join(lab, "linesman.toml"))...)
			role(t, "ready http=", at("responder", s.only(t, embedded.ResponderUser, embedded.ResponderUser+"_public"), "--http",
				"127.0.0.1:0")...)

			caller := s.only(t, embedded.OperatorUser, embedded.OperatorUser+"_public")
			run := strings.TrimSpace(linesman(t, at("submit", caller, "--dir", lab, "--skip-git-repo-check", "Go.")...))
			linesman(t, at("wait", caller, run)...)
			var record struct {
				Completion json.RawMessage `json:"completion"`
			}
			events := strings.Split(strings.TrimSpace(linesman(t, at("events", s.only(t, embedded.SubscriberUser), "--run", run,
				"--json")...)), "\n")
			if err := json.Unmarshal([]byte(events[len(events)-1]), &record); err != nil || record.Completion == nil ||
				len(events) < 3 {
				t.Errorf("the subscriber reads %d events, %v", len(events), err)
			}
			out := linesman(t, at("run", caller, "--run", "mine", "--json", "--", "/bin/sh", agent)...)
			if !strings.Contains(out, `"completion"`) {
				t.Errorf("run printed %q", out)
			}
			// Health is asked for with the keys of any role.
			for _, role := range [][]string{
				{embedded.NormalizerUser, embedded.NormalizerUser + "_public"},
				{embedded.ResponderUser, embedded.ResponderUser + "_public"}, {embedded.WorkerUser}, {embedded.SubscriberUser},
			} {
				linesman(t, at("health", s.only(t, role...))...)
			}
			// A user without what shows who it is is not let in as another.
			cmd := exec.Command(program(t, "linesman"), at("worker", s.only(t, embedded.SubscriberUser))...)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			fixture.Watch(t, cmd)
			if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(stderr.String(),
				"no keys of worker in ") {
				t.Errorf("a worker with the subscriber's keys: %v\n%s", err, &stderr)
			}
		})
	}
}
