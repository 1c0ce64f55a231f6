package codex

import (
	"cmp"

	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// line has the values of one line. The first of duplicate keys counts: web_search
// items have two ids, and the first one is the id of the item. The values share
// the memory of the line.
type line struct {
	s scan.Scanner
	fields
}

// fields are the values of a line; reset clears all of them.
type fields struct {
	typ, threadID, conversationID, turnID, id, message, errorMessage scan.Value
	sessionID                                                        scan.Value // of session.created, in Codex 0.42
	msg, approval                                                    scan.Value // of the protocol before 0.44
	payload, timestamp, ordinal                                      scan.Value // of a session log, see rollout.go

	usage            wire.Counters
	itemID, itemType scan.Value // legacy format: the item's fields are at the top level
	item             item
	hasItem          bool // the line has an item, in either format
	badItem          bool // "item" is not an object
	topLevel         bool // the line has item fields at the top level
	drift            wire.Drift
}

// item has the values of an item.
type item struct {
	id, typ, status, text, message, errorMessage, tool, result, results, exitCode, stdout, stderr, diff scan.Value

	exit    int32      // the value of exitCode
	legacy  bool       // typ is an item_type
	details scan.Value // only for the run record: the command, the changes or the to-do items
}

// The known members that are not read.
var (
	ignoredItem = wire.FieldsOf("action", "agents_states", "arguments", "changes", "command", "items", "prompt", "query",
		"receiver_thread_ids", "sender_thread_id", "server")
)

// scan reads raw. Call reset before the next line.
func (l *line) scan(raw []byte) scan.Fault {
	s := &l.s
	s.Reset(raw)
	ok := s.Object()
	if !ok {
		s.Skip()
	}
	for ok && s.Next() {
		switch string(s.Key()) {
		case "type":
			s.First(&l.typ)
		case "thread_id":
			s.First(&l.threadID)
		case "conversation_id":
			s.First(&l.conversationID)
		case "session_id":
			s.First(&l.sessionID)
		case "msg":
			s.First(&l.msg)
		case "approval":
			s.First(&l.approval)
		case "payload":
			s.First(&l.payload)
		case "turn_id":
			s.First(&l.turnID)
		case "id":
			s.First(&l.id)
		case "message":
			s.First(&l.message)
		case "usage":
			readUsage(s, &l.usage, &l.drift)
		case "error":
			readMessage(s, &l.errorMessage)
		case "item_id":
			s.First(&l.itemID)
		case "item_type":
			s.First(&l.itemType)
		case "item":
			if l.hasItem || l.badItem || !s.Object() {
				l.badItem = !l.hasItem
				s.Skip()
				break
			}
			if l.topLevel { // earlier top-level fields do not belong to this item
				l.item = item{}
			}
			l.hasItem = true
			l.itemMembers()
		default:
			if !l.hasItem && l.item.member(s, false) {
				l.topLevel = true
				break
			}
			switch string(s.Key()) { // only in session logs
			case "timestamp":
				s.First(&l.timestamp)
				continue
			case "ordinal":
				s.First(&l.ordinal)
				continue
			}
			l.drift.Field(nil, "", s.Key())
			s.Skip()
		}
	}
	if !l.hasItem && !l.badItem && (l.itemID.Kind|l.itemType.Kind) != scan.Absent {
		l.hasItem = true
		if l.message.Kind != scan.Absent {
			l.item.message = l.message
		}
	}
	if l.item.id.Kind == scan.Absent {
		l.item.id = l.itemID
	}
	if l.item.typ.Kind == scan.Absent {
		l.item.typ = l.itemType
	}
	return s.End()
}

// reset clears the values and releases the line.
func (l *line) reset() {
	l.s.Reset(nil)
	l.fields = fields{}
}

// foreign reports whether the line is of the protocol before Codex 0.44: a message, or the
// settings, which come first.
func (l *line) foreign() bool { return l.msg.Kind == scan.Object || l.approval.IsString() }

// lineThread returns the thread id in the line, or "".
func (l *line) lineThread() string {
	return cmp.Or(wire.ID(l.threadID), wire.ID(l.conversationID))
}

// itemMembers reads the members of the current object, an item.
func (l *line) itemMembers() {
	for l.s.Next() {
		if !l.item.member(&l.s, true) {
			l.drift.Field(ignoredItem, "item.", l.s.Key())
			l.s.Skip()
		}
	}
}

// member reads the next member. It returns false, and reads nothing, if the member
// is not needed.
func (it *item) member(s *scan.Scanner, own bool) bool {
	switch string(s.Key()) {
	case "id":
		if !own {
			return false
		}
		s.First(&it.id)
	case "type":
		if !own {
			return false
		}
		s.First(&it.typ)
	case "item_type": // in Codex 0.42: it goes before type
		if !own {
			return false
		}
		if v := s.Value(); v.IsString() && !it.legacy {
			it.typ, it.legacy = v, true
		}
	case "message":
		s.First(&it.message)
	case "error":
		if !own {
			return false
		}
		readMessage(s, &it.errorMessage)
	case "status":
		s.First(&it.status)
	case "text", "text_delta":
		s.First(&it.text)
	case "tool":
		s.First(&it.tool)
	case "result":
		s.First(&it.result)
	case "results":
		s.First(&it.results)
	case "exit_code":
		s.First(&it.exitCode)
	case "aggregated_output", "output", "stdout":
		s.First(&it.stdout)
	case "stderr", "err", "error_output":
		s.First(&it.stderr)
	case "diff", "patch":
		s.First(&it.diff)
	case "command", "changes", "items":
		s.First(&it.details)
	case "content", "delta":
		if s.Object() { // the content of an item, in a legacy format
			for s.Next() {
				if !it.member(s, false) {
					s.Skip()
				}
			}
		} else if v := s.Value(); v.IsString() && it.text.Kind == scan.Absent {
			it.text = v
		}
	default:
		return false
	}
	return true
}

// readMessage reads the member "message" of the next value, if it is an object.
func readMessage(s *scan.Scanner, v *scan.Value) {
	seen := v.Kind != scan.Absent
	wire.Members(s, &seen, func(key []byte) bool {
		if string(key) != "message" {
			return false
		}
		s.First(v)
		return true
	})
}

// counters are the keys of a usage, in the order of publication.
var counters = []string{
	"input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens", "reasoning_output_tokens",
}

// readUsage reads the first usage of a line: the totals of the thread so far.
func readUsage(s *scan.Scanner, u *wire.Counters, drift *wire.Drift) {
	if u.Names != nil || !s.Object() {
		s.Skip()
		return
	}
	for u.Names = counters; s.Next(); {
		if !u.Read(s, s.Key()) {
			drift.Field(nil, "usage.", s.Key())
			s.Skip()
		}
	}
}

// account returns a usage for the run record, or nil if there are no counts.
func account(u *wire.Counters) *runs.Account {
	if !u.Any() {
		return nil
	}
	return &runs.Account{Usage: runs.Usage{
		Input: u.N[0], CachedInput: u.N[1], CacheWriteInput: u.N[2], Output: u.N[3], ReasoningOutput: u.N[4],
	}}
}
