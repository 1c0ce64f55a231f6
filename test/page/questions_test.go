package page

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/browsertest"
)

// People answer on the page what agents ask in live runs: on a phone, from two tabs, while `up` is away, and
// whatever the agents write.
func TestPageOfQuestions(t *testing.T) {
	b := browsertest.Start(t)
	s := newStage(t)
	args := map[string]any{
		"shots": s.shots, "lab": s.lab, "reader": s.linesman("token", "create", "reader", "--scope", "read"),
	}
	for _, name := range []string{
		"phone", "twoTabs", "keys", "forms", "severalChoices", "textQuestion", "cutQuestion", "lasting", "notification",
		"hostileQuestions", "notAllowed",
	} {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains([]string{"phone", "twoTabs", "hostileQuestions"}, name) {
				fixture.Long(t, "shows all kinds of questions")
			}
			t.Cleanup(func() { // what a scenario that has failed leaves open
				for _, r := range gjson.Get(s.linesman("ls", "--json", "--state", "input-required"), "runs").Array() {
					s.linesman("cancel", r.Get("run").String())
				}
			})
			b.Do(t, name, args, s.calls())
		})
	}
}

// People talk to a live run that is kept: on a wide screen and on a phone.
func TestPageOfMessages(t *testing.T) {
	fixture.Long(t, "sends messages to live runs")
	b := browsertest.Start(t)
	s := newStage(t)
	b.Do(t, "messages", map[string]any{"shots": s.shots}, s.calls())
}

// A conversation from its form to its end: the agent sleeps and wakes, and is told what to change in its changes.
func TestPageOfAConversation(t *testing.T) {
	fixture.Long(t, "lets agents sleep")
	b := browsertest.Start(t)
	s := newStage(t, `sleep_after = "1s"`)
	b.Do(t, "conversation", map[string]any{"shots": s.shots, "lab": s.lab}, s.calls())
}

// keep starts a live run that is kept. It returns its id.
func (s *stage) keep(args json.RawMessage) any {
	s.t.Helper()
	var want struct{ Title, Prompt string }
	if err := json.Unmarshal(args, &want); err != nil {
		s.t.Fatal(err)
	}
	return s.linesman("submit", "--agent", "asker", "--live", "--keep", "--dir", s.lab, "--title", want.Title, want.Prompt)
}

// ask starts a live run of the asker, which asks what a scenario says. It returns its id.
func (s *stage) ask(args json.RawMessage) any {
	s.t.Helper()
	var want struct {
		Name, Title string
		Requests    json.RawMessage
	}
	if err := json.Unmarshal(args, &want); err != nil {
		s.t.Fatal(err)
	}
	s.write(want.Name+".json", string(want.Requests))
	return s.linesman("submit", "--agent", "asker", "--live", "--dir", s.lab, "--title", want.Title, "ask "+want.Name)
}

// request asks by a file, from a bridge that runs until the test ends.
func (s *stage) request(args json.RawMessage) any {
	s.t.Helper()
	var want struct{ Prompt string }
	if err := json.Unmarshal(args, &want); err != nil {
		s.t.Fatal(err)
	}
	b, err := json.Marshal(map[string]string{"request_id": "id-1", "prompt": want.Prompt})
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(".agent-request.json", string(b))
	fixture.Start(s.t, exec.Command(program, "bridge", "--data-dir", s.data, "--external", "--dir", s.lab))
	return nil
}

// response is the answer in the file that the bridge writes.
func (s *stage) response(json.RawMessage) any {
	s.t.Helper()
	var b []byte
	for end := time.Now().Add(fixture.Patience); b == nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		b, _ = os.ReadFile(filepath.Join(s.lab, ".agent-response.json"))
	}
	return gjson.GetBytes(b, "response").String()
}

// asker is the command of the agent that asks.
func asker(t *testing.T, lab string) []string {
	node, err := exec.LookPath("node")
	if err != nil {
		fixture.Missing(t, browsertest.Kind, "node is not installed")
	}
	return []string{node, filepath.Join(fixture.Path(t, "test", "page"), "asker.mjs"), lab}
}
