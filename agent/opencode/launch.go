package opencode

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/runs"
)

// Agent is the entry of the table of agents.
var Agent = agent.Agent{
	Name: "opencode", Short: "opencode", Backend: Backend{}, Live: live,
	Program: "opencode", JSONCall: "opencode run --format json",
	JSONWords: [][]string{{"run"}, {"json"}},
	Install:   "npm install -g opencode-ai", Tested: "1.18.33", Known: known,
	Launch: agent.Launch{
		Args: args, Stdin: true, Check: check, Prompt: prompt, Thread: thread, NoSession: noSession, Set: permissions,
		SetLive: asks,
		Env:     []string{"OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "OPENCODE_CONFIG_CONTENT"},
		Keys:    []string{"OPENCODE_API_KEY"},
		Able: []string{agent.ToolsStructured, agent.ToolsResults, agent.SessionHandle, runs.CanModel, runs.CanResume,
			runs.CanFork},
		Others: []string{
			"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "OPENROUTER_API_KEY",
			"XAI_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY", "DEEPSEEK_API_KEY", "TOGETHER_API_KEY", "CEREBRAS_API_KEY",
			"MOONSHOT_API_KEY", "AZURE_API_KEY", "AI_GATEWAY_API_KEY",
		},
	},

	Tools: agent.Tools{
		Classes: map[string]agent.Class{
			"bash": agent.Command, "edit": agent.FileChange, "write": agent.FileChange, "patch": agent.FileChange,
			"multiedit": agent.FileChange, "apply_patch": agent.FileChange, "read": agent.Read, "glob": agent.Read,
			"grep": agent.Read, "list": agent.Read, "webfetch": agent.Web, "websearch": agent.Web,
			"task": agent.Subagent, "todowrite": agent.Plan, "todoread": agent.Plan,
		},
		Inner: []string{"task"},
	},
	Counters: agent.Counters{
		Input: "input", Cached: "cache_read", Written: "cache_write", Output: "output", Reasoning: "reasoning", Apart: true,
	},

	Sandbox: "none: edits stay in the directory, and commands run in danger-full-access only",
}

// args returns `run` and the arguments for t; what it may do is in the environment. The prompt is on stdin: opencode
// puts quotes around an argument with a space, and fails for one that is a number.
func args(t runs.Task, _ string) []string {
	argv := []string{"run", "--format=json"}
	if t.Mode == runs.DangerFull {
		argv = append(argv, "--auto")
	}
	if t.Model != "" {
		argv = append(argv, "--model="+t.Model)
	}
	if earlier := t.Earlier(); earlier != "" {
		argv = append(argv, "--session="+earlier)
	}
	if t.ForkedFrom != "" {
		argv = append(argv, "--fork")
	}
	return argv
}

// permissions returns the variable with the permissions of a mode, which are stronger
// than those of the configuration. opencode has no sandbox: commands need
// danger-full-access.
func permissions(t runs.Task) []string {
	const name = "OPENCODE_PERMISSION="
	switch t.Mode {
	case runs.DangerFull:
		return []string{name + `{"edit":"allow","bash":"allow","external_directory":"allow"}`}
	case runs.WorkspaceWrite:
		return []string{name + `{"edit":"allow","bash":"deny","external_directory":"deny"}`}
	}
	return []string{name + `{"edit":"deny","bash":"deny","external_directory":"deny"}`}
}

// asks is permissions for a live run: what is denied without one is asked.
func asks(t runs.Task) []string {
	set := permissions(t)
	for i, v := range set {
		set[i] = strings.ReplaceAll(v, `"deny"`, `"ask"`)
	}
	return set
}

var sessionForm = regexp.MustCompile(`^ses_[0-9A-Za-z]+$`)

func isSession(id string) bool { return len(id) <= len("ses_")+64 && sessionForm.MatchString(id) }

// check returns an error unless opencode can run t.
func check(t runs.Task) error {
	if len(t.Schema) > 0 {
		return &runs.FieldError{Field: "outputSchema", Problem: "is not for opencode: it cannot keep to a schema"}
	}
	return agent.CheckThread(t, isSession, "session: ses_ and letters and digits")
}

// flags are those of `opencode run`.
var flags = agent.Flags{
	Switches: `-c --continue --fork --share --thinking --print-logs --pure --auto -i --interactive
		--dangerously-skip-permissions --no-replay --mini -h --help -v --version`,
	Values: `--command -s --session -m --model --agent --format --title --attach -p --password -u --username --dir
		--port --variant --log-level`,
	Lists: "-f --file",
}

// prompt implements [agent.Launch]. The message of a command is its arguments.
func prompt(argv []string) string {
	a := flags.Of(argv)
	if len(a.Words) == 0 || a.Words[0] != "run" {
		return ""
	}
	a.Words = a.Words[1:]
	return a.Positional()
}

// thread implements [agent.Launch].
func thread(argv []string) (id string, forks bool) {
	a := flags.Of(argv)
	if id = a.Value("-s", "--session"); !isSession(id) {
		return "", false
	}
	return id, slices.Contains(a.Switches, "--fork")
}

var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// noSession implements [agent.Launch].
func noSession(stderr []byte) bool {
	return string(bytes.TrimSpace(colours.ReplaceAll(stderr, nil))) == "Error: Session not found"
}
