package codex

import (
	"bytes"
	"encoding/json"
)

// LastMessage returns the text of the last agent message in an agent's output.
// The first line of the output may be the end of a line.
func LastMessage(output []byte) (text string, ok bool) {
	for len(output) > 0 {
		line := output
		if i := bytes.LastIndexByte(output, '\n'); i >= 0 {
			line, output = output[i+1:], output[:i]
		} else {
			output = nil
		}
		if !bytes.Contains(line, []byte(`"agent_message"`)) {
			continue
		}
		var l struct {
			Type string `json:"type"`
			Item struct {
				Type string `json:"type"`
				Text string `json:"text"`
			} `json:"item"`
		}
		if json.Unmarshal(line, &l) == nil && l.Type == "item.completed" && l.Item.Type == "agent_message" {
			return l.Item.Text, true
		}
	}
	return "", false
}
