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
	errorType, errorText    scan.Value

	// Of the part. In a tool call of version 2, partID is its id, and id that of the call.
	id, partID, message, text, tool, call, reason, cost scan.Value
	synthetic                                           scan.Value // a text that the agent says in the user's name
	usage                                               wire.Counters
	hasPart                                             bool

	// Of the state of a tool call.
	status, output, exit, diff   scan.Value
	files                        scan.Value // of apply_patch, and of version 2: with their diffs
	command, path, exists, todos scan.Value // for the run record only

	sawPart, sawError, sawData, sawState, sawInput, sawMetadata, sawInner, sawTokens, sawCache bool

	drift wire.Drift
}

// counters are the names under which the tokens are published.
var counters = []string{"input", "output", "reasoning", "cache_read", "cache_write"}

// The known members that are not read.
var (
	ignored       = wire.FieldsOf("timestamp")
	ignoredPart   = wire.FieldsOf("type", "sessionID", "time", "snapshot", "metadata", "ignored")
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
	case "type": // in place of the name since version 2, and the message beside it
		l.s.First(&l.errorType)
	case "message":
		l.s.First(&l.errorText)
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
	case "partID":
		s.First(&l.partID)
	case "messageID":
		s.First(&l.message)
	case "text":
		s.First(&l.text)
	case "tool":
		s.First(&l.tool)
	case "callID":
		s.First(&l.call)
	case "synthetic":
		s.First(&l.synthetic)
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
			return l.read(key, "command", &l.command) || l.read(key, "filePath", &l.path) || l.read(key, "path", &l.path)
		})
	case "metadata":
		wire.Members(s, &l.sawMetadata, func(key []byte) bool {
			if string(key) == "metadata" { // since version 2
				wire.Members(s, &l.sawInner, l.metadata)
				return true
			}
			return l.metadata(key)
		})
	default:
		l.drift.Field(ignoredState, "part.state.", key)
		return false
	}
	return true
}

// metadata reads the value of a key of what a tool tells beside its output.
func (l *line) metadata(key []byte) bool {
	return l.read(key, "exit", &l.exit) || l.read(key, "diff", &l.diff) || l.read(key, "exists", &l.exists) ||
		l.read(key, "todos", &l.todos) || l.read(key, "files", &l.files)
}

// change has the values of one of the files.
type change struct{ path, moved, kind, patch scan.Value }

// scan reads raw, an object that was scanned before. Version 2 has other names than 1.x.
func (c *change) scan(s *scan.Scanner, raw []byte) {
	s.Reset(raw)
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "file", "filePath":
			s.First(&c.path)
		case "movePath":
			s.First(&c.moved)
		case "status", "type":
			s.First(&c.kind)
		case "patch":
			s.First(&c.patch)
		default:
			s.Skip()
		}
	}
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
