package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/lab/agents"
)

// prompter is a caller of the Agent Protocol for NATS.
type prompter struct {
	t  *testing.T
	nc *nats.Conn
}

func newPrompter(t *testing.T, data string) *prompter {
	t.Helper()
	credentials, err := embedded.LoadCredentials(data)
	if err != nil {
		t.Fatal(err)
	}
	const user = embedded.PrompterUser
	nc, err := nats.Connect(fixture.ReadAddress(t, data).NATS, nats.UserInfo(user, credentials[user]),
		nats.CustomInboxPrefix(bus.InboxPrefix(user)), nats.Timeout(fixture.Patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return &prompter{t, nc}
}

// prompt sends a prompt once its instance is announced.
func (p *prompter) prompt(subject, body string) *answers {
	p.t.Helper()
	verb := strings.Replace(subject, ".prompt.", ".status.", 1)
	fixture.Eventually(p.t, fixture.Patience, verb+" does not answer", func() bool {
		_, err := p.nc.Request(verb, nil, fixture.Patience)
		return err == nil
	})
	sub, err := p.nc.SubscribeSync(p.nc.NewInbox())
	if err == nil {
		err = p.nc.PublishRequest(subject, sub.Subject, []byte(body))
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return &answers{p: p, sub: sub}
}

// answers are those to a prompt.
type answers struct {
	p    *prompter
	sub  *nats.Subscription
	all  []string
	text strings.Builder
}

// until reads on until a message of a type; "": the end.
func (a *answers) until(kind string) gjson.Result {
	a.p.t.Helper()
	for {
		m, err := a.sub.NextMsg(fixture.Patience)
		if err != nil {
			a.p.t.Fatalf("no %q after %q: %v", kind, a.all, err)
		}
		a.all = append(a.all, string(m.Data))
		got := gjson.ParseBytes(m.Data)
		switch is := got.Get("type").String(); {
		case len(m.Data) == 0 && kind == "", is == kind && kind != "":
			return got.Get("data")
		case len(m.Data) == 0:
			a.p.t.Fatalf("no %q in %q", kind, a.all)
		case is == "response":
			a.text.WriteString(got.Get("data").String())
		}
	}
}

// query answers the next query.
func (a *answers) query(body string) {
	a.p.t.Helper()
	q := a.until("query")
	if err := a.p.nc.Publish(q.Get("reply_subject").String(), []byte(body)); err != nil {
		a.p.t.Fatal(err)
	}
}

// A real agent asks its caller over NATS, who allows one command and rejects another one.
func TestRealAgentAsksItsCaller(t *testing.T) {
	fixture.Long(t, "starts a real agent")
	t.Parallel()
	s, dir := speakers[0], t.TempDir()
	a, _ := known.All().Find(s.short)
	env, project := agents.SetupLive(t, a.Live.Program, s.scenario(t, dir), dir)
	l := lodge(t, &s, a, env, project, fmt.Sprintf(
		"[announce]\nowner = 'ada'\n[[announce.profiles]]\nname = 'p'\nagent = %q\nworking_dir = %q\nlive = true\n",
		s.short, project))
	p := newPrompter(t, l.data)
	c := p.prompt("agents.prompt.claude-code.ada.p", "Task one")
	run := c.until("linesman.run").Get("run").String()
	c.query("yes")
	c.query("no")
	if c.until(""); c.text.String() != lastWord {
		t.Errorf("%q", c.all)
	}
	l.has(map[string]string{"one.txt": "one\n"})
	if events := l.events(run); strings.Count(events, `"permission asked"`) != 2 {
		t.Errorf("events %s", events)
	}
}

// A run that was prompted goes on when the whole linesman is killed, and the next prompt is answered.
func TestPromptedRunOutlivesUp(t *testing.T) {
	t.Parallel()
	data, agent := t.TempDir(), newScript(t, `
[ "$1" = --version ] && { echo codex-cli 0.169.0; exit; }
say one; await go; say two
echo '{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}'`)
	config := filepath.Join(data, "linesman.toml")
	write(t, config, fmt.Sprintf("[work]\nroots = [%q]\n[announce]\nowner = 'ada'\n[[announce.profiles]]\nname = 'p'\n"+
		"agent = 'codex'\nworking_dir = %[1]q\n[agents.codex]\ncommand = [%q]\n", agent.dir, agent.path))
	if out, err := exec.Command("git", "init", "-q", agent.dir).CombinedOutput(); err != nil { // Codex wants a repository
		t.Fatalf("%v\n%s", err, out)
	}
	server := up(t, data, "--config", config)
	a := newPrompter(t, data).prompt("agents.prompt.codex.ada.p", fixture.Sentinel+"prompt")
	run := a.until("linesman.run").Get("run").String()
	a.until("response")
	server.Kill()
	agent.touch("go")
	up(t, data, "--config", config)
	r := endedRun(t, operatorBus(t, data), run)
	if r.State != runs.StateCompleted || r.FinalText == nil || *r.FinalText != "two" {
		t.Errorf("record %s", r.JSON())
	}
	b := newPrompter(t, data).prompt("agents.prompt.codex.ada.p", "Again.")
	if b.until(""); b.text.String() != "one\n\ntwo" || !strings.Contains(strings.Join(b.all, " "), `"completed"`) {
		t.Errorf("%q", b.all)
	}
}

// talks is a live agent that asks for a command in each turn, and says what it was allowed.
const talks = `
[ "$1" = --version ] && { echo codex-cli 0.169.0; exit; }
update() { printf '%s\n' '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":'"$1"'}}'; }
answer() { echo '{"jsonrpc":"2.0","id":'$1',"result":{'"$2"'}}'; }
get() { IFS= read -r line || exit 98; printf '%s\n' "$line" >>accepted; }
n=100
while get; do
	id=${line#*'"id":'}; id=${id%%,*}
	case "$line" in
	*'"initialize"'*) answer $id '"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"close":{}}}' ;;
	*'"session/new"'*) answer $id '"sessionId":"s1"' ;;
	*'"session/set_mode"'*) answer $id ;;
	*'"session/prompt"'*)
		n=$((n+1))
		printf '%s' '{"jsonrpc":"2.0","id":'$n',"method":"session/request_permission","params":{"sessionId":"s1",'
		printf '%s' '"toolCall":{"toolCallId":"c'$n'","kind":"execute","title":"make","rawInput":{"command":"make all"}},'
		printf '%s' '"options":[{"optionId":"a","kind":"allow_once","name":"Yes, run it"},'
		echo '{"optionId":"d","kind":"reject_once","name":"No"}]}}'
		get
		case "$line" in *'"optionId":"a"'*) what=allowed ;; *) what=denied ;; esac
		update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'$what'"}}'
		answer $id '"stopReason":"end_turn","usage":{"inputTokens":7,"outputTokens":5,"totalTokens":12}' ;;
	*'"session/close"'*) answer $id; exit 0 ;;
	esac
done
`

// What the agent of a live run asks its caller stays open when the whole linesman is killed, for others; and a session
// is announced again.
func TestQueriesAndSessionsOutliveUp(t *testing.T) {
	t.Parallel()
	data, agent := t.TempDir(), newScript(t, talks)
	config := filepath.Join(data, "linesman.toml")
	write(t, config, fmt.Sprintf("[work]\nroots = [%q]\n[announce]\nowner = 'ada'\n[[announce.profiles]]\nname = 'p'\n"+
		"agent = 'codex'\nworking_dir = %[1]q\nlive = true\n[agents.codex]\ncommand = [%q]\nacp = [%[2]q]\n",
		agent.dir, agent.path))
	server := up(t, data, "--config", config)
	const chat = "agents.prompt.codex.ada.p"
	p := newPrompter(t, data)
	k := p.prompt(chat, `{"prompt":"Keep.","linesman":{"keep":true}}`)
	k.query("1")
	session := k.until("linesman.result")
	if k.until(""); k.text.String() != "allowed" || session.Get("state").String() != "completed" {
		t.Errorf("%q", k.all)
	}
	a := p.prompt(chat, fixture.Sentinel+"prompt")
	run := a.until("linesman.run").Get("run").String()
	if q := a.until("query"); !strings.Contains(q.Get("prompt").String(), "Command: make all") {
		t.Errorf("the query is %s", q)
	}
	server.Kill()
	up(t, data, "--config", config)

	out, code := execute(t, "questions", "--data-dir", data, run)
	if code != 0 || !strings.Contains(out, "  make") {
		t.Errorf("questions: exit %d: %s", code, out)
	}
	if out, code := execute(t, "answer", "--data-dir", data, run, "deny"); code != 0 {
		t.Errorf("answer: exit %d: %s", code, out)
	}
	if r := endedRun(t, operatorBus(t, data), run); r.State != runs.StateCompleted || *r.FinalText != "denied" {
		t.Errorf("record %s", r.JSON())
	}
	p = newPrompter(t, data)
	b := p.prompt(chat, "Once more.")
	b.query("no")
	if b.until(""); b.text.String() != "denied" {
		t.Errorf("%q", b.all)
	}
	c := p.prompt(session.Get("prompt").String(), "Next.")
	c.query("yes, run it")
	if c.until(""); c.text.String() != "allowed" {
		t.Errorf("%q", c.all)
	}
	end := strings.Replace(session.Get("prompt").String(), ".prompt.", ".cancel.", 1)
	m, err := p.nc.Request(end, []byte(`{"end":true}`), fixture.Patience)
	if err != nil || !json.Valid(m.Data) || m.Header.Get("Nats-Service-Error-Code") != "" {
		t.Errorf("end: %v, %v", m, err)
	}
	r := endedRun(t, operatorBus(t, data), session.Get("run").String())
	if r.State != runs.StateCompleted || r.Live.Turn != 2 {
		t.Errorf("record %s", r.JSON())
	}
}
