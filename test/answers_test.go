package test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/normalizer"
	backend "github.com/linesman/linesman/normalizer/cloud"
	"github.com/linesman/linesman/normalizer/codex"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/cloud"
	"github.com/linesman/linesman/responder/delegator"
	"github.com/linesman/linesman/runs"
	standin "github.com/linesman/linesman/test/cloud"
)

var update = flag.Bool("update", false, "write the tables and answers of docs/mcp.md anew")

// answerMasks hide what differs from one call to the next.
var answerMasks = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`), "TIME"},
	{regexp.MustCompile(`T-(local|cloud)-[0-9a-z]{15}`), "T-$1-ID"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`\d+ s, since`), "N s, since"},
	{regexp.MustCompile(`Duration\*\*: [01] s`), "Duration**: N s"}, // of a task in the cloud
	{regexp.MustCompile(`stream sequence \d+`), "stream sequence N"},
	{regexp.MustCompile(`"seq": \d+`), `"seq": N`},
}

func masked(s string) string {
	for _, m := range answerMasks {
		s = m.what.ReplaceAllString(s, m.with)
	}
	return s
}

// TestPageOfTheToolsIsWhatTheyAnswer compares the section of each tool in
// docs/mcp.md with the tool: the table of its parameters, and a call that is
// made here with what it answers.
func TestPageOfTheToolsIsWhatTheyAnswer(t *testing.T) {
	page := text(t, "docs/mcp.md")
	examples := answers(t)
	var told []string
	for _, m := range regexp.MustCompile("(?m)^### `(_codex_\\w+)`$").FindAllStringSubmatch(page, -1) {
		told = append(told, m[1])
	}
	var names []string
	for _, tool := range delegator.Tools() {
		names = append(names, tool.Name)
		want := parameters(tool) + "\n" + examples[tool.Name]
		before, section, ok := strings.Cut(page, "### `"+tool.Name+"`\n")
		if !ok {
			t.Errorf("no section tells of %s", tool.Name)
			continue
		}
		section, after, more := strings.Cut(section, "\n### `_codex_")
		about, have, _ := strings.Cut(section, "| parameter |")
		have = "| parameter |" + have
		if masked(strings.TrimRight(have, "\n")) != masked(strings.TrimRight(want, "\n")) {
			t.Errorf("%s: the page has\n%s\nand the tool is\n%s", tool.Name, have, want)
		}
		if len(strings.TrimSpace(about)) < 40 {
			t.Errorf("%s: what does it do?", tool.Name)
		}
		page = before + "### `" + tool.Name + "`\n" + about + strings.TrimRight(want, "\n") + "\n"
		if more {
			page += "\n### `_codex_" + after
		}
	}
	if !slices.Equal(told, names) {
		t.Errorf("the page tells of %q, the tools are %q", told, names)
	}
	if *update {
		if err := os.WriteFile("../docs/mcp.md", []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// parameters is the table of a tool's parameters, as its schema has them.
func parameters(tool delegator.Tool) string {
	var b strings.Builder
	b.WriteString("| parameter | value | default | meaning |\n|---|---|---|---|\n")
	required := gjson.GetBytes(tool.InputSchema, "required").Array()
	gjson.GetBytes(tool.InputSchema, "properties").ForEach(func(name, p gjson.Result) bool {
		var words []string
		for _, w := range p.Get("enum").Array() {
			words = append(words, "`"+w.String()+"`")
		}
		value := p.Get("type").String()
		switch {
		case words != nil:
			value = strings.Join(words, " ")
		case value == "integer":
			value = p.Get("minimum").Raw + " to " + p.Get("maximum").Raw
		case value == "array":
			value = "array of strings, at most " + p.Get("maxItems").Raw
		case value == "string":
			value = "string, at most " + p.Get("maxLength").Raw
		}
		def := ""
		if d := p.Get("default"); d.Exists() {
			def = "`" + d.Raw + "`"
		}
		if slices.ContainsFunc(required, func(r gjson.Result) bool { return r.String() == name.String() }) {
			def = "required"
		}
		about, _, _ := strings.Cut(p.Get("description").String(), " Also accepted as ")
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, value, def, about)
		return true
	})
	return b.String()
}

// stage is a server, a normalizer, a responder and the tools, with a stand-in
// for Codex Cloud.
type stage struct {
	*testing.T
	bus   *bus.Bus
	desk  *responder.Responder
	tools *delegator.Delegator
	cloud *cloud.Driver
	code  *standin.Service
}

func newStage(t *testing.T) *stage {
	names := bus.Names{Prefix: bus.DefaultPrefix}
	server, err := bus.StartServer(t.TempDir(), "127.0.0.1:0", names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	s := &stage{T: t}
	if s.bus, err = server.Connect(t.Context(), bus.OperatorUser, names, zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.bus.Close)
	limits := bus.DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<28, 1<<28, 1<<28
	if _, err := s.bus.Ensure(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	n := &bus.Normalizer{Bus: s.bus, Out: s.bus.Names, Backends: []normalizer.Backend{codex.Backend{}, backend.Backend{}}, Log: zap.NewNop()}
	s.during(n.Run)
	s.desk = responder.New(responder.Config{Streams: s.bus, Queue: bus.DefaultQueue, LostAfter: time.Hour})
	s.during(s.desk.Run)

	if s.code, err = standin.New(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	program, err := standin.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.cloud, err = cloud.New(cloud.Config{Command: []string{program}, Scratch: t.TempDir(), Logs: cloudLogs{s.bus}, Env: s.code.Env()})
	if err != nil {
		t.Fatal(err)
	}
	environments := filepath.Join(t.TempDir(), "environments.json")
	const listed = `{"env": {"name": "My project", "repoUrl": "https://github.com/owner/repo", "stack": "go", "description": "Tests need no network"}}`
	if err := os.WriteFile(environments, []byte(listed), 0o600); err != nil {
		t.Fatal(err)
	}
	s.tools = delegator.New(delegator.Config{Responder: s.desk, Cloud: s.cloud, Environments: environments, Idle: 5 * time.Minute, Hard: 20 * time.Minute})
	return s
}

// during runs something until the test ends.
func (s *stage) during(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	s.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Error(err)
		}
	})
}

// cloudLogs lets the driver write to a bus.
type cloudLogs struct{ bus *bus.Bus }

func (l cloudLogs) Open(ctx context.Context, agent, run string, m runs.Mark) (cloud.Log, error) {
	return l.bus.OpenLog(ctx, agent, run, m)
}

func (l cloudLogs) Output(ctx context.Context, agent, run string) ([]byte, error) {
	out, _, err := l.bus.Output(ctx, agent, run, cloud.MaxOutput, false)
	return out.Head, err
}

// play writes lines of a recording to the log of a run, a second apart from
// its beginning on; exit is nil where the run goes on.
func (s *stage) play(run, recording string, lines int, began time.Time, source string, exit *int) {
	s.Helper()
	log, err := s.bus.OpenLog(s.Context(), "codex", run, runs.Mark{})
	if err != nil {
		s.Fatal(err)
	}
	at := began.UnixMilli()
	add := func(e runs.Entry) {
		e.Time = at
		at += 1000
		if err := log.Append(s.Context(), e); err != nil {
			s.Fatal(err)
		}
	}
	add(runs.Entry{Kind: runs.Started, Body: runs.Encode(runs.Start{Source: source, Dir: "/home/dev/project", Worker: "host-1a2b3c4d"})})
	for line := range strings.Lines(text(s.T, "test/corpus/codex/"+recording+".jsonl")) {
		if lines--; lines < 0 {
			break
		}
		add(runs.Entry{Kind: runs.Out, Offset: log.Mark().Out, Body: []byte(line)})
	}
	if exit != nil {
		add(runs.Entry{Kind: runs.Exited, Body: runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: exit})})
	}
	s.reaches(run, func(v responder.View) bool { return v.Seq >= log.Mark().Seq })
}

// reaches waits until the responder knows that of a run.
func (s *stage) reaches(run string, ok func(responder.View) bool) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if v, found := s.desk.Get(run); found && ok(v) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.Fatalf("%s does not get there", run)
		}
	}
}

// submit puts a task on the queue, and returns the id of its run.
func (s *stage) submit(prompt string) string {
	s.Helper()
	ticket, err := s.desk.Submit(s.Context(), runs.Task{Agent: "codex", Prompt: prompt, Mode: runs.ReadOnly})
	if err != nil {
		s.Fatal(err)
	}
	return ticket.Run
}

// take is the run of the oldest task, which no worker gets any more.
func (s *stage) take() string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	d, err := s.bus.Queue(bus.DefaultQueue).Next(ctx)
	if err != nil {
		s.Fatal(err)
	}
	task, err := d.Task()
	if err == nil {
		err = d.Done()
	}
	if err != nil {
		s.Fatal(err)
	}
	return task.Run
}

// call makes an example: the arguments, and what the tool answers.
func (s *stage) call(tool, args string) (example string, envelope gjson.Result) {
	s.Helper()
	a, err := s.tools.Call(s.Context(), tool, json.RawMessage(args), nil)
	if err != nil {
		s.Fatal(err)
	}
	kind, body := "markdown", a.Text
	if a.JSON {
		var b bytes.Buffer
		if err := json.Indent(&b, a.Envelope, "", "  "); err != nil {
			s.Fatal(err)
		}
		kind, body = "json", b.String()
	}
	return fmt.Sprintf("```json\n%s\n```\n\n````%s\n%s\n````\n", args, kind, strings.TrimRight(body, "\n")), gjson.ParseBytes(a.Envelope)
}

// answers calls every tool once, and returns the examples by tool.
func answers(t *testing.T) map[string]string {
	s := newStage(t)
	all := map[string]string{}
	ok := func(tool, args string) gjson.Result {
		t.Helper()
		example, envelope := s.call(tool, args)
		if envelope.Get("status").String() != "ok" && tool != "_codex_cloud_cancel" {
			t.Errorf("%s: %s", tool, envelope.Raw)
		}
		all[tool] = example
		return envelope
	}
	zero, one, now := 0, 1, time.Now()
	local := func(ago time.Duration) string { return runs.LocalID(now.Add(-ago).UnixMilli(), 1) }
	failed, patched, planned := local(4*time.Minute), local(3*time.Minute), local(time.Minute)
	s.play(local(31*time.Hour), "hello", 100, now.Add(-31*time.Hour), "run", &zero)
	s.play(failed, "failed", 100, now.Add(-4*time.Minute), "queue", &one)
	s.play(patched, "patch", 100, now.Add(-3*time.Minute), "queue", &zero)
	s.play(planned, "plan", 6, now.Add(-time.Minute), "run", nil)

	done := make(chan struct{})
	go func() { // the worker of the task that is waited for
		defer close(done)
		s.play(s.take(), "patch", 100, now.Add(-time.Minute), "queue", &zero)
	}()
	ok("_codex_local_run", `{"task": "Apply the patch.", "mode": "workspace-write", "confirm": true, "workingDir": "/home/dev/project"}`)
	<-done
	ok("_codex_local_exec", `{"task": "Find out why the build is slow.", "timeoutSec": 600}`)
	thread := gjson.Get(lines(text(t, "test/corpus/codex/patch.jsonl"))[0], "thread_id").String()
	ok("_codex_local_resume", `{"threadId": "`+thread+`", "task": "Now explain what you did."}`)
	ok("_codex_local_status", `{"limit": 3}`)
	ok("_codex_local_results", `{"task_id": "`+failed+`", "format": "json"}`)
	ok("_codex_local_wait", `{"task_id": "`+patched+`", "timeout_sec": 600}`)
	ok("_codex_local_cancel", `{"task_id": "`+s.submit("Wait.")+`", "reason": "wrong branch"}`)

	change := func(change func(*standin.State)) {
		if err := s.code.Change(change); err != nil {
			t.Fatal(err)
		}
	}
	change(func(st *standin.State) { st.Next.Title, st.Next.Label = "Add a test", "owner/repo" })
	run := ok("_codex_cloud_submit", `{"task": "Add a test for the parser.", "envId": "env", "attempts": 2}`).Get("data.task_id").String()
	s.reaches(run, func(v responder.View) bool { return v.State == runs.StateWorking })
	ok("_codex_cloud_status", `{"taskId": "`+run+`"}`)
	ok("_codex_cloud_cancel", `{"task_id": "`+run+`"}`)
	change(func(st *standin.State) {
		task := &st.Tasks[0]
		task.Plan, task.Files, task.Added = []string{"READY"}, 1, 3
		task.Diff = "diff --git a/parser_test.go b/parser_test.go\nnew file mode 100644\n--- /dev/null\n+++ b/parser_test.go\n@@ -0,0 +1,3 @@\n" +
			"+package parser\n+\n+// Nothing is read twice.\n"
	})
	if err := s.cloud.Refresh(t.Context(), run, ""); err != nil {
		t.Fatal(err)
	}
	s.reaches(run, func(v responder.View) bool { return v.State.Final() })
	ok("_codex_cloud_results", `{"taskId": "`+run+`", "include_output": true}`)
	ok("_codex_cloud_wait", `{"task_id": "`+run+`"}`)
	ok("_codex_cloud_list_environments", `{}`)
	ok("_codex_cloud_github_setup", `{"repoUrl": "https://github.com/owner/repo", "stack": "go"}`)
	ok("_codex_cleanup_registry", `{"dryRun": true}`)
	return all
}
