// Package external is the backend of external runs. It reads their two lines: the
// question, and the reply, which ends the run.
//
//	{"type":"external.question","prompt":…,"model":…}
//	{"type":"external.reply","status":"success|error|timeout","text":…,"error":…}
//
// Events contain the reply, like the text of any agent. The question stays in the
// raw log.
package external

import (
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/runs"
)

// Backend is the backend of external runs.
type Backend struct{}

// Agent returns "external".
func (Backend) Agent() string { return runs.AgentExternal }

// Dialect returns the dialect of a new external run.
func (Backend) Dialect() normalizer.Dialect { return dialect{} }

// dialect has no state: every line is independent of earlier lines.
type dialect struct{ normalizer.Stateless }

// line has the values of one line.
type line struct{ typ, prompt, status, text, err scan.Value }

// Line implements [normalizer.Dialect].
func (dialect) Line(raw []byte, out *normalizer.Out) normalizer.Fault {
	var l line
	fault := scan.Fields(raw, map[string]*scan.Value{
		"type": &l.typ, "prompt": &l.prompt, "status": &l.status, "text": &l.text, "error": &l.err,
	})
	switch {
	case fault != scan.OK:
		return normalizer.Fault(fault)
	case !l.typ.IsString():
		return normalizer.MissingType
	case l.typ.Equal(runs.TypeQuestion):
		return l.question(out)
	case l.typ.Equal(runs.TypeReply):
		return l.reply(out)
	}
	out.Unknown()
	return normalizer.NoFault
}

func (l *line) question(out *normalizer.Out) normalizer.Fault {
	if !l.prompt.IsString() {
		return normalizer.InvalidPayload
	}
	out.Facts.Turn, out.Facts.Doing.Phase = runs.TurnStarted, runs.AwaitingInput
	out.Event(normalizer.StatusMessage("input required", nil))
	return normalizer.NoFault
}

// reply maps an answer or an error. Both end the run.
func (l *line) reply(out *normalizer.Out) normalizer.Fault {
	switch {
	case l.status.Equal(runs.ReplySuccess) && (l.text.IsString() || l.text.Kind == scan.Absent):
		text := l.text.Text()
		out.Facts.Turn = runs.TurnCompleted
		out.Final(text)
		if text == "" {
			out.Event(normalizer.StatusMessage("answered without text", nil))
			break
		}
		out.Event(normalizer.AssistantText(text))
	case (l.status.Equal(runs.ReplyError) || l.status.Equal(runs.ReplyTimeout)) && l.err.IsString():
		message := l.err.Text()
		out.Facts.Turn = runs.TurnFailed
		out.Facts.Error, out.Facts.ErrorSource = message, runs.ErrorTurn
		out.Event(normalizer.ErrorMessage(message))
	default:
		return normalizer.InvalidPayload
	}
	out.End()
	return normalizer.NoFault
}
