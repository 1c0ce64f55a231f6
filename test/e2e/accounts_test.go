package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/test/fixture"
)

// exported are the accounts of two callers that import what linesman announces in one of its own.
const exported = `accounts {
  AGENTS { users: [ { user: linesman, password: p } ], exports: [
    { service: "agents.prompt.*.*.*", response_type: stream }, { service: "agents.status.*.*.*" },
    { service: "agents.cancel.*.*.*" }, { service: "$SRV.>", response_type: stream },
    { service: "linesman.reply.*" } ] }
  %s
}`

const imports = `%s { users: [ { user: %[1]s, password: p } ], imports: [
    { service: { account: AGENTS, subject: "agents.prompt.*.*.*" } },
    { service: { account: AGENTS, subject: "agents.status.*.*.*" } },
    { service: { account: AGENTS, subject: "agents.cancel.*.*.*" } },
    { service: { account: AGENTS, subject: "$SRV.>" } },
    { service: { account: AGENTS, subject: "linesman.reply.*" } } ] }
  `

// Two callers with an account each prompt the same agent, and each gets its own answers alone.
func TestCallersWithAccountsOfTheirOwnReadTheirAnswersAlone(t *testing.T) {
	t.Parallel()
	o := &server.Options{}
	accounts := fmt.Sprintf(exported, fmt.Sprintf(imports, "ONE")+fmt.Sprintf(imports, "TWO"))
	if err := o.ProcessConfigString(accounts); err != nil {
		t.Fatal(err)
	}
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
	o.AuthTimeout = fixture.Patience.Seconds()
	n, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	n.Start()
	t.Cleanup(func() { n.Shutdown(); n.WaitForShutdown() })

	data, agent := t.TempDir(), newScript(t, `
[ "$1" = --version ] && { echo codex-cli 0.169.0; exit; }
say one
echo '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'`)
	config := filepath.Join(data, "linesman.toml")
	write(t, config, fmt.Sprintf("[work]\nroots = [%q]\n[announce]\nowner = 'ada'\nnats = 'nats://linesman:p@%s'\n"+
		"[[announce.profiles]]\nname = 'p'\nagent = 'codex'\nworking_dir = %[1]q\n[agents.codex]\ncommand = [%[3]q]\n",
		agent.dir, n.Addr(), agent.path))
	if out, err := exec.Command("git", "init", "-q", agent.dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	up(t, data, "--config", config)
	var callers []*prompter
	var others []*nats.Subscription
	for _, user := range []string{"ONE", "TWO"} {
		nc, err := nats.Connect("nats://"+n.Addr().String(), nats.UserInfo(user, "p"), nats.Timeout(fixture.Patience))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		callers = append(callers, &prompter{t, nc})
		all, err := nc.SubscribeSync(">")
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, all)
	}
	// Over a service import, a request without a responder gets no error.
	fixture.Eventually(t, fixture.Patience, "the agent is not announced", func() bool {
		_, err := callers[0].nc.Request("agents.status.codex.ada.p", nil, 5*time.Second)
		return err == nil
	})
	got := callers[0].prompt("agents.prompt.codex.ada.p", "Say one.")
	got.until("")
	if got.text.String() != "one" {
		t.Errorf("%q", got.all)
	}
	if err := callers[1].nc.FlushTimeout(fixture.Patience); err != nil {
		t.Fatal(err)
	}
	if m, err := others[1].NextMsg(time.Millisecond); err == nil {
		t.Errorf("the other caller reads %s: %q", m.Subject, m.Data)
	}
	callers[1].prompt("agents.prompt.codex.ada.p", "Say one.").until("")
}
