package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// speaks is an agent that speaks the Agent Client Protocol. It keeps each line that it gets, and in its turn it waits
// for three files.
const speaks = `
say() {
	printf '%s' '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":'
	printf '%s\n' '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$1"'\n"}}}}'
}
ask() {
	printf '%s' '{"jsonrpc":"2.0","id":'$1',"method":"session/request_permission","params":{"sessionId":"s1",'
	printf '%s' '"toolCall":{"toolCallId":"c'$1'","kind":"read","locations":[{"path":"a"}]},"options":['
	echo '{"optionId":"yes","kind":"allow_once","name":"Yes"},{"optionId":"no","kind":"reject_once","name":"No"}]}}'
	get
}
answer() { echo '{"jsonrpc":"2.0","id":'$1',"result":{'"$2"'}}'; }
get() { IFS= read -r line || exit 98; printf '%s\n' "$line" >>accepted; }
echo started >>starts
while get; do
	case "$line" in
	*'"initialize"'*) answer 1 '"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"close":{}}}' ;;
	*'"session/new"'*) answer 2 '"sessionId":"s1"' ;;
	*'"session/set_mode"'*) answer 3 ;;
	*'"session/prompt"'*)
		say one; await first; ask 0
		say two; await second; ask 1
		say three; await third
		answer 4 '"stopReason":"end_turn","usage":{"inputTokens":7,"outputTokens":5,"totalTokens":12}' ;;
	*'"session/close"'*) answer 5; exit 0 ;;
	esac
done
`

// The whole linesman is killed three times in the turn of an agent. What the agent asks while nobody is there is
// answered by the next one, and nothing is done twice.
func TestLiveTaskSurvivesUp(t *testing.T) {
	t.Parallel()
	data, agent := t.TempDir(), newScript(t, speaks)
	config := filepath.Join(data, "linesman.toml")
	write(t, config, fmt.Sprintf("[work]\nroots = [%q]\n[agents.codex]\nacp = [%q]\n", agent.dir, agent.path))
	server := up(t, data, "--config", config)
	out, code := execute(t, "submit", "--data-dir", data, "--agent", "codex", "--live", "--no-ask", "--json",
		"--dir", agent.dir,
		"--skip-git-repo-check", "--mode", "read-only", fixture.Sentinel+"prompt")
	run := gjson.Get(out, "run").String()
	if code != 0 || run == "" {
		t.Fatalf("submit: exit %d: %s", code, out)
	}
	accepted := func() string {
		b, err := os.ReadFile(filepath.Join(agent.dir, "accepted"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(b)
	}
	got := []string{`"session/prompt"`, `"id":0,`, `"id":1,`}
	for i, file := range []string{"first", "second", "third"} {
		fixture.Eventually(t, fixture.Patience, "the agent does not get the line before the "+file+" kill", func() bool {
			return strings.Contains(accepted(), got[i])
		})
		server.Kill()
		agent.touch(file)
		server = up(t, data, "--config", config)
	}

	var texts strings.Builder
	records := events(t, data, run)
	for _, r := range records {
		if text := gjson.GetBytes(r.Event, "text"); text.Exists() {
			texts.WriteString(text.String())
		}
	}
	if texts.String() != "one\ntwo\nthree\n" {
		t.Errorf("texts %q in %q", texts.String(), printed(records))
	}
	b := operatorBus(t, data)
	r, spent := endedRun(t, b, run), runs.Usage{Input: 7, Output: 5}
	if r.State != runs.StateCompleted || r.All == nil || *r.All != spent {
		t.Errorf("record %s", r.JSON())
	}
	log, err := b.OpenLog(t.Context(), "codex", run, runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	var sent strings.Builder
	decisions := 0
	err = log.Entries(t.Context(), 0, func(_ uint64, e runs.Entry) error {
		switch e.Kind {
		case runs.Sent:
			sent.Write(e.Body)
		case runs.Ordered:
			decisions++
		}
		return nil
	})
	if err != nil || sent.String() != accepted() || decisions != 2 {
		t.Errorf("the log has %q and %d decisions, error %v; the agent has taken %q", sent.String(), decisions, err,
			accepted())
	}
	if starts, err := os.ReadFile(filepath.Join(agent.dir, "starts")); string(starts) != "started\n" {
		t.Errorf("started %q, error %v", starts, err)
	}
	noDirectories(t, data)
}
