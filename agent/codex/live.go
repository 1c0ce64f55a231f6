package codex

import (
	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/runs"
)

// live is how Codex speaks the Agent Client Protocol.
var live = acp.Agent{
	Program: "codex-acp", Install: "npm install -g @agentclientprotocol/codex-acp", Login: "codex login",
	Tested: "2.6.0",
	Auth:   []acp.Auth{{Variable: "OPENAI_API_KEY", Method: "api-key"}, {Variable: "CODEX_API_KEY", Method: "api-key"}},
	Modes: map[string]string{
		string(runs.ReadOnly): "read-only", string(runs.WorkspaceWrite): "workspace-write",
		string(runs.DangerFull): "agent-full-access",
	},
	ModelOption: true, Tokens: acp.PerTurn, Apart: true, Silent: true,
	ExitCode: []string{"_meta", "terminal_exit", "exit_code"},
	Stdout:   []string{"_meta", "terminal_output_delta", "data"}, Parts: true,
}
