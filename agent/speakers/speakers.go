// Package speakers has the agents that linesman starts only as servers of the Agent Client Protocol (ACP): what
// each does in its own way. They are recorded in agent/acp/testdata.
package speakers

import (
	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/runs"
)

// Copilot is GitHub Copilot CLI. Each of its modes asks for everything, unless "allow all" is on, which it never
// is: what a task may do is decided by the policy.
var Copilot = entry(agent.Agent{
	Name: "Copilot CLI", Short: "copilot", Tested: "1.0.102",
	Live: acp.Agent{
		Program: "copilot", Args: []string{"--acp"}, Install: "npm install -g @github/copilot", Login: "copilot login",
		Modes: map[string]string{
			string(runs.ReadOnly): asks, string(runs.WorkspaceWrite): asks, string(runs.DangerFull): asks,
		},
		Tokens: acp.PerProcess, Silent: true,
		ExitCode: []string{"rawOutput", "contents", "exitCode"},
	},
	Launch: agent.Launch{
		Keys:   []string{"COPILOT_GITHUB_TOKEN"},
		Others: []string{"GH_TOKEN", "GITHUB_TOKEN"}, // of everything in the account
	},
}, "copilot_cli")

const asks = "https://agentclientprotocol.com/protocol/session-modes#agent"

// Qwen is Qwen Code.
var Qwen = entry(agent.Agent{
	Name: "Qwen Code", Short: "qwen", Tested: "0.24.4",
	Live: acp.Agent{
		Program: "qwen", Args: []string{"--acp"}, Install: "npm install -g @qwen-code/qwen-code", Login: "qwen",
		Auth: []acp.Auth{{Variable: "OPENAI_API_KEY", Method: "openai"}},
		Modes: map[string]string{
			string(runs.ReadOnly): "default", string(runs.WorkspaceWrite): "auto-edit", string(runs.DangerFull): "yolo",
		},
		ModelOption: true, Tokens: acp.PerRequest,
		ExitCode: []string{"rawOutput", "exitCode"}, ToolName: []string{"_meta", "toolName"},
	},
	Launch: agent.Launch{Others: []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"}},
}, "qwen_code")

// Kimi is Kimi Code.
var Kimi = entry(agent.Agent{
	Name: "Kimi Code", Short: "kimi", Tested: "2.1.0",
	Live: acp.Agent{
		Program: "kimi", Args: []string{"acp"}, Install: "npm install -g @moonshot-ai/kimi-code", Login: "kimi login",
		Modes: map[string]string{
			string(runs.ReadOnly): "default", string(runs.WorkspaceWrite): "default", string(runs.DangerFull): "yolo",
		},
		ModelOption: true, ToolName: []string{"title"},
	},
	Launch: agent.Launch{Keys: []string{"KIMI_API_KEY", "KIMI_BASE_URL"}, AbleLive: []string{runs.CanAddDirs}},
}, "kimi_code")

// entry completes the entry of an agent of a kind.
func entry(a agent.Agent, kind string) agent.Agent {
	s := agent.Speaker(kind, a.Live)
	a.Backend, a.Counters, a.Sandbox = s.Backend, s.Counters, s.Sandbox
	a.Able = append([]string{agent.ToolsStructured, agent.ToolsResults, agent.SessionHandle}, a.AbleLive...)
	a.Program, a.Install = a.Live.Program, a.Live.Install
	return a
}
