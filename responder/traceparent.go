package responder

import (
	"cmp"
	"context"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

type traceKey struct{}

// Traceparent is the name of the trace context of the W3C: of the header, in lower case, and
// of the field.
const Traceparent = "traceparent"

// WithTraceparent adds the trace context of a caller to a context. "" and an invalid one
// change nothing, as the recommendation of the W3C requires.
func WithTraceparent(ctx context.Context, value string) context.Context {
	if _, ok := runs.ParseTraceparent(value); !ok {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, value)
}

// traced returns the labels of a task with the trace context of its submission, or else of
// the caller.
func traced(ctx context.Context, q api.Submission, labels runs.Labels) runs.Labels {
	return runs.WithTraceparent(labels, cmp.Or(q.Traceparent, TraceparentOf(ctx)))
}

// TraceparentOf returns what [WithTraceparent] added, or "".
func TraceparentOf(ctx context.Context) string {
	value, _ := ctx.Value(traceKey{}).(string)
	return value
}
