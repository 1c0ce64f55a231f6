package natsapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/responder"
	v36 "github.com/linesman/linesman/responder/v36"
)

// maxPatience is the longest time that a caller of a tool waits, in seconds.
const maxPatience = 3600

// toolSets are the tools for clients of MCP.
type toolSets interface {
	tools
	// Named describes the tools of a set; nil: there is no such set.
	Named(set string) []v36.Tool
	// Also describes the tools that a client of a set may call, too.
	Also(set string) []v36.Tool
}

// CallEndpoints are the endpoints for programs that offer the tools to clients of their own, as `linesman mcp`
// does: "tools" describes the tools of a set, and "tool" carries out a call, with its progress. The answer of a
// call is what the client reads, with the Content-Type text/markdown or, for an envelope, application/json; without
// that header it is an [api.Error]: no tool has answered.
//
// Messages with the header Linesman-Part precede the answer: "progress" is an [api.ToolProgress], if the request asks
// for it; "body" is the next part of an answer that is larger than a message, with its rest in the last one; "held"
// answers a renewal. All responders hear PREFIX.api.stop, whose body is the reply subject of a call that is to end, and
// PREFIX.api.renew, whose own reply subject is that of a call. A call that was not renewed for [Config.Lease] ends. If
// a renewal is not answered, the responder of the call is gone.
func CallEndpoints(sets toolSets) []Endpoint {
	reads := map[string]bool{}
	for _, set := range []string{"all", "agents", "live"} {
		for _, t := range slices.Concat(sets.Named(set), sets.Also(set)) {
			reads[t.Name] = t.ReadOnly
		}
	}
	return []Endpoint{
		{
			Name: api.OpTools.Name, Metadata: map[string]string{"description": api.OpTools.About}, Refuse: refusal,
			Do: func(_ context.Context, body []byte) Answer {
				q, err := read[api.ToolsRequest](body)
				if err != nil {
					return answerOf(nil, err)
				}
				list := sets.Named(cmp.Or(q.Set, "all"))
				if list == nil {
					return answerOf(nil, api.Invalid("set", "must be agents, live, local, adcp or all"))
				}
				var all api.Tools
				for _, t := range list {
					all.Tools = append(all.Tools, api.Tool(t))
				}
				for _, t := range sets.Also(cmp.Or(q.Set, "all")) {
					all.Also = append(all.Also, api.Tool(t))
				}
				return answerOf(all, nil)
			},
		},
		{
			Name: "tool", Metadata: map[string]string{"description": "Call a tool, with progress"}, Refuse: refusal,
			Hold: func(ctx context.Context, body []byte, progress func([]byte)) Answer {
				var q api.ToolRequest
				if len(body) > maxSubmission || json.Unmarshal(body, &q) != nil { // of the arguments each byte is kept
					return answerOf(nil, api.Invalid("request", "must be a JSON object with the fields of this request"))
				}
				a := call(ctx, sets, q, progress)
				if ctx.Err() != nil && reads[q.Name] { // it reports the end of the wait, but this responder has ended it
					return ends
				}
				return a
			},
		},
	}
}

// ends is the answer of a responder that ends to a request that it has not carried out.
var ends = Answer{Code: http.StatusServiceUnavailable, Text: "this responder ends: ask again"}

// call calls a tool.
func call(ctx context.Context, tools tools, q api.ToolRequest, progress func([]byte)) Answer {
	ctx = responder.WithTraceparent(responder.WithDir(ctx, q.Dir), q.Traceparent)
	ctx = responder.WithSurface(ctx, responder.OverStdio)
	if q.Patience > 0 {
		ctx = responder.WithPatience(ctx, time.Duration(min(q.Patience, maxPatience))*time.Second)
	}
	var report func(v36.Progress)
	if q.Progress {
		report = func(p v36.Progress) {
			if body, err := bounds.Encode(p); err == nil { // NaN is no JSON
				progress(body)
			}
		}
	}
	if len(q.Arguments) == 0 {
		q.Arguments = json.RawMessage("{}")
	}
	a, err := tools.Call(ctx, q.Name, q.Arguments, report)
	switch {
	case errors.Is(err, v36.ErrUnknownTool):
		return answerOf(nil, api.Invalid("name", "there is no such tool"))
	case err != nil: // breaks the contract
		return answerOf(nil, err)
	}
	out := Answer{Body: []byte(a.Text()), Type: api.TypeMarkdown}
	if a.JSON {
		out.Type = api.TypeJSON
	}
	if a.IsError {
		out.Code, out.Text = problem(a)
	}
	return out
}

// held is a request that is carried out, until it is answered, stopped or not renewed for [Config.Lease].
type held struct {
	end   context.CancelFunc
	lease *time.Timer
}

// hold carries out a request. The largest part of its answer is returned, to be sent last.
func (s *service) hold(ctx context.Context, j job) Answer {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lease := time.AfterFunc(s.Lease, cancel)
	defer lease.Stop()
	reply := j.request.Reply
	s.held.Store(reply, held{cancel, lease})
	defer s.held.Delete(reply)
	a := j.to.Hold(ctx, j.request.Data, func(body []byte) { s.part(reply, bus.ProgressPart, body) })
	if len(a.Body) > bus.MaxAnswer {
		a = answerOf(nil, &api.Error{Code: api.Internal, Message: "the answer is larger than a client can get: ask for less"})
	}
	for most := s.most(); len(a.Body) > most; a.Body = a.Body[most:] {
		s.part(reply, bus.BodyPart, a.Body[:most])
	}
	return a
}

// part sends a part of an answer.
func (s *service) part(reply, kind string, body []byte) {
	if reply == "" {
		return
	}
	m := &nats.Msg{Subject: reply, Data: body, Header: nats.Header{bus.PartHeader: {kind}}}
	if err := s.Conn.PublishMsg(m); err != nil {
		s.Log.Debug("part of an answer", zap.Error(err))
	}
}

// hearCallers subscribes to what callers tell all responders about requests that one of them holds.
func (s *service) hearCallers(r *registration) error {
	for verb, do := range map[string]func(m *nats.Msg){
		bus.StopVerb: func(m *nats.Msg) {
			if h, ok := s.held.Load(string(m.Data)); ok {
				h.(held).end()
			}
		},
		bus.RenewVerb: func(m *nats.Msg) {
			if h, ok := s.held.Load(m.Reply); ok && h.(held).lease.Reset(s.Lease) {
				s.part(m.Reply, bus.HeldPart, nil)
			}
		},
	} {
		sub, err := s.Conn.Subscribe(s.Root+"."+verb, do)
		if err != nil {
			return err
		}
		r.subs = append(r.subs, sub)
	}
	return nil
}
