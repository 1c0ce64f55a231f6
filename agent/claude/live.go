package claude

import (
	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/runs"
)

// live is how Claude Code speaks the Agent Client Protocol.
var live = acp.Agent{
	Program: "claude-agent-acp", Install: "npm install -g @agentclientprotocol/claude-agent-acp", Login: "claude /login",
	Tested: "0.49.0",
	Modes: map[string]string{
		string(runs.ReadOnly): "default", string(runs.WorkspaceWrite): "acceptEdits",
		string(runs.DangerFull): "bypassPermissions",
	},
	ModelOption: true, Tokens: acp.PerTurn, Apart: true,
	ToolName: []string{"_meta", "claudeCode", "toolName"},
	Stdout:   []string{"_meta", "claudeCode", "toolResponse", "stdout"},
	Stderr:   []string{"_meta", "claudeCode", "toolResponse", "stderr"},
}
