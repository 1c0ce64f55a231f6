package codex

import (
	"bytes"
	"strconv"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// shown are the names of tools for people, by the kind of an item or the name of a tool in
// a session log.
var shown = map[string]string{
	"command_execution": "shell", "file_change": "apply_patch", "web_search": "web search",
	"exec_command": "shell", "shell_command": "shell", "local_shell": "shell", "container.exec": "shell",
}

// show sets what the agent is doing during the call of a tool.
func show(c *runs.Call, tool string) {
	c.Shown = shown[tool]
	switch {
	case tool == "wait" && c.Kind == "collab_tool_call", tool == "wait_agent":
		c.Phase = runs.AwaitingAgent
	case tool == "request_user_input":
		c.Phase = runs.AwaitingInput
	}
}

// maxRetry is how much of an error message is read for the number of the attempt.
const maxRetry = 512

// retry sets what the agent is doing if an error says that it asks the model again:
//
//	Reconnecting... 2/5 (stream disconnected before completion: ...)
//	stream error: ...; retrying 1/5 in 204ms…
func retry(message scan.Value, out *normalizer.Out) {
	var buf [maxRetry]byte
	text := wire.Head(buf[:0], message, maxRetry)
	numbers, found := bytes.CutPrefix(text, []byte("Reconnecting... "))
	if !found {
		if _, numbers, found = bytes.Cut(text, []byte("; retrying ")); !found {
			return
		}
	}
	attempt, rest, found := number(numbers, "/")
	of, rest, _ := number(rest, "")
	if !found || of == 0 {
		return
	}
	d := runs.Doing{Phase: runs.Retrying, Attempt: attempt, Of: of}
	if bytes.Contains(text, []byte("429 Too Many Requests")) {
		d.Phase = runs.RateLimited
	}
	if delay, found := bytes.CutPrefix(rest, []byte(" in ")); found {
		if ms, _, is := number(delay, "ms"); is {
			out.Facts.NextIn = int64(ms)
		} else if s, part, is := number(delay, "."); is { // 1.204s
			ms, _, _ := number(part, "s")
			out.Facts.NextIn = int64(s)*1000 + int64(min(ms, 999))
		}
	}
	out.Facts.Doing = d
}

// number returns the number at the beginning of text, at most six digits, and the rest after
// the unit that follows it. It is 0 and false if there is none.
func number(text []byte, unit string) (n int, rest []byte, ok bool) {
	digits := 0
	for digits < len(text) && '0' <= text[digits] && text[digits] <= '9' {
		digits++
	}
	n, err := strconv.Atoi(string(text[:digits]))
	rest, ok = bytes.CutPrefix(text[digits:], []byte(unit))
	if err != nil || digits > 6 || !ok {
		return 0, nil, false
	}
	return n, rest, true
}

// maxTitle is how much of a prompt is read for the title of a session, in bytes.
const maxTitle = 4 << 10

// prompt returns the text of a message of the user, an item of a session log.
func (d *dialect) prompt(item scan.Value) string {
	content, _ := wire.Pair(&d.line.s, item.Raw, "content", "")
	text, _ := d.texts(content, "text", "\n")
	return text
}
