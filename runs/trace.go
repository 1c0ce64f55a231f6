package runs

import (
	"crypto/sha256"
	"encoding/hex"
)

// LabelTraceparent is the label of a task with the trace context of its submitter, as
// [Traceparent.String] writes it.
const LabelTraceparent = "linesman.traceparent"

// Traceparent is a trace context of the W3C: a span in a trace.
type Traceparent struct {
	Trace   [16]byte
	Span    [8]byte
	Sampled bool // the caller may have recorded the span
}

// ParseTraceparent parses the value of a header traceparent. It reports false for an invalid
// one, which a receiver ignores.
func ParseTraceparent(s string) (t Traceparent, ok bool) {
	// version-trace-span-flags; a later version may continue after another '-'.
	if len(s) < 55 || len(s) > 55 && (s[:2] == "00" || s[55] != '-') || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return t, false
	}
	var version, flags [1]byte
	for _, part := range []struct {
		to   []byte
		text string
	}{{version[:], s[:2]}, {t.Trace[:], s[3:35]}, {t.Span[:], s[36:52]}, {flags[:], s[53:55]}} {
		if _, err := hex.Decode(part.to, []byte(part.text)); err != nil || hex.EncodeToString(part.to) != part.text {
			return Traceparent{}, false
		}
	}
	if version[0] == 0xff || t.Trace == [16]byte{} || t.Span == [8]byte{} {
		return Traceparent{}, false
	}
	t.Sampled = flags[0]&1 != 0
	return t, true
}

// String returns t as the value of a header, in version 00.
func (t Traceparent) String() string {
	flags := "-00"
	if t.Sampled {
		flags = "-01"
	}
	return "00-" + hex.EncodeToString(t.Trace[:]) + "-" + hex.EncodeToString(t.Span[:]) + flags
}

// TraceOf returns the span of a run with labels, and that of the submitter, whose Span is
// zero if there is none. The ids follow from the run's id, so every process finds the same.
func TraceOf(run string, labels Labels) (own, parent Traceparent) {
	parent, ok := ParseTraceparent(labels.Value(LabelTraceparent))
	if !ok {
		sum := sha256.Sum256([]byte("linesman trace " + run))
		parent = Traceparent{Trace: [16]byte(sum[:16]), Sampled: true}
	}
	return Traceparent{Trace: parent.Trace, Span: SpanID(run, "run"), Sampled: parent.Sampled}, parent
}

// SpanID returns the id of a span of a run by its place in it.
func SpanID(run, place string) [8]byte {
	sum := sha256.Sum256([]byte("linesman span " + run + " " + place))
	return [8]byte(sum[:8])
}

// WithTraceparent returns labels with the trace context of a submitter. Labels that are
// as many as there may be, and an invalid context, are returned unchanged.
func WithTraceparent(labels Labels, traceparent string) Labels {
	t, ok := ParseTraceparent(traceparent)
	if !ok || counted(labels.Map()) >= maxLabels {
		return labels
	}
	return labels.With(LabelTraceparent, t.String())
}
