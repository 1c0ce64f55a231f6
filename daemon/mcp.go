package daemon

import (
	"cmp"
	"net/http"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/mcp"
	"github.com/linesman/linesman/responder/tools"
	v36 "github.com/linesman/linesman/responder/v36"
)

// mcpEndpoints serve MCP over HTTP, each with a set of tools, as a session has one list of tools. They share the bounds
// of sessions and calls.
type mcpEndpoints map[string]*mcp.Endpoint

func newMCPEndpoints(s *service) mcpEndpoints {
	all, calls := mcpEndpoints{}, responder.NewSlots(mcp.MaxCalls)
	var first *mcp.Endpoint
	for _, set := range tools.SetNames() {
		server := mcp.NewServer(mcp.Config{
			Tools: s.tools, List: s.tools.Named(set), Also: s.tools.Also(set), Schemas: v36.Schemas(),
			Version: s.config.Version, Log: s.config.Log, Calls: calls,
		})
		if first == nil {
			first = mcp.Handler(server)
			all[set] = first
			continue
		}
		all[set] = first.Beside(server)
	}
	return all
}

// ServeHTTP serves a request with the tools that its query names: "?tools=local".
func (e mcpEndpoints) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one := e[cmp.Or(r.URL.Query().Get("tools"), tools.AllTools)]
	if one == nil {
		http.Error(w, "tools: must be agents, live, local, adcp or all", http.StatusBadRequest)
		return
	}
	one.ServeHTTP(w, r)
}

// Sessions returns the number of open sessions.
func (e mcpEndpoints) Sessions() int { return e[tools.AllTools].Sessions() }

// Close ends the sessions, and returns when their calls have ended.
func (e mcpEndpoints) Close() {
	for _, one := range e {
		one.Close()
	}
}
