package claude

import (
	"strings"

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
	apiError, error, version, qwen      scan.Value

	// Of a result.
	result, errors, isError, cost, models, since, turns, stopReason, terminal, structured scan.Value
	usage                                                                                 wire.Counters

	// Of tool_use_result; resultType and path are for the run record only.
	stdout, stderr, resultType, path scan.Value

	sawMessage, sawUsage, sawToolResult bool

	// Of system lines about the session.
	original, fallback, scope, direction, title, state scan.Value
	request                                            scan.Value // of a control_request

	drift wire.Drift

	log   logFields // of a session log
	doing doingFields
}

// counters are the keys of a usage that are published.
var counters = []string{
	"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
}

// The known members that are not read, beside those of a line.
var (
	ignoredMessage = wire.FieldsOf("container", "context_management", "diagnostics", "id", "role",
		"stop_details", "stop_reason", "stop_sequence", "type", "usage")
	ignoredUsage = wire.FieldsOf("cache_creation", "duration_ms", "fallback_credit", "inference_geo", "iterations",
		"output_tokens_details", "server_tool_use", "service_tier", "speed", "tool_uses", "total_tokens")
	ignoredBlock = wire.FieldsOf("cache_control", "caller", "citations", "signature")
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
		case "num_turns":
			s.First(&l.turns)
		case "stop_reason":
			s.First(&l.stopReason)
		case "terminal_reason":
			s.First(&l.terminal)
		case "structured_output":
			s.First(&l.structured)
		case "original_model":
			s.First(&l.original)
		case "fallback_model":
			s.First(&l.fallback)
		case "scope":
			s.First(&l.scope)
		case "direction":
			s.First(&l.direction)
		case "title":
			s.First(&l.title)
		case "state":
			s.First(&l.state)
		case "request":
			s.First(&l.request)
		case "qwen_code_version":
			s.First(&l.qwen)
		case "claude_code_version":
			s.First(&l.version)
		case "modelUsage":
			s.First(&l.models)
		case "model_usage_since_last_result":
			s.First(&l.since)
		case "usage":
			wire.Members(s, &l.sawUsage, l.counter)
		case "tool_use_result":
			wire.Members(s, &l.sawToolResult, l.toolResult)
		default:
			if !l.logMember(s.Key()) && !l.doingMember(s.Key()) {
				l.drift.Field(ignored, "", s.Key())
				s.Skip()
			}
		}
	}
	return s.End()
}

func (l *line) message(key []byte) bool {
	if string(key) != "content" {
		if l.logMessage(key) {
			return true
		}
		l.drift.Field(ignoredMessage, "message.", key)
		return false
	}
	l.s.First(&l.content)
	return true
}

func (l *line) counter(key []byte) bool {
	if l.usage.Read(&l.s, key) {
		return true
	}
	l.drift.Field(ignoredUsage, "usage.", key)
	return false
}

func (l *line) toolResult(key []byte) bool {
	switch string(key) {
	case "stdout":
		l.s.First(&l.stdout)
	case "stderr":
		l.s.First(&l.stderr)
	case "type":
		l.s.First(&l.resultType)
	case "filePath", "notebook_path":
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

// scan reads v, an object that was scanned before. Drift may be nil.
func (b *block) scan(s *scan.Scanner, v scan.Value, drift *wire.Drift) {
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
			if drift != nil {
				drift.Field(ignoredBlock, "message.content.", s.Key())
			}
			s.Skip()
		}
	}
}

// failed reports whether the content of a result, an object, is an error.
func (b *block) failed(s *scan.Scanner) bool {
	typ, _ := wire.Pair(s, b.content.Raw, "type", "")
	return strings.HasSuffix(typ.View(), "_error")
}

// reset clears the values and releases the line.
func (l *line) reset() {
	l.s.Reset(nil)
	l.fields = fields{}
}
