package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/test/fixture"
)

// Workers are killed again and again while they take tasks, and come back:
// every task is done, and no agent is started twice.
func TestTasksSurviveTheirWorkers(t *testing.T) {
	fixture.Long(t, "kills processes again and again")
	t.Parallel()
	url, lab := startNATS(t), secretDir(t)
	journal := filepath.Join(lab, "journal")
	write(t, filepath.Join(lab, "agent.sh"), `for prompt; do :; done
echo "$prompt" >>'`+journal+`'
sleep 0.05
echo '{"type":"turn.completed","usage":{"input_tokens":1}}'
`)
	write(t, filepath.Join(lab, "linesman.toml"), fmt.Sprintf(
		"[work]\nroots = [%q]\n[agents.codex]\ncommand = ['/bin/sh', %q]\n", lab, filepath.Join(lab, "agent.sh")))
	at := func(data, command string, args ...string) []string {
		return append([]string{command, "--nats", url, "--config", filepath.Join(lab, "linesman.toml"), "--data-dir",
			filepath.Join(lab, data)}, args...)
	}
	office := begin(t, nil, at("office", "normalizer")...)
	office.Await(office.Stderr, "normalizer reading")
	responder := begin(t, nil, at("office", "responder", "--http", "127.0.0.1:0")...)
	responder.Await(responder.Stdout, "ready http=")
	workers := map[string]*fixture.Process{}
	for _, name := range []string{"a", "b"} {
		workers[name] = begin(t, nil, at(name, "worker", "--max-runs", "3")...)
	}

	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	d := &daemon{t: t, conn: conn}
	const tasks = 60
	var all []string
	for i := range tasks {
		e := d.ask("_codex_local_exec", map[string]any{"task": fmt.Sprintf(fixture.Sentinel+"%02d", i), "workingDir": lab})
		id := e.Get("data.task_id").String()
		if id == "" {
			t.Fatalf("submit: %s", e.Raw)
		}
		all = append(all, id)
	}
	done := func() []string {
		raw, err := os.ReadFile(journal)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Fields(string(raw))
	}
	for i, names := 1, []string{"a", "b"}; i <= 8; i++ { // a kill after every sixth agent or so
		fixture.Eventually(t, fixture.Patience, fmt.Sprintf("fewer than %d of %d agents were started", i*6, tasks),
			func() bool { return len(done()) >= i*6 })
		name := names[i%2]
		workers[name].Kill()
		workers[name] = begin(t, nil, at(name, "worker", "--max-runs", "3")...)
	}
	for i, id := range all {
		if e := d.wait(id); e.Get("data.state").String() != "completed" {
			t.Errorf("task %d: %s", i, e.Raw)
		}
	}
	times := map[string]int{}
	for _, prompt := range done() {
		times[prompt]++
	}
	for i := range tasks {
		if prompt := fmt.Sprintf(fixture.Sentinel+"%02d", i); times[prompt] != 1 {
			t.Errorf("%s was done %d times", prompt, times[prompt])
		}
	}
}
