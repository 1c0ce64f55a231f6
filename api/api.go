// Package api has the types that programs and linesman exchange: requests,
// outcomes and errors. It owns their names, shapes, units and limits. It does
// not validate or carry out a request: package responder does.
//
//	request ──▶ responder.Service ──▶ outcome, or *Error
//	              ▲
//	  REST, A2A, MCP tools, NATS, command line
//
// Every type marshals to JSON and back without loss. Times are UTC with
// milliseconds.
package api

import (
	"time"

	"github.com/linesman/linesman/runs"
)

// TimeOf returns t as a [runs.Time].
func TimeOf(t time.Time) runs.Time { return runs.Time(t.UnixMilli()) }

// Basis is the state that an answer is based on.
type Basis struct {
	Seq uint64    `json:"seq"` // newest sequence of RAW that was read
	At  runs.Time `json:"ts"`  // when it was read
}
