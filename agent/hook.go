package agent

import (
	"encoding/json"
	"strings"

	"github.com/linesman/linesman/runs"
)

// Hooks says in which file an agent reads which programs to start at which events.
type Hooks struct {
	// File is the settings file, in the directory of the agent. It has an object "hooks" with a
	// list for each event.
	File string
	// Events are the events that say what a session does.
	Events []string
	// After is what the user has to do after the file was written, "" if nothing.
	After string
}

// The events of hooks, under the names that the agents use.
const (
	HookStart      = "SessionStart"
	HookPermission = "PermissionRequest"
	HookNotice     = "Notification"
)

// HookInput returns what the input of a hook says about a session. It is false if that is nothing.
// at is the time, in Unix milliseconds.
func HookInput(input []byte, at int64) (s Status, ok bool) {
	var in struct {
		Session string `json:"session_id"`
		Event   string `json:"hook_event_name"`
		Type    string `json:"notification_type"`
		Message string `json:"message"`
	}
	if json.Unmarshal(input, &in) != nil || !IsUUID(in.Session) {
		return s, false
	}
	s.Session, s.Since = in.Session, at
	switch in.Event {
	case HookStart:
		s.Does = runs.Works
	case HookPermission:
		s.Does = runs.Waits
	case HookNotice:
		s.Does = notices[in.Type]
		switch { // old versions have no type
		case in.Type != "":
		case strings.Contains(in.Message, "permission"):
			s.Does = runs.Waits
		case strings.Contains(in.Message, "waiting for your input"):
			s.Does = runs.Rests
		}
	}
	return s, s.Does != ""
}

// notices are the types of notifications that say what a session does.
var notices = map[string]runs.Does{
	"permission_prompt": runs.Waits, "elicitation_dialog": runs.Waits, "elicitation_url_dialog": runs.Waits,
	"idle_prompt": runs.Rests,
}

// hookStatus is the content of the file that a hook leaves.
type hookStatus struct {
	Session string `json:"session"`
	runs.Presence
}

// HookFile returns the content of the file that a hook leaves about a session, and HookStatus
// reads it.
func HookFile(s Status) ([]byte, error) { return json.Marshal(hookStatus{s.Session, s.Presence}) }

// HookStatus reads the file that a hook has left.
func HookStatus(file []byte) (Status, bool) {
	var s hookStatus
	err := json.Unmarshal(file, &s)
	return Status{Session: s.Session, Presence: s.Presence}, err == nil && IsUUID(s.Session) && s.Does != ""
}
