package codex

import (
	"path"
	"slices"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/runs"
)

// Agent is the entry of the table of agents.
var Agent = agent.Agent{
	Name: "Codex", Short: "codex", Backend: Backend{}, LastMessage: lastMessage, Live: live,
	Program: "codex", JSONCall: "codex exec --json",
	JSONWords: [][]string{{"exec", "e", "review"}, {"--json", "--experimental-json"}},
	Install:   "npm install -g @openai/codex", Tested: "0.169.0", Known: known,
	Sessions: agent.Sessions{
		Env: "CODEX_HOME", Home: ".codex", Origin: origin,
		Files: []string{"sessions/*/*/*/rollout-*.jsonl", "archived_sessions/rollout-*.jsonl"},
		Name:  path.Base, Rests: rests, Open: true, Complete: true,
		Hooks: agent.Hooks{
			File: "hooks.json", Events: []string{agent.HookStart, agent.HookPermission},
			After: "Codex starts a new hook once you trust it: type /hooks in codex.",
		},
	},
	Launch: agent.Launch{
		Args: args, Check: check, Prompt: prompt, Thread: thread, Env: []string{"CODEX_HOME"},
		Keys:   []string{"OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "OPENAI_BASE_URL"},
		Others: []string{"AZURE_OPENAI_API_KEY"},
		Able: []string{
			agent.ToolsStructured, agent.ToolsResults, agent.SessionHandle, runs.CanModel, runs.CanResume, runs.CanFork,
			runs.CanAddDirs,
		},
		AbleIf: []string{runs.CanUnboxed}, AbleLive: []string{runs.CanAddDirs},
		Flags: map[string]string{runs.CanAddDirs: addDir, runs.CanUnboxed: unboxed},
	},

	Tools: agent.Tools{Classes: map[string]agent.Class{ // items, and calls in session logs
		"command_execution": agent.Command, "local_shell_call": agent.Command, "shell": agent.Command,
		"exec_command": agent.Command, "write_stdin": agent.Command, "shell_command": agent.Command,
		"file_change": agent.FileChange, "apply_patch": agent.FileChange, "view_image": agent.Read,
		"mcp_tool_call": agent.MCP, "web_search": agent.Web, "collab_tool_call": agent.Subagent,
		"spawn_agent": agent.Subagent, "wait_agent": agent.Subagent, "update_plan": agent.Plan,
	}},
	Counters: agent.Counters{
		Input: "input_tokens", Cached: "cached_input_tokens", Written: "cache_write_input_tokens",
		Output: "output_tokens", Reasoning: "reasoning_output_tokens",
		Thread: true,
	},
	Provider: "openai",

	Sandbox: "its own: commands and edits stay in the directory",
}

// Flags of options.
const (
	addDir  = "--add-dir"
	unboxed = "--dangerously-bypass-approvals-and-sandbox"
)

// args returns `exec` and the arguments for t. The prompt arrives byte for byte,
// with one exception: codex takes a lone "-" for stdin, so it becomes "-\n".
// Codex would append the content of its stdin to the prompt.
func args(t runs.Task, schemaFile string) []string {
	// Values are joined to their flags: a separate argument that begins with '-'
	// would be parsed as a flag.
	argv := []string{"exec", "--json", "--sandbox=" + string(t.Mode)}
	if t.IsUnboxed() {
		argv[2] = unboxed
	}
	if t.Dir != "" {
		argv = append(argv, "--cd="+t.Dir)
	}
	for _, dir := range t.AddDirs {
		argv = append(argv, addDir+"="+dir)
	}
	if t.Model != "" {
		argv = append(argv, "--model="+t.Model)
	}
	if schemaFile != "" {
		argv = append(argv, "--output-schema="+schemaFile)
	}
	if t.SkipGit {
		argv = append(argv, "--skip-git-repo-check")
	}
	// All flags come before `resume`, which accepts neither --sandbox nor --cd
	// itself, but obeys them there. Arguments after "--" are neither flags nor
	// commands.
	switch {
	case t.ForkedFrom != "":
		argv = append(argv, "fork", "--", t.ForkedFrom)
	case t.Thread != "":
		argv = append(argv, "resume", "--", t.Thread)
	default:
		argv = append(argv, "--")
	}
	prompt := t.Prompt
	switch prompt {
	case "":
		prompt = "-"
	case "-":
		prompt = "-\n"
	}
	return append(argv, prompt)
}

// check returns an error unless codex can run t: a thread to resume or to fork must be a UUID. Codex takes any
// other text for the name of a thread and, if no thread has that name, silently starts a new one. For
// an unknown UUID codex itself reports an error.
func check(t runs.Task) error {
	return agent.CheckThread(t, agent.IsUUID, "thread, a UUID")
}

// flags are those of `codex exec`.
var flags = agent.Flags{
	Switches: `--json --experimental-json --oss --full-auto --dangerously-bypass-approvals-and-sandbox --yolo
		--dangerously-bypass-hook-trust --skip-git-repo-check --last --all --ephemeral --search --strict-config --trust
		--worktree --approve-for-me --ignore-user-config --ignore-rules --no-alt-screen --no-daemon
		--include-plan-tool -h --help -V --version`,
	Values: `-c --config --enable --disable -m --model --local-provider -p --profile -s --sandbox -C --cd --add-dir
		--thread-source --cyber-access-program --output-schema --color -o --output-last-message -a
		--ask-for-approval --remote --remote-auth-token-env`,
	Lists: "-i --image",
}

// prompt implements [agent.Launch]. A lone "-" is stdin.
func prompt(argv []string) string {
	a, _, _ := arguments(argv)
	switch text := a.Positional(); text {
	case "-":
		return ""
	case "-\n":
		return "-" // see args
	default:
		return text
	}
}

// thread implements [agent.Launch].
func thread(argv []string) (id string, forks bool) {
	a, id, forks := arguments(argv)
	if a.Unsure || !agent.IsUUID(id) {
		return "", false
	}
	return id, forks
}

// arguments returns those of the prompt of `codex exec`, and the thread to resume or to fork.
func arguments(argv []string) (a agent.Arguments, thread string, forks bool) {
	a = flags.Of(argv)
	at := slices.IndexFunc(a.Words, func(word string) bool { return word == "exec" || word == "e" })
	if at < 0 {
		return agent.Arguments{}, "", false
	}
	if a.Words = a.Words[at+1:]; len(a.Words) > 0 && (a.Words[0] == "resume" || a.Words[0] == "fork") {
		forks, a.Words = a.Words[0] == "fork", a.Words[1:]
		switch { // the id of the thread comes first
		case slices.Contains(a.Switches, "--last"):
		case len(a.Words) > 0:
			thread, a.Words = a.Words[0], a.Words[1:]
		case len(a.Rest) > 0:
			thread, a.Rest = a.Rest[0], a.Rest[1:]
		}
	}
	return a, thread, forks
}
