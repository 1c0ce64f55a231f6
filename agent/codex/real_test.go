package codex_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/lab/agents"
	"github.com/linesman/linesman/worker/launch"
)

// fixture runs tasks with the real codex and a scripted model.
type fixture struct {
	dir, codex, project string
	env                 []string
	seen                int // requests of the model
}

func newFixture(t *testing.T, scenario string) *fixture {
	t.Helper()
	dir := t.TempDir()
	env, argv, project := agents.Setup(t, scenario, dir)
	return &fixture{dir: dir, codex: argv[0][0], project: project, env: env}
}

// do runs one task like a worker, and returns the output of codex.
func (l *fixture) do(
	t *testing.T, task runs.Task, schemaFile string,
) (lines []map[string]any, stderr string, code int) {
	t.Helper()
	if task.Mode == "" {
		task.Mode = runs.ReadOnly
	}
	args := argv([]string{l.codex}, task, schemaFile)
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.Env = l.project, l.env
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatalf("%q: %v", args, err)
	}
	for raw := range bytes.Lines(out) {
		var line map[string]any
		if err := json.Unmarshal(raw, &line); err != nil {
			t.Fatalf("%q printed %q: %v", args, raw, err)
		}
		lines = append(lines, line)
	}
	return lines, errs.String(), cmd.ProcessState.ExitCode()
}

// request is the part of codex's request to the model that these tests check.
type request struct {
	Model string
	Text  struct {
		Format struct {
			Type   string
			Schema json.RawMessage
		}
	}
	Input []struct {
		Role    string
		Content json.RawMessage
	}
}

// ask runs a task that must succeed, and returns its thread and the single
// request to the model.
func (l *fixture) ask(t *testing.T, task runs.Task, schemaFile string) (thread string, asked request) {
	t.Helper()
	task.SkipGit = true
	lines, stderr, code := l.do(t, task, schemaFile)
	if code != 0 || len(lines) == 0 || lines[len(lines)-1]["type"] != "turn.completed" {
		t.Fatalf("%+v: exit %d, %v\n%s", task, code, lines, stderr)
	}
	all := agents.Requests(t, l.dir)
	if len(all) != l.seen+1 {
		t.Fatalf("%+v: the model was asked %d times, want once", task, len(all)-l.seen)
	}
	l.seen = len(all)
	if err := json.Unmarshal(all[len(all)-1], &asked); err != nil {
		t.Fatal(err)
	}
	thread, _ = lines[0]["thread_id"].(string)
	return thread, asked
}

// texts returns the messages of role, in order.
func (r request) texts(role string) []string {
	var texts []string
	for _, message := range r.Input {
		var parts []struct{ Text string }
		if message.Role != role || json.Unmarshal(message.Content, &parts) != nil {
			continue
		}
		for _, part := range parts {
			texts = append(texts, part.Text)
		}
	}
	return texts
}

func (r request) prompt() string {
	texts := r.texts("user")
	if len(texts) == 0 {
		return ""
	}
	return texts[len(texts)-1]
}

var (
	sandboxMode = regexp.MustCompile("`sandbox_mode` is `([a-z-]+)`")
	workingDir  = regexp.MustCompile(`<cwd>(.*?)</cwd>`)
)

// last returns the last match of the expression in the texts.
func last(find *regexp.Regexp, texts []string) string {
	found := find.FindAllStringSubmatch(strings.Join(texts, "\n"), -1)
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1][1]
}

func TestRealCodexGetsThePromptByteForByte(t *testing.T) {
	l := newFixture(t, "codex-hello")
	thread, _ := l.ask(t, runs.Task{Prompt: "Start."}, "")
	for _, prompt := range []string{
		"--help", "-", "--", "-c model=\"x\"", "--sandbox=danger-full-access", "resume", "help", "--last",
		" \t lead and trail \r\n\n", "line 1\n\nline 3\n", `$(touch x) ; rm -rf "a" 'b' \ ${HOME} %s *`,
		"é 🎉 \u2028 \u202e \ufeff \x1b[31m \x7f \x01", "/compact", "@file",
		strings.Repeat("long ", 2000), strings.Repeat("𝄞", runs.MaxShortPrompt),
	} {
		want := prompt
		if prompt == "-" {
			want = "-\n"
		}
		for _, in := range []string{"", thread} {
			if _, asked := l.ask(t, runs.Task{Prompt: prompt, Attributes: runs.Attributes{Thread: in}},
				""); asked.prompt() != want {
				t.Errorf("in thread %q the prompt is %.200q, want %.200q", in, asked.prompt(), want)
			}
		}
	}
}

func TestRealCodexObeysTheTask(t *testing.T) {
	l := newFixture(t, "codex-hello")
	schema := json.RawMessage(`{"type":"object","properties":{"files":{"type":"integer"}},"required":["files"],` +
		`"additionalProperties":false}`)
	schemaFile := filepath.Join(l.dir, "the schema=.json")
	if err := os.WriteFile(schemaFile, schema, 0o600); err != nil {
		t.Fatal(err)
	}
	elsewhere, err := filepath.EvalSymlinks(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere = filepath.Join(elsewhere, "-else where")
	if err := os.Mkdir(elsewhere, 0o755); err != nil {
		t.Fatal(err)
	}

	first, asked := l.ask(t, runs.Task{Prompt: "Remember 42."}, "")
	if asked.Model != "gpt-5.5" || asked.Text.Format.Schema != nil {
		t.Errorf("by default the model is %q and the schema %s", asked.Model, asked.Text.Format.Schema)
	}
	for _, mode := range []runs.Mode{runs.ReadOnly, runs.WorkspaceWrite, runs.DangerFull} {
		for _, thread := range []string{"", first} {
			task := runs.Task{Prompt: "Which number?", Attributes: runs.Attributes{Mode: mode, Dir: elsewhere,
				Model: "--model", Thread: thread}}
			got, asked := l.ask(t, task, schemaFile)
			if mode := last(sandboxMode, asked.texts("developer")); mode != string(task.Mode) {
				t.Errorf("%+v: sandbox %q", task, mode)
			}
			if cwd := last(workingDir, asked.texts("user")); cwd != elsewhere {
				t.Errorf("%+v: working directory %q", task, cwd)
			}
			if asked.Model != task.Model {
				t.Errorf("%+v: model %q", task, asked.Model)
			}
			if format := asked.Text.Format; format.Type != "json_schema" || !same(t, format.Schema, schema) {
				t.Errorf("%+v: answer of type %q by schema %s", task, format.Type, format.Schema)
			}
			if remembers := slices.Contains(asked.texts("user"), "Remember 42."); remembers != (thread != "") ||
				(got == first) != (thread != "") {
				t.Errorf("%+v: went on in %q, with the old prompt: %v", task, got, remembers)
			}
		}
	}
}

func same(t *testing.T, a, b json.RawMessage) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}

func TestRealCodexRefusesADirectoryWithoutRepository(t *testing.T) {
	l := newFixture(t, "codex-hello")
	lines, stderr, code := l.do(t, runs.Task{Prompt: "Go."}, "")
	if code != 1 || len(lines) != 0 || !strings.Contains(stderr, "--skip-git-repo-check") {
		t.Errorf("exit %d, %v\n%s", code, lines, stderr)
	}
}

// The reason why the check requires a UUID.
func TestRealCodexStartsANewThreadForAnUnknownName(t *testing.T) {
	l := newFixture(t, "codex-hello")
	const unknown = "01a1fe74-0000-7e33-89c9-b25c3e636bcc"
	lines, _, code := l.do(t, runs.Task{Prompt: "Go on.", Attributes: runs.Attributes{Thread: unknown}, SkipGit: true}, "")
	if code != 1 || len(lines) != 0 {
		t.Errorf("an unknown UUID: exit %d, %v; want 1 and nothing", code, lines)
	}
	for _, thread := range []string{"nowhere", "--last"} {
		task := runs.Task{Prompt: "Go on.", Attributes: runs.Attributes{Thread: thread}}
		if got, _ := l.ask(t, task, ""); got == "" || got == thread {
			t.Errorf("thread %q: got %q, want a new one", thread, got)
		}
		if codex.Agent.Check(task) == nil {
			t.Errorf("thread %q passes the check", thread)
		}
	}
}

func TestRealCodexPassesTheEnvironmentToItsCommands(t *testing.T) {
	for _, row := range []struct {
		policy  runs.EnvPolicy
		visible []string // variables that are expected in the environment
	}{
		{runs.EnvPolicy{Policy: runs.InheritNone}, []string{"LC_LAB", "LAB_ALWAYS"}},
		{runs.EnvPolicy{Policy: runs.InheritList, Allow: []string{"LAB_TOKEN", "LINESMAN_NAMED"}},
			[]string{"LC_LAB", "LAB_ALWAYS", "LAB_TOKEN", "LINESMAN_NAMED"}},
		{runs.EnvPolicy{Policy: runs.InheritAll}, []string{"LC_LAB", "LAB_ALWAYS", "LAB_OTHER"}},
	} {
		t.Run(row.policy.Policy, func(t *testing.T) {
			l := newFixture(t, "codex-env")
			put := []string{"LC_LAB", "LAB_ALWAYS", "LAB_TOKEN", "LAB_OTHER", "LINESMAN_NAMED", "LINESMAN_NATS"}
			environ := slices.Clone(l.env)
			for _, name := range put {
				environ = append(environ, name+"=value of "+name)
			}
			// codex needs the fixture's CODEX_HOME to find its model.
			l.env = launch.Environ(row.policy, append([]string{"LAB_ALWAYS"}, codex.Agent.Env...), environ)

			lines, stderr, code := l.do(t, runs.Task{Prompt: "Print it.", Attributes: runs.Attributes{Mode: runs.DangerFull},
				SkipGit: true}, "")
			if code != 0 {
				t.Fatalf("exit %d\n%s", code, stderr)
			}
			printed := output(lines)
			if !slices.Contains(printed, "HOME="+filepath.Join(l.dir, "home")) {
				t.Fatalf("the command did not print its environment: %q", printed)
			}
			for _, name := range put {
				if got, want := slices.Contains(printed, name+"=value of "+name), slices.Contains(row.visible, name); got != want {
					t.Errorf("%s is visible: %v, want %v", name, got, want)
				}
			}
		})
	}
}

// output returns the lines that commands printed.
func output(lines []map[string]any) []string {
	var text strings.Builder
	for _, line := range lines {
		if item, _ := line["item"].(map[string]any); line["type"] == "item.completed" && item["type"] == "command_execution" {
			s, _ := item["aggregated_output"].(string)
			text.WriteString(s)
		}
	}
	return strings.Split(text.String(), "\n")
}
