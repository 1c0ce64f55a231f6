package responder

import (
	"encoding/json"
	"testing"
)

func TestLastEventsHaveTheTypesOfTheirLines(t *testing.T) {
	for _, c := range []struct{ event, want string }{
		{`{"kind":"Status","message":"thread started"}`, "thread.started"},
		{`{"kind":"Status","message":"turn started"}`, "turn.started"},
		{`{"kind":"Status","message":"turn completed"}`, "turn.completed"},
		{`{"kind":"Status","message":"turn failed"}`, "turn.failed"},
		{`{"kind":"Status","message":"todo list updated"}`, "item.updated"},
		{`{"kind":"Status","message":"the id of the thread is too long"}`, "status"},
		{`{"kind":"ToolCall","message":null,"data":{"tool":{"phase":"start"}}}`, "item.started"},
		{`{"kind":"ToolCall","message":null,"data":{"tool":{"phase":"delta"}}}`, "item.updated"},
		{`{"kind":"ToolResult","message":null,"data":{"tool":{"phase":"fail"}}}`, "item.completed"},
		{`{"kind":"TextOutput","text":"turn started"}`, "item.completed"},
		{`{"kind":"Error","message":"turn started"}`, "error"},
		{`{"kind":"Unknown"}`, "unknown"},
		{`{"kind":"OfANewerVersion"}`, "unknown"},
		{`{"status":null,"error":{"kind":"backend"}}`, "completion"},
	} {
		var e struct{ Type string }
		if err := json.Unmarshal(typed([]json.RawMessage{json.RawMessage(c.event)})[0], &e); err != nil || e.Type != c.want {
			t.Errorf("%s: %q, %v; want %q", c.event, e.Type, err, c.want)
		}
	}
}
