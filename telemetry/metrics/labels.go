package metrics

import (
	"slices"
	"strings"

	"github.com/linesman/linesman/runs"
)

// other is the value of a label in place of one that is not known, or beyond the limit.
const other = "other"

// unknown is the value of the label version while an agent has not told its version.
const unknown = "unknown"

// MaxVersions is the number of versions of an agent that have a label of their own, in one
// process. Further ones are counted as "other".
const MaxVersions = 16

// MaxSeries is the maximum number of series of a process with all roles, without those of the Go
// runtime. Few processes come near it: it has all kinds of tool calls of all agents.
const MaxSeries = 10_000

// versions are the versions of an agent that have labels.
type versions []string

// label returns the value of the label version.
func (v *versions) label(version string) string {
	switch {
	case version == "" || runs.CheckVersion(version) != nil:
		return unknown
	case slices.Contains(*v, version):
		return version
	case len(*v) < MaxVersions:
		*v = append(*v, version)
		return version
	}
	return other
}

// The kinds of tool calls.
const (
	command = iota
	fileChange
	read
	web
	mcp
	subagent
	plan
	otherKind
)

// callKinds are the values of the label kind.
var callKinds = [...]string{
	command: "command", fileChange: "file_change", read: "read", web: "web", mcp: "mcp", subagent: "agent",
	plan: "plan", otherKind: other,
}

// callKindOf has the kinds of the tools that agents come with: of the items of Codex, and of
// the names of tools.
var callKindOf = map[string]uint8{
	// Codex: items, and calls in session logs.
	"command_execution": command, "local_shell_call": command, "shell": command, "exec_command": command,
	"write_stdin": command, "shell_command": command,
	"file_change": fileChange, "apply_patch": fileChange, "view_image": read, "mcp_tool_call": mcp, "web_search": web,
	"collab_tool_call": subagent, "spawn_agent": subagent, "wait_agent": subagent, "update_plan": plan,
	// Claude Code.
	"Bash": command, "BashOutput": command, "KillShell": command, "Edit": fileChange, "MultiEdit": fileChange,
	"Write": fileChange, "NotebookEdit": fileChange, "Read": read, "Glob": read, "Grep": read, "LS": read,
	"WebFetch": web, "WebSearch": web, "Task": subagent, "Agent": subagent, "TaskOutput": subagent,
	"TodoWrite": plan, "TaskCreate": plan, "TaskUpdate": plan, "ExitPlanMode": plan,
	// Gemini CLI.
	"run_shell_command": command, "write_file": fileChange, "replace": fileChange, "read_file": read,
	"read_many_files": read, "list_directory": read, "glob": read, "grep_search": read, "search_file_content": read,
	"google_web_search": web, "web_fetch": web, "write_todos": plan, "invoke_agent": subagent,
	// OpenCode.
	"bash": command, "edit": fileChange, "write": fileChange, "patch": fileChange, "multiedit": fileChange,
	"read": read, "grep": read, "list": read, "webfetch": web, "websearch": web, "task": subagent,
	"todowrite": plan, "todoread": plan,
}

// callKind returns the index of a kind in callKinds. A name of a tool tells more than the kind of
// an item.
func callKind(kind, name string) uint8 {
	if k, ok := callKindOf[name]; ok {
		return k
	}
	if k, ok := callKindOf[kind]; ok {
		return k
	}
	if strings.HasPrefix(name, "mcp_") {
		return mcp
	}
	return otherKind
}

// callStatuses are the values of the label status of tool calls. The last one is for all others.
var callStatuses = [...]string{"completed", "failed", "unfinished", unknown}

func callStatus(status string) int {
	if i := slices.Index(callStatuses[:], status); i >= 0 {
		return i
	}
	return len(callStatuses) - 1
}

// turnStatuses are the values of the label status of turns, by [runs.Turn].
var turnStatuses = [...]string{
	runs.TurnStarted: "unfinished", runs.TurnCompleted: "completed", runs.TurnFailed: "failed",
}

// tokenTypes are the values of the label type of tokens, which do not overlap.
var tokenTypes = [...]string{"input", "cache_read", "cache_write", "output"}

// tokens returns the numbers of tokens by their types.
func tokens(u *runs.Usage) (n [len(tokenTypes)]int64) {
	if u == nil {
		return n
	}
	return [...]int64{max(u.Input-u.CachedInput-u.CacheWriteInput, 0), u.CachedInput, u.CacheWriteInput, u.Output}
}

// sources are the values of the label source.
var sources = []string{"run", "tail", "session", "pipe", "queue", "cloud", "external"}

// reasons are the reasons of [runs.Record.End], which become values of the label reason.
var reasons = []string{
	"spawn", "lost", "spool", "signal", "exit status", "turn failed", "silent", "no terminal event", "needs agent",
	"idle", "hard",
}

func reason(text string) string {
	switch {
	case text == "":
		return "none"
	case slices.Contains(reasons, text):
		return strings.ReplaceAll(text, " ", "_")
	}
	return other
}

// oneOf returns value if it is one of the known ones.
func oneOf(value string, known []string) string {
	if slices.Contains(known, value) {
		return value
	}
	return other
}
