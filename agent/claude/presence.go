package claude

import (
	"strconv"
	"strings"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// logName implements [agent.Sessions]: the second directory is that of the project, and a session
// can move to another one.
func logName(file string) string {
	parts := strings.SplitN(file, "/", 3)
	return parts[len(parts)-1]
}

// rests implements [agent.Sessions]. A turn ends with a message that calls no tool, or with an
// interruption, which the log has as a message of the user.
func rests(line []byte) (rests, known bool) {
	var typ, sub, message, content, stop scan.Value
	fields := map[string]*scan.Value{"type": &typ, "subtype": &sub, "message": &message}
	if scan.Fields(line, fields) != scan.OK {
		return false, false
	}
	if typ.Equal("system") {
		return true, sub.Equal("turn_duration")
	}
	if message.Kind != scan.Object || !typ.Equal("user") && !typ.Equal("assistant") {
		return false, false
	}
	_ = scan.Fields(message.Raw, map[string]*scan.Value{"content": &content, "stop_reason": &stop}) // was scanned before
	if typ.Equal("user") {
		const interruption = `"[Request interrupted by user`
		command := strings.HasPrefix(content.Text(), "<") // of the program's own
		return strings.Contains(string(content.Raw), interruption), !command
	}
	return stop.IsString() && !stop.Equal("tool_use") && !stop.Equal("pause_turn"), true
}

// status implements [agent.Sessions]. Each program that runs has a file with its process, its
// session, and what it does; older versions have none, or one that does not tell the latter.
// A program that was killed leaves its file.
func status(file []byte) (agent.Status, bool) {
	var pid, session, start, does, since, waits, domain scan.Value
	fault := scan.Fields(file, map[string]*scan.Value{
		"pid": &pid, "sessionId": &session, "procStart": &start, "status": &does, "statusUpdatedAt": &since,
		"waitingFor": &waits, "pidDomain": &domain,
	})
	process, whole := pid.Int()
	if fault != scan.OK || !whole || process <= 0 || wire.ID(session) == "" {
		return agent.Status{}, false
	}
	s := agent.Status{Session: strings.Clone(wire.ID(session)), PID: int(process)}
	s.Start, _ = strconv.ParseUint(start.Text(), 10, 64) // a date on some systems
	if at := strings.LastIndex(domain.Text(), "pid:["); at >= 0 {
		s.Namespace = domain.Text()[at:]
	}
	s.Since, _ = since.Int()
	switch {
	case does.Equal("idle"):
		s.Does = runs.Rests
	case does.Equal("busy"):
		s.Does = runs.Works
	case does.Equal("waiting") && !waits.Equal("dialog open"): // that one was opened by the person
		s.Does = runs.Waits
	}
	return s, true
}
