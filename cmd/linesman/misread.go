package main

import (
	"fmt"
	"strings"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/cmd/console"
)

// misread finds out whether the output of a command is not what its dialect expects.
type misread struct {
	argv   []string    // of the command
	agents agent.Table // that are known

	decided bool
}

// advice returns what to say about the first event that tells, and "" for all others.
func (m *misread) advice(r console.Record) string {
	if m.decided { // events are not parsed only for this
		return ""
	}
	kind, message := r.Kind()
	if kind == "completion" {
		return ""
	}
	noJSON := kind == "error" && strings.Contains(message, " stream parse error (redacted)")
	m.decided = true
	a, known := m.agents.OfCommand(m.argv)
	program := console.Word(agent.ProgramOf(m.argv))
	switch {
	case noJSON && known && !a.PrintsJSON(m.argv):
		return fmt.Sprintf("%s does not print JSON lines: use `%s`", program, a.JSONCall)
	case noJSON && known:
		return fmt.Sprintf("%s does not print JSON lines: each line is an event of kind \"error\"", program)
	case noJSON:
		return fmt.Sprintf("%s does not print JSON lines, and is not understood yet: its run is published as agent "+
			"%q, and each line is an event of kind \"error\"; known agents: %s", program, r.Agent, strings.Join(m.agents.Names(),
			", "))
	case kind == "unknown" && !known:
		return fmt.Sprintf("%s is not understood yet: its run is published as agent %q, and its events are of kind "+
			"\"unknown\"; known agents: %s", program, r.Agent, strings.Join(m.agents.Names(), ", "))
	}
	return ""
}
