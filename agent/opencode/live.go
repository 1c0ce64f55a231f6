package opencode

import (
	"github.com/linesman/linesman/agent/acp"
)

// live is how opencode speaks the Agent Client Protocol.
var live = acp.Agent{
	Program: "opencode", Args: []string{"acp"}, Install: "npm install -g opencode-ai", Login: "opencode auth login",
	ModelOption: true, Tokens: acp.LastRequest, Apart: true, ApartThoughts: true,
	ExitCode: []string{"rawOutput", "metadata", "exit"},
	ToolName: []string{"title"},
}
