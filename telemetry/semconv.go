package telemetry

import (
	"slices"
	"strings"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/runs"
)

// All names of the conventions are in this file. The defaults are those of the GenAI semantic
// conventions 1.41.0, the last version in the common repository of conventions (package
// go.opentelemetry.io/otel/semconv/v1.41.0). They continue in a repository of their own:
// OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental selects what linesman knows of its
// first version, 0.1.0.
const (
	schemaURL = "https://opentelemetry.io/schemas/1.41.0" // of the resource, and of the defaults

	optIn       = "OTEL_SEMCONV_STABILITY_OPT_IN"
	optInLatest = "gen_ai_latest_experimental"

	// captureContent is the variable of the GenAI instrumentations for messages, and
	// arguments and results of tools.
	captureContent = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
)

// Values of gen_ai.operation.name.
const (
	opInvokeAgent = "invoke_agent"
	opExecuteTool = "execute_tool"
	opChat        = "chat" // a request to a model
)

// Attributes.
const (
	attrOperation    = "gen_ai.operation.name"
	attrProvider     = "gen_ai.provider.name"
	attrAgentName    = "gen_ai.agent.name"
	attrAgentVersion = "gen_ai.agent.version"
	attrConversation = "gen_ai.conversation.id"
	attrModel        = "gen_ai.request.model"
	attrFinish       = "gen_ai.response.finish_reasons"

	attrInputTokens      = "gen_ai.usage.input_tokens"
	attrOutputTokens     = "gen_ai.usage.output_tokens"
	attrCacheReadTokens  = "gen_ai.usage.cache_read.input_tokens"
	attrCacheWriteTokens = "gen_ai.usage.cache_creation.input_tokens"
	attrReasoningTokens  = "gen_ai.usage.reasoning.output_tokens"
	attrTokenType        = "gen_ai.token.type"
	attrModality         = "gen_ai.token.modality"

	attrToolName      = "gen_ai.tool.name"
	attrToolType      = "gen_ai.tool.type"
	attrToolCall      = "gen_ai.tool.call.id"
	attrToolArguments = "gen_ai.tool.call.arguments"
	attrToolResult    = "gen_ai.tool.call.result"

	attrInputMessages  = "gen_ai.input.messages"
	attrOutputMessages = "gen_ai.output.messages"

	attrErrorType = "error.type"
	attrExitCode  = "process.exit.code"

	attrRun        = "linesman.run.id"
	attrSource     = "linesman.run.source"
	attrIncomplete = "linesman.incomplete"
	attrQuestion   = "linesman.question.kind"
	attrOutcome    = "linesman.question.outcome"
	attrDecider    = "linesman.question.by"
)

// conventions are what differs between the versions of the conventions.
type conventions struct {
	schema string // of spans and metrics; "": none is published

	// Whole means that spans of agents have the provider, the version of the agent, and the parts
	// of the tokens. Since 0.1.0 internal ones do not: an agent may use several models.
	whole bool

	tokens                      []tokenMetric
	agentDuration, toolDuration metric
}

// metric is a histogram with buckets, or a counter without. Operation reports whether the
// operation and the provider are attributes.
type metric struct {
	name, unit, description string
	buckets                 []float64
	operation               bool
}

// tokenMetric is a metric of tokens, with the values of its attributes; "": it has not this one.
type tokenMetric struct {
	metric
	operation, kind, modality string

	of func(runs.Usage) int64 // its value for a turn
}

var tokenUsage = metric{"gen_ai.client.token.usage", "{token}", "Number of input and output tokens used.",
	[]float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864}, true}

var operationDuration = metric{"gen_ai.client.operation.duration", "s", "GenAI operation duration.",
	[]float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}, true}

// counter is a counter of the tokens that requests to models used.
func counter(name, description string, of func(runs.Usage) int64) tokenMetric {
	return tokenMetric{
		metric:    metric{name: "gen_ai.client.inference.usage." + name, unit: "{token}", description: description},
		operation: opChat, modality: "unknown", of: of,
	}
}

func inputTokens(t runs.Usage) int64  { return t.Input }
func outputTokens(t runs.Usage) int64 { return t.Output }

var versions = map[bool]conventions{
	false: { // 1.41.0
		schema: schemaURL, whole: true,
		tokens: []tokenMetric{
			{tokenUsage, opInvokeAgent, "input", "", inputTokens}, {tokenUsage, opInvokeAgent, "output", "", outputTokens},
		},
		agentDuration: operationDuration, toolDuration: operationDuration,
	},
	true: { // 0.1.0 of the conventions' own repository
		tokens: []tokenMetric{
			counter("input_tokens", "The number of input tokens used, including cached tokens.", inputTokens),
			counter("output_tokens", "The number of output tokens used, including reasoning tokens.", outputTokens),
			counter("cache_read.input_tokens", "The number of input tokens read from a cache of the provider.",
				func(t runs.Usage) int64 { return t.CachedInput }),
			counter("cache_write.input_tokens", "The number of input tokens written to a cache of the provider.",
				func(t runs.Usage) int64 { return t.CacheWriteInput }),
			counter("reasoning.output_tokens", "The number of output tokens used for reasoning.",
				func(t runs.Usage) int64 { return t.ReasoningOutput }),
		},
		agentDuration: metric{"gen_ai.invoke_agent.duration", "s", "The end-to-end duration of a single agent invocation.",
			[]float64{0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6}, false},
		toolDuration: metric{"gen_ai.execute_tool.duration", "s", "The duration of a single tool execution.",
			operationDuration.buckets, false},
	},
}

// conventionsOf returns the version that a value of OTEL_SEMCONV_STABILITY_OPT_IN selects. The
// value is a list of selections for all conventions.
func conventionsOf(value string) conventions {
	return versions[slices.ContainsFunc(strings.Split(value, ","), func(v string) bool {
		return strings.TrimSpace(v) == optInLatest
	})]
}

// captures reports whether the value of the content-capture variable asks for content on
// spans.
func captures(value string) bool {
	switch strings.ToLower(strings.TrimSpace(value)) {
	case "true", "span", "span_only", "span_and_event":
		return true
	}
	return false
}

// provider returns the provider of the model of an agent, as far as it is known.
func provider(of agent.Agent, kind, model string) string {
	if of.Provider != "" {
		return of.Provider
	}
	name, _, qualified := strings.Cut(model, "/")
	switch {
	case !qualified:
		return kind
	case name == "google":
		return "gcp.gemini"
	}
	return name
}

// toolType returns the type of a tool: an extension works with data outside the machine.
func toolType(kind, name string) string {
	if kind == "mcp_tool_call" || kind == "web_search" || strings.HasPrefix(name, "mcp__") {
		return "extension"
	}
	return "function"
}
