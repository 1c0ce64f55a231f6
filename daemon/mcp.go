package daemon

import (
	"net/http"

	"github.com/linesman/linesman/responder/mcp"
)

// mcpEndpoints serve MCP over HTTP: all tools, or those for agents on this machine. They share
// no sessions, because a session has one list of tools.
type mcpEndpoints struct{ all, local *mcp.Endpoint }

func newMCPEndpoints(s *Service) *mcpEndpoints {
	return &mcpEndpoints{mcp.Handler(mcp.NewServer(s.mcpConfig(false))), mcp.Handler(mcp.NewServer(s.mcpConfig(true)))}
}

// ServeHTTP serves a request with the tools that its query names: "?tools=local".
func (e *mcpEndpoints) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Query().Get("tools") {
	case "", "all":
		e.all.ServeHTTP(w, r)
	case "local":
		e.local.ServeHTTP(w, r)
	default:
		http.Error(w, "tools: must be local or all", http.StatusBadRequest)
	}
}

// Sessions returns the number of open sessions.
func (e *mcpEndpoints) Sessions() int { return e.all.Sessions() + e.local.Sessions() }

// Close ends the sessions, and returns when their calls have ended.
func (e *mcpEndpoints) Close() {
	e.all.Close()
	e.local.Close()
}
