package opencode

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
	typ, session            scan.Value
	errorName, errorMessage scan.Value

	// Of the part.
	id, message, text, tool, call, reason, cost scan.Value
	usage                                       wire.Counters
	hasPart                                     bool

	// Of the state of a tool call.
	status, output, exit, diff   scan.Value
	command, path, exists, todos scan.Value // for the run record only

	sawPart, sawError, sawData, sawState, sawInput, sawMetadata, sawTokens, sawCache bool

	drift wire.Drift
}

// counters are the names under which the tokens are published.
var counters = []string{"input", "output", "reasoning", "cache_read", "cache_write"}

// The known members that are not read.
var (
	ignored       = wire.FieldsOf("timestamp")
	ignoredPart   = wire.FieldsOf("type", "sessionID", "time", "snapshot", "metadata", "synthetic", "ignored")
	ignoredState  = wire.FieldsOf("title", "time", "error", "attachments", "raw")
	ignoredTokens = wire.FieldsOf("total")
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
		case "sessionID":
			s.First(&l.session)
		case "part":
			l.hasPart = wire.Members(s, &l.sawPart, l.part) || l.hasPart
		case "error":
			wire.Members(s, &l.sawError, l.error)
		default:
			l.drift.Field(ignored, "", s.Key())
			s.Skip()
		}
	}
	return s.End()
}

func (l *line) error(key []byte) bool {
	switch string(key) {
	case "name":
		l.s.First(&l.errorName)
	case "data":
		wire.Members(&l.s, &l.sawData, func(key []byte) bool { return l.read(key, "message", &l.errorMessage) })
	default:
		l.drift.Field(nil, "error.", key)
		return false
	}
	return true
}

func (l *line) part(key []byte) bool {
	s := &l.s
	switch string(key) {
	case "id":
		s.First(&l.id)
	case "messageID":
		s.First(&l.message)
	case "text":
		s.First(&l.text)
	case "tool":
		s.First(&l.tool)
	case "callID":
		s.First(&l.call)
	case "reason":
		s.First(&l.reason)
	case "cost":
		s.First(&l.cost)
	case "tokens":
		wire.Members(s, &l.sawTokens, l.token)
	case "state":
		wire.Members(s, &l.sawState, l.state)
	default:
		l.drift.Field(ignoredPart, "part.", key)
		return false
	}
	return true
}

func (l *line) token(key []byte) bool {
	if string(key) != "cache" {
		if string(key) != "cache_read" && string(key) != "cache_write" && l.usage.Read(&l.s, key) {
			return true
		}
		l.drift.Field(ignoredTokens, "part.tokens.", key)
		return false
	}
	wire.Members(&l.s, &l.sawCache, func(key []byte) bool {
		switch string(key) {
		case "read":
			return l.usage.Read(&l.s, []byte("cache_read"))
		case "write":
			return l.usage.Read(&l.s, []byte("cache_write"))
		}
		return false
	})
	return true
}

func (l *line) state(key []byte) bool {
	s := &l.s
	switch string(key) {
	case "status":
		s.First(&l.status)
	case "output":
		s.First(&l.output)
	case "input":
		wire.Members(s, &l.sawInput, func(key []byte) bool {
			return l.read(key, "command", &l.command) || l.read(key, "filePath", &l.path)
		})
	case "metadata":
		wire.Members(s, &l.sawMetadata, func(key []byte) bool {
			return l.read(key, "exit", &l.exit) || l.read(key, "diff", &l.diff) || l.read(key, "exists", &l.exists) ||
				l.read(key, "todos", &l.todos)
		})
	default:
		l.drift.Field(ignoredState, "part.state.", key)
		return false
	}
	return true
}

// read reads the value of key into v if the key has this name.
func (l *line) read(key []byte, name string, v *scan.Value) bool {
	if string(key) != name {
		return false
	}
	l.s.First(v)
	return true
}

// reset clears the values and releases the line.
func (l *line) reset() {
	l.s.Reset(nil)
	l.fields = fields{}
}
