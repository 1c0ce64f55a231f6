// Package known is the table of the agents that linesman knows. A new agent is a
// package beside this one, with its recordings, and one line here.
package known

import (
	"slices"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/claude"
	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/agent/gemini"
	"github.com/linesman/linesman/agent/opencode"
	"github.com/linesman/linesman/agent/speakers"
)

// Agents has the agents with a command line for tasks, and output of their own.
var Agents = agent.Table{
	codex.Agent,
	claude.Agent,
	gemini.Agent,
	opencode.Agent,
}

// All returns the agents that linesman knows: Agents, and those that only speak the Agent Client Protocol.
func All() agent.Table {
	return slices.Concat(Agents, agent.Table{speakers.Copilot, speakers.Qwen, speakers.Kimi})
}
