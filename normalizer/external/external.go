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
func (Backend) Dialect() normalizer.Dialect { return new(dialect) }

// dialect has no state: every line is independent of earlier lines.
type dialect struct{ s scan.Scanner }

// line has the values of one line. The first of duplicate keys counts.
type line struct{ typ, prompt, status, text, err scan.Value }

// Line implements [normalizer.Dialect].
func (d *dialect) Line(raw []byte, out *normalizer.Out) normalizer.Fault {
	defer d.s.Reset(nil) // release the line
	var l line
	if fault := normalizer.ScanFault(l.scan(&d.s, raw)); fault != normalizer.NoFault {
		return fault
	}
	switch {
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

func (l *line) scan(s *scan.Scanner, raw []byte) scan.Fault {
	s.Reset(raw)
	ok := s.Object()
	if !ok {
		s.Skip()
	}
	for ok && s.Next() {
		switch string(s.Key()) {
		case "type":
			s.First(&l.typ)
		case "prompt":
			s.First(&l.prompt)
		case "status":
			s.First(&l.status)
		case "text":
			s.First(&l.text)
		case "error":
			s.First(&l.err)
		default:
			s.Skip()
		}
	}
	return s.End()
}

func (l *line) question(out *normalizer.Out) normalizer.Fault {
	if !l.prompt.IsString() {
		return normalizer.InvalidPayload
	}
	out.Facts.Turn = runs.TurnStarted
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

// State implements [normalizer.Dialect]. There is no state.
func (d *dialect) State() ([]byte, error) { return nil, nil }

// Restore implements [normalizer.Dialect].
func (d *dialect) Restore([]byte) error { return nil }
