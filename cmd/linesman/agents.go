package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/linesman/linesman/agents"
)

// programOf is the base name of the program that a command line starts, also
// by way of env and npx.
func programOf(argv []string) string {
	for len(argv) > 1 && slices.Contains([]string{"env", "npx"}, filepath.Base(argv[0])) {
		argv = argv[1:]
		for len(argv) > 1 && (strings.HasPrefix(argv[0], "-") || strings.Contains(argv[0], "=")) {
			argv = argv[1:]
		}
	}
	name, _, _ := strings.Cut(filepath.Base(argv[0]), "@") // npx has versions
	return cmp.Or(name, argv[0])
}

// misread finds out whether the output of a command is not what its dialect
// expects.
type misread struct {
	argv    []string
	decided bool
}

// advice is what to say about the first event that tells, and "" for all others.
func (m *misread) advice(r record) string {
	if m.decided { // events are not parsed only for this
		return ""
	}
	kind, message := r.Kind()
	if kind == "completion" {
		return ""
	}
	noJSON := kind == "error" && strings.Contains(message, " stream parse error (redacted)")
	m.decided = true
	agent, known := agents.Known.OfProgram(programOf(m.argv))
	program := safeWord(programOf(m.argv))
	switch {
	case noJSON && known && !slices.Contains(m.argv, agent.JSONFlag):
		return fmt.Sprintf("%s does not print JSON lines: use `%s`", program, agent.JSONCall)
	case noJSON && known:
		return fmt.Sprintf("%s does not print JSON lines: each line is an event of kind \"error\"", program)
	case noJSON:
		return fmt.Sprintf("%s does not print JSON lines, and is not understood yet: its run is published as agent "+
			"%q, and each line is an event of kind \"error\"; known agents: %s", program, r.Agent, knownNames())
	case kind == "unknown" && !known:
		return fmt.Sprintf("%s is not understood yet: its run is published as agent %q, and its events are of kind "+
			"\"unknown\"; known agents: %s", program, r.Agent, knownNames())
	}
	return ""
}

func knownNames() string { return strings.Join(agents.Known.Kinds(), ", ") }
