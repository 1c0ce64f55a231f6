package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/linesman/linesman/test/fixture"
)

// listed is what `tools/list` answers over a transport, and how many bytes the tools have.
func listed(t *testing.T, over sdk.Transport) (names []string, size int, session *sdk.ClientSession) {
	t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), over, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(list.Tools) // the rest has the version of the program
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names, len(body), session
}

// A client that drives agents on this machine pays for these tools only, over stdio and over
// HTTP. Calls accept what the brief list leaves out. docs/mcp.md says how long the lists are.
func TestLocalToolsAreFewAndBrief(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	server := up(t, data)
	page, err := os.ReadFile("../../docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: fixture.Bearing(server.Token)}
	stdio := func(args ...string) sdk.Transport {
		cmd := exec.Command(program, append([]string{"mcp", "--data-dir", data}, args...)...)
		fixture.Watch(t, cmd)
		return &sdk.CommandTransport{Command: cmd}
	}
	web := func(query string) sdk.Transport {
		return &sdk.StreamableClientTransport{Endpoint: server.HTTP + "/mcp" + query, HTTPClient: client}
	}
	sizes := map[string]int{} // by set
	for _, tt := range []struct {
		what, set string
		over      sdk.Transport
		tools     int
	}{
		{"stdio", "all", stdio(), 15}, {"stdio all", "all", stdio("--tools", "all"), 15},
		{"stdio local", "local", stdio("--tools", "local"), 7},
		{"http", "all", web(""), 15}, {"http all", "all", web("?tools=all"), 15},
		{"http local", "local", web("?tools=local"), 7},
		{"stdio live", "live", stdio("--tools", "live"), 6}, {"http live", "live", web("?tools=live"), 6},
		{"stdio agents", "agents", stdio("--tools", "agents"), 7}, {"http agents", "agents", web("?tools=agents"), 7},
	} {
		names, size, session := listed(t, tt.over)
		cloud := slices.ContainsFunc(names, func(n string) bool { return !strings.HasPrefix(n, "_codex_local_") })
		if len(names) != tt.tools || cloud != (tt.set != "local") {
			t.Errorf("%s: %q", tt.what, names)
		}
		if sizes[tt.set] == 0 {
			sizes[tt.set] = size
		} else if sizes[tt.set] != size {
			t.Errorf("%s: %d bytes, and %d by another way", tt.what, size, sizes[tt.set])
		}
		if tt.set == "agents" {
			out, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "_agent_list"})
			if err != nil || out.IsError {
				t.Errorf("%s: list: %v %+v", tt.what, err, out)
			}
			continue
		}
		if tt.set == "live" {
			continue
		}
		const key = "0123456789abcdef-status"
		out, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "_codex_local_status", Arguments: map[string]any{
			"format": "adcp", "idempotency_key": key, "show_all": true,
		}})
		if err != nil || out.IsError {
			t.Errorf("%s: status: %v %+v", tt.what, err, out)
		}
		_, err = session.CallTool(t.Context(), &sdk.CallToolParams{Name: "_codex_cloud_list_environments"})
		if (err == nil) != (tt.set == "all") {
			t.Errorf("%s: a tool of the cloud: %v", tt.what, err)
		}
	}
	says := fmt.Sprintf("%.1f kB with `agents`, %.1f kB with `live`, %.1f kB with `local`, %.1f kB with `all`",
		float64(sizes["agents"])/1000, float64(sizes["live"])/1000, float64(sizes["local"])/1000, float64(sizes["all"])/1000)
	if !strings.Contains(strings.Join(strings.Fields(string(page)), " "), says) {
		t.Errorf("docs/mcp.md does not have %q", says)
	}
	if code, body := getWith(t, client, server.HTTP+"/mcp?tools=none"); code != http.StatusBadRequest {
		t.Errorf("other tools: %d %s", code, body)
	}
	if none := begin(t, nil, "mcp", "--data-dir", data, "--tools", "none"); none.Code() != 2 {
		t.Errorf("other tools: exit %d", none.Code())
	}
}

func getWith(t *testing.T, client *http.Client, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode, answer.Status
}
