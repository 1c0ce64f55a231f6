package responder

import (
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/api"
)

// meaning returns what an event of an agent means. The body of one without an event is empty.
func (s *Service) meaning(kindOfAgent, kind string, body []byte) api.Meaning {
	a, known := s.cfg.Agents.Find(kindOfAgent)
	if !known || len(body) == 0 || kind == api.Completion {
		return api.Meaning{}
	}
	return meaningOf(&a, kind, body)
}

// Spoken returns the text of an event that is a message of the agent to its user.
func Spoken(e api.Event) (string, bool) {
	if e.Kind != "text_output" {
		return "", false
	}
	body := gjson.ParseBytes(e.Body)
	if body.Get("channel").String() != "assistant" {
		return "", false
	}
	return body.Get("text").String(), true
}

func meaningOf(a *agent.Agent, kind string, body []byte) (m api.Meaning) {
	if kind == "text_output" { // most of all bytes
		m.Piece = a.Pieces
		return m
	}
	var e struct {
		Data struct {
			Tool *struct {
				Kind string `json:"kind"`
				Name string `json:"tool_name"`
			}
			Schema string
			Usage  map[string]int64
		}
	}
	if json.Unmarshal(body, &e) != nil {
		return m
	}
	if t := e.Data.Tool; t != nil {
		m.Class, m.Subagent = a.Tools.Class(t.Kind, t.Name).String(), slices.Contains(a.Tools.Inner, t.Name)
	}
	if e.Data.Usage != nil {
		counters := a.CountersOf(e.Data.Schema)
		u := counters.Usage(e.Data.Usage)
		m.Tokens = &api.Tokens{Input: u.Input, Cached: u.CachedInput, Output: u.Output, Thread: counters.Thread}
	}
	return m
}
