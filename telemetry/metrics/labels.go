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

// maxVersions is the number of versions of an agent that have a label of their own, in one
// process. Further ones are counted as "other".
const maxVersions = 16

// maxSeries is the maximum number of series of a process with all roles, without those of the Go
// runtime. Few processes come near it: it has all kinds of tool calls of all agents.
const maxSeries = 12_000

// versions are the versions of an agent that have labels.
type versions []string

// label returns the value of the label version.
func (v *versions) label(version string) string {
	switch {
	case version == "" || runs.CheckVersion(version) != nil:
		return unknown
	case slices.Contains(*v, version):
		return version
	case len(*v) < maxVersions:
		*v = append(*v, version)
		return version
	}
	return other
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

// The values of the labels kind, outcome and decider of questions, and of the label status of messages.
var (
	questionKinds   = []string{"permission", "form"}
	outcomes        = []string{"allow", "deny", "submitted", "declined", "cancelled"}
	deciders        = []string{"person", "policy", "timeout", "cancel", "agent"}
	messageStatuses = []string{"queued", "sent", "removed"}
)

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
	"option refused", "session", "idle", "hard",
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
