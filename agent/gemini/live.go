package gemini

import (
	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/runs"
)

// live is how the Gemini CLI speaks the Agent Client Protocol.
var live = acp.Agent{
	Program: "gemini", Args: []string{"--acp"}, Install: "npm install -g @google/gemini-cli", Login: "gemini",
	Auth: []acp.Auth{{Variable: "GEMINI_API_KEY", Method: "gemini-api-key"}},
	Modes: map[string]string{
		string(runs.ReadOnly): "default", string(runs.WorkspaceWrite): "autoEdit", string(runs.DangerFull): "yolo",
	},
	Tokens: acp.PerTurnQuota, Forgets: true,
}
