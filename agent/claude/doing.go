package claude

import (
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// doingFields are the values of a line that say what the agent is doing.
type doingFields struct {
	model, status               scan.Value
	attempt, of, delay, refused scan.Value // of api_retry: refused is the HTTP status
	event, limit, tasks         scan.Value
}

// doingMember reads the value of a key that says what the agent is doing.
func (l *line) doingMember(key []byte) bool {
	s, f := &l.s, &l.doing
	switch string(key) {
	case "model":
		s.First(&f.model)
	case "status":
		s.First(&f.status)
	case "attempt", "retryAttempt":
		s.First(&f.attempt)
	case "max_retries", "maxRetries":
		s.First(&f.of)
	case "retry_delay_ms", "retryInMs":
		s.First(&f.delay)
	case "error_status":
		s.First(&f.refused)
	case "tasks":
		s.First(&f.tasks)
	case "event":
		s.First(&f.event)
	case "rate_limit_info":
		s.First(&f.limit)
	default:
		return false
	}
	return true
}

// tooMany is the HTTP status of a provider that refuses requests for now.
const tooMany = 429

// systemDoing sets what the agent is doing since a system line, by its subtype.
func (d *dialect) systemDoing(subtype string, out *normalizer.Out) {
	f := &d.line.doing
	doing := &out.Facts.Doing
	switch subtype {
	case "task_started": // a sub-agent, or a command in the background: it can go on after a result
		out.Facts.TasksBegun = 1
	case "task_notification":
		out.Facts.TasksBegun = -1
	case "background_tasks_changed":
		n := 0
		for list := wire.ElementsOf(f.tasks); ; n++ {
			if _, more := list.Next(&d.line.s); !more {
				break
			}
		}
		out.Facts.Tasks = &n
	case "init", "thinking_tokens":
		doing.Phase = runs.Thinking
	case "compact_boundary": // a compaction has ended; in a log, perhaps outside of a turn
		if out.Facts.Log {
			out.Facts.Untold = true // its requests are in no log
		} else {
			doing.Phase = runs.Thinking
		}
	case "status":
		switch {
		case f.status.Equal("requesting"), f.status.Kind == scan.Null: // null: a compaction has ended
			doing.Phase = runs.Thinking
		case f.status.Equal("compacting"):
			doing.Phase = runs.Compacting
		}
	case "api_retry", "api_error": // api_error in a session log
		if l := &d.line; f.refused.Kind == scan.Absent && l.error.Kind == scan.Object {
			f.refused, _ = wire.Pair(&l.s, l.error.Raw, "status", "")
		}
		*doing = runs.Doing{Phase: runs.Retrying, Attempt: count(f.attempt), Of: count(f.of)}
		out.Facts.NextIn = int64(count(f.delay))
		if count(f.refused) == tooMany {
			doing.Phase = runs.RateLimited
		}
	}
	if doing.Phase == runs.Thinking && d.line.nested() {
		doing.Phase = runs.AwaitingAgent
	}
}

// count returns the number in v without its fraction, 0 if it is none from 0 to a billion.
func count(v scan.Value) int {
	if v.Kind != scan.Number {
		return 0
	}
	amount, ok := wire.Cost(v)
	if !ok {
		return 0
	}
	return int(amount)
}

// part sets what the agent is doing since a part of a message.
func (d *dialect) part(out *normalizer.Out) {
	l := &d.line
	if l.doing.event.Kind != scan.Object {
		return
	}
	if l.nested() {
		out.Facts.Doing.Phase = runs.AwaitingAgent
		return
	}
	typ, block := wire.Pair(&l.s, l.doing.event.Raw, "type", "content_block")
	if !typ.Equal("content_block_start") || block.Kind != scan.Object {
		return
	}
	switch kind, _ := wire.Pair(&l.s, block.Raw, "type", ""); {
	case kind.Equal("text"):
		out.Facts.Doing.Phase = runs.Writing
	case kind.Equal("thinking"):
		out.Facts.Doing.Phase = runs.Thinking
	}
}

// limited sets what the agent is doing since a line about the limits of its user.
func (d *dialect) limited(out *normalizer.Out) {
	l := &d.line
	if l.doing.limit.Kind != scan.Object {
		return
	}
	status, resets := wire.Pair(&l.s, l.doing.limit.Raw, "status", "resetsAt")
	if !status.Equal("rejected") {
		return
	}
	out.Facts.Doing.Phase = runs.RateLimited
	if seconds, ok := resets.Int(); ok && 0 < seconds && seconds < 1<<40 {
		out.Facts.NextAt = seconds * 1000
	}
}

// during is what the agent is doing during the call of a tool, "" if it runs the tool.
func (l *line) during(tool string) runs.Phase {
	switch {
	case l.nested(), tool == "Task", tool == "Agent":
		return runs.AwaitingAgent
	case tool == "AskUserQuestion", tool == "ExitPlanMode":
		return runs.AwaitingInput
	}
	return ""
}

// named sets the title of a session that has a name. That of its user stays.
func (d *dialect) named(typ string, out *normalizer.Out) {
	f := &d.line.log
	switch title := f.customTitle.Text(); {
	case typ == "custom-title" && !wire.Blank(title):
		out.Facts.Title, out.Facts.Named, d.Named = title, true, true
	case typ == "ai-title" && !d.Named:
		out.Facts.Title, out.Facts.Named = f.aiTitle.Text(), true
	}
}
