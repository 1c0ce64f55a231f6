package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/linesman/linesman/api"
)

// far is a responder.
type far func(q api.ToolRequest, repeat bool) (api.ToolAnswer, error)

func (far) Tools(context.Context, string) (api.Tools, error) {
	schema := json.RawMessage(`{"type":"object"}`)
	return api.Tools{Tools: []api.Tool{
		{Name: "reads", Category: "status_snapshot", InputSchema: schema, Hints: api.Hints{ReadOnly: true}},
		{Name: "changes", Category: "execution_ack", InputSchema: schema},
	}, Also: []api.Tool{{Name: "tasks/get", Category: "adcp", InputSchema: schema}}}, nil
}

func (f far) Tool(_ context.Context, q api.ToolRequest, repeat bool, progress func(api.ToolProgress)) (api.ToolAnswer,
	error) {
	if progress != nil {
		progress(api.ToolProgress{Percent: 50, Message: "half"})
	}
	return f(q, repeat)
}

func TestToolsOfAResponderAreOffered(t *testing.T) {
	var asked api.ToolRequest
	var again bool
	answer, failure, dirFailure := api.ToolAnswer{}, error(nil), error(nil)
	c, err := Remote(t.Context(), far(func(q api.ToolRequest, repeat bool) (api.ToolAnswer, error) {
		asked, again = q, repeat
		return answer, failure
	}), "all", func() (string, error) { return "/home/ada", dirFailure })
	if err != nil || len(c.List) != 2 || len(c.Schemas) == 0 {
		t.Fatalf("%+v, %v", c, err)
	}
	everywhere(t, c, nil, func(t *testing.T, client *sdk.ClientSession) {
		answer, failure = api.ToolAnswer{Text: []byte(`{"ok":true}`), JSON: true}, nil
		res := call(t, client, "reads", map[string]any{"format": "json"})
		if text(t, res) != `{"ok":true}` || res.IsError || res.StructuredContent == nil || !again {
			t.Errorf("JSON: %+v, repeated %t", res, again)
		}
		if asked.Name != "reads" || asked.Dir != "/home/ada" || asked.Patience != 50 ||
			string(asked.Arguments) != `{"format":"json"}` {
			t.Errorf("asked %+v", asked)
		}
		answer = api.ToolAnswer{Text: []byte("# No"), IsError: true}
		res = call(t, client, "changes", nil)
		if text(t, res) != "# No" || !res.IsError || res.StructuredContent != nil || again {
			t.Errorf("Markdown: %+v, repeated %t", res, again)
		}
		for _, name := range []string{"idempotency_key", "idempotencyKey"} {
			if call(t, client, "changes", map[string]any{name: "k"}); !again {
				t.Errorf("a call with %s is not repeated", name)
			}
		}

		failure = &api.Error{Code: api.Unavailable, Message: "no responder answers", Retryable: true}
		for format, want := range map[string]string{"json": `"retryable":true`, "": "**Retryable**: yes"} {
			args := map[string]any{}
			if format != "" {
				args["format"] = format
			}
			if res := call(t, client, "reads", args); !res.IsError || !strings.Contains(text(t, res), want) ||
				!strings.Contains(text(t, res), "no responder answers") {
				t.Errorf("unavailable, format %q: %s", format, text(t, res))
			}
		}
		for tool, args := range map[string]map[string]any{
			"tasks/get": {"context": map[string]any{"a": 1}, "adcp_version": "3.0"}, "reads": {"adcp_major_version": 3},
			"changes": {"format": "adcp"}, "also": {"adcpVersion": "3.1"},
		} {
			if tool == "also" {
				tool = "reads"
			}
			if res := call(t, client, tool, args); args["context"] != nil &&
				(!strings.Contains(text(t, res), `"context":{"a":1}`) || !strings.Contains(text(t, res), `"adcp_version":"3.0"`)) {
				t.Errorf("without what the caller sent: %s", text(t, res))
			}
			if res := call(t, client, tool, args); !res.IsError || !strings.Contains(text(t, res), `"SERVICE_UNAVAILABLE"`) {
				t.Errorf("unavailable, for AdCP: %s", text(t, res))
			}
		}
		failure = &api.Error{Code: api.OutcomeUnknown, Message: "lost"}
		res = call(t, client, "changes", map[string]any{"format": "json"})
		if !strings.Contains(text(t, res), "TOOL_ERROR") ||
			!strings.Contains(text(t, res), "outcome_unknown") {
			t.Errorf("outcome unknown: %s", text(t, res))
		}

		failure, dirFailure = nil, errors.New("it is removed")
		defer func() { dirFailure = nil }()
		if res := call(t, client, "changes", nil); !strings.Contains(text(t, res), "directory of this client") {
			t.Errorf("a task without a directory: %s", text(t, res))
		}
		if call(t, client, "reads", nil); asked.Name != "reads" {
			t.Errorf("a tool that reads was not called")
		}
	})
}
