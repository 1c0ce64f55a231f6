package claude

import (
	"slices"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/runs"
)

// Agent is the entry of the table of agents.
var Agent = agent.Agent{
	Name: "Claude Code", Short: "claude", Backend: Backend{}, Live: live,
	Models: "claude-", Program: "claude", JSONCall: "claude -p --output-format stream-json --verbose",
	JSONWords: [][]string{{"-p", "--print"}, {"stream-json"}},
	Install:   "npm install -g @anthropic-ai/claude-code", Tested: "2.1.330", Known: known,
	Sessions: agent.Sessions{
		Env: "CLAUDE_CONFIG_DIR", Home: ".claude",
		Files:  []string{"projects/*/*.jsonl", "projects/*/*/subagents/agent-*.jsonl"},
		Origin: origin, Rests: rests, Name: logName, Message: message, Parent: parentLog,
		Statuses: "sessions", Status: status,
		Hooks: agent.Hooks{
			File:   "settings.json",
			Events: []string{agent.HookStart, agent.HookPermission, agent.HookNotice},
		},
	},
	Launch: agent.Launch{
		Args: args, Check: check, Prompt: prompt, Thread: thread, Env: []string{"CLAUDE_CONFIG_DIR"},
		Keys: []string{
			"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_BASE_URL",
			"ANTHROPIC_CUSTOM_HEADERS",
		},
		Others: []string{
			"CLAUDE_CODE_USE_BEDROCK", "AWS_BEARER_TOKEN_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY",
			"ANTHROPIC_FOUNDRY_API_KEY",
		},
		Able: []string{
			agent.ToolsStructured, agent.ToolsResults, agent.SessionHandle, runs.CanModel, runs.CanResume, runs.CanFork,
			runs.CanAddDirs,
		},
		AbleIf: []string{runs.CanUnboxed}, AbleLive: []string{runs.CanAddDirs},
		Flags: map[string]string{runs.CanAddDirs: addDir, runs.CanUnboxed: unboxed},
		Set:   inSandbox,
	},

	Tools: agent.Tools{
		Classes: map[string]agent.Class{
			"Bash": agent.Command, "BashOutput": agent.Command, "KillShell": agent.Command, "Edit": agent.FileChange,
			"MultiEdit": agent.FileChange, "Write": agent.FileChange, "NotebookEdit": agent.FileChange,
			"Read": agent.Read, "Glob": agent.Read, "Grep": agent.Read, "LS": agent.Read, "WebFetch": agent.Web,
			"WebSearch": agent.Web, "Task": agent.Subagent, "Agent": agent.Subagent, "TaskOutput": agent.Subagent,
			"TodoWrite": agent.Plan, "TaskCreate": agent.Plan, "TaskUpdate": agent.Plan, "ExitPlanMode": agent.Plan,
		},
		Inner: []string{"Agent", "Task"},
	},
	Counters: agent.Counters{
		Input: "input_tokens", Cached: "cache_read_input_tokens", Written: "cache_creation_input_tokens",
		Output: "output_tokens", Apart: true,
	},
	Provider: "anthropic",

	Sandbox: "edits stay in the directory; commands are in its own sandbox where the system has one, else few run",
}

// sandboxed are settings with which commands run in the sandbox of Claude Code without a
// question. Where the system has no sandbox, only commands that it knows as harmless run.
const sandboxed = `{"sandbox":{"enabled":true,"autoAllowBashIfSandboxed":true,"allowUnsandboxedCommands":false}}`

// denied are the tools that change something. Each is one that the tested version knows: it warns of any
// other in every run. What it does not name is asked for, and so denied with -p.
const denied = "Bash,Edit,NotebookEdit,Write"

// Flags of options.
const (
	addDir  = "--add-dir"
	unboxed = "--dangerously-skip-permissions"
)

// inSandbox returns the variable without which Claude Code does not skip permissions as root.
func inSandbox(t runs.Task) []string {
	if t.IsUnboxed() {
		return []string{"IS_SANDBOX=1"}
	}
	return nil
}

// args returns the arguments for t. With -p Claude Code cannot ask for a permission: a tool
// that needs one is denied, and the agent continues without it.
func args(t runs.Task, _ string) []string {
	argv := []string{"-p", "--output-format=stream-json", "--verbose"}
	switch t.Mode {
	case runs.DangerFull:
		argv = append(argv, unboxed)
	case runs.WorkspaceWrite:
		argv = append(argv, "--permission-mode=acceptEdits", "--settings="+sandboxed)
	default:
		argv = append(argv, "--permission-mode=default", "--disallowedTools="+denied)
	}
	if t.Model != "" {
		argv = append(argv, "--model="+t.Model)
	}
	if len(t.AddDirs) > 0 { // one flag, whose values end at the next one
		argv = append(append(argv, addDir), t.AddDirs...)
	}
	if len(t.Schema) > 0 {
		argv = append(argv, "--json-schema="+string(t.Schema))
	}
	if earlier := t.Earlier(); earlier != "" {
		argv = append(argv, "--resume="+earlier)
	}
	if t.ForkedFrom != "" {
		argv = append(argv, "--fork-session")
	}
	if t.Prompt == "" {
		return argv
	}
	return append(argv, "--", t.Prompt)
}

// check returns an error unless Claude Code can run t: a session to resume must be a UUID.
// Any other text would open a search among its sessions.
func check(t runs.Task) error {
	return agent.CheckThread(t, agent.IsUUID, "session, a UUID")
}

// flags are those of `claude`. A value that is optional counts as one.
var flags = agent.Flags{
	Switches: `-p --print --verbose -c --continue --dangerously-skip-permissions --allow-dangerously-skip-permissions
		--include-partial-messages --include-hook-events --replay-user-messages --fork-session --ide
		--strict-mcp-config --no-session-persistence --disable-slash-commands --chrome --no-chrome --bare --brief
		--mcp-debug -h --help -v --version --safe-mode --exclude-dynamic-system-prompt-sections`,
	Values: `--output-format --input-format --json-schema --max-turns --max-budget-usd --model --fallback-model --effort
		--permission-mode --permission-prompt-tool --system-prompt --system-prompt-file --append-system-prompt
		--append-system-prompt-file --settings --setting-sources --session-id -r --resume -d --debug --debug-file
		--agent --agents -n --name --plugin-dir --plugin-url -w --worktree --from-pr --tmux --teleport
		--remote --thinking --max-thinking-tokens --advisor`,
	Lists: `--allowedTools --allowed-tools --disallowedTools --disallowed-tools --tools --add-dir --mcp-config
		--betas --file`,
}

// prompt implements [agent.Launch]. Only the first argument is the prompt.
func prompt(argv []string) string {
	a := flags.Of(argv)
	if len(a.Words) > 0 && !a.Unsure {
		a.Words, a.Rest = a.Words[:1], nil
	}
	a.Rest = a.Rest[:min(len(a.Rest), 1)]
	return a.Positional()
}

// thread implements [agent.Launch]. Any other text than an id is a search.
func thread(argv []string) (id string, forks bool) {
	a := flags.Of(argv)
	if id = a.Value("-r", "--resume"); !agent.IsUUID(id) {
		return "", false
	}
	return id, slices.Contains(a.Switches, "--fork-session")
}
