package gemini

import (
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
)

// line has the values of one line. They share its memory.
type line struct {
	s scan.Scanner
	fields
}

// fields are the values of a line; reset clears all of them.
type fields struct {
	typ, session, role, content, delta scan.Value
	toolName, toolID, status, output   scan.Value
	message, errorMessage, model       scan.Value
	command, path                      scan.Value // of the parameters; for the run record only
	usage                              wire.Counters
	none                               scan.Value // this agent tells no cost

	sawError, sawStats, sawParameters bool

	drift wire.Drift
}

// counters are the keys of stats that are published.
var counters = []string{"total_tokens", "input_tokens", "output_tokens", "cached", "tool_calls"}

// The known members that are not read.
var (
	ignored      = wire.FieldsOf("timestamp", "severity")
	ignoredStats = wire.FieldsOf("input", "duration_ms", "models")
	ignoredError = wire.FieldsOf("type")
)

// scan reads raw. Call reset before the next line.
func (l *line) scan(raw []byte) scan.Fault {
	s := &l.s
	s.Reset(raw)
	l.usage.Names = counters
	ok := s.Object()
	if !ok {
		s.Skip()
	}
	for ok && s.Next() {
		switch string(s.Key()) {
		case "type":
			s.First(&l.typ)
		case "session_id":
			s.First(&l.session)
		case "role":
			s.First(&l.role)
		case "content":
			s.First(&l.content)
		case "delta":
			s.First(&l.delta)
		case "tool_name":
			s.First(&l.toolName)
		case "tool_id":
			s.First(&l.toolID)
		case "status":
			s.First(&l.status)
		case "output":
			s.First(&l.output)
		case "message":
			s.First(&l.message)
		case "model":
			s.First(&l.model)
		case "error":
			wire.Members(s, &l.sawError, func(key []byte) bool {
				if string(key) != "message" {
					l.drift.Field(ignoredError, "error.", key)
					return false
				}
				s.First(&l.errorMessage)
				return true
			})
		case "stats":
			wire.Members(s, &l.sawStats, func(key []byte) bool {
				if l.usage.Read(s, key) {
					return true
				}
				l.drift.Field(ignoredStats, "stats.", key)
				return false
			})
		case "parameters":
			wire.Members(s, &l.sawParameters, l.parameter)
		default:
			l.drift.Field(ignored, "", s.Key())
			s.Skip()
		}
	}
	return s.End()
}

func (l *line) parameter(key []byte) bool {
	switch string(key) {
	case "command":
		l.s.First(&l.command)
	case "file_path":
		l.s.First(&l.path)
	default:
		return false
	}
	return true
}

// reset clears the values and releases the line.
func (l *line) reset() {
	l.s.Reset(nil)
	l.fields = fields{}
}
