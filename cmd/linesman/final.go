package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// errNoText reports a run whose final text cannot be had as it is.
var errNoText = errors.New("the agent's answer is not there")

// maxFinalOutput is how many bytes of an agent's output are read for a final
// text that is longer than records and events are.
const maxFinalOutput = 16 << 20

// finalText is the final text of a run that has completed: all of it. It is in
// the record, else in the completion event, else in what the agent wrote.
func (d *desk) finalText(ctx context.Context, r *runs.Record) (string, error) {
	if r.FinalText == nil {
		return "", fmt.Errorf("%w: it ended without one", errNoText)
	}
	whole := func(text string) bool { return int64(len(text)) == r.FinalTextBytes }
	if whole(*r.FinalText) {
		return *r.FinalText, nil
	}
	events, err := d.Events(ctx, r, 1)
	if err != nil {
		return "", err
	}
	for _, e := range events {
		if text := gjson.GetBytes(e, "final_text").String(); whole(text) {
			return text, nil
		}
	}
	stdout, _, err := d.Output(ctx, r, 2*maxFinalOutput)
	if err != nil {
		return "", err
	}
	for _, part := range [][]byte{stdout.Tail, stdout.Head} {
		if text, ok := lastMessage(part); ok && whole(text) {
			return text, nil
		}
	}
	return "", fmt.Errorf("%w: of its %d bytes only the first are kept", errNoText, r.FinalTextBytes)
}

// lastMessage is the last answer in output of Codex, whose first line may be
// the end of one.
func lastMessage(output []byte) (string, bool) {
	for len(output) > 0 {
		line := output
		if i := bytes.LastIndexByte(output, '\n'); i >= 0 {
			line, output = output[i+1:], output[:i]
		} else {
			output = nil
		}
		if !bytes.Contains(line, []byte(`"agent_message"`)) || !gjson.ValidBytes(line) {
			continue
		}
		v := gjson.ParseBytes(line)
		if v.Get("type").String() == "item.completed" && v.Get("item.type").String() == "agent_message" {
			return v.Get("item.text").String(), true
		}
	}
	return "", false
}

// isEnded reports whether an error says that a run has ended.
func isEnded(err error) bool {
	var ended *responder.EndedError
	return errors.As(err, &ended)
}
