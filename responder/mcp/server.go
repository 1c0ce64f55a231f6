// Package mcp lets MCP clients call the tools: over stdio and over streamable
// HTTP, in the revisions 2025-11-25 (a session, opened by a handshake) and
// 2026-07-28 (no session, every request is self-contained). It owns the
// protocol and nothing else: the effects of tools, the meaning of their
// arguments and the form of answers come from [toolSet].
//
//	stdin ──▶ ServeStdio ─┐
//	                      ├─▶ SDK server ──▶ Tools.Call ──▶ Answer ──▶ text, structuredContent
//	POST ───▶ Handler ────┘
//
// The one rule: a client gets a protocol error only for a violation of the
// protocol (an unknown tool, invalid JSON-RPC). Every outcome of a tool, bad
// arguments and panics included, is a result that contains an envelope.
package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	v36 "github.com/linesman/linesman/responder/v36"
)

const (
	// maxMessage bounds a message from a client, in bytes: the body of a POST,
	// or a line on stdin. Longer ones are refused unread.
	maxMessage = 1 << 20

	// MaxCalls bounds the concurrent tool calls of all clients; one caller has at most three quarters of them.
	// Further ones are answered at once with an INTERNAL error.
	MaxCalls = 1024

	// patience is how long a call is answered at the latest, if the client asked for no reports
	// of its progress: clients give up when they have heard nothing for 60 s.
	patience = 50 * time.Second

	// fresh is how long a client of 2026-07-28 may cache a list or a schema.
	// They are constant while the program runs.
	fresh = 5 * time.Minute
)

// toolSet is a set of tools.
type toolSet interface {
	// Call runs one tool. The only error is [v36.ErrUnknownTool]; every other
	// outcome, bad arguments included, is an answer. Progress may be reported
	// from any goroutine, and is dropped once Call has returned. Call returns
	// soon after ctx ends: its answer is then not needed.
	Call(ctx context.Context, tool string, args json.RawMessage, progress func(v36.Progress)) (v36.Answer, error)
}

// Config describes what a server offers.
type Config struct {
	Tools   toolSet
	List    []v36.Tool   // announced; each InputSchema must be an object schema
	Also    []v36.Tool   // not announced, but may be called
	Schemas []v36.Schema // served as resources
	Version string       // of linesman
	Log     *zap.Logger  // nil: no log

	Calls *responder.Slots // of the calls in flight, also those of other servers; nil: MaxCalls of its own
}

// NewServer returns a server that offers the tools and schemas. It serves any
// number of clients over [ServeStdio] and [Handler]. It panics if a tool has no
// input schema or a schema has no URI: the lists are part of the program.
func NewServer(c Config) *sdk.Server { return newServer(c, MaxCalls) }

func newServer(c Config, most int) *sdk.Server {
	s := &server{
		tools: c.Tools,
		known: make(map[string]v36.Tool, len(c.List)),
		calls: cmp.Or(c.Calls, responder.NewSlots(most)),
		log:   cmp.Or(c.Log, zap.NewNop()).Named("mcp"),
	}
	// The SDK's own log is left off: its errors can quote what a client sent.
	out := sdk.NewServer(&sdk.Implementation{Name: "linesman", Title: "linesman", Version: c.Version}, &sdk.ServerOptions{
		// No list changes while the program runs, and no log messages are sent
		// to clients, so neither is announced. Prompts are: there are none, but
		// clients request them in any case, and 2026-07-28 requires a server
		// that answers to announce them.
		Capabilities: &sdk.ServerCapabilities{
			Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{}, Prompts: &sdk.PromptCapabilities{},
		},
		SetCacheable: func(_ context.Context, req sdk.Request, c *sdk.Cacheable) {
			c.TTLMs, c.CacheScope = int(fresh.Milliseconds()), "public"
			if _, list := req.(*sdk.ListToolsRequest); list && s.known[api.ToolAgentAnswer].Name != "" {
				c.CacheScope = "private" // not every caller is offered that
			}
		},
	})
	for _, t := range c.List {
		s.known[t.Name] = t
		out.AddTool(describe(t), s.call)
	}
	also := map[string]bool{}
	for _, t := range c.Also {
		s.known[t.Name], also[t.Name] = t, true
	}
	for _, schema := range c.Schemas {
		out.AddResource(&sdk.Resource{
			URI: schema.URI, Name: schema.Name, Description: schema.Description,
			MIMEType: schemaType, Size: int64(len(schema.Body)),
		}, serveSchema(schema))
	}
	out.AddReceivingMiddleware(s.guard, missingResource, func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if q, is := req.(*sdk.CallToolRequest); is && also[q.Params.Name] {
				return s.call(ctx, q)
			}
			return next(ctx, method, req)
		}
	})
	return out
}

const schemaType = "application/schema+json"

// server is what the handlers of one SDK server share.
type server struct {
	tools toolSet
	known map[string]v36.Tool // by name
	calls *responder.Slots
	log   *zap.Logger
}

// describe returns a tool as it is announced. There is no output schema: it would
// force structured content on callers that ask for markdown.
func describe(t v36.Tool) *sdk.Tool {
	return &sdk.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.InputSchema,
		Annotations: &sdk.ToolAnnotations{
			Title: t.Title, ReadOnlyHint: t.ReadOnly, DestructiveHint: &t.Destructive, IdempotentHint: t.Idempotent,
			OpenWorldHint: &t.OpenWorld,
		},
	}
}

func serveSchema(s v36.Schema) sdk.ResourceHandler {
	return func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{
			{URI: s.URI, MIMEType: schemaType, Text: string(s.Body)},
		}}, nil
	}
}

// stateless is the revision without sessions. Revisions are dates, and compare
// as strings.
const stateless = "2026-07-28"

// codeNoResource is what a missing resource is before [stateless]; from then
// on it is "invalid params".
const codeNoResource = -32002

// missingResource answers requests for unknown resources with the error code of
// the request's revision. The SDK uses the code of the newest revision, and
// inserts the URI into the answer in a way that is not always valid JSON.
func missingResource(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		res, err := next(ctx, method, req)
		read, ok := req.(*sdk.ReadResourceRequest)
		var wire *jsonrpc.Error
		if !ok || !errors.As(err, &wire) || wire.Code != jsonrpc.CodeInvalidParams {
			return res, err
		}
		data, err := json.Marshal(map[string]string{"uri": read.Params.URI})
		if err != nil {
			panic(err) // a string always encodes
		}
		code := int64(jsonrpc.CodeInvalidParams)
		if read.ProtocolVersion() < stateless {
			code = codeNoResource
		}
		return nil, &jsonrpc.Error{Code: code, Message: "resource not found", Data: data}
	}
}
