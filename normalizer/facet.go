package normalizer

import (
	"strconv"
	"strings"

	"github.com/linesman/linesman/bounds"
)

// Facet is the tools facet (agent_api.tools.structured.v1): what is known of
// a tool call without showing what went into it or came out. An empty string
// is null, but for Kind, Phase and Status, which are always given.
type Facet struct {
	ItemID   string // the agent's id for the item
	ThreadID string
	TurnID   string
	Kind     string // the item's type
	Phase    string // start, delta, complete or fail
	Status   string // pending, running, completed, failed or unknown
	ExitCode *int32
	Bytes    Bytes
	ToolName string
	UseID    string
}

// Bytes counts decoded bytes of what a tool call took or gave.
type Bytes struct {
	Stdout, Stderr, Diff, Result int
}

func (f *Facet) append(dst []byte) []byte {
	dst = append(dst, `{"schema":"agent_api.tools.structured.v1","tool":{"backend_item_id":`...)
	dst = appendNullable(dst, f.ItemID)
	dst = append(dst, `,"thread_id":`...)
	dst = appendNullable(dst, f.ThreadID)
	dst = append(dst, `,"turn_id":`...)
	dst = appendNullable(dst, f.TurnID)
	dst = append(dst, `,"kind":`...)
	dst = bounds.AppendString(dst, f.Kind)
	dst = append(dst, `,"phase":`...)
	dst = bounds.AppendString(dst, f.Phase)
	dst = append(dst, `,"status":`...)
	dst = bounds.AppendString(dst, f.Status)
	dst = append(dst, `,"exit_code":`...)
	if f.ExitCode == nil {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendInt(dst, int64(*f.ExitCode), 10)
	}
	dst = append(dst, `,"bytes":{"stdout":`...)
	dst = strconv.AppendInt(dst, int64(f.Bytes.Stdout), 10)
	dst = append(dst, `,"stderr":`...)
	dst = strconv.AppendInt(dst, int64(f.Bytes.Stderr), 10)
	dst = append(dst, `,"diff":`...)
	dst = strconv.AppendInt(dst, int64(f.Bytes.Diff), 10)
	dst = append(dst, `,"result":`...)
	dst = strconv.AppendInt(dst, int64(f.Bytes.Result), 10)
	dst = append(dst, `},"tool_name":`...)
	dst = appendNullable(dst, f.ToolName)
	dst = append(dst, `,"tool_use_id":`...)
	dst = appendNullable(dst, f.UseID)
	return append(dst, "}}"...)
}

// The longest ids, in bytes of JSON, that a backend may keep from one line to
// the next. A longer thread id would leave no room for a facet around it; a
// turn id is never near its limit. [TooLong] stands for what is longer.
const (
	MaxThread = bounds.MaxData - 256
	MaxTurn   = 8 << 10
)

// TooLong is an id that makes every facet around it too large, so that the
// dropped marker takes its place.
var TooLong = strings.Repeat("x", bounds.MaxData)

func appendNullable(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return bounds.AppendString(dst, s)
}

// MaxSession is the longest id, in bytes, that is published as a session handle.
const MaxSession = 1024

// sessionHandle is the session handle facet (agent_api.session.handle.v1).
func sessionHandle(id string) []byte {
	dst := append(make([]byte, 0, 80+len(id)), `{"schema":"agent_api.session.handle.v1","session":{"id":`...)
	dst = bounds.AppendString(dst, id)
	return append(dst, "}}"...)
}
