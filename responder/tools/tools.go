// Package tools has the fifteen tools of the v3.6 delegator, linesman's own, seven for agents of every kind and five
// for live runs of them, and those for clients of AdCP, which are also the skills of A2A: their names, texts,
// parameters and actions. The meaning of requests and the form of answers belong to other packages.
//
//	tool, arguments ──▶ request.Args ──▶ responder.Service ──▶ v36 or adcp
//	      Call            api types      outcome or error      answer
//
// The one rule: every call of a known tool is answered in the requested format,
// with an envelope that fits its schema. Those of linesman's own answer with the
// types of package api.
package tools

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/request"
	v36 "github.com/linesman/linesman/responder/v36"
)

// Set is the tools of a service. Its methods may be called from several
// goroutines.
type Set struct {
	service *responder.Service
	list    []*tool // of the v3.6 contract
	agents  []*tool // linesman's own
	live    []*tool // for live runs
	adcp    []*tool // for clients of AdCP
	also    []*tool // further names of these
	byName  map[string]*tool
}

// New returns the tools of a service. A tool can be called once the service is
// running.
func New(s *responder.Service) *Set {
	words := limits(s.Limits())
	t := described(words)
	t.service, t.byName = s, map[string]*tool{}
	t.adcp, t.also = adcpTools(words, agentsOf(s))
	for _, one := range slices.Concat(t.list, t.agents, t.live, t.adcp, t.also) {
		t.byName[one.Name] = one
	}
	return t
}

// described has the tools without a service, for tasks of some limits, in words.
func described(limits string) *Set {
	t := &Set{list: table(limits), agents: agentTools(limits)}
	t.live = liveTools(limits, t.agents)
	return t
}

// Names of sets of tools.
const (
	AllTools  = "all"  // of a client that names none
	ADCPTools = "adcp" // for clients of AdCP: every answer is its envelope
)

// Named describes the tools of a set, or returns nil if there is no such set. A client has one of them, because
// it gives all of its list to a model. But for those of [AllTools] and [ADCPTools] their schemas are brief, see
// [request.Brief]: calls accept more.
func (t *Set) Named(set string) []v36.Tool {
	switch set {
	case AllTools:
		return t.List()
	case "local":
		return brief(slices.DeleteFunc(slices.Clone(t.list), func(one *tool) bool {
			return !strings.HasPrefix(one.Name, "_codex_local_")
		}))
	case "agents":
		return brief(t.agents)
	case "live":
		return brief(t.live)
	case ADCPTools:
		return whole(t.adcp)
	}
	return nil
}

// Also describes the tools that a client of a set may call although its list does not have them.
func (t *Set) Also(set string) []v36.Tool {
	switch set {
	case AllTools:
		return whole(slices.Concat(t.adcp, t.also))
	case ADCPTools:
		return whole(t.also)
	}
	return nil
}

// Named is [Set.Named] of a service without configured limits; there are no [ADCPTools].
func Named(set string) []v36.Tool { return described(limits(0, 0)).Named(set) }

func brief(list []*tool) (all []v36.Tool) {
	for _, one := range list {
		tool := one.Tool
		tool.InputSchema = request.Brief(one.params)
		all = append(all, tool)
	}
	return all
}

// SetNames are the names of the sets.
func SetNames() []string { return []string{"agents", "live", "local", ADCPTools, AllTools} }

// List describes the tools, in the order of the v3.6 contract.
func (t *Set) List() []v36.Tool { return whole(t.list) }

func whole(list []*tool) (all []v36.Tool) {
	for _, one := range list {
		all = append(all, one.Tool)
	}
	return all
}

// List is [Set.List] of a service without configured limits.
func List() []v36.Tool { return Named(AllTools) }

// Call runs a tool. The only error is [v36.ErrUnknownTool]; any other failure is
// an answer. Tools that wait call progress, unless it is nil, in the goroutine of
// the call. If ctx ends while a call waits for a task, the answer is an error
// TIMEOUT, and the task continues.
func (t *Set) Call(
	ctx context.Context, name string, args json.RawMessage, progress func(v36.Progress),
) (v36.Answer, error) {
	return t.CallWith(ctx, name, args, nil, progress)
}

// Push is a webhook for the run that a call submits, beside its arguments.
type Push struct {
	Config map[string]string // without its credentials; it is part of the request
	Echo   json.RawMessage   // its confirmation
	responder.Subscription
}

// CallWith is [Set.Call] with a webhook, unless push is nil. Tools that submit nothing ignore it.
func (t *Set) CallWith(
	ctx context.Context, name string, args json.RawMessage, push *Push, progress func(v36.Progress),
) (v36.Answer, error) {
	one := t.byName[name]
	if one == nil {
		return v36.Answer{}, v36.ErrUnknownTool
	}
	begun := time.Now()
	c := &call{service: t.service, tool: one, begun: begun, args: one.read(args), push: push, tell: rising(progress)}
	if push != nil {
		c.args.Beside(push.Config, push)
	}
	r, err := c.do(ctx)
	switch {
	case c.args.ADCP():
		return c.adcp(ctx, r, err), nil
	case err != nil:
		return c.tool.Fail(api.Known(err), c.args.JSON()), nil
	case r.plain != nil:
		return v36.Plain(r.plain, r.next), nil
	}
	return c.tool.Answer(r.reply, c.args.JSON()), nil
}

// call is one call of a tool.
type call struct {
	service  *responder.Service
	tool     *tool
	begun    time.Time
	args     *request.Args
	replayed bool  // the answer is that of an earlier call with the same key
	push     *Push // nil: none
	tell     func(percent float64, message string)

	// Of calls that submit something, set by the check.
	task      api.Submission
	cloudTask api.CloudSubmission
	setup     v36.Setup
}

// outcome is the outcome of a tool.
type outcome struct {
	reply *v36.Reply
	of    *adcp.Subject // the run that it is about; nil: none, or several

	said *adcp.Response // instead of them, of a tool whose only answer is that of AdCP

	// Instead of them, of a tool without a category.
	plain any
	next  string // what the caller may do next; "": nothing in particular
}

func (c *call) do(ctx context.Context) (outcome, error) {
	if !c.args.Broken() {
		if c.tool.check != nil {
			c.tool.check(c)
		}
		if c.tool.changes {
			c.args.RequireKey()
		}
	}
	if err := c.args.Err(); err != nil && (c.task.Type == "" || !request.Again(ctx, c.service, c.requestName(), c.args)) {
		return outcome{}, err
	}
	if c.tool.reads {
		if err := c.service.Ready(ctx); err != nil {
			return outcome{}, err
		}
	}
	if c.tool.driven {
		if err := c.service.CloudDriven(); err != nil {
			return outcome{}, err
		}
	}
	return c.tool.act(c, ctx)
}

// adcp returns the answer in the envelope of AdCP. Its contents are those of the
// v3.6 envelope.
func (c *call) adcp(ctx context.Context, r outcome, err error) v36.Answer {
	q := adcp.Call{
		Args: c.args, ChangesRun: c.tool.changesRun(), Replayed: c.replayed,
	}
	if c.push != nil {
		q.Push = c.push.Echo
	}
	switch {
	case err != nil:
		return adcp.Fail(ctx, c.service, q, err).Answer()
	case r.said != nil:
		return q.Complete(*r.said, nil).Answer()
	}
	return adcp.Succeed(ctx, c.service, q, r.reply, r.of).Answer()
}

// rising returns progress that never decreases, and is called only on changes.
func rising(progress func(v36.Progress)) func(float64, string) {
	if progress == nil {
		return func(float64, string) {}
	}
	last := v36.Progress{Percent: -1}
	return func(percent float64, message string) {
		next := v36.Progress{Percent: max(last.Percent, percent, 0), Message: message}
		if next != last {
			last = next
			progress(next)
		}
	}
}
