package acp

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// outgoing is a request or a notification of the client.
type outgoing struct {
	Version string `json:"jsonrpc"`
	ID      *int64 `json:"id,omitempty"` // nil: a notification
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

// Initialize returns the first request of a process. The client offers no files and no terminals: an
// agent has tools of its own, in its own sandbox.
func Initialize(id int64, version string) []byte {
	return call(&id, "initialize", map[string]any{
		"protocolVersion": 1,
		"clientCapabilities": map[string]any{
			"fs": map[string]bool{"readTextFile": false, "writeTextFile": false}, "terminal": false,
			"elicitation": map[string]any{"form": struct{}{}},
			"session":     map[string]any{"notices": struct{}{}, "compaction": struct{}{}},
		},
		"clientInfo": map[string]string{"name": clientName, "version": version},
	})
}

// clientName is the name by which agents know linesman, in their logs too.
const clientName = "linesman"

// Authenticate returns the request to log in by a method of the agent.
func Authenticate(id int64, method string) []byte {
	return call(&id, "authenticate", map[string]string{"methodId": method})
}

// NewSession returns the request of a session in a directory, and further ones.
func NewSession(id int64, dir string, more []string) []byte {
	return call(&id, "session/new", sessionIn(dir, more))
}

// ResumeSession returns the request to continue a session, without what was said in it.
func ResumeSession(id int64, session, dir string, more []string) []byte {
	return continued(id, "session/resume", session, dir, more)
}

// LoadSession returns the request to continue a session. The agent sends all of it again before its response.
func LoadSession(id int64, session, dir string, more []string) []byte {
	return continued(id, "session/load", session, dir, more)
}

func continued(id int64, method, session, dir string, more []string) []byte {
	params := sessionIn(dir, more)
	params["sessionId"] = session
	return call(&id, method, params)
}

func sessionIn(dir string, more []string) map[string]any {
	params := map[string]any{"cwd": dir, "mcpServers": []any{}}
	if len(more) > 0 {
		params["additionalDirectories"] = more
	}
	return params
}

// SetMode returns the request of a mode.
func SetMode(id int64, session, mode string) []byte {
	return call(&id, "session/set_mode", map[string]string{"sessionId": session, "modeId": mode})
}

// SetOption returns the request of a value for an option.
func SetOption(id int64, session, option, value string) []byte {
	return call(&id, "session/set_config_option",
		map[string]string{"sessionId": session, "configId": option, "value": value})
}

// SetModel returns the request of a model, for agents that have none as an option.
func SetModel(id int64, session, model string) []byte {
	return call(&id, "session/set_model", map[string]string{"sessionId": session, "modelId": model})
}

// Prompt returns the request of a turn.
func Prompt(id int64, session, text string) []byte {
	return call(&id, "session/prompt", map[string]any{
		"sessionId": session, "prompt": []map[string]string{{"type": "text", "text": text}},
	})
}

// Cancel returns the notification that the turn is to end.
func Cancel(session string) []byte {
	return call(nil, "session/cancel", map[string]string{"sessionId": session})
}

// CloseSession returns the request that ends a session.
func CloseSession(id int64, session string) []byte {
	return call(&id, "session/close", map[string]string{"sessionId": session})
}

// Select answers a permission request by an option. The id is that of the request, as JSON.
func Select(id, option string) []byte {
	return reply(id, "result", map[string]any{"outcome": map[string]string{"outcome": "selected", "optionId": option}})
}

// Withdraw answers a permission request without an option.
func Withdraw(id string) []byte {
	return reply(id, "result", map[string]any{"outcome": map[string]string{"outcome": "cancelled"}})
}

// AnswerForm answers a form: `accept` with the content as JSON, `decline` or `cancel`.
func AnswerForm(id, action string, content json.RawMessage) []byte {
	result := map[string]any{"action": action}
	if content != nil {
		result["content"] = content
	}
	return reply(id, "result", result)
}

// Refuse answers a request that the client does not serve.
func Refuse(id string, code int, text string) []byte {
	return reply(id, "error", map[string]any{"code": code, "message": text})
}

func call(id *int64, method string, params any) []byte {
	return line(outgoing{"2.0", id, method, params})
}

func reply(id, key string, value any) []byte {
	return line(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), key: value})
}

// line returns a message as a line, with its end.
func line(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // impossible: an id was read as JSON, and content is checked
		panic(fmt.Sprintf("acp: %v", err))
	}
	return b.Bytes()
}
