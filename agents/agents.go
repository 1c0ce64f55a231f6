// Package agents is the table of the agents that linesman knows. A new agent is a
// package below agent, with its recordings, and one line here.
package agents

import (
	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/codex"
)

// Known has the agents that linesman knows.
var Known = agent.Table{
	codex.Agent,
}
