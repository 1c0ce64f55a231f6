package telemetry

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/spans"
)

// facts are what is known of a run beside its events.
type facts struct {
	own, parent    runs.Traceparent
	before         runs.Usage // of its thread, when it began
	model, version string
	provider       string // of the model
	source         string
}

// factsOf returns the facts of a run by its record; nil: it has none. The provider is set later.
func factsOf(run string, r *runs.Record) facts {
	if r == nil {
		r = &runs.Record{}
	}
	f := facts{model: r.Model, version: r.Version, source: r.Source}
	f.own, f.parent = runs.TraceOf(run, r.Labels)
	if b := r.Before; b != nil {
		f.before = b.Usage
	}
	return f
}

// content is what the owner of a run lets a span contain; "": nothing.
type content struct{ arguments, result, input, output string }

// attributes are those of a span, in a fixed order.
type attributes []*commonpb.KeyValue

func (a *attributes) text(key, value string) {
	if value != "" {
		*a = append(*a, &commonpb.KeyValue{Key: key, Value: textValue(value)})
	}
}

func textValue(s string) *commonpb.AnyValue {
	return &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: s}}
}

func (a *attributes) number(key string, value int64) {
	*a = append(*a, &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{
		Value: &commonpb.AnyValue_IntValue{IntValue: value},
	}})
}

func (a *attributes) flag(key string, value bool) {
	if value {
		*a = append(*a, &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{
			Value: &commonpb.AnyValue_BoolValue{BoolValue: true},
		}})
	}
}

func (a *attributes) list(key string, value string) {
	*a = append(*a, &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{
		Value: &commonpb.AnyValue_ArrayValue{ArrayValue: &commonpb.ArrayValue{Values: []*commonpb.AnyValue{
			textValue(value),
		}}},
	}})
}

// encode returns a span for a receiver, by a version of the conventions.
func encode(s spans.Span, f facts, c content, names conventions) *tracepb.Span {
	p := &tracepb.Span{
		TraceId: f.own.Trace[:], SpanId: s.ID[:], Kind: tracepb.Span_SPAN_KIND_INTERNAL,
		StartTimeUnixNano: nanos(s.Start), EndTimeUnixNano: nanos(s.End),
		Flags: 0x100, // it is known whether the parent is in another process
	}
	parent := s.Parent
	if s.Kind == spans.Whole {
		parent = f.parent.Span
		p.Flags |= 0x200
	}
	if f.own.Sampled {
		p.Flags |= 1
	}
	if parent != [8]byte{} {
		p.ParentSpanId = parent[:]
	}
	var a attributes
	switch s.Kind {
	case spans.Whole:
		p.Name = "run " + s.Agent
		a.text(attrAgentName, s.Agent)
		a.text(attrSource, f.source)
	case spans.Turn, spans.Agent:
		p.Name = opInvokeAgent
		a.text(attrOperation, opInvokeAgent)
		if names.whole {
			a.text(attrProvider, f.provider)
		}
		if s.Kind == spans.Turn { // the name of a sub-agent is not in the events
			p.Name += " " + s.Agent
			a.text(attrAgentName, s.Agent)
			if names.whole {
				a.text(attrAgentVersion, f.version)
			}
			a.text(attrModel, f.model)
		}
		turn(&a, s, f, c, names)
	case spans.Tool:
		name := toolName(s)
		p.Name = opExecuteTool + " " + name
		a.text(attrOperation, opExecuteTool)
		a.text(attrToolName, name)
		a.text(attrToolType, toolType(s.ToolKind, s.Tool))
		a.text(attrToolCall, s.Call)
		a.text(attrAgentName, s.Agent)
		a.text(attrToolArguments, c.arguments)
		a.text(attrToolResult, c.result)
	}
	if s.Kind == spans.Question {
		p.Name = "question " + s.Asked
		a.text(attrQuestion, s.Asked)
		a.text(attrOutcome, s.Outcome)
		a.text(attrDecider, s.By)
	}
	a.text(attrRun, s.Run)
	a.text(attrConversation, s.Thread)
	if s.Code != nil {
		a.number(attrExitCode, int64(*s.Code))
	}
	a.flag(attrIncomplete, s.Incomplete)
	if s.Error != "" {
		a.text(attrErrorType, s.Error)
		p.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
	}
	p.Attributes = a
	return p
}

// turn adds the attributes of a turn.
func turn(a *attributes, s spans.Span, f facts, c content, names conventions) {
	if t := used(s, f); t != nil {
		a.number(attrInputTokens, t.Input)
		a.number(attrOutputTokens, t.Output)
		if names.whole {
			a.number(attrCacheReadTokens, t.CachedInput)
			a.number(attrCacheWriteTokens, t.CacheWriteInput)
			a.number(attrReasoningTokens, t.ReasoningOutput)
		}
	}
	switch {
	case s.Ended && s.Error == "":
		a.list(attrFinish, "stop")
	case s.Ended:
		a.list(attrFinish, "error")
	}
	a.text(attrInputMessages, c.input)
	a.text(attrOutputMessages, c.output)
}

// used returns the tokens of a turn; nil: unknown.
func used(s spans.Span, f facts) *runs.Usage {
	if s.Tokens == nil || !s.Total {
		return s.Tokens
	}
	return new(s.Tokens.Minus(f.before))
}

// toolName is the name of a tool, or else its kind.
func toolName(s spans.Span) string {
	if s.Tool == "" {
		return s.ToolKind
	}
	return s.Tool
}

func nanos(ms int64) uint64 { return uint64(max(ms, 0)) * 1_000_000 }

// resource returns the attributes of the process, by the standard variables. Every process
// that exports has the same, so that repeated spans do not differ.
func resource(env func(string) string, version string) (*resourcepb.Resource, error) {
	given, err := pairs(env("OTEL_RESOURCE_ATTRIBUTES"))
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	all := map[string]string{"service.name": "linesman", "service.version": version}
	for _, pair := range given {
		all[pair[0]] = pair[1]
	}
	name := env("OTEL_SERVICE_NAME")
	if !utf8.ValidString(name) {
		return nil, errors.New("OTEL_SERVICE_NAME: not UTF-8")
	}
	all["service.name"] = cmp.Or(name, all["service.name"])
	var a attributes
	for _, key := range slices.Sorted(maps.Keys(all)) {
		a.text(key, all[key])
	}
	return &resourcepb.Resource{Attributes: a}, nil
}

// scope identifies what made the spans and the metrics.
func scope(version string) *commonpb.InstrumentationScope {
	return &commonpb.InstrumentationScope{Name: "github.com/linesman/linesman", Version: version}
}
