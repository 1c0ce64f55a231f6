package console

import (
	"fmt"
	"strings"

	"github.com/linesman/linesman/agent"
)

// Misread finds out whether the output of a command is not what its dialect expects.
type Misread struct {
	Argv   []string    // of the command
	Agents agent.Table // that are known

	decided bool
}

// Advice returns what to say about the first event that tells, and "" for all others.
func (m *Misread) Advice(r Record) string {
	if m.decided { // events are not parsed only for this
		return ""
	}
	kind, message := r.Kind()
	if kind == "completion" {
		return ""
	}
	noJSON := kind == "error" && strings.Contains(message, " stream parse error (redacted)")
	m.decided = true
	a, known := m.Agents.OfCommand(m.Argv)
	program := Word(agent.ProgramOf(m.Argv))
	switch {
	case noJSON && known && !a.PrintsJSON(m.Argv):
		return fmt.Sprintf("%s does not print JSON lines: use `%s`", program, a.JSONCall)
	case noJSON && known:
		return fmt.Sprintf("%s does not print JSON lines: each line is an event of kind \"error\"", program)
	case noJSON:
		return fmt.Sprintf("%s does not print JSON lines, and is not understood yet: its run is published as agent "+
			"%q, and each line is an event of kind \"error\"; known agents: %s", program, r.Agent, strings.Join(m.Agents.Names(),
			", "))
	case kind == "unknown" && !known:
		return fmt.Sprintf("%s is not understood yet: its run is published as agent %q, and its events are of kind "+
			"\"unknown\"; known agents: %s", program, r.Agent, strings.Join(m.Agents.Names(), ", "))
	}
	return ""
}
