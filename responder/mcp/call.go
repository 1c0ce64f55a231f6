package mcp

import (
	"context"
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

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	v36 "github.com/linesman/linesman/responder/v36"
)

// call handles tools/call for every announced tool.
func (s *server) call(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	tool, args := req.Params.Name, req.Params.Arguments
	free, ok := s.calls.Take(responder.Caller(ctx))
	if !ok {
		return result(s.internal(tool, args, "too many calls at once, of all callers or of this one")), nil
	}
	defer free()
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	var progress func(v36.Progress)
	if token := req.Params.GetProgressToken(); token != nil {
		r := &reporter{token: token, last: -1}
		defer r.close()
		progress = func(p v36.Progress) { r.report(ctx, req.Session, p) }
	} else {
		ctx = responder.WithPatience(ctx, patience)
	}

	if trace, ok := req.Params.Meta[responder.Traceparent].(string); ok {
		ctx = responder.WithTraceparent(ctx, trace)
	}
	begun := time.Now()
	wait := s.waiter(ctx, req, progress)
	if wait != nil && req.Params.RequestState != "" && req.ProtocolVersion() >= stateless {
		asked, err := readState(req.Params.RequestState)
		if err != nil {
			return nil, err
		}
		return wait.result(ctx, wait.again(ctx, asked)), nil
	}
	answer, err := s.tools.Call(ctx, tool, args, progress)
	switch {
	case errors.Is(err, v36.ErrUnknownTool):
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", tool)}
	case err != nil: // violates the interface, so its text is not shown
		s.log.Error("tool gave no answer", zap.String("tool", tool), zap.String("type", fmt.Sprintf("%T", err)))
		return result(s.internal(tool, args, "the tool gave no answer")), nil
	}
	s.log.Debug("tool called", zap.String("tool", tool), zap.Bool("is_error", answer.IsError),
		zap.Duration("took", time.Since(begun)))
	if wait != nil {
		return wait.result(ctx, answer), nil
	}
	return result(answer), nil
}

// guard converts a panic into an answer. The value of a panic may contain
// arguments, so the log gets its type and the stack.
func (s *server) guard(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (res sdk.Result, err error) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			s.log.Error("panic", zap.String("method", method), zap.String("type", fmt.Sprintf("%T", p)),
				zap.ByteString("stack", debug.Stack()))
			if call, ok := req.(*sdk.CallToolRequest); ok {
				res, err = result(s.internal(call.Params.Name, nil, "internal error; see linesman's log")), nil
				return
			}
			res, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
		}()
		return next(ctx, method, req)
	}
}

// internal is the answer if the tool returned none. Its text is the envelope,
// whatever format was requested: the arguments may not have been read. Nil are those that may be the cause.
func (s *server) internal(tool string, args json.RawMessage, message string) v36.Answer {
	t := s.known[tool]
	t.Name = tool
	return fail(t, args, &api.Error{Code: api.Internal, Message: message}, true)
}

// fail is the answer of a tool that could not be called.
func fail(t v36.Tool, args json.RawMessage, e *api.Error, asJSON bool) v36.Answer {
	if t.Category == adcp.Category {
		return adcp.Unanswered(args, e)
	}
	return t.Fail(e, asJSON)
}

func result(a v36.Answer) *sdk.CallToolResult {
	r := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: a.Text()}}, IsError: a.IsError}
	if a.JSON {
		r.StructuredContent = json.RawMessage(a.Envelope)
	}
	return r
}

// reporter sends the progress of one call, with the caller's token.
type reporter struct {
	token any

	mu     sync.Mutex
	last   float64 // thousandths of a percent
	closed bool
}

// report sends one notification, and returns when it is written. The protocol
// requires increasing values, and clients treat a report as a heartbeat: an
// unchanged percentage is raised by a thousandth. A report that cannot be sent
// is dropped, and the call continues.
func (r *reporter) report(ctx context.Context, to *sdk.ServerSession, p v36.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	value := max(math.Round(p.Percent*1000), r.last+1)
	if r.closed || !(value <= 100_000) { // also false for NaN
		return
	}
	r.last = value
	_ = to.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.token, Progress: value / 1000, Total: 100,
		Message: p.Message})
}

// close makes sure that no report follows the response.
func (r *reporter) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
}
