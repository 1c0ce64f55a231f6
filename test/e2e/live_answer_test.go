package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// asks is an agent that asks in its turn: so many times ROUNDS, SIZE questions at once with four options each. It keeps
// each line that it gets.
const asks = `
get() { IFS= read -r line || exit 98; printf '%s\n' "$line" >>accepted; }
answer() { echo '{"jsonrpc":"2.0","id":'$1',"result":{'"$2"'}}'; }
ask() {
	printf '%s' '{"jsonrpc":"2.0","id":'$1',"method":"session/request_permission","params":{"sessionId":"s1",'
	printf '%s' '"toolCall":{"toolCallId":"c'$1'","kind":"execute","title":"` + fixture.Sentinel + `"},"options":['
	printf '%s' '{"optionId":"a","kind":"allow_once","name":"A"},{"optionId":"b","kind":"allow_once","name":"B"},'
	echo '{"optionId":"c","kind":"allow_once","name":"C"},{"optionId":"d","kind":"reject_once","name":"D"}]}}'
}
turn() {
	n=100; round=0
	while test $round -lt ROUNDS; do
		i=0; while test $i -lt SIZE; do ask $n; n=$((n+1)); i=$((i+1)); done
		i=0; while test $i -lt SIZE; do get; i=$((i+1)); done
		round=$((round+1))
	done
}
while get; do
	case "$line" in
	*'"initialize"'*) answer 1 '"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"close":{}}}' ;;
	*'"session/new"'*) answer 2 '"sessionId":"s1"' ;;
	*'"session/set_mode"'*) answer 3 ;;
	*'"session/prompt"'*) turn; answer 4 '"stopReason":"end_turn"' ;;
	*'"session/close"'*) answer 5; exit 0 ;;
	esac
done
`

// council is a run whose questions are answered over four responders, which are processes of their own, as are the
// normalizer and the worker.
type council struct {
	t          *testing.T
	agent      *script
	run        string
	bus        *bus.Bus
	responders []*site
	worker     func() *fixture.Process
	told       map[string]string // who was told success: the option by the question
}

func newCouncil(t *testing.T, rounds, size int) *council {
	t.Helper()
	text := strings.NewReplacer("ROUNDS", fmt.Sprint(rounds), "SIZE", fmt.Sprint(size)).Replace(asks)
	c := &council{t: t, agent: newScript(t, text), told: map[string]string{}}
	url, data := startNATS(t), t.TempDir()
	config := filepath.Join(data, "linesman.toml")
	write(t, config, fmt.Sprintf("[work]\nroots = [%q]\n[agents.codex]\nacp = [%q]\n", c.agent.dir, c.agent.path))
	role := func(data, name string, more ...string) *fixture.Process {
		return begin(t, nil, append([]string{name, "--nats", url, "--data-dir", data, "--config", config}, more...)...)
	}
	normalizer := role(data, "normalizer")
	normalizer.Await(normalizer.Stderr, "normalizer reading")
	c.worker = func() *fixture.Process {
		p := role(data, "worker")
		p.Await(p.Stderr, "worker ready")
		return p
	}
	for range 4 {
		office := t.TempDir()
		p := role(office, "responder", "--http", "127.0.0.1:0")
		p.AwaitEither("ready http=")
		_, at, _ := strings.Cut(p.Stdout.String()+p.Stderr.String(), "ready http=")
		token, err := os.ReadFile(filepath.Join(office, "token"))
		if err != nil {
			t.Fatal(err)
		}
		c.responders = append(c.responders, &site{t, strings.Fields(at)[0], strings.TrimSpace(string(token))})
	}
	var err error
	if c.bus, err = bus.Connect(bustest.Patient(t), bus.Login{URL: url}, bus.Login{}, bus.Names{Prefix: bus.DefaultPrefix},
		zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.bus.Close)
	task, _ := json.Marshal(map[string]any{
		"agent": "codex", "task": "Ask.", "live": true, "workingDir": c.agent.dir, "skipGitRepoCheck": true,
		"mode": "read-only",
	})
	answer := c.responders[0].open("POST", "/v1/runs", string(task))
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if c.run = gjson.GetBytes(body, "run").String(); err != nil || c.run == "" {
		t.Fatalf("submit: %d, %s, error %v", answer.StatusCode, body, err)
	}
	return c
}

// open waits until a question is open.
func (c *council) open(question string) {
	c.t.Helper()
	fixture.Eventually(c.t, fixture.Patience, "question "+question+" is not open", func() bool {
		r, _, err := c.bus.Record(c.t.Context(), c.run)
		if err != nil || r == nil || r.Live == nil {
			return false
		}
		for _, q := range r.Live.Questions {
			if q.ID == question && q.People {
				return true
			}
		}
		return false
	})
}

// answers gives four answers to a question at once, and checks that one caller is told success, and all others what
// that one has decided.
func (c *council) answers(question string) {
	c.t.Helper()
	type reply struct {
		status int
		body   string
	}
	replies := make([]reply, len(c.responders))
	var all sync.WaitGroup
	for i, r := range c.responders {
		all.Go(func() {
			answer := r.open("POST", "/v1/runs/"+c.run+"/questions/"+question+"/answer",
				fmt.Sprintf(`{"option":%q}`, string(rune('a'+i))))
			defer answer.Body.Close()
			body, _ := io.ReadAll(answer.Body)
			replies[i] = reply{answer.StatusCode, string(body)}
		})
	}
	all.Wait()
	winner := ""
	for i, r := range replies {
		if option := string(rune('a' + i)); r.status == http.StatusOK {
			if winner != "" || gjson.Get(r.body, "option").String() != option {
				c.t.Errorf("%s: %q and %q were both told success: %s", question, winner, option, r.body)
			}
			winner = option
		}
	}
	if c.told[question] = winner; winner == "" {
		c.t.Errorf("%s: nobody was told success: %+v", question, replies)
	}
	for _, r := range replies {
		if r.status != http.StatusOK && (r.status != http.StatusConflict ||
			!strings.Contains(r.body, "the answer was "+winner+", by owner over rest")) {
			c.t.Errorf("%s is decided by %q; another was told %d %s", question, winner, r.status, r.body)
		}
	}
}

// check compares what callers were told with the log, and with what the agent has got.
func (c *council) check(questions int) {
	c.t.Helper()
	fixture.Eventually(c.t, fixture.Patience, "the run does not end", func() bool {
		r, _, err := c.bus.Record(c.t.Context(), c.run)
		return err == nil && r != nil && r.State.Final()
	})
	log, err := c.bus.OpenLog(c.t.Context(), "codex", c.run, runs.Mark{})
	if err != nil {
		c.t.Fatal(err)
	}
	first, sent := map[string]string{}, ""
	if err := log.Entries(c.t.Context(), 0, func(_ uint64, e runs.Entry) error {
		var cmd runs.Command
		switch {
		case e.Kind == runs.Sent:
			sent += string(e.Body)
		case e.Kind == runs.Ordered && json.Unmarshal(e.Body, &cmd) == nil && cmd.Do == runs.DoAnswer:
			if _, again := first[cmd.Question]; again {
				c.t.Errorf("%s has a second answer in the log: %s", cmd.Question, e.Body)
			}
			first[cmd.Question] = cmd.Option
		}
		return nil
	}); err != nil {
		c.t.Fatal(err)
	}
	accepted, err := os.ReadFile(filepath.Join(c.agent.dir, "accepted"))
	if err != nil || string(accepted) != sent {
		c.t.Errorf("the agent has taken %d bytes, the log has %d, error %v", len(accepted), len(sent), err)
	}
	got := map[string]string{}
	for line := range strings.Lines(string(accepted)) {
		if option := gjson.Get(line, "result.outcome.optionId"); option.Exists() {
			question := fmt.Sprint("q", gjson.Get(line, "id").Int()-99)
			if got[question] != "" {
				c.t.Errorf("%s has two answers: %s", question, line)
			}
			got[question] = option.String()
		}
	}
	if len(got) != questions || fmt.Sprint(got) != fmt.Sprint(first) || fmt.Sprint(got) != fmt.Sprint(c.told) {
		c.t.Errorf("the agent got\n%v, the log has\n%v, callers were told\n%v", got, first, c.told)
	}
	for i, r := range c.responders { // a reply that was lost: the same again, also after the end
		q := fmt.Sprint("q", questions)
		answer := r.open("POST", "/v1/runs/"+c.run+"/questions/"+q+"/answer", fmt.Sprintf(`{"option":%q}`, string(rune('a'+i))))
		_ = answer.Body.Close()
		if (answer.StatusCode == http.StatusOK) != (c.told[q] == string(rune('a'+i))) {
			c.t.Errorf("%s after the end: %d", q, answer.StatusCode)
		}
	}
}

// Four responders answer each question at the same time, otherwise than the others. One of them wins, and all others
// are told so.
func TestAnswersHaveOneWinner(t *testing.T) {
	t.Parallel()
	for _, owned := range []bool{true, false} {
		t.Run(fmt.Sprintf("with an owner: %t", owned), func(t *testing.T) {
			t.Parallel()
			rounds, size := 30, 1
			if !owned { // while the agent waits for them there is no worker
				rounds, size = 3, 8
			}
			c := newCouncil(t, rounds, size)
			worker := c.worker()
			begun := time.Now()
			for round := range rounds {
				last := fmt.Sprint("q", (round+1)*size)
				if c.open(last); !owned {
					worker.Kill()
				}
				for i := range size {
					c.answers(fmt.Sprint("q", round*size+i+1))
				}
				if t.Failed() {
					return
				}
				if !owned {
					worker = c.worker()
				}
			}
			t.Logf("%d questions, %v each", rounds*size, time.Since(begun)/time.Duration(rounds*size))
			c.check(rounds * size)
		})
	}
}
