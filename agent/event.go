package agent

import "github.com/linesman/linesman/runs"

// Counters are the names of the counts of tokens in the usage of an agent's events.
type Counters struct {
	// "": it does not tell them.
	Input, Cached, Written, Output, Reasoning string
	// Apart reports that Input is without Cached and Written, and Output without Reasoning.
	Apart bool
	// Total is the sum of all tokens, for agents that do not count reasoning in any other field: its count is Total
	// without Input and Output. "": the agent counts it.
	Total string
	// Thread reports that they are those of the thread so far, not of a turn.
	Thread bool
}

// usageSchema is the schema of the data of a turn's usage, of all agents that speak the Agent Client Protocol.
const usageSchema = "backend.acp.usage.v1"

// CountersOf returns the counters of events whose data have a schema.
func (a *Agent) CountersOf(schema string) *Counters {
	if schema == usageSchema {
		return &turnCounters
	}
	return &a.Counters
}

var turnCounters = Counters{
	Input: "input_tokens", Cached: "cached_input_tokens", Written: "cache_write_input_tokens", Output: "output_tokens",
	Reasoning: "reasoning_output_tokens",
}

// Usage returns the counts of a usage in the form that is the same for all agents. None is negative.
func (c *Counters) Usage(n map[string]int64) runs.Usage {
	u := runs.Usage{
		Input: n[c.Input], CachedInput: n[c.Cached], CacheWriteInput: n[c.Written],
		Output: n[c.Output], ReasoningOutput: n[c.Reasoning],
	}.Minus(runs.Usage{})
	if c.Apart {
		u = u.Plus(&runs.Usage{Input: u.CachedInput, Output: u.ReasoningOutput})
		u = u.Plus(&runs.Usage{Input: u.CacheWriteInput})
	}
	if c.Total != "" {
		rest := max(max(n[c.Total], 0)-u.Input, 0)
		rest = max(rest-u.Output, 0)
		u = u.Plus(&runs.Usage{Output: rest, ReasoningOutput: rest})
	}
	return u
}
