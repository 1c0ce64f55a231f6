package codex

import (
	"bytes"
	"encoding/json"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// maxError is the maximum length of the message of a failed turn in the run record, in
// bytes of undecoded JSON.
const maxError = 4 << 10

// activity sets the activity of the started tool call, for people.
func (d *dialect) activity(kind string, out *normalizer.Out) {
	it := &d.line.item
	switch kind {
	case "command_execution":
		wire.Activity(out, wire.Runs, "", it.details, scan.Value{})
	case "file_change":
		var first scan.Value
		files := 0
		for list := wire.ElementsOf(it.details); ; files++ {
			raw, more := list.NextObject(&d.line.s)
			if !more {
				break
			}
			if files == 0 {
				first, _ = wire.Pair(&d.line.s, raw, "path", "kind")
			}
		}
		wire.Activity(out, wire.Edits, "", scan.Value{}, first)
		if files > 1 && first.Len > 0 {
			out.Activity.More = files - 1
		}
	case "web_search":
		wire.Activity(out, wire.SearchesWeb, "", scan.Value{}, scan.Value{})
	default:
		wire.Activity(out, wire.Calls, it.tool.View(), scan.Value{}, scan.Value{})
	}
}

// todo sets the facts of a to-do list.
func (d *dialect) todo(s step, out *normalizer.Out) {
	var counts runs.Todo
	for list := wire.ElementsOf(d.line.item.details); ; {
		text, done, more := list.NextPair(&d.line.s, "text", "completed")
		if !more {
			break
		}
		counts.Total++
		if wire.True(done) {
			counts.Done++
		} else if out.Activity.Rest.Len == 0 && s != completed {
			out.Activity.Rest = text
		}
	}
	if counts.Total > 0 {
		out.Facts.Todo = &counts
	}
}

// result sets the facts of the end of a tool call. failed reports whether the
// call failed; a command has failed if its exit status is not 0.
func (d *dialect) result(kind string, failed bool, out *normalizer.Out) {
	switch kind {
	case "command_execution":
		wire.Output(out, d.line.item.stdout, failed)
		out.Command.Totals = wire.RunsTests(d.line.item.details)
	case "file_change":
		if d.line.item.status.Equal("completed") {
			d.edits(out)
		}
	}
}

// editKinds are the kinds of file changes.
var editKinds = map[string]runs.EditKind{"add": runs.Added, "delete": runs.Deleted, "update": runs.Modified}

// edits sets the facts of file changes.
func (d *dialect) edits(out *normalizer.Out) {
	list := wire.ElementsOf(d.line.item.details)
	for len(out.Facts.Edits) < runs.MaxEdits {
		path, kind, more := list.NextPair(&d.line.s, "path", "kind")
		if !more {
			return
		}
		wire.AddEdit(out, path.View(), editKinds[kind.View()])
	}
	out.Facts.MoreEdits += list.Objects()
}

// turnError sets the error message of a failed turn.
func turnError(v scan.Value, out *normalizer.Out) {
	out.Facts.Error, out.Facts.ErrorSource = string(wire.Head(nil, v, maxError)), runs.ErrorTurn
}

// lastMessage returns the text of the last agent message in an agent's output that is not blank.
// The first line of the output may be the end of a line.
func lastMessage(output []byte) (text string, ok bool) {
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
		if json.Unmarshal(line, &l) == nil && l.Type == "item.completed" && l.Item.Type == "agent_message" &&
			!wire.Blank(l.Item.Text) {
			return l.Item.Text, true
		}
	}
	return "", false
}
