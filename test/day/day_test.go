// Package day plays a day with linesman: people, real agents, and all that dies in between.
package day

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/browsertest"
	"github.com/linesman/linesman/test/fixture/tmuxtest"
	"github.com/linesman/linesman/test/lab/agents"
)

var program, natsServer string

func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, "a day with three agents takes a minute", func(dir string) error {
		program, natsServer = filepath.Join(dir, "linesman"), filepath.Join(dir, "nats-server")
		return fixture.Build(dir, "./cmd/linesman", "github.com/nats-io/nats-server/v2")
	}))
}

// talk is a conversation of a person with an agent.
type talk struct {
	name    string // of the person's work: all prompts begin with it
	agent   string
	by      string // who answers, as linesman tells it
	dir     string // of the agent's model
	project string
	said    []said
	run     string
}

// said is a prompt, and what comes of it.
type said struct {
	word     string // the prompt is that of the talk and this one
	command  string // for which the agent asks
	model    string // what the model does then
	ends     string // how linesman tells the end of the turn
	isDenied bool
	slow     bool // the model takes its time
	goesOn   bool // what its agent has left would ask the model on, if it lived on
}

// What a model does, and how turns end.
const (
	answers = "answers"
	silent  = "is silent"
	nothing = "is not asked"

	completed   = "turn completed"
	interrupted = "turn interrupted"
)

func (k *talk) prompt(word string) string { return k.name + " " + word + "." }
func (k *talk) answer(word string) string { return k.name + " " + word + " is done." }

// denied is what comes of a command that is denied.
func denied(word, agent string) said {
	s := said{word: word, command: "touch " + word + ".txt", model: nothing, ends: completed, isDenied: true}
	switch agent {
	case "claude": // it tells the model of the denial, and the turn goes on
		s.model = answers
	case "codex":
		s.ends = "turn cancelled"
	}
	return s
}

// requests is how often the model is asked, at most.
func (s said) requests() (n int) {
	if s.command != "" {
		n++
	}
	if s.model != nothing {
		n++
	}
	if s.goesOn {
		n++
	}
	return n
}

// turns is how often the model is asked before a prompt, or in all.
func (k *talk) turns(word string) (n int) {
	for _, s := range k.said {
		if s.word == word {
			break
		}
		n += s.requests()
	}
	return n
}

// prepare writes what the model does, and prepares the agent and a repository for it.
func (k *talk) prepare(t *testing.T) (env []string) {
	t.Helper()
	k.dir = t.TempDir()
	var turns []string
	for _, s := range k.said {
		more := ""
		add := func(item string) {
			i := len(turns)
			turns = append(turns, fmt.Sprintf(`{"match":%q,"items":[%s],"usage":{"input":%d,"cached":%d,"output":%d}%s}`,
				k.prompt(s.word), item, 1000+100*i, 500+100*i, 10+i, more))
		}
		if s.command != "" {
			add(agents.Command(t, k.agent, s.command))
		}
		switch s.model {
		case answers:
			if s.slow {
				more = `,"wait_ms":5000`
			}
			add(fmt.Sprintf(`{"message":%q}`, k.answer(s.word)))
		case silent:
			more = `,"wait_ms":600000`
			add("")
		}
		if s.goesOn {
			more = `,"wait_ms":8000`
			add(fmt.Sprintf(`{"message":%q}`, k.name+" goes on alone."))
		}
	}
	path := filepath.Join(k.dir, "scenario.json")
	write(t, path, fmt.Sprintf(`{"cli":%q,"turns":[%s]}`, k.agent, strings.Join(turns, ",")))
	a, _ := known.All().Find(k.agent)
	env, k.project = agents.SetupLive(t, a.Live.Program, path, k.dir)
	if out, err := exec.Command("git", "-C", k.project, "init", "--quiet").CombinedOutput(); err != nil {
		t.Fatalf("git: %v %s", err, out)
	}
	return env
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// newMachine makes the machine of some talks, and starts its roles.
func newMachine(t *testing.T, talks ...*talk) *machine {
	t.Helper()
	free := fixture.FreeAddresses(t, 2)
	m := &machine{t: t, began: time.Now(), dir: t.TempDir(), nats: free[0], http: free[1],
		running: map[string]*fixture.Process{}}
	m.config = filepath.Join(m.dir, "linesman.toml")
	m.env = []string{"LANG=C.UTF-8", "HOME=" + filepath.Join(m.dir, "home"), scope + "=" + m.dir,
		"LINESMAN_BACKGROUND_START=false"}
	settings, roots := fmt.Sprintf("nats = 'nats://%s'\n", m.nats), []string{}
	path := ""
	var of strings.Builder
	for _, k := range talks {
		names := []string{scope}
		for _, v := range k.prepare(t) {
			name, value, _ := strings.Cut(v, "=")
			switch name {
			case "PATH":
				if path == "" || strings.Contains(value, "live/node_modules/.bin:") && k.agent == "claude" {
					path = value
				}
			case "LANG", "HOME":
			default:
				names, m.env = append(names, name), append(m.env, v)
			}
		}
		roots = append(roots, k.project)
		fmt.Fprintf(&of, "[agents.%s]\nenv = [\"%s\"]\n", k.agent, strings.Join(names, `", "`))
	}
	m.env = append(m.env, "PATH="+path)
	settings += fmt.Sprintf("[work]\nmax_runs = 3\nroots = [\"%s\"]\n%s", strings.Join(roots, `", "`), &of)
	write(t, m.config, settings)
	for _, role := range []string{natsRole, normalizer, responder, worker} {
		m.start(role)
		m.await(role)
	}
	return m
}

// Three people talk to three agents: one at the page on a phone, one in a terminal over ssh, one by a client of MCP.
// Each role and each kind of process is killed, and then all of them at once, as by a reboot. Each conversation
// continues, and its transcript equals what the model was asked and has answered.
func TestADay(t *testing.T) {
	fixture.Long(t, "works with three agents for a minute")
	yes := func(word, model, ends string) said {
		return said{word: word, command: "echo " + word + " >>" + word + ".txt", model: model, ends: ends}
	}
	plan := &talk{name: "Plan", agent: "claude", by: "by owner", said: []said{
		{word: "one", model: answers, ends: completed},
		yes("two", answers, completed),
		{word: "three", command: "touch three.txt", model: nothing, ends: interrupted, goesOn: true}, // its agent is killed
		{word: "four", model: answers, ends: completed, slow: true},
		yes("five", nothing, interrupted), // by the reboot
		yes("six", answers, completed),
	}}
	cook := &talk{name: "Cook", agent: "codex", by: "by operator", said: []said{
		{word: "one", model: answers, ends: completed},
		yes("two", answers, completed),
		denied("three", "codex"),
		{word: "four", model: answers, ends: completed, slow: true},
		{word: "five", model: silent, ends: interrupted}, // by the reboot
		yes("six", answers, completed),
	}}
	move := &talk{name: "Move", agent: "opencode", by: "by mcp", said: []said{
		{word: "one", model: answers, ends: completed},
		yes("two", answers, completed),
		denied("three", "opencode"),
		{word: "four", model: answers, ends: completed, slow: true},
		yes("five", nothing, interrupted),              // by the reboot
		{word: "six", model: answers, ends: completed}, // it waits meanwhile
		yes("seven", answers, completed),
	}}
	talks := []*talk{plan, cook, move}
	d := &day{t: t, machine: newMachine(t, talks...), plan: plan, cook: cook, move: move, talks: talks}
	d.morning()
	d.questions()
	d.queues()
	d.reboots()
	d.evening()
	d.seen()
	d.compare()
	d.night()
}

// day is the script.
type day struct {
	*machine
	t                *testing.T
	plan, cook, move *talk
	talks            []*talk
	phone            *phone
	chat             *tmuxtest.Window
	client           *client
}

// morning begins the three conversations, and kills processes between their turns.
func (d *day) morning() {
	d.t.Helper()
	d.phone = &phone{d.t, browsertest.Start(d.t), d.machine}
	d.client = newClient(d.t, "http://"+d.http, d.linesman("token", "create", "mcp", "--scope", "read,submit,raw,answer"))
	d.logsIn("--agent codex --dir '" + d.cook.project + "'")
	d.chat.Shows(`(?s)a new conversation.*\n>`)

	d.plan.run = d.phone.does("Begins", map[string]any{
		"text": d.plan.prompt("one"), "agent": "claude_code", "directory": d.plan.project,
	}).String()
	d.chat.Says(d.cook.prompt("one"))
	d.move.run = d.client.calls("_agent_live_start", map[string]any{"agent": d.move.agent,
		"prompt": d.move.prompt("one"), "directory": d.move.project, "idempotency_key": key("one")}).Get("run").String()
	d.client.waits(d.move.run, 0)
	d.hear("one")
	d.cook.run = gjson.Get(d.linesman("ls", "--json"), `runs.#(agent=="codex").run`).String()
	d.tell("three conversations: %s, %s, %s", d.plan.run, d.cook.run, d.move.run)
	d.kill(worker)
	d.killAgent("codex-acp, while it is idle", d.cook.project)
	d.becomes(d.cook.run, "sleep", func(r gjson.Result) bool { return r.Get("conversation.asleep").Bool() })
}

// logsIn opens a window with a chat on the machine.
func (d *day) logsIn(flags string) {
	d.t.Helper()
	login, server := tmuxtest.SSHD(d.t, "SetEnv "+scope+"="+d.dir)
	d.running[door] = server
	d.chat = tmuxtest.Start(d.t, 40, 30, nil, fmt.Sprintf(
		`%s "LC_ALL=C.UTF-8 %s chat --config %s --data-dir %s %s"; echo exit=$?; exec cat`, login, program, d.config,
		d.data("commands"), flags))
}

// key is that of a message, with which it can be sent again.
func key(word string) string { return "the-message-" + word + "-of-today" }

// send sends a message by MCP, and waits for its turn.
func (d *day) send(word string) {
	d.t.Helper()
	out := d.client.calls("_agent_live_send", map[string]any{"run": d.move.run, "text": d.move.prompt(word),
		"idempotency_key": key(word)})
	d.client.waits(d.move.run, out.Get("entry").Int())
}

// hear waits until each of the three sees the answer to a prompt.
func (d *day) hear(word string) {
	d.t.Helper()
	d.phone.does("Sees", map[string]any{"text": d.plan.answer(word)})
	d.chat.Shows(`(?s)│ ` + regexp.QuoteMeta(d.cook.answer(word)) + `\n.*\nyour turn`)
	if got := d.client.hears().Get("finalText").String(); got != d.move.answer(word) {
		d.t.Errorf("MCP: the answer to %s is %q", word, got)
	}
}

// asked waits until each of the three sees the question of its own agent.
func (d *day) asked(command string) (question *sdk.ElicitParams) {
	d.t.Helper()
	d.phone.does("IsAsked", map[string]any{"text": command})
	d.chat.Shows(`tab: answer\n`)
	d.tell("the terminal is asked for %s", command)
	question = d.client.isAsked()
	d.tell("MCP is asked for %s", command)
	if !strings.Contains(question.Message, command) {
		d.t.Errorf("MCP: asked %q", question.Message)
	}
	return question
}

// isAskedFor waits until a model is asked for its answer to a prompt.
func (d *day) isAskedFor(k *talk, word string) {
	d.t.Helper()
	fixture.Eventually(d.t, fixture.Patience, "the model is not asked for "+word, func() bool {
		return agents.Played(d.t, k.dir)[k.turns(word)] != nil
	})
	d.tell("the model of %s thinks about %q", k.agent, k.prompt(word))
}

// While all three are asked, what is between them and their agents dies.
func (d *day) questions() {
	d.t.Helper()
	d.phone.does("Sends", map[string]any{"text": d.plan.prompt("two")})
	d.chat.Says(d.cook.prompt("two"))
	d.send("two")
	d.asked("two.txt")
	d.killShim(d.plan.run)
	d.kill(worker)
	d.killShim(d.move.run)
	d.kill(responder)
	d.kill(natsRole)
	question := d.asked("two.txt")
	d.phone.does("Answers", map[string]any{"kind": "allow once"})
	d.chat.Keys("Tab", "a")
	d.client.chooses(question, "allow once")
	d.hear("two")
}

// While all three are asked, and a message waits for the end of the turn, an agent dies, and roles.
func (d *day) queues() {
	d.t.Helper()
	d.phone.does("Sends", map[string]any{"text": d.plan.prompt("three")})
	d.chat.Says(d.cook.prompt("three"))
	d.send("three")
	question := d.asked("three.txt")
	d.phone.does("Sends", map[string]any{"text": d.plan.prompt("four")})
	d.phone.does("Waits", map[string]any{"text": d.plan.prompt("four")})
	d.chat.Says(d.cook.prompt("four"))
	d.chat.Shows(`… waits: ` + d.cook.prompt("four"))
	d.client.calls("_agent_live_send", map[string]any{"run": d.move.run, "text": d.move.prompt("four"),
		"idempotency_key": key("four")})
	d.killAgent("claude-agent-acp, while it asks and a message waits", d.plan.project)
	d.kill(normalizer)
	d.kill(worker)
	d.phone.does("Releases", nil)
	d.chat.Keys("Tab", "d")
	d.chat.Shows(`… held: ` + d.cook.prompt("four"))
	d.chat.Says("/release")
	d.client.chooses(question, "reject once")
	d.client.hears()
	d.client.waits(d.move.run, 0)
	for _, k := range d.talks {
		d.isAskedFor(k, "four")
	}
	d.kill(natsRole, worker)
	d.hear("four")
}

// All is killed at once: while one is asked, the model of another is silent, and a message waits.
func (d *day) reboots() {
	d.t.Helper()
	d.phone.does("Sends", map[string]any{"text": d.plan.prompt("five")})
	d.chat.Says(d.cook.prompt("five"))
	d.send("five")
	d.phone.does("IsAsked", map[string]any{"text": "five.txt"})
	d.client.isAsked()
	d.client.calls("_agent_live_send", map[string]any{"run": d.move.run, "text": d.move.prompt("six"),
		"idempotency_key": key("six")})
	d.isAskedFor(d.cook, "five")
	d.crash()
	d.phone.does("IsOffline", nil)
	d.boot()
}

// The conversations go on after it, and each is ended by its person.
func (d *day) evening() {
	d.t.Helper()
	d.chat.Shows(`exit=255`) // the connection
	for _, k := range d.talks {
		d.becomes(k.run, "the end of the turn", func(r gjson.Result) bool {
			return r.Get("conversation.last_turn").String() == "failed" && r.Get("conversation.asleep").Bool() &&
				!r.Get("questions.0").Exists()
		})
	}
	d.logsIn("--continue " + d.cook.run)
	d.chat.Shows(`(?s)> ` + regexp.QuoteMeta(d.cook.prompt("five")) + `\n.*your turn`)
	d.client.hears()
	d.phone.does("Sends", map[string]any{"text": d.plan.prompt("six")})
	d.chat.Says(d.cook.prompt("six"))
	d.send("seven")
	d.phone.does("IsAsked", map[string]any{"text": "six.txt"})
	d.chat.Shows(`tab: answer\n`)
	d.client.isAsked()
	d.kill(responder, normalizer)
	d.phone.does("Answers", map[string]any{"kind": "allow once"})
	d.chat.Keys("Tab", "a")
	d.client.chooses(d.client.isAsked(), "allow once")
	d.phone.does("Sees", map[string]any{"text": d.plan.answer("six")})
	d.chat.Shows(`(?s)│ ` + regexp.QuoteMeta(d.cook.answer("six")) + `\n.*\nyour turn`)
	d.tell("the terminal sees it")
	if got := d.client.hears().Get("finalText").String(); got != d.move.answer("seven") {
		d.t.Errorf("MCP: %q", got)
	}
	d.tell("MCP sees it")
	d.phone.does("Ends", nil)
	d.chat.Says("/end")
	d.chat.Shows(`(?s)The run has ended: it is completed\.\s.*exit=0`)
	d.client.calls("_agent_live_end", map[string]any{"run": d.move.run})
	for _, k := range d.talks {
		d.becomes(k.run, "the end", func(r gjson.Result) bool { return r.Get("state").String() == "completed" })
	}
}
