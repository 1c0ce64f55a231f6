package codex

import (
	"strconv"

	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/runs"
)

// line is what is kept of one line: these fields, and nothing else. Where a
// key occurs twice the first one counts (web_search items carry two ids, and
// the first is the item's own). The values lie in the line itself.
type line struct {
	s scan.Scanner
	fields
}

// fields are those of the line. They are forgotten together.
type fields struct {
	typ            scan.Value
	threadID       scan.Value
	conversationID scan.Value
	turnID         scan.Value
	id             scan.Value
	message        scan.Value
	errorMessage   scan.Value
	usage          usage
	itemID         scan.Value // an older form: the item's fields stand at the top
	itemType       scan.Value
	item           item
	hasItem        bool // there is an item, in either form
	badItem        bool // what stands in its place is no object
	flat           bool // fields of an item were met at the top
}

// item is what is kept of an item.
type item struct {
	id           scan.Value
	typ          scan.Value
	status       scan.Value
	text         scan.Value
	message      scan.Value
	errorMessage scan.Value
	tool         scan.Value
	result       scan.Value
	results      scan.Value
	exitCode     scan.Value
	stdout       scan.Value
	stderr       scan.Value
	diff         scan.Value
	about        scan.Value // for the run record alone: the command, the changes or the to-dos
}

// scan reads raw, once. What it finds must be forgotten before the next line.
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
		case "turn_id":
			s.First(&l.turnID)
		case "id":
			s.First(&l.id)
		case "message":
			s.First(&l.message)
		case "usage":
			l.usage.scan(s)
		case "error":
			message(s, &l.errorMessage)
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
			if l.flat { // fields at the top, before it, are not the item's
				l.item = item{}
			}
			l.hasItem = true
			l.item.members(s, true)
		default:
			if l.hasItem || !l.item.member(s, false) {
				s.Skip()
				break
			}
			l.flat = true
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

// forget lets go of the line.
func (l *line) forget() {
	l.s.Reset(nil)
	l.fields = fields{}
}

// ownThread is the thread that the line itself names, or "".
func (l *line) ownThread() string {
	if id := name(l.threadID); id != "" {
		return id
	}
	return name(l.conversationID)
}

// members reads the members of the object that was entered: an item, where
// own is true, or what an older form wraps its content in.
func (it *item) members(s *scan.Scanner, own bool) {
	for s.Next() {
		if !it.member(s, own) {
			s.Skip()
		}
	}
}

// member reads the member that is next, if it is one that is kept.
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
	case "message":
		s.First(&it.message)
	case "error":
		if !own {
			return false
		}
		message(s, &it.errorMessage)
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
		s.First(&it.about)
	case "content", "delta":
		if s.Object() {
			it.members(s, false)
		} else if v := s.Value(); v.IsString() && it.text.Kind == scan.Absent {
			it.text = v
		}
	default:
		return false
	}
	return true
}

// message reads the member "message" of the object that is next.
func message(s *scan.Scanner, v *scan.Value) {
	if v.Kind != scan.Absent || !s.Object() {
		s.Skip()
		return
	}
	for s.Next() {
		if string(s.Key()) == "message" {
			s.First(v)
		} else {
			s.Skip()
		}
	}
}

// counters are the keys of a usage, in the order in which they are published.
var counters = [...]string{
	"input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens", "reasoning_output_tokens",
}

// usage is what is kept of a turn's usage: the total of the thread so far.
type usage struct {
	n     [len(counters)]int64
	read  [len(counters)]bool // the key was met
	given [len(counters)]bool // with an integer
	any   bool
	seen  bool
}

func (u *usage) scan(s *scan.Scanner) {
	if u.seen || !s.Object() {
		s.Skip()
		return
	}
	u.seen = true
	for s.Next() {
		i := counter(s.Key())
		if i < 0 || u.read[i] {
			s.Skip()
			continue
		}
		u.read[i] = true
		if n, ok := s.Value().Int(); ok {
			u.n[i], u.given[i], u.any = n, true, true
		}
	}
}

func counter(key []byte) int {
	for i, name := range counters {
		if string(key) == name {
			return i
		}
	}
	return -1
}

// data is the usage as an event shows it, nil where nothing was counted.
func (u *usage) data() []byte {
	if !u.any {
		return nil
	}
	b := append(make([]byte, 0, 256), `{"schema":"backend.codex.usage.v1","usage":{`...)
	comma := false
	for i, name := range counters {
		if !u.given[i] {
			continue
		}
		if comma {
			b = append(b, ',')
		}
		comma = true
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, `":`...)
		b = strconv.AppendInt(b, u.n[i], 10)
	}
	return append(b, "}}"...)
}

// totals is the usage as the run record keeps it.
func (u *usage) totals() *runs.Usage {
	if !u.any {
		return nil
	}
	return &runs.Usage{Input: u.n[0], CachedInput: u.n[1], CacheWriteInput: u.n[2], Output: u.n[3], ReasoningOutput: u.n[4]}
}
