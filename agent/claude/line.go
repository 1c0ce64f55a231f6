package claude

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
	typ, subtype, session, uuid, parent scan.Value
	content                             scan.Value // of the message
	apiError, error                     scan.Value

	// Of a result.
	result, errors, isError, cost, models scan.Value
	usage                                 wire.Counters

	// Of tool_use_result; resultType and path are for the run record only.
	stdout, stderr, resultType, path scan.Value

	sawMessage, sawUsage, sawToolResult bool
}

// counters are the keys of a usage that are published.
var counters = []string{
	"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
}

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
		case "subtype":
			s.First(&l.subtype)
		case "session_id":
			s.First(&l.session)
		case "uuid":
			s.First(&l.uuid)
		case "parent_tool_use_id":
			s.First(&l.parent)
		case "message":
			wire.Members(s, &l.sawMessage, l.message)
		case "is_api_error_message":
			s.First(&l.apiError)
		case "error":
			s.First(&l.error)
		case "result":
			s.First(&l.result)
		case "errors":
			s.First(&l.errors)
		case "is_error":
			s.First(&l.isError)
		case "total_cost_usd":
			s.First(&l.cost)
		case "modelUsage":
			s.First(&l.models)
		case "usage":
			wire.Members(s, &l.sawUsage, l.counter)
		case "tool_use_result":
			wire.Members(s, &l.sawToolResult, l.toolResult)
		default:
			s.Skip()
		}
	}
	return s.End()
}

func (l *line) message(key []byte) bool {
	if string(key) != "content" {
		return false
	}
	l.s.First(&l.content)
	return true
}

func (l *line) counter(key []byte) bool { return l.usage.Read(&l.s, key) }

func (l *line) toolResult(key []byte) bool {
	switch string(key) {
	case "stdout":
		l.s.First(&l.stdout)
	case "stderr":
		l.s.First(&l.stderr)
	case "type":
		l.s.First(&l.resultType)
	case "filePath":
		l.s.First(&l.path)
	default:
		return false
	}
	return true
}

// block has the values of one block of a message.
type block struct {
	typ, text, thinking, id, name, input, useID, content, isError scan.Value
}

// scan reads v, an object that was scanned before.
func (b *block) scan(s *scan.Scanner, v scan.Value) {
	*b = block{}
	s.Reset(v.Raw)
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "type":
			s.First(&b.typ)
		case "text":
			s.First(&b.text)
		case "thinking":
			s.First(&b.thinking)
		case "id":
			s.First(&b.id)
		case "name":
			s.First(&b.name)
		case "input":
			s.First(&b.input)
		case "tool_use_id":
			s.First(&b.useID)
		case "content":
			s.First(&b.content)
		case "is_error":
			s.First(&b.isError)
		default:
			s.Skip()
		}
	}
}

// reset clears the values and releases the line.
func (l *line) reset() {
	l.s.Reset(nil)
	l.fields = fields{}
}
