package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	v36 "github.com/linesman/linesman/responder/v36"
)

// client is a client of a responder, as in package client.
type client interface {
	// Tools describes the tools of a set.
	Tools(ctx context.Context, set string) (api.Tools, error)
	// Tool calls a tool. It is sent again after its answer was lost only if repeat is set. Every error is an
	// [*api.Error] or that of ctx.
	Tool(ctx context.Context, q api.ToolRequest, repeat bool, progress func(api.ToolProgress)) (api.ToolAnswer, error)
}

// Remote returns the configuration of a server that offers a set of the tools of a responder: their
// descriptions are those of the responder, which may be of another version. dir returns the directory of a task
// that names none, "" for the worker's, and is called for each call. Without are tools that are not offered.
func Remote(ctx context.Context, c client, set string, dir func() (string, error), without ...string) (Config, error) {
	all, err := c.Tools(ctx, set)
	if err != nil {
		return Config{}, fmt.Errorf("tools: %w", err)
	}
	r := remote{client: c, dir: dir, tools: map[string]v36.Tool{}}
	out := Config{Tools: r, Schemas: v36.Schemas()}
	add := func(to *[]v36.Tool, some []api.Tool) {
		for _, t := range some {
			if !slices.Contains(without, t.Name) {
				*to = append(*to, v36.Tool(t))
			}
		}
	}
	add(&out.List, all.Tools)
	add(&out.Also, all.Also)
	for _, t := range slices.Concat(out.List, out.Also) {
		r.tools[t.Name] = t
	}
	return out, nil
}

// remote are tools of a responder.
type remote struct {
	client client
	dir    func() (string, error)
	tools  map[string]v36.Tool // by name
}

// Call calls a tool over the client. It answers itself if the responder does not.
func (r remote) Call(ctx context.Context, name string, args json.RawMessage, progress func(v36.Progress)) (v36.Answer,
	error) {
	tool, ok := r.tools[name]
	if !ok {
		return v36.Answer{}, v36.ErrUnknownTool
	}
	var known struct { // of the arguments, in both spellings; a responder refuses arguments that are wrong
		Format string
		Key    string `json:"idempotency_key"`
		Key2   string `json:"idempotencyKey"`
	}
	_ = json.Unmarshal(args, &known)
	refuse := func(err error) (v36.Answer, error) {
		if known.Format == "adcp" || known.Format == "" && adcp.NamesRelease(args) {
			return adcp.Unanswered(args, api.Known(err)), nil
		}
		return fail(tool, args, api.Known(err), known.Format != "" && known.Format != "markdown"), nil
	}
	dir, err := r.dir()
	if err != nil && !tool.ReadOnly {
		return refuse(api.Invalid(api.FieldDir, "the working directory of this client is gone"))
	}
	most, _ := responder.Patience(ctx)
	a, err := r.client.Tool(ctx, api.ToolRequest{
		Name: name, Arguments: args, Dir: dir, Traceparent: responder.TraceparentOf(ctx), Patience: int64(most.Seconds()),
	}, tool.ReadOnly || known.Key+known.Key2 != "", progress)
	var refused *api.Error
	switch {
	case err == nil && a.JSON:
		return v36.Answer{Envelope: a.Text, JSON: true, IsError: a.IsError}, nil
	case err == nil:
		return v36.Answer{Markdown: string(a.Text), IsError: a.IsError}, nil
	case errors.As(err, &refused):
		return refuse(err)
	}
	return refuse(&api.Error{Code: api.Unavailable, Message: "the call was cancelled", Retryable: true, Err: err})
}
