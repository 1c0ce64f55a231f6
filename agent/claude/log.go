package claude

import (
	"cmp"
	"path"
	"strings"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// Claude Code keeps a log of each session. Lines of the types that it also prints have a
// sessionId and a parentUuid there. There are many more types: what is sent to the model is
// in the log, too. A sub-agent has a log of its own, whose lines have an agentId.

// origin implements [agent.Sessions]. The lines of messages say how the program was
// started; those of old versions do not. A sub-agent has the session of its parent.
func origin(line []byte) (o agent.Origin, known bool) {
	var typ, entry, id, sub scan.Value
	fields := map[string]*scan.Value{"type": &typ, "entrypoint": &entry, "sessionId": &id, "agentId": &sub}
	if scan.Fields(line, fields) != scan.OK || !typ.Equal("user") && !typ.Equal("assistant") {
		return o, false
	}
	return agent.Origin{
		Session:  strings.Clone(wire.ID(id)),
		Headless: entry.Equal("sdk-cli") || entry.Equal("sdk-ts"), // the latter by its adapter for live runs
		Sub:      wire.ID(sub) != "",
	}, true
}

// message implements [agent.Sessions]. A forked session begins with a copy of the log of the other
// one, under its own id; the answers in it were requested in the other session.
func message(line []byte) (id string, copied bool) {
	var typ, session, requested, body scan.Value
	fields := map[string]*scan.Value{
		"type": &typ, "sessionId": &session, "requestSessionId": &requested, "message": &body,
	}
	if scan.Fields(line, fields) != scan.OK || !typ.Equal("assistant") || body.Kind != scan.Object {
		return "", false
	}
	var s scan.Scanner
	v, _ := wire.Pair(&s, body.Raw, "id", "")
	return strings.Clone(wire.ID(v)), copiedFrom(requested, session)
}

// copiedFrom reports whether an answer that was requested in a session is a copy in that of a line.
func copiedFrom(requested, session scan.Value) bool {
	return wire.ID(requested) != "" && wire.ID(requested) != wire.ID(session)
}

// copied reports whether a line, written at a time, is a copy in the log of a fork. An answer says it;
// what the agent was told, if the log has an older line before the first answer of its own.
func (d *dialect) copied(typ string, at int64) bool {
	const late = 1000 // lines that are this late are not copied
	switch f := &d.line.log; {
	case typ == "assistant" && copiedFrom(f.requested, f.session):
		return true
	case typ == "user" && !d.Answered && 0 < at && at < d.Newest-late:
		return true
	case typ == "assistant":
		d.Answered = true
	}
	d.Newest = max(d.Newest, at)
	return false
}

// parentLog implements [agent.Sessions].
func parentLog(file string) string {
	dir, name := path.Split(path.Clean(file))
	if session, sub := strings.CutSuffix(dir, "/subagents/"); sub && name != "" {
		return session + ".jsonl"
	}
	return ""
}

// logFields are the values of a line of a session log.
type logFields struct {
	session, requested, previous, agentID, sidechain, meta, prompt, version, cwd scan.Value
	timestamp, compacted, customTitle, aiTitle, permission                       scan.Value
	id, stop                                                                     scan.Value // of the message
	cost                                                                         scan.Value // of cost-state

	usage    wire.Counters // of the message
	sawUsage bool
}

// logMember reads the value of a key that only session logs have.
func (l *line) logMember(key []byte) bool {
	s, f := &l.s, &l.log
	switch string(key) {
	case "sessionId":
		s.First(&f.session)
	case "requestSessionId":
		s.First(&f.requested)
	case "parentUuid":
		s.First(&f.previous)
	case "agentId":
		s.First(&f.agentID)
	case "isSidechain":
		s.First(&f.sidechain)
	case "isMeta":
		s.First(&f.meta)
	case "promptSource":
		s.First(&f.prompt)
	case "version":
		s.First(&f.version)
	case "cwd":
		s.First(&f.cwd)
	case "timestamp":
		s.First(&f.timestamp)
	case "permissionMode":
		s.First(&f.permission)
	case "isCompactSummary":
		s.First(&f.compacted)
	case "customTitle":
		s.First(&f.customTitle)
	case "aiTitle":
		s.First(&f.aiTitle)
	case "isApiErrorMessage":
		s.First(&l.apiError)
	case "totalCostUSD":
		s.First(&f.cost)
	case "toolUseResult":
		wire.Members(s, &l.sawToolResult, l.toolResult)
	default:
		return false
	}
	return true
}

func (l *line) logMessage(key []byte) bool {
	s, f := &l.s, &l.log
	switch string(key) {
	case "id":
		s.First(&f.id)
	case "stop_reason":
		s.First(&f.stop)
	case "model":
		s.First(&l.doing.model)
	case "usage":
		f.usage.Names = counters
		wire.Members(s, &f.sawUsage, func(key []byte) bool { return f.usage.Read(s, key) })
	default:
		return false
	}
	return true
}

// logged reports whether a line is of a session log.
func (l *line) logged(typ string) bool {
	return l.log.session.IsString() && l.log.previous.Kind != scan.Absent ||
		l.session.Kind == scan.Absent && (silent[typ] || typ == costState)
}

// costState is the type of lines with what a session has cost.
const costState = "cost-state"

// silent are the types of lines that produce no event: lines with words of the user, files,
// or requests to the model, and lines without facts about the agent's work. They are those of
// the program of 2.1.330.
var silent = map[string]bool{
	"summary": true, "file-history-snapshot": true, "file-history-delta": true, "queue-operation": true,
	"attachment": true, "last-prompt": true, "mode": true, "permission-mode": true, "atis-latch": true,
	"api-request": true, "api-request-resumed": true, "api-request-shape": true, "api-request-blob": true,
	"tools-used": true, "custom-title": true, "ai-title": true, "agent-name": true, "agent-color": true,
	"agent-setting": true, "tag": true, "pr-link": true, "worktree-state": true, "relocated": true,
	"content-replacement": true, "attribution-snapshot": true, "artifact-comment-monitor": true,
	"artifact-autoreact-ledger": true, "bridge-session": true, "continued-in": true, "data-flow-incomplete": true,
	"data-flow-records": true, "derived-from": true, "dev-mods": true, "ended-by-model": true,
	"fork-context-ref": true, "frame-link": true, "history-suppression": true, "host-row": true,
	"hybrid-organization": true, "isolation-latch": true, "memory-mode": true, "observer-ref": true,
	"repl-mode": true, "resume-head-vouch": true, "session-owner": true,
}

// logSystem are subtypes of system lines, and whether they become events; the others in subtypes do
// not.
var logSystem = map[string]bool{
	"api_error": true, "compact_boundary": true,
	"turn_duration": false, "local_command": false, "stop_hook_summary": false, "informational": false,
}

// logLine maps a scanned line of a session log.
func (d *dialect) logLine(typ string, out *normalizer.Out) normalizer.Fault {
	l := &d.line
	if typ == "assistant" && !d.readable(typ) {
		return normalizer.InvalidPayload
	}
	l.drift = nil // the fields of a log are not compared
	at := wire.Time(l.log.timestamp)
	if out.Facts.Log = true; d.copied(typ, at) {
		return normalizer.NoFault // it is in the other log
	}
	out.Facts.Dir, out.Facts.At = l.log.cwd.View(), at
	d.logSession(out)
	d.named(typ, out)
	out.Facts.Version = l.log.version.View()
	switch mode := l.log.permission; {
	case mode.Equal("bypassPermissions"), mode.Equal("dontAsk"):
		out.Facts.Asks = runs.AsksNever
	case mode.IsString():
		out.Facts.Asks = runs.AsksPerhaps
	}
	switch typ {
	case "assistant":
		if model := l.doing.model; !model.Equal("<synthetic>") && !l.nested() {
			out.Facts.Model = model.View()
		}
		d.message(typ, out)
		d.replied(out)
	case "user":
		d.told(out)
	case "system":
		d.session(l.subtype.View(), out)
		if shown, known := logSystem[l.subtype.View()]; !known && !subtypes[l.subtype.View()] {
			l.drift.Unknown(l.subtype, "system/", out)
		} else if shown {
			d.systemDoing(l.subtype.View(), out)
			out.Event(normalizer.StatusMessage("system "+l.subtype.View(), nil))
		}
	case costState:
		d.account(l.log.cost, out)
		out.Event(normalizer.StatusMessage("cost", wire.Usage(kind, &l.usage, "total_cost_usd", l.log.cost)))
	default:
		if !silent[typ] {
			l.drift.Unknown(l.typ, "", out)
		}
	}
	out.Facts.Drift = l.drift
	return normalizer.NoFault
}

// logSession sets the session of a line, which is that of the sub-agent in a log of its own.
func (d *dialect) logSession(out *normalizer.Out) {
	l := &d.line
	l.session = l.log.session
	if wire.True(l.log.sidechain) {
		l.parent = l.uuid // that of older versions is in the log of its parent
	}
	if filled(l.log.agentID) {
		l.session, l.parent = l.log.agentID, l.log.agentID
	}
	d.Session.Told(l.session, out)
}

// nested reports whether a line is of a sub-agent, in the log of its parent.
func (l *line) nested() bool { return filled(l.parent) && !filled(l.log.agentID) }

// filled reports whether v is a text that is not blank, as one of more than maxBlank bytes is taken to be: it is asked
// for each block of a line.
func filled(v scan.Value) bool { return v.Len > maxBlank || wire.ID(v) != "" }

const maxBlank = 1 << 10

// replied maps the end of a message. Each of its blocks has a line, and each line has the
// usage of the message, which is complete where there is a reason to stop. The line of a
// block of thinking is not the last one. Some versions, such as 2.1.20, log no
// reason: then a text ends the turn unless a call follows, and the usage is that of the message's start.
func (d *dialect) replied(out *normalizer.Out) {
	l := &d.line
	switch {
	case l.nested():
		out.Facts.Untold = l.log.usage.Any() // the run counts none of it
		return
	case wire.True(l.apiError):
		d.leave(out)
		out.NoFinal()
		out.Facts.Turn = runs.TurnFailed
		out.Event(normalizer.StatusMessage("turn failed", nil))
		return
	}
	said, text := d.said()
	if l.log.stop.Kind == scan.Null && l.log.id.IsString() {
		d.open(said, text, out)
		return
	}
	d.Answers, d.Reasons = false, d.Reasons || l.log.stop.IsString()
	ends := !l.log.stop.Equal("tool_use") && !l.log.stop.Equal("pause_turn")
	if !l.log.stop.IsString() || !said {
		return
	}
	m := d.counted(out)
	if m.Ended {
		if ends && !wire.Blank(text) { // another block of the message
			out.Final(text)
		}
		return
	}
	m.Ended = true
	message := "message completed"
	if ends {
		message, out.Facts.Turn = "turn completed", runs.TurnCompleted
		out.Final(text)
	}
	out.Event(normalizer.StatusMessage(message, wire.Usage(kind, &l.log.usage, "", scan.Value{})))
}

// said reports whether a message has a block other than thinking, and returns its text.
func (d *dialect) said() (said bool, text string) {
	var texts []string
	for blocks := wire.ElementsOf(d.line.content); ; {
		v, more := blocks.Next(&d.line.s)
		if !more {
			return said, strings.Join(texts, "\n")
		}
		if v.Kind != scan.Object {
			continue
		}
		d.block.scan(&d.line.s, v, nil)
		said = said || !d.block.typ.Equal("thinking")
		if d.block.typ.Equal("text") {
			texts = append(texts, d.block.text.Text())
		}
	}
}

// told maps what the agent was told: results of tools, a prompt, which begins a turn, or an
// interruption. No text of it leaves the line.
func (d *dialect) told(out *normalizer.Out) {
	l := &d.line
	results := d.results()
	if results > 0 {
		n := 0
		for blocks := wire.ElementsOf(l.content); n < maxBlocks && !out.Full(); n++ {
			v, more := blocks.Next(&l.s)
			if !more {
				break
			}
			if v.Kind != scan.Object {
				continue
			}
			if d.block.scan(&l.s, v, nil); d.block.typ.Equal("tool_result") {
				d.toolResult("tool_result", results == 1, out)
			}
		}
		return
	}
	const interruption = "[Request interrupted by user"
	_, text := d.said()
	title := cmp.Or(text, l.content.Text())
	switch {
	case l.nested(), wire.True(l.log.meta), wire.True(l.log.compacted):
		return
	case d.Answers && !strings.HasPrefix(text, interruption) && !l.log.prompt.IsString():
		out.Facts.Turn = runs.TurnCompleted
	}
	d.leave(out)
	d.Answers = false
	switch {
	case strings.HasPrefix(text, interruption):
		out.Facts.Turn, out.Facts.Error, out.Facts.ErrorSource = runs.TurnFailed, "the turn was interrupted", runs.ErrorTurn
		out.Event(normalizer.StatusMessage("turn aborted", nil))
	case l.log.prompt.IsString():
		d.Turns++
		d.Reasons = true
		out.Facts.Turn, out.Facts.MustEnd = runs.TurnStarted, true
		out.Facts.Doing.Phase = runs.Thinking
		if !l.log.prompt.Equal("system") {
			out.Facts.Title = title
		}
		out.Event(normalizer.StatusMessage("turn started", nil))
	case !strings.HasPrefix(title, "<") && !strings.HasPrefix(title, interruption):
		// A prompt of a sub-agent, or of an old version; not <bash-input> or <command-name>.
		out.Facts.Title = title
	}
}
