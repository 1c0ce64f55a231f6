package daemon

import (
	"net/http"

	"github.com/linesman/linesman/responder/mcp"
	"github.com/linesman/linesman/responder/tools"
	v36 "github.com/linesman/linesman/responder/v36"
)

// allTools is the set of tools of a client that names none.
const allTools = "all"

// toolSets are the sets of tools that MCP offers, by name. A client has one of them, because it
// gives all of its list to a model.
var toolSets = map[string]func(*tools.Set) []v36.Tool{
	allTools: (*tools.Set).List, "local": (*tools.Set).Local, "agents": (*tools.Set).Agents,
}

// mcpEndpoints serve MCP over HTTP, each with a set of tools. They share no sessions, because a
// session has one list of tools.
type mcpEndpoints map[string]*mcp.Endpoint

func newMCPEndpoints(s *Service) mcpEndpoints {
	all := mcpEndpoints{}
	for set := range toolSets {
		all[set] = mcp.Handler(mcp.NewServer(s.mcpConfig(set)))
	}
	return all
}

// ServeHTTP serves a request with the tools that its query names: "?tools=local".
func (e mcpEndpoints) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	set := r.URL.Query().Get("tools")
	if set == "" {
		set = allTools
	}
	one := e[set]
	if one == nil {
		http.Error(w, "tools: must be agents, local or all", http.StatusBadRequest)
		return
	}
	one.ServeHTTP(w, r)
}

// Sessions returns the number of open sessions.
func (e mcpEndpoints) Sessions() (n int) {
	for _, one := range e {
		n += one.Sessions()
	}
	return n
}

// Close ends the sessions, and returns when their calls have ended.
func (e mcpEndpoints) Close() {
	for _, one := range e {
		one.Close()
	}
}
