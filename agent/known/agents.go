// Package known is the table of the agents that linesman knows. A new agent is a
// package beside this one, with its recordings, and one line here.
package known

import (
	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/claude"
	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/agent/gemini"
	"github.com/linesman/linesman/agent/opencode"
)

// Agents has the agents that linesman knows.
var Agents = agent.Table{
	codex.Agent,
	claude.Agent,
	gemini.Agent,
	opencode.Agent,
}
