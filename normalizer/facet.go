package normalizer

import (
	"strconv"
	"strings"

	"github.com/linesman/linesman/bounds"
)

// Facet is the tools facet (agent_api.tools.structured.v1): metadata of a tool
// call without its input and output. An empty string becomes null, except for
// Kind, Phase and Status, which are always set.
type Facet struct {
	ItemID   string // id of the item, from the agent
	ThreadID string
	TurnID   string
	Kind     string // type of the item
	Phase    string // start, delta, complete or fail
	Status   string // pending, running, completed, failed or unknown
	ExitCode *int32
	Bytes    Bytes
	ToolName string
	UseID    string
}

// Bytes has the lengths of the input and output of a tool call, in decoded bytes.
type Bytes struct {
	Stdout, Stderr, Diff, Result int
}

func (f *Facet) appendJSON(dst []byte) []byte {
	dst = append(dst, `{"schema":"agent_api.tools.structured.v1","tool":`...)
	dst = appendNullable(append(dst, `{"backend_item_id":`...), f.ItemID)
	dst = appendNullable(append(dst, `,"thread_id":`...), f.ThreadID)
	dst = appendNullable(append(dst, `,"turn_id":`...), f.TurnID)
	dst = bounds.AppendString(append(dst, `,"kind":`...), f.Kind)
	dst = bounds.AppendString(append(dst, `,"phase":`...), f.Phase)
	dst = bounds.AppendString(append(dst, `,"status":`...), f.Status)
	if f.ExitCode == nil {
		dst = append(dst, `,"exit_code":null`...)
	} else {
		dst = strconv.AppendInt(append(dst, `,"exit_code":`...), int64(*f.ExitCode), 10)
	}
	dst = strconv.AppendInt(append(dst, `,"bytes":{"stdout":`...), int64(f.Bytes.Stdout), 10)
	dst = strconv.AppendInt(append(dst, `,"stderr":`...), int64(f.Bytes.Stderr), 10)
	dst = strconv.AppendInt(append(dst, `,"diff":`...), int64(f.Bytes.Diff), 10)
	dst = strconv.AppendInt(append(dst, `,"result":`...), int64(f.Bytes.Result), 10)
	dst = appendNullable(append(dst, `},"tool_name":`...), f.ToolName)
	dst = appendNullable(append(dst, `,"tool_use_id":`...), f.UseID)
	return append(dst, "}}"...)
}

// The maximum lengths of ids that a backend may keep between lines, in bytes of
// JSON. A facet with a longer thread id would exceed its limit; turn ids are much
// shorter than their limit. [TooLong] replaces a longer id.
const (
	MaxThread = bounds.MaxData - 256
	MaxTurn   = 8 << 10
)

// TooLong is an id that exceeds the limit of every facet that contains it, so
// that the facet is dropped.
var TooLong = strings.Repeat("x", bounds.MaxData)

func appendNullable(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return bounds.AppendString(dst, s)
}

// maxSession is the maximum length of the id in a session handle, in bytes.
const maxSession = 1024

// sessionHandle returns the session handle facet (agent_api.session.handle.v1).
func sessionHandle(id string) []byte {
	dst := append(make([]byte, 0, 80+len(id)), `{"schema":"agent_api.session.handle.v1","session":{"id":`...)
	dst = bounds.AppendString(dst, id)
	return append(dst, "}}"...)
}
