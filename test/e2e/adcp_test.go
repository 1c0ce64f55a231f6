package e2e

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"slices"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/adcptest"
)

// Clients of AdCP have an endpoint of MCP with the skills alone, for a token that may read and submit, and the same on
// stdio. The endpoint for all clients lists the fifteen tools, and accepts the others.
func TestClientsOfAdCPHaveToolsOfTheirOwn(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	up(t, data)
	s := newSite(t, data, "read,submit")
	fifteen := fixture.ReadAddress(t, data)
	connect := func(transport sdk.Transport) *sdk.ClientSession {
		t.Helper()
		client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
		session, err := client.Connect(t.Context(), transport, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = session.Close() })
		return session
	}
	over := func(path, token string) *sdk.ClientSession {
		t.Helper()
		return connect(&sdk.StreamableClientTransport{Endpoint: s.url + path, DisableStandaloneSSE: true,
			HTTPClient: &http.Client{Transport: bearer(token)}})
	}
	cmd := exec.Command(program, "mcp", "--data-dir", data, "--tools", "adcp")
	fixture.Watch(t, cmd)
	for what, client := range map[string]*sdk.ClientSession{
		"HTTP": over("/adcp/mcp", s.token), "stdio": connect(&sdk.CommandTransport{Command: cmd}),
		"all": over("/mcp", fifteen.Token),
	} {
		list, err := client.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, tool := range list.Tools {
			names = append(names, tool.Name)
		}
		listed := slices.Contains(names, "get_adcp_capabilities")
		if listed != (what != "all") || what == "all" && len(names) != 15 || list.NextCursor != "" ||
			slices.Contains(names, "tasks/get") {
			t.Errorf("%s: %q", what, names)
		}
		for tool, status := range map[string]string{
			"get_adcp_capabilities": "completed", "tasks/get": "rejected", "tasks_get": "rejected", "codex-status": "completed",
		} {
			arguments := map[string]any{"adcp_major_version": 3}
			if status == "rejected" {
				arguments["task_id"] = "T-nothing"
			}
			got, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
			if err != nil {
				t.Fatal(err)
			}
			said, err := json.Marshal(got.StructuredContent)
			if err != nil || gjson.GetBytes(said, "status").String() != status || got.IsError != (status == "rejected") {
				t.Errorf("%s over %s: %v, %s", tool, what, err, said)
			}
			adcptest.Envelope(t, said)
		}
	}
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"c","version":"1"}}}`
	reader := &site{t, s.url, ""}
	if out, code := execute(t, "token", "create", "reader", "--scope", "read", "--data-dir", data); code == 0 {
		reader.token = out[:len(out)-1]
	}
	for path, who := range map[string]*site{"/mcp": s, "/adcp/mcp": reader} {
		r := who.open("POST", path, hello, "Accept", "application/json, text/event-stream")
		if _ = r.Body.Close(); r.StatusCode != http.StatusForbidden {
			t.Errorf("%s without a scope: %d", path, r.StatusCode)
		}
	}
}
