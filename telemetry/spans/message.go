package spans

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/runs"
)

// message is what the spans need of an event.
type message struct {
	channel, text string
	session       string // id of the thread, if the event is about it
	thread        bool   // usage is that of the thread so far, not of a turn
	usage         *runs.Usage
	phase         string
	tool          tool
	asked         asked    // a question that the agent asks
	settled       decision // how one was settled

	completion bool
	success    bool   // of a completion: the process ended without an error
	failure    string // class of the error of a completion
	exit       *int   // exit code of a completion
}

type tool struct {
	Item   string `json:"backend_item_id"`
	Thread string `json:"thread_id"`
	Kind   string `json:"kind"`
	Phase  string `json:"phase"`
	Status string `json:"status"`
	Code   *int   `json:"exit_code"`
	Name   string `json:"tool_name"`
	Use    string `json:"tool_use_id"`
}

// asked is a question of a live run.
type asked struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Call string `json:"call"`
}

// decision is how a question was settled.
type decision struct {
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
	By      string `json:"by"`
}

// key is the same in a call and its result; "": unknown.
func (m message) key() string {
	if m.tool.Use != "" {
		return cut(m.tool.Use, maxName)
	}
	return cut(m.tool.Item, maxName)
}

// body is an event or a completion.
type body struct {
	Agent   string  `json:"agent_kind"`
	Channel string  `json:"channel"`
	Message string  `json:"message"`
	Data    data    `json:"data"`
	Status  *status `json:"status"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error"`
}

type status struct {
	Success      bool
	Code, Signal *int
}

type data struct {
	Tool    tool             `json:"tool"`
	Asked   asked            `json:"question"`
	Settled decision         `json:"answer"`
	Schema  string           `json:"schema"`
	Usage   map[string]int64 `json:"usage"`
	Session struct {
		ID string `json:"id"`
	} `json:"session"`
}

// read returns the parts of an event. Of an event that cannot be read only the token counts:
// it is of a newer version.
func read(e runs.Event, of *agent.Agent) (m message) {
	var b body
	if e.Token == "text_output" { // most of all bytes; the keys of events have an order
		if head, _, ok := bytes.Cut(e.Body[:min(len(e.Body), 256)], []byte(`,"text":`)); ok &&
			bytes.HasSuffix(head, []byte(`"channel":"assistant"`)) {
			m.channel = "assistant"
		}
		return m
	}
	m.completion = e.Token == "completion"
	if json.Unmarshal(e.Body, &b) != nil {
		return m
	}
	m.channel, m.text, m.tool, m.phase = b.Channel, b.Message, b.Data.Tool, b.Data.Tool.Phase
	m.session, m.asked, m.settled = b.Data.Session.ID, b.Data.Asked, b.Data.Settled
	if b.Data.Usage != nil {
		counters := of.CountersOf(b.Data.Schema)
		m.thread, m.usage = counters.Thread, new(counters.Usage(b.Data.Usage))
	}
	if m.completion {
		m.failure, m.exit = failure(b)
		m.success = b.Status != nil && b.Status.Success
	}
	return m
}

// failure is the class of the error of a completion, "" for none, and the exit code.
func failure(b body) (class string, code *int) {
	if b.Error != nil {
		for _, c := range []struct{ part, class string }{
			{"cancelled", "cancelled"}, {"timeout", "timeout"}, {"output limit", "output_limit"}, {"lost", "lost"},
		} {
			if strings.Contains(b.Error.Message, c.part) {
				return c.class, nil
			}
		}
		return "not_started", nil
	}
	switch s := b.Status; {
	case s == nil || s.Success:
		return "", nil
	case s.Signal != nil:
		return "signal_" + strconv.Itoa(*s.Signal), nil
	case s.Code != nil:
		return "exit", s.Code
	}
	return "exit", nil
}

// boundary reports what a status or an error means for turns. A turn restarts with a message
// that only begins one.
func boundary(token string, m message) (begins, restarts, ends bool, failure string) {
	switch {
	case token == "error":
		return m.usage != nil, false, m.usage != nil, "turn_failed"
	case m.text == "turn started":
		return true, true, false, ""
	case m.text == "system init", m.text == "init", m.text == "step started":
		return true, false, false, ""
	case m.text == "turn failed":
		return true, false, true, "turn_failed"
	case m.text == "turn aborted", m.text == "turn cancelled", m.text == "turn interrupted":
		return true, false, true, "turn_aborted"
	case m.text == "turn completed", strings.HasPrefix(m.text, "result "):
		return true, false, true, ""
	}
	return false, false, false, ""
}

// workOfAgent reports whether a status appears after the calls of a message of Claude Code,
// when a sub-agent works.
func workOfAgent(text string) bool {
	return text == "user message" || strings.HasPrefix(text, "system task_")
}

// cut returns at most n bytes of s, in whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
