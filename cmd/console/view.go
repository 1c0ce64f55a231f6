package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/runs"
)

// view has the parts of a record that are shown. Its strings
// are an agent's and not to be trusted: they go through [Safe] before they
// are printed.
type view struct {
	Record
	kind    string // as subjects spell it
	channel string
	text    string
	message string
	tool    *tool
	took    time.Duration // between a tool's call and its result; 0 if not known
	session string
	usage   runs.Usage // of a thread so far, of a turn or of a step, as the agent does
	pieces  bool       // the text is a part of a message
	done    *completion
}

// tool is the tools facet.
type tool struct {
	ID       string `json:"backend_item_id"`
	UseID    string `json:"tool_use_id"`
	Name     string `json:"tool_name"`
	Kind     string `json:"kind"`
	Phase    string `json:"phase"`
	Status   string `json:"status"`
	ExitCode *int   `json:"exit_code"`
	Bytes    struct{ Stdout, Stderr, Diff, Result int64 }
}

type completion struct {
	Status *struct {
		Success      bool
		Code, Signal *int
	}
	Error *struct{ Message string }
}

// look reads a record. What cannot be read is shown as an event of an unknown
// kind: a foreign writer is no reason to stop.
func look(rec Record) view {
	v := view{Record: rec, kind: "unknown"}
	if len(rec.Completion) > 0 {
		var done completion
		if json.Unmarshal(rec.Completion, &done) == nil {
			v.kind, v.done = "completion", &done
		}
		return v
	}
	if !gjson.ValidBytes(rec.Event) {
		return v
	}
	var kind, agentKind string
	var data gjson.Result
	misread := false
	gjson.ParseBytes(rec.Event).ForEach(func(key, value gjson.Result) bool {
		var to *string
		switch key.Str {
		case "kind":
			to = &kind
		case "agent_kind":
			to = &agentKind
		case "channel":
			to = &v.channel
		case "text":
			to = &v.text
		case "message":
			to = &v.message
		case "data":
			data = value
			return true
		default:
			return true
		}
		*to = value.Str
		misread = misread || value.Type != gjson.String && value.Type != gjson.Null
		return true
	})
	if misread {
		return view{Record: rec, kind: "unknown"}
	}
	v.kind = cmp.Or(kindTokens[kind], "unknown")
	of := known.Agents.Of(cmp.Or(agentKind, rec.Agent))
	v.pieces = of.Pieces
	v.facts(data, of)
	return v
}

// facts reads the data of an event: all of it or, if it has another type than that of a contract, nothing.
func (v *view) facts(data gjson.Result, of agent.Agent) {
	var is struct {
		Tool    *tool
		Session struct{ ID string }
		Schema  string
		Usage   map[string]int64
	}
	if !data.IsObject() || json.Unmarshal([]byte(data.Raw), &is) != nil {
		return
	}
	v.tool, v.session = is.Tool, is.Session.ID
	if is.Usage != nil {
		v.usage = of.CountersOf(is.Schema).Usage(is.Usage)
	}
}

var kindTokens = map[string]string{
	"TextOutput": "text_output",
	"ToolCall":   "tool_call",
	"ToolResult": "tool_result",
	"Status":     "status",
	"Error":      "error",
	"Unknown":    "unknown",
}

// id pairs a call with its result, within a run. The item of Claude Code is the line.
func (t *tool) id() string { return cmp.Or(t.UseID, t.ID) }

func (t *tool) failed() bool {
	return t.Phase == "fail" || t.Status == "failed" || t.ExitCode != nil && *t.ExitCode != 0
}

// outcome says in a few words how the run ended.
func (c *completion) outcome() string {
	switch {
	case c.Error != nil:
		return c.Error.Message
	case c.Status == nil:
		return "end of input"
	case c.Status.Signal != nil:
		return fmt.Sprintf("signal %d", *c.Status.Signal)
	case c.Status.Code != nil:
		return fmt.Sprintf("exit %d", *c.Status.Code)
	default:
		return "ended"
	}
}

func (c *completion) failed() bool {
	return c.Error != nil || c.Status != nil && !c.Status.Success
}
