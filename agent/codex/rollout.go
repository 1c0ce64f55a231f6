package codex

import (
	"cmp"
	"slices"
	"strings"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// Codex keeps a log of each session, a "rollout". Its lines are
//
//	{"timestamp":…,"type":"response_item","payload":{"type":"message",…}}
//
// A response_item is what the model was told or answered, in all versions. An event_msg
// is what the user interface displays, so a log contains most facts twice. Texts and
// calls come from the response_items, and turns, token counts and the outcome of
// commands from the event_msgs.

// origin implements [agent.Sessions]. The first line says which program wrote it. A
// sub-agent has the session of its parent, where the version tells it.
func origin(line []byte) (o agent.Origin, known bool) {
	var typ, payload, originator, id, root, source scan.Value
	if scan.Fields(line, map[string]*scan.Value{"type": &typ, "payload": &payload}) != scan.OK ||
		!typ.Equal("session_meta") || payload.Kind != scan.Object {
		return o, false
	}
	fields := map[string]*scan.Value{"originator": &originator, "id": &id, "session_id": &root, "source": &source}
	_ = scan.Fields(payload.Raw, fields) // was scanned before
	return agent.Origin{
		Session:  strings.Clone(cmp.Or(wire.ID(root), spawner(source), wire.ID(id))),
		Headless: isOneOf(originator, []string{"codex_exec", "linesman"}), // the latter by its adapter for live runs
		Sub:      source.Kind == scan.Object,                              // {"subagent":…}
	}, true
}

// spawner returns the thread that has spawned a sub-agent, for versions that tell no session_id.
func spawner(source scan.Value) string {
	for _, key := range []string{"subagent", "thread_spawn", "parent_thread_id"} {
		if source.Kind != scan.Object {
			return ""
		}
		var s scan.Scanner
		source, _ = wire.Pair(&s, source.Raw, key, "")
	}
	return wire.ID(source)
}

// rests implements [agent.Sessions].
func rests(line []byte) (rests, known bool) {
	var typ, payload scan.Value
	if scan.Fields(line, map[string]*scan.Value{"type": &typ, "payload": &payload}) != scan.OK ||
		!typ.Equal("event_msg") || payload.Kind != scan.Object {
		return false, false
	}
	var s scan.Scanner
	switch kind, _ := wire.Pair(&s, payload.Raw, "type", ""); {
	case isOneOf(kind, []string{"task_complete", "turn_complete", "turn_aborted"}):
		return true, true
	case isOneOf(kind, []string{"task_started", "turn_started"}):
		return false, true
	}
	return false, false
}

// payload has the values of the payload of a line.
type payload struct {
	typ, id, role, content, summary, name, callID, output, status, version, threadID, turnID, cwd scan.Value
	message, error, item, success, changes, arguments, model, threadName, approval                scan.Value

	forkedFrom, historyStart, originator, source scan.Value

	usage, last wire.Counters // the total of the thread, and the part of the last answer
	sawInfo     bool
}

// scan reads v, an object that was scanned before.
func (p *payload) scan(s *scan.Scanner, v scan.Value) {
	s.Reset(v.Raw)
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "type":
			s.First(&p.typ)
		case "id":
			s.First(&p.id)
		case "role":
			s.First(&p.role)
		case "content":
			s.First(&p.content)
		case "summary":
			s.First(&p.summary)
		case "name":
			s.First(&p.name)
		case "call_id":
			s.First(&p.callID)
		case "arguments":
			s.First(&p.arguments)
		case "output":
			s.First(&p.output)
		case "status":
			s.First(&p.status)
		case "cli_version":
			s.First(&p.version)
		case "cwd":
			s.First(&p.cwd)
		case "thread_id":
			s.First(&p.threadID)
		case "turn_id":
			s.First(&p.turnID)
		case "message":
			s.First(&p.message)
		case "model":
			s.First(&p.model)
		case "approval_policy":
			s.First(&p.approval)
		case "thread_name":
			s.First(&p.threadName)
		case "error":
			s.First(&p.error)
		case "item":
			s.First(&p.item)
		case "success":
			s.First(&p.success)
		case "changes":
			s.First(&p.changes)
		case "forked_from_id":
			s.First(&p.forkedFrom)
		case "subagent_history_start_ordinal":
			s.First(&p.historyStart)
		case "originator":
			s.First(&p.originator)
		case "source":
			s.First(&p.source)
		case "info":
			wire.Members(s, &p.sawInfo, func(key []byte) bool {
				switch string(key) {
				case "total_token_usage":
					readUsage(s, &p.usage, new(wire.Drift))
				case "last_token_usage":
					readUsage(s, &p.last, new(wire.Drift))
				default:
					return false
				}
				return true
			})
		default:
			s.Skip()
		}
	}
}

// rollout maps a scanned line of a session log.
func (d *dialect) rollout(out *normalizer.Out) normalizer.Fault {
	l := &d.line
	l.drift = nil // the fields of a log are not compared
	out.Facts.Log, out.Facts.At = true, wire.Time(l.timestamp)
	if l.payload.Kind != scan.Object {
		l.drift.Unknown(l.typ, "", out)
		return normalizer.NoFault
	}
	var p payload
	p.scan(&l.s, l.payload)
	if d.copied(&p) {
		out.Facts.At = 0
		return normalizer.NoFault
	}
	l.turnID = p.turnID
	switch {
	case l.typ.Equal("session_meta"):
		out.Facts.Version, out.Facts.Dir = p.version.View(), p.cwd.View()
		// The title of a session in a terminal is asked in a thread without a log.
		out.Facts.Untold = p.originator.Equal("codex-tui") && p.source.Kind != scan.Object
		if d.logThread(p.id, out) { // else it is repeated
			out.Event(normalizer.StatusMessage("thread started", nil))
			if from := wire.ID(p.forkedFrom); agent.IsUUID(from) {
				out.Facts.ForkedFrom = from
			}
		}
	case l.typ.Equal("event_msg"):
		d.logThread(p.threadID, out)
		return d.eventMessage(&p, out)
	case l.typ.Equal("response_item"):
		return d.responseItem(&p, out)
	case l.typ.Equal("turn_context"):
		out.Facts.Model = p.model.View()
		if out.Facts.Asks = runs.AsksPerhaps; p.approval.Equal("never") {
			out.Facts.Asks = runs.AsksNever
		}
	case l.typ.Equal("token_usage_record"):
		d.Answered = true
	case l.typ.Equal("compacted"):
		out.Event(normalizer.StatusMessage("context compacted", nil))
	}
	return normalizer.NoFault
}

// logThread sets the thread to that of the line, if there is none yet.
func (d *dialect) logThread(v scan.Value, out *normalizer.Out) bool {
	id := wire.ID(v)
	if id == "" || d.Thread != "" {
		return false
	}
	d.setThread(id, out)
	return true
}

// Types of messages and items that say what another line says, or nothing about the
// agent's work.
var (
	answers        = []string{"agent_message", "agent_reasoning", "agent_reasoning_raw_content"}
	silentMessages = []string{
		"agent_reasoning_section_break", "thread_settings_applied", "context_compacted",
		"thread_rolled_back", "undo_completed", "entered_review_mode", "exited_review_mode",
		"exec_command_end", "mcp_tool_call_end", "web_search_end", "view_image_tool_call", "image_generation_end",
	}
	silentItems = []string{
		"AgentMessage", "Reasoning", "WebSearch", "HookPrompt", "Plan", "ImageView", "ContextCompaction",
		"SubAgentActivity", "EnteredReviewMode", "ExitedReviewMode",
	}
	silentResponses = []string{
		"additional_tools", "ghost_snapshot", "compaction", "context_compaction", "agent_message", // of another agent
	}
)

// isOneOf reports whether v is one of the texts.
func isOneOf(v scan.Value, texts []string) bool { return slices.ContainsFunc(texts, v.Equal) }

// eventMessage maps what interfaces show.
func (d *dialect) eventMessage(p *payload, out *normalizer.Out) normalizer.Fault {
	switch typ := p.typ; {
	case typ.Equal("task_started"), typ.Equal("turn_started"):
		d.startTurn()
		out.Facts.Turn, out.Facts.MustEnd = runs.TurnStarted, true
		out.Facts.Doing.Phase = runs.Thinking
		out.Event(normalizer.StatusMessage("turn started", nil))
	case typ.Equal("task_complete"), typ.Equal("turn_complete"):
		d.turnComplete(p, out)
	case typ.Equal("turn_aborted"):
		d.Answers = false
		out.Facts.Turn, out.Facts.Error, out.Facts.ErrorSource = runs.TurnFailed, "the turn was interrupted", runs.ErrorTurn
		out.Event(normalizer.StatusMessage("turn aborted", nil))
	case typ.Equal("token_count"):
		if p.usage.N == [len(p.usage.N)]int64{} { // as after a failure
			p.usage = wire.Counters{}
		}
		d.tokenCount(p, out)
		out.Event(normalizer.StatusMessage("token count", wire.Usage(kind, &p.usage, "", scan.Value{})))
	case typ.Equal("item_completed"):
		return d.itemCompleted(p, out)
	case typ.Equal("patch_apply_end"): // up to 0.140; the answer to the call is the event
		if wire.True(p.success) {
			d.logEdits(p.changes, out)
		}
	case typ.Equal("user_message"): // up to 0.140; later it is an item
		out.Facts.Title = string(wire.Head(nil, p.message, maxTitle))
		if d.Answers {
			d.Answers, out.Facts.Turn = false, runs.TurnCompleted
		}
	case typ.Equal("thread_name_updated"):
		out.Facts.Title, out.Facts.Named = string(wire.Head(nil, p.threadName, maxTitle)), true
	case typ.Equal("error"), typ.Equal("stream_error"):
		retry(p.message, out)
		return errorEvent(p.message, runs.ErrorTop, out)
	case isOneOf(typ, answers):
		d.Answered = true
	case !isOneOf(typ, silentMessages):
		d.line.drift.UnknownItem(typ, "event_msg/", out)
	}
	return normalizer.NoFault
}

func (d *dialect) turnComplete(p *payload, out *normalizer.Out) {
	if p.error.Kind != scan.Object {
		out.Facts.Turn = runs.TurnCompleted
		out.Event(normalizer.StatusMessage("turn completed", nil))
		return
	}
	out.Facts.Turn = runs.TurnFailed
	message, _ := wire.Pair(&d.line.s, p.error.Raw, "message", "")
	turnError(message, out)
	if message.IsString() {
		out.Event(normalizer.ErrorMessage(message.Text()))
	}
	out.Event(normalizer.StatusMessage("turn failed", nil))
}

// itemKinds are the kinds of the items that are the outcome of a call.
var itemKinds = map[string]string{
	"CommandExecution": "command_execution", "FileChange": "file_change", "McpToolCall": "mcp_tool_call",
	"CollabAgentToolCall": "collab_tool_call",
}

// itemCompleted maps what came of a call. Calls that a script of the model makes are in no
// response_item. A command that runs on after its call was answered ends here: that tells its outcome, but the call
// has ended before.
func (d *dialect) itemCompleted(p *payload, out *normalizer.Out) normalizer.Fault {
	l, v := &d.line, p.item
	if v.Kind != scan.Object {
		return normalizer.InvalidPayload
	}
	l.s.Reset(v.Raw)
	l.item = item{}
	if l.s.Object() {
		l.itemMembers()
		l.drift = nil
	}
	kind := itemKinds[l.item.typ.Text()]
	if l.item.typ.Equal("UserMessage") {
		out.Facts.Title = d.prompt(v)
		return normalizer.NoFault
	}
	if kind == "" {
		if !isOneOf(l.item.typ, silentItems) {
			l.drift.UnknownItem(l.item.typ, "item/", out)
		}
		return normalizer.NoFault
	}
	if thread := wire.ID(p.threadID); thread != "" && d.Thread != "" && d.another(thread) {
		return normalizer.NoFault // of a review, which has a log of its own
	}
	id := wire.ID(l.item.id)
	answered := slices.Contains(d.Done, id)
	if !answered {
		d.done(id)
	}
	d.tool(completed, kind, out)
	if l.drift = nil; answered {
		out.EndedBefore()
	}
	if kind == "file_change" && l.item.status.Equal("completed") {
		d.logEdits(l.item.details, out)
	}
	return normalizer.NoFault
}

// maxDone is the number of calls with a result that are remembered, and the maximum length of
// their ids in bytes of JSON.
const maxDone = 64

// done remembers that a call has its result. It returns the call, if its start is known.
func (d *dialect) done(id string) wire.Call {
	call := d.Calls.Take(id)
	if id == "" || bounds.StringSize(id) > maxDone {
		return call
	}
	if len(d.Done) == maxDone {
		d.Done = slices.Delete(d.Done, 0, 1)
	}
	d.Done = append(d.Done, strings.Clone(id))
	return call
}

// tokenCount sets the facts of the total of the thread. Codex also repeats the old total before the
// first answer of a turn: then none of it was used in this part of the log.
func (d *dialect) tokenCount(p *payload, out *normalizer.Out) {
	out.Facts.Used = account(&p.usage)
	if out.Facts.Used == nil || d.Counted {
		return
	}
	d.Counted = true
	before := out.Facts.Used.Usage
	if last := account(&p.last); d.Answered && last != nil {
		before = before.Minus(last.Usage)
	}
	if before != (runs.Usage{}) {
		out.Facts.Before = &runs.Account{Usage: before}
	}
}

// responseItem maps what the model was told or answered.
func (d *dialect) responseItem(p *payload, out *normalizer.Out) normalizer.Fault {
	d.Answered = d.Answered || !p.role.IsString() || p.role.Equal("assistant")
	switch typ := p.typ; {
	case typ.Equal("message") && p.role.Equal("assistant"):
		text, ok := d.texts(p.content, "output_text", "")
		if !ok {
			return normalizer.InvalidPayload
		}
		out.Facts.Step = true
		if d.unknownBlocks(p.content, out) && text == "" {
			break
		}
		if d.Turn == "" { // no line has begun a turn
			d.Answers, out.Facts.Answered = true, true
		}
		out.Final(text)
		out.Event(normalizer.AssistantText(text))
	case typ.Equal("message") && isOneOf(p.role, []string{"user", "developer", "system"}):
	case typ.Equal("reasoning"):
		if text, _ := d.texts(p.summary, "summary_text", "\n"); text != "" {
			out.Facts.Step = true
			out.Event(normalizer.ReasoningText(text))
		}
	case typ.Equal("function_call"), typ.Equal("custom_tool_call"), typ.Equal("local_shell_call"),
		typ.Equal("tool_search_call"):
		d.logCall(p, out)
	case typ.Equal("function_call_output"), typ.Equal("custom_tool_call_output"), typ.Equal("tool_search_output"):
		d.logOutput(p, out)
	case typ.Equal("web_search_call"), typ.Equal("image_generation_call"): // the provider carries them out
		f := d.logFacet(wire.ID(p.id), strings.TrimSuffix(typ.Text(), "_call"))
		f.Phase, f.Status = phase(completed, statusWord(&p.status))
		out.Facts.Closed = f.ItemID
		out.Tool(normalizer.ToolResult, &f)
	case !isOneOf(typ, silentResponses):
		d.line.drift.UnknownItem(typ, "response_item/", out)
	}
	return normalizer.NoFault
}

// texts returns the texts of the elements of a type, joined, and whether there is a list.
func (d *dialect) texts(list scan.Value, typ, separator string) (string, bool) {
	var all []string
	for elements := wire.ElementsOf(list); ; {
		raw, more := elements.NextObject(&d.line.s)
		if !more {
			return strings.Join(all, separator), list.Kind == scan.Array
		}
		kind, text := wire.Pair(&d.line.s, raw, "type", "text")
		if kind.Equal(typ) && text.Len > 0 {
			all = append(all, text.Text())
		}
	}
}

// maxUnknown is how many unknown blocks of a message have an event. A message has a few.
const maxUnknown = 4096

// unknownBlocks reports the blocks of a message of the agent that are not known, and whether
// there are any.
func (d *dialect) unknownBlocks(list scan.Value, out *normalizer.Out) bool {
	n := 0
	for blocks := wire.ElementsOf(list); ; {
		raw, more := blocks.NextObject(&d.line.s)
		if !more || n == maxUnknown {
			return n > 0
		}
		if kind, _ := wire.Pair(&d.line.s, raw, "type", ""); !kind.Equal("output_text") {
			n++
			d.line.drift.UnknownItem(kind, "response_item/message/", out)
		}
	}
}

func (d *dialect) logFacet(id, kind string) normalizer.Facet {
	return normalizer.Facet{ItemID: id, ThreadID: string(d.Thread), TurnID: string(d.Turn),
		Kind: kind}
}

// logCall maps a call of the model.
func (d *dialect) logCall(p *payload, out *normalizer.Out) {
	f := d.logFacet(cmp.Or(wire.ID(p.callID), wire.ID(p.id)), p.typ.Text())
	f.ToolName = cmp.Or(wire.ID(p.name), strings.TrimSuffix(f.Kind, "_call"))
	f.Phase, f.Status = "start", "running"
	d.Answers = false
	d.Calls.Add(wire.Call{ID: f.ItemID, Name: f.ToolName, Path: f.Kind})
	out.Facts.Opened = runs.Call{ID: f.ItemID, Kind: f.Kind, Name: f.ToolName}
	show(&out.Facts.Opened, f.ToolName)
	d.logCalls(f.ToolName, p.arguments, out)
	out.Tool(normalizer.ToolCall, &f)
}

// logOutput maps the answer to a call, unless the call has its result.
func (d *dialect) logOutput(p *payload, out *normalizer.Out) {
	id := wire.ID(p.callID)
	if slices.Contains(d.Done, id) {
		return
	}
	call := d.done(id)
	f := d.logFacet(id, cmp.Or(call.Path, "function_call")) // its call may be in an earlier run
	f.ToolName, f.Phase, f.Status = call.Name, "complete", "completed"
	f.Bytes.Result = p.output.Len
	if !p.output.IsString() {
		f.Bytes.Result = size(p.output)
	}
	out.Facts.Closed = id
	out.Tool(normalizer.ToolResult, &f)
}
