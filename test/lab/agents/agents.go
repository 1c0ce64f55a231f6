// Package agents lets Go tests run real coding agents against a scripted
// model on loopback. It does what run-scenario.mjs does, one step at a time,
// so that a test can put linesman between itself and the agent.
package agents

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"
)

// Thread stands in an argument of [Setup] for the thread id that the process
// before reported. The caller puts it in.
const Thread = "{{thread}}"

// Setup prepares dir for one scenario of the scenarios folder ("codex-hello"):
// the agent's home with its configuration, the files of the project, and the
// model, which serves until the test ends. It returns the whole environment
// and one command line per process of the scenario, to be run one after
// another in cwd. Give each /dev/null as its stdin: codex waits for the end of
// an open pipe. What the scenario says about stdin, signals and a closed
// stdout is left to the caller. [Requests] tells what the model was asked.
func Setup(tb testing.TB, scenario, dir string) (env []string, argv [][]string, cwd string) {
	tb.Helper()
	s, name := read(tb, scenario)
	program := Program(tb, name)
	env, cwd = s.prepare(tb, scenario, dir)
	for _, run := range s.processes {
		line := append([]string{program}, commands[name]...)
		line = append(line, s.Args...)
		line = append(line, run.Args...)
		if run.Prompt != nil && name == "gemini" {
			line = append(line, "-p")
		}
		if run.Prompt != nil {
			line = append(line, *run.Prompt)
		}
		argv = append(argv, line)
	}
	return env, argv, cwd
}

// SetupLive is [Setup] for an agent that is started as a server of the Agent Client Protocol: the program, by its
// name, is on the PATH of env, and so are its command line and the Node.js that it needs.
func SetupLive(tb testing.TB, program, scenario, dir string) (env []string, cwd string) {
	tb.Helper()
	fixture.All(tb, "starts a real agent")
	bins := []string{filepath.Join(folder(tb), "node_modules/.bin"), filepath.Join(folder(tb), "live/node_modules/.bin")}
	for i, bin := range bins {
		if _, err := exec.LookPath(filepath.Join(bin, program)); err == nil {
			s, _ := read(tb, scenario)
			env, cwd = s.prepare(tb, scenario, dir)
			env[0] = "PATH=" + bin + ":" + os.Getenv("PATH") + ":" + bins[1-i] // where the command line of Claude is
			return env, cwd
		}
	}
	fixture.Missing(tb, "AGENTS", "agents: "+program+" is not installed: run `make agents live-agents`")
	return nil, ""
}

// prepare writes the configuration of the agent and the files of the project, and serves the model.
func (s *scenarioFile) prepare(tb testing.TB, scenario, dir string) (env []string, cwd string) {
	tb.Helper()
	home, cwd := filepath.Join(dir, "home"), filepath.Join(dir, "project")
	if err := os.MkdirAll(cwd, 0o755); err != nil {
		tb.Fatal(err)
	}
	for name, text := range s.Files {
		write(tb, filepath.Join(cwd, name), text)
	}
	port := mock(tb, scenario, "--log", requestLog(dir))
	env = append([]string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + home},
		s.configure(tb, home, port, Node(tb))...)
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		env = append(env, name+"="+s.Env[name])
	}
	return env, cwd
}

// commands are the arguments with which an agent prints JSON lines and asks nobody.
var commands = map[string][]string{
	"codex": {"exec", "--json", "--skip-git-repo-check", "--sandbox", "danger-full-access"},
	"claude": {"-p", "--output-format", "stream-json", "--verbose", "--dangerously-skip-permissions", "--model",
		"claude-sonnet-4-5"},
	"gemini":   {"--output-format", "stream-json", "--yolo", "-m", "gemini-2.5-flash"},
	"opencode": {"run", "--format", "json"},
}

// configure writes the configuration of an agent into its home, for the model at port,
// and returns the variables that it needs.
func (s *scenarioFile) configure(tb testing.TB, home string, port int, node string) []string {
	tb.Helper()
	server := filepath.Join(folder(tb), "mcp-server.mjs")
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	switch name := cmp.Or(s.CLI, "codex"); name {
	case "codex":
		codexHome := filepath.Join(home, ".codex")
		write(tb, filepath.Join(codexHome, "config.toml"), s.config(port, node, server))
		return []string{"CODEX_HOME=" + codexHome}
	case "claude":
		return []string{
			"CLAUDE_CONFIG_DIR=" + filepath.Join(home, ".claude"), "ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=unused",
			"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1",
			"DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1",
		}
	case "gemini":
		write(tb, filepath.Join(home, ".gemini", "settings.json"), `{"security":{"auth":{"selectedType":"gemini-api-key"}},`+
			`"privacy":{"usageStatisticsEnabled":false},"telemetry":{"enabled":false},`+
			`"general":{"disableAutoUpdate":true,"disableUpdateNag":true}}`)
		return []string{"GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_API_KEY=unused", "GEMINI_CLI_TRUST_WORKSPACE=true"}
	case "opencode":
		return []string{
			`OPENCODE_CONFIG_CONTENT={"autoupdate":false,"share":"disabled","model":"mock/mock","provider":{"mock":{` +
				`"npm":"@ai-sdk/openai-compatible","name":"mock","options":{"baseURL":"` + url + `/v1","apiKey":"unused"},` +
				`"models":{"mock":{"name":"mock"}}}}}`,
			"OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_LSP_DOWNLOAD=1",
			"npm_config_registry=http://127.0.0.1:9/",
		}
	case "copilot":
		return []string{
			"COPILOT_PROVIDER_BASE_URL=" + url + "/v1", "COPILOT_PROVIDER_API_KEY=unused", "COPILOT_MODEL=mock",
			"COPILOT_OFFLINE=true", "COPILOT_AUTO_UPDATE=false",
		}
	case "qwen":
		write(tb, filepath.Join(home, ".qwen", "settings.json"), `{"privacy":{"usageStatisticsEnabled":false},`+
			`"telemetry":{"enabled":false},"general":{"disableAutoUpdate":true}}`)
		return []string{"OPENAI_BASE_URL=" + url + "/v1", "OPENAI_API_KEY=unused", "OPENAI_MODEL=mock"}
	case "kimi":
		return []string{
			"KIMI_MODEL_NAME=mock", "KIMI_MODEL_API_KEY=unused", "KIMI_MODEL_BASE_URL=" + url + "/v1",
			"KIMI_MODEL_PROVIDER_TYPE=openai", "KIMI_CODE_NO_AUTO_UPDATE=1", "KIMI_DISABLE_TELEMETRY=1",
		}
	default:
		tb.Fatalf("agents: a scenario for %s, which is not set up here", name)
		return nil
	}
}

// shells are the items by which agents run a command, for which they ask in the mode read-only.
var shells = map[string]string{
	"claude":   `{"shell":%q,"with":{"description":"run"}}`,
	"codex":    `{"shell":%q,"with":{"sandbox_permissions":"require_escalated","justification":"run"}}`,
	"gemini":   `{"shell":%q}`,
	"opencode": `{"shell":%q,"with":{"description":"run"}}`,
	"copilot":  `{"tool":"bash","input":{"command":%q,"description":"run"}}`,
	"qwen":     `{"tool":"run_shell_command","input":{"command":%q,"description":"run","is_background":false}}`,
	"kimi":     `{"tool":"Bash","input":{"command":%q,"description":"run"}}`,
}

// Command is the item of a scenario by which an agent runs a command, for which it asks in the mode read-only.
func Command(tb testing.TB, agent, command string) string {
	tb.Helper()
	if shells[agent] == "" {
		tb.Fatalf("agents: how %s runs a command is not set up here", agent)
	}
	return fmt.Sprintf(shells[agent], command)
}

// Mock serves the model of one scenario on loopback until the test ends, and
// returns its port.
func Mock(tb testing.TB, scenario string) int {
	tb.Helper()
	return mock(tb, scenario)
}

func mock(tb testing.TB, scenario string, args ...string) int {
	tb.Helper()
	var stderr bytes.Buffer
	args = append([]string{filepath.Join(folder(tb), "mock-model.mjs"), file(tb, scenario), "--port", "0"}, args...)
	cmd := exec.CommandContext(tb.Context(), Node(tb), args...)
	cmd.Stderr = &stderr
	cmd.WaitDelay = 5 * time.Second
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatalf("agents: start the model: %v", err)
	}
	// The test's context, which has ended by then, has killed it.
	tb.Cleanup(func() { _ = cmd.Wait() })

	first, err := bufio.NewReader(stdout).ReadBytes('\n')
	var ready struct{ Port int }
	if err == nil {
		err = json.Unmarshal(first, &ready)
	}
	if err != nil || ready.Port == 0 {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		tb.Fatalf("agents: the model of %s does not serve: %v\n%s", scenario, err, stderr.Bytes())
	}
	return ready.Port
}

// Requests are the bodies of what the model of [Setup] was asked for answers,
// in order. A request is there before its answer is.
func Requests(tb testing.TB, dir string) (bodies []json.RawMessage) {
	tb.Helper()
	for _, r := range requests(tb, dir) {
		bodies = append(bodies, r.Body)
	}
	return bodies
}

// Played are the requests that the model of [Setup] has answered with turns of its scenario, by the number of the turn,
// from 0. It fails the test for a request of a conversation for which there was no turn.
func Played(tb testing.TB, dir string) map[int]json.RawMessage {
	tb.Helper()
	played := map[int]json.RawMessage{}
	for _, r := range requests(tb, dir) {
		switch {
		case r.Turn == nil: // not of the conversation: a title, a probe
		case *r.Turn < 0:
			tb.Errorf("agents: the model was asked more than the scenario has: %s", r.Body)
		default:
			played[*r.Turn] = r.Body
		}
	}
	return played
}

// Keys are the API keys that came with the requests, each once.
func Keys(tb testing.TB, dir string) (keys []string) {
	tb.Helper()
	for _, r := range requests(tb, dir) {
		keys = append(keys, strings.TrimPrefix(r.Key, "Bearer "))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

type request struct {
	Method, Key string
	Body        json.RawMessage
	Turn        *int
}

func requests(tb testing.TB, dir string) (posted []request) {
	tb.Helper()
	raw, err := os.ReadFile(requestLog(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // no request, no log
		tb.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // the model is writing it
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			tb.Fatalf("agents: the log of requests: %v", err)
		}
		if r.Method == "POST" {
			posted = append(posted, r)
		}
	}
	return posted
}

func requestLog(dir string) string { return filepath.Join(dir, "requests.jsonl") }

// Codex is the path of the codex command line: $CODEX_BIN, else the one that
// `make agents` installs, else the one on the PATH. Without one the test is
// [fixture.Missing] it. The test is part of `make test-all`.
func Codex(tb testing.TB) string {
	tb.Helper()
	return installed(tb, "codex")
}

// Program is the path of the command line of an agent, found as [Codex] is.
func Program(tb testing.TB, name string) string {
	tb.Helper()
	return installed(tb, name)
}

// Claude is the path of the claude command line, found as [Codex] is.
func Claude(tb testing.TB) string {
	tb.Helper()
	return installed(tb, "claude")
}

// slow are agents that take seconds to begin.
var slow = []string{"gemini", "opencode"}

func installed(tb testing.TB, name string) string {
	tb.Helper()
	fixture.All(tb, "starts a real agent")
	if slices.Contains(slow, name) {
		fixture.Long(tb, "starts an agent other than Codex and Claude Code")
	}
	variable := strings.ToUpper(name) + "_BIN"
	if given := os.Getenv(variable); given != "" {
		path, err := exec.LookPath(given)
		if err != nil {
			tb.Fatalf("agents: %s: %v", variable, err)
		}
		return absolute(tb, path)
	}
	if path, err := exec.LookPath(filepath.Join(folder(tb), "node_modules", ".bin", name)); err == nil {
		return path
	}
	path, err := exec.LookPath(name)
	if err != nil {
		fixture.Missing(tb, "AGENTS", "agents: "+name+" is not installed: run `make agents`, or set "+variable)
	}
	return absolute(tb, path)
}

// Node is the path of Node.js. Without it the test is skipped, or fails when
// TEST_REQUIRE_AGENTS is 1.
func Node(tb testing.TB) string {
	tb.Helper()
	return absolute(tb, fixture.Need(tb, "AGENTS", "node")) // 20 or later
}

// scenarioFile is the part of a scenario that this side reads; the model
// reads the turns. README.md describes the format.
type scenarioFile struct {
	CLI      string
	Model    string
	Prompt   *string
	Args     []string
	Config   string
	Provider map[string]json.RawMessage
	MCP      bool
	Env      map[string]string
	Files    map[string]string
	Runs     []json.RawMessage

	processes []process
}

type process struct {
	Prompt *string
	Args   []string
}

// parse resolves the prompts: a process without one takes the scenario's, an
// explicit null means none.
func parse(raw []byte) (*scenarioFile, error) {
	var s scenarioFile
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	prompt := "Go."
	if s.Prompt != nil {
		prompt = *s.Prompt
	}
	if len(s.Runs) == 0 {
		s.Runs = []json.RawMessage{[]byte("{}")}
	}
	for i, each := range s.Runs {
		run := process{Prompt: &prompt}
		if run.Prompt != nil { // the text of each process is its own
			run.Prompt = new(*run.Prompt)
		}
		if err := json.Unmarshal(each, &run); err != nil {
			return nil, fmt.Errorf("process %d: %w", i+1, err)
		}
		s.processes = append(s.processes, run)
	}
	return &s, nil
}

func (s *scenarioFile) config(port int, node, mcp string) string {
	model := s.Model
	if model == "" {
		model = "gpt-5.5"
	}
	lines := []string{
		"model = " + strconv.Quote(model),
		`model_provider = "mock"`,
		"check_for_update_on_startup = false",
		"features.plugins = false", // the plugin catalogue is fetched from outside
		s.Config,
		"[analytics]",
		"enabled = false",
		"[model_providers.mock]",
		`name = "mock"`,
		fmt.Sprintf(`base_url = "http://127.0.0.1:%d/v1"`, port),
		`wire_api = "responses"`,
	}
	for _, key := range slices.Sorted(maps.Keys(s.Provider)) {
		lines = append(lines, fmt.Sprintf("%s = %s", key, s.Provider[key]))
	}
	if s.MCP {
		lines = append(lines, "[mcp_servers.lab]", "command = "+strconv.Quote(node),
			"args = ["+strconv.Quote(mcp)+"]", `default_tools_approval_mode = "approve"`)
	}
	return strings.Join(append(lines, ""), "\n")
}

// read reads a scenario, and returns the name of its agent.
func read(tb testing.TB, scenario string) (s *scenarioFile, name string) {
	tb.Helper()
	raw, err := os.ReadFile(file(tb, scenario))
	if err != nil {
		tb.Fatal(err)
	}
	if s, err = parse(raw); err != nil {
		tb.Fatalf("agents: scenario %s: %v", scenario, err)
	}
	return s, cmp.Or(s.CLI, "codex")
}

func file(tb testing.TB, scenario string) string {
	if strings.HasSuffix(scenario, ".json") {
		return absolute(tb, scenario)
	}
	return filepath.Join(folder(tb), "scenarios", scenario+".json")
}

// folder is this package's directory.
func folder(tb testing.TB) string {
	tb.Helper()
	return fixture.Path(tb, "test", "lab", "agents")
}

func absolute(tb testing.TB, path string) string {
	tb.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		tb.Fatal(err)
	}
	return abs
}

func write(tb testing.TB, path, text string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		tb.Fatal(err)
	}
}
