package agent

import "strings"

// Class is what a tool of an agent does.
type Class uint8

// The classes of tools.
const (
	Command Class = iota
	FileChange
	Read
	Web
	MCP // a tool of an MCP server
	Subagent
	Plan
	otherTool
	Classes // the number of classes
)

// String returns the name of the class, as labels of metrics have it.
func (c Class) String() string {
	return [...]string{"command", "file_change", "read", "web", "mcp", "agent", "plan", "other"}[min(c, otherTool)]
}

// Tools are the tools that an agent comes with.
type Tools struct {
	// Classes has their classes, by the name of a tool and by the kind of a call. A call of another
	// one is of [MCP], if the name says so, or [otherTool].
	Classes map[string]Class
	// Inner are tools that run a sub-agent to its end: what it does is a part of the call.
	Inner []string
}

// Class returns the class of a call. The name of a tool tells more than the kind of the call.
func (t *Tools) Class(kind, name string) Class {
	if c, ok := t.Classes[name]; ok {
		return c
	}
	if c, ok := t.Classes[kind]; ok {
		return c
	}
	if strings.HasPrefix(name, "mcp_") {
		return MCP
	}
	if c, ok := spoken[kind]; ok {
		return c
	}
	return otherTool
}

// spoken are the kinds of tools of the Agent Client Protocol.
var spoken = map[string]Class{
	"execute": Command, "edit": FileChange, "delete": FileChange, "move": FileChange, "read": Read, "search": Read,
	"fetch": Web,
}
