package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/linesman/linesman/responder/delegator"
)

// call answers tools/call for every tool that was announced.
func (s *server) call(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	tool, args := req.Params.Name, req.Params.Arguments
	select {
	case s.calls <- struct{}{}:
		defer func() { <-s.calls }()
	default:
		return result(s.internal(tool, fmt.Sprintf("too many calls at once: %d are in flight", cap(s.calls)))), nil
	}
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	var progress func(delegator.Progress)
	if token := req.Params.GetProgressToken(); token != nil {
		r := &reporter{token: token, last: -1}
		defer r.close()
		progress = func(p delegator.Progress) { r.report(ctx, req.Session, p) }
	}

	begun := time.Now()
	answer, err := s.tools.Call(ctx, tool, args, progress)
	switch {
	case errors.Is(err, delegator.ErrUnknownTool):
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", tool)}
	case err != nil: // against the contract, so its text is nobody's to read
		s.log.Error("tool gave no answer", zap.String("tool", tool), zap.String("type", fmt.Sprintf("%T", err)))
		return result(s.internal(tool, "the tool gave no answer")), nil
	}
	s.log.Debug("tool called", zap.String("tool", tool), zap.Bool("is_error", answer.IsError), zap.Duration("took", time.Since(begun)))
	return result(answer), nil
}

// guard turns a panic into an answer. The value of a panic can hold arguments,
// so the log gets its type and the place.
func (s *server) guard(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (res sdk.Result, err error) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			s.log.Error("panic", zap.String("method", method), zap.String("type", fmt.Sprintf("%T", p)), zap.ByteString("stack", debug.Stack()))
			if call, ok := req.(*sdk.CallToolRequest); ok {
				res, err = result(s.internal(call.Params.Name, "the tool broke off; the log of linesman says where")), nil
				return
			}
			res, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
		}()
		return next(ctx, method, req)
	}
}

// internal is the answer when there is none from the tool. Its text is the
// envelope, whatever format was asked for: the arguments may not have been
// read.
func (s *server) internal(tool, message string) delegator.Answer {
	category := s.categories[tool]
	envelope, err := json.Marshal(map[string]any{
		"version":       "3.6",
		"schema_id":     "codex/v3.6/" + category + "/v1",
		"tool":          tool,
		"tool_category": category,
		"request_id":    rand.Text(),
		"ts":            time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00"),
		"status":        "error",
		"meta":          struct{}{},
		"error":         map[string]any{"code": "INTERNAL", "message": message, "details": struct{}{}, "retryable": true},
	})
	if err != nil {
		panic(err) // strings and a bool
	}
	return delegator.Answer{Envelope: envelope, JSON: true, IsError: true}
}

func result(a delegator.Answer) *sdk.CallToolResult {
	r := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: a.Text()}}, IsError: a.IsError}
	if a.JSON {
		r.StructuredContent = json.RawMessage(a.Envelope)
	}
	return r
}

// reporter sends the progress of one call, under the caller's token.
type reporter struct {
	token any

	mu     sync.Mutex
	last   float64 // thousandths of a percent
	closed bool
}

// report sends one notification, and returns when it is written. The protocol
// wants each value above the one before, and clients take a report as a sign
// of life: a percentage that stood still is raised by a thousandth. One that
// cannot be sent is lost, and the call goes on.
func (r *reporter) report(ctx context.Context, to *sdk.ServerSession, p delegator.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	value := max(math.Round(p.Percent*1000), r.last+1)
	if r.closed || !(value <= 100_000) { // NaN is not
		return
	}
	r.last = value
	_ = to.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.token, Progress: value / 1000, Total: 100, Message: p.Message})
}

// close makes sure that no report follows the response.
func (r *reporter) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}
