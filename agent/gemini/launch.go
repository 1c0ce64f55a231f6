package gemini

import (
	"cmp"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/runs"
)

// Agent is the entry of the table of agents.
var Agent = agent.Agent{
	Name: "Gemini CLI", Short: "gemini", Backend: Backend{}, Live: live,
	Models: "gemini-", Program: "gemini", JSONCall: "gemini --output-format stream-json -p",
	JSONWords: [][]string{{"stream-json"}},
	Install:   "npm install -g @google/gemini-cli", Tested: "0.61.0", Known: known,
	Launch: agent.Launch{
		Args: args, Check: check, Prompt: prompt,
		Keys: []string{
			"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL",
			"GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION",
		},
		Others: []string{"GOOGLE_APPLICATION_CREDENTIALS"}, // of everything in the cloud account
		Able:   []string{agent.ToolsStructured, agent.ToolsResults, agent.SessionHandle, runs.CanModel, runs.CanResume},
		// Without its launcher, the program that is started is the one that signals reach.
		Set: func(runs.Task) []string { return []string{"GEMINI_CLI_NO_RELAUNCH=true"} },
	},

	Tools: agent.Tools{
		Classes: map[string]agent.Class{
			"run_shell_command": agent.Command, "write_file": agent.FileChange, "replace": agent.FileChange,
			"read_file": agent.Read, "read_many_files": agent.Read, "list_directory": agent.Read, "glob": agent.Read,
			"grep_search": agent.Read, "search_file_content": agent.Read, "google_web_search": agent.Web,
			"web_fetch": agent.Web, "write_todos": agent.Plan, "invoke_agent": agent.Subagent,
		},
		Inner: []string{"invoke_agent"},
	},
	Counters: agent.Counters{Input: "input_tokens", Cached: "cached", Output: "output_tokens", Total: "total_tokens"},
	Provider: "gcp.gemini", Pieces: true,

	Sandbox: "none: edits stay in the directory, and commands run in danger-full-access only",
}

// args returns the arguments for t. In a mode that does not allow a tool, the model does
// not have it. Gemini CLI has no sandbox of its own: commands need danger-full-access.
func args(t runs.Task, _ string) []string {
	approval := "default"
	switch t.Mode {
	case runs.DangerFull:
		approval = "yolo"
	case runs.WorkspaceWrite:
		approval = "auto_edit"
	}
	argv := []string{"--output-format=stream-json", "--approval-mode=" + approval}
	if t.SkipGit {
		argv = append(argv, "--skip-trust")
	}
	if t.Model != "" {
		argv = append(argv, "--model="+t.Model)
	}
	if t.Thread != "" {
		argv = append(argv, "--resume="+t.Thread)
	}
	if t.Prompt == "" {
		return argv
	}
	return append(argv, "--prompt="+t.Prompt)
}

// check returns an error unless Gemini CLI can run t. A session to resume must be a UUID:
// other texts are numbers in a list that changes.
func check(t runs.Task) error {
	if len(t.Schema) > 0 {
		return &runs.FieldError{Field: "outputSchema", Problem: "is not for Gemini CLI: it cannot keep to a schema"}
	}
	return agent.CheckThread(t, agent.IsUUID, "session, a UUID")
}

// flags are those of `gemini`.
var flags = agent.Flags{
	Switches: `-d --debug -s --sandbox -y --yolo --skip-trust -l --list-extensions --list-sessions --screen-reader
		--raw-output --accept-raw-output-risk --acp --experimental-acp -h --help -v --version -a --all-files
		--show-memory-usage -c --checkpointing`,
	Values: `-m --model --approval-mode -o --output-format -r --resume --session-id --delete-session -w --worktree
		--sandbox-image --proxy --telemetry-target --session-file`,
	Lists:  `--allowed-mcp-server-names --allowed-tools -e --extensions --include-directories --policy --admin-policy`,
	Prompt: "-p --prompt -i --prompt-interactive",
}

// prompt implements [agent.Launch].
func prompt(argv []string) string {
	a := flags.Of(argv)
	return cmp.Or(a.Prompt, a.Positional())
}
