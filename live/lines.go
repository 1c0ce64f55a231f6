package live

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
)

// outgoing is a request or a notification of the client.
type outgoing struct {
	Version string `json:"jsonrpc"`
	ID      int64  `json:"id,omitempty"` // 0: a notification
	Method  string `json:"method"`
	Params  object `json:"params"`
}

type object map[string]any

// clientName is the name by which agents know linesman, in their logs too.
const clientName = "linesman"

// render returns an item as a line, with its end. The client offers no files and no terminals: an agent has tools of
// its own, in its own sandbox.
func (c *Conversation) render(i item) []byte {
	call := func(method string, params object) []byte { return encode(outgoing{"2.0", i.ID, method, params}) }
	reply := func(key string, value object) []byte {
		return encode(object{"jsonrpc": "2.0", "id": json.RawMessage(i.Ref), key: value})
	}
	switch session := c.s.Session; i.Do {
	case doInitialize:
		return call("initialize", object{
			"protocolVersion": 1,
			"clientCapabilities": object{
				"fs": object{"readTextFile": false, "writeTextFile": false}, "terminal": false,
				"elicitation": object{"form": object{}},
				"session":     object{"notices": object{}, "compaction": object{}},
			},
			"clientInfo": object{"name": clientName, "version": c.config.Version},
		})
	case doAuthenticate:
		return call("authenticate", object{"methodId": i.Value})
	case doNew:
		return call("session/new", c.directories(object{}))
	case doResume: // without what was said in the session
		return call("session/resume", c.directories(object{"sessionId": i.Value}))
	case doLoad: // the agent sends all of it again before its response
		return call("session/load", c.directories(object{"sessionId": i.Value}))
	case doMode:
		return call("session/set_mode", object{"sessionId": session, "modeId": i.Value})
	case doModel:
		if c.config.Agent.ModelOption {
			return call("session/set_config_option", object{"sessionId": session, "configId": "model", "value": i.Value})
		}
		return call("session/set_model", object{"sessionId": session, "modelId": i.Value})
	case doPrompt:
		text := cmp.Or(i.Value, c.config.Task.Prompt)
		return call("session/prompt", object{"sessionId": session, "prompt": []object{{"type": "text", "text": text}}})
	case doClose:
		return call("session/close", object{"sessionId": session})
	case doCancel:
		return call("session/cancel", object{"sessionId": session})
	case doSelect:
		return reply("result", object{"outcome": object{"outcome": "selected", "optionId": i.Value}})
	case doForm: // accept, decline or cancel
		result := object{"action": cmp.Or(i.Value, "cancel")}
		if i.Content != nil {
			result["content"] = i.Content
		}
		return reply("result", result)
	case doRefuse:
		return reply("error", object{"code": i.Code, "message": "linesman does not serve this"})
	default: // doWithdraw: a permission request without an option
		return reply("result", object{"outcome": object{"outcome": "cancelled"}})
	}
}

// directories adds the directories of the task to the parameters of a session.
func (c *Conversation) directories(params object) object {
	params["cwd"], params["mcpServers"] = c.config.Task.Dir, []any{}
	if more := c.config.Task.AddDirs; len(more) > 0 {
		params["additionalDirectories"] = more
	}
	return params
}

// encode returns a message as a line, with its end.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // impossible: an id was read as JSON, and content is checked
		panic(fmt.Sprintf("live: %v", err))
	}
	return b.Bytes()
}
