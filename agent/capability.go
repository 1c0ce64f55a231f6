package agent

import (
	"slices"

	"github.com/linesman/linesman/runs"
)

// Ids of the Universal Agent API for what the output of an agent has, see [Launch].
const (
	ToolsStructured = "agent_api.tools.structured.v1" // each event of a tool has the facet
	ToolsResults    = "agent_api.tools.results.v1"    // the end of each tool is an event
	SessionHandle   = "agent_api.session.handle.v1"   // the id of the session is in one early event and the completion
)

// common are the capabilities that linesman gives each agent whose output it reads.
var common = []string{
	"agent_api.run", "agent_api.events", "agent_api.events.live", "agent_api.artifacts.final_text.v1",
	"agent_api.control.cancel.v1", runs.CanNotAsk,
}

// Capabilities returns the ids of the Universal Agent API that hold for the agent, sorted. Of those that depend on the
// worker, it has only those that are allowed. The contract of agents proves each: TestCapabilitiesAreProven.
func (l Launch) Capabilities(allowed ...string) []string {
	all := []string{}
	if len(l.Able) == 0 {
		return all
	}
	all = slices.Concat(common, l.Able)
	for _, id := range l.AbleIf {
		if slices.Contains(allowed, id) {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

// Can reports whether an agent has a capability on each worker.
func (l Launch) Can(id string) bool { return slices.Contains(l.Able, id) }

// FlagsOf returns the flags in the command line for what the caller of a task asked for.
func (l Launch) FlagsOf(t *runs.Task) (flags []string) {
	for _, id := range t.Needs() {
		if flag := l.Flags[id]; flag != "" {
			flags = append(flags, flag)
		}
	}
	return flags
}
