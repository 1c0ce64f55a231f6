package page

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// attack makes runs whose every text is an attack on a page, and returns their ids: as text,
// reasoning, commands, outputs, paths, plans, errors, titles, labels and directories.
func (s *stage) attack() (ids []string) {
	s.t.Helper()
	var attacks []struct{ Name, Text string }
	b, err := os.ReadFile(fixture.Path(s.t, "web", "src", "lib", "attacks.json"))
	if err == nil {
		err = json.Unmarshal(b, &attacks)
	}
	if err != nil || len(attacks) < 50 {
		s.t.Fatalf("%d attacks: %v", len(attacks), err)
	}
	const title = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script> pwned`
	dir := filepath.Join(s.lab, `<img src=x onerror=window.pwned=1>`)
	if err := os.Mkdir(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	write := func(lines *strings.Builder, kind string, item map[string]any) {
		line, err := json.Marshal(map[string]any{"type": kind, "item": item})
		if err != nil {
			s.t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	for part := range 2 {
		lines := &strings.Builder{}
		lines.WriteString(`{"type":"thread.started","thread_id":"0199a213-81c0-7800-8aa1-bbab2a035a99"}` + "\n" +
			`{"type":"turn.started"}` + "\n")
		for i, a := range attacks {
			id := fmt.Sprintf("item_%d", i)
			if part == 0 {
				write(lines, "item.completed", map[string]any{"id": id, "type": "agent_message", "text": a.Text})
				continue
			}
			switch i % 5 {
			case 0:
				write(lines, "item.completed", map[string]any{"id": id, "type": "command_execution", "command": a.Text,
					"aggregated_output": a.Text, "exit_code": 1, "status": "failed"})
			case 1:
				write(lines, "item.completed", map[string]any{"id": id, "type": "file_change", "status": "completed",
					"changes": []any{map[string]any{"path": a.Text, "kind": "add"}}})
			case 2:
				write(lines, "item.completed", map[string]any{"id": id, "type": "mcp_tool_call", "server": a.Text, "tool": a.Text,
					"arguments": map[string]any{a.Text: a.Text}, "result": map[string]any{"content": []any{map[string]any{
						"type": "text", "text": a.Text}}}, "status": "completed"})
			case 3:
				write(lines, "item.completed", map[string]any{"id": id, "type": "reasoning", "text": a.Text})
				write(lines, "item.completed", map[string]any{"id": id + "e", "type": "error", "message": a.Text})
			case 4:
				write(lines, "item.completed", map[string]any{"id": id, "type": "todo_list", "items": []any{map[string]any{
					"text": a.Text, "completed": false}}})
			}
		}
		lines.WriteString(`{"type":"turn.failed","error":{"message":"` + `<img src=x onerror=window.pwned=1>` + `"}}` + "\n")
		cmd := exec.Command(program, "pipe", "--agent", "codex", "--title", title, "--label",
			"team=<b onclick=window.pwned=1>", "--data-dir", s.data)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(lines.String())
		if _, stderr, code := fixture.Run(s.t, cmd); code > 1 {
			s.t.Fatalf("pipe: exit %d: %s", code, stderr)
		}
	}
	for _, r := range gjson.Get(s.linesman("ls", "--json", "--limit", "2"), "runs").Array() {
		ids = append(ids, r.Get("run").String())
	}
	return ids
}

// record stores the records of n ended runs, as the normalizer does.
func (s *stage) record(n int) {
	s.t.Helper()
	var credentials struct{ Operator string }
	b, err := os.ReadFile(filepath.Join(s.data, "credentials.json"))
	if err == nil {
		err = json.Unmarshal(b, &credentials)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	conn, err := nats.Connect("nats://"+s.nats, nats.UserInfo("operator", credentials.Operator),
		nats.CustomInboxPrefix("_INBOX_operator"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(256))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range n {
		r := runs.NewRecord(fmt.Sprintf("T-local-%015d", i), []string{"codex", "claude_code", "gemini"}[i%3])
		r.State, r.Source, r.Worker, r.Lines = runs.StateCompleted, "run", "host-0123456789abcdef", 40
		at := time.Now().Add(-time.Duration(n-i) * time.Minute).UnixMilli()
		r.QueuedAt, r.StartedAt, r.ActiveAt, r.EndedAt, r.Seq = at, at+1000, at+20_000, at+30_000, uint64(i+1)
		r.Dir, r.Title = fmt.Sprintf("/srv/project-%d", i%17), fmt.Sprintf("Recorded run number %d", i)
		r.Model, r.Version, r.Thread = "claude-opus-5-5", "2.1.330", fmt.Sprintf("0199a213-81c0-7800-8aa1-%012d", i)
		r.Labels = runs.LabelsOf(map[string]string{"team": "shop", "ticket": fmt.Sprint(i)})
		r.Tests, r.Files = &runs.Tests{Passed: i % 90}, &runs.Files{Modified: []string{"a.go", "b.go"}}
		r.Usage, r.Cost = &runs.Usage{Input: int64(i) * 1000, Output: 5000}, new(0.25)
		r.Final(fmt.Sprintf("The **test** number %d fails because the clock of the fixture is not the one of the server, "+
			"so I made both use the same one, and ran all tests again: they pass.", i))
		m := nats.NewMsg("$KV." + bus.Names{Prefix: bus.DefaultPrefix}.Runs() + "." + r.ID)
		m.Header.Set(bus.HeaderRun, r.Header().Text())
		m.Data = append(append([]byte(`{"format":1,"record":`), r.JSON()...), '}')
		if _, err := js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute)); err != nil {
			s.t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
}
