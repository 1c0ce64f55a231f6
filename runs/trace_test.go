package runs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
)

func TestTraceparentOfTheW3C(t *testing.T) {
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for value, want := range map[string]string{
		"00-" + trace + "-" + span + "-01":                      "01",
		"00-" + trace + "-" + span + "-00":                      "00",
		"00-" + trace + "-" + span + "-ff":                      "01", // other flags are dropped
		"cc-" + trace + "-" + span + "-01-what-the-future-adds": "01",
		"cc-" + trace + "-" + span + "-01":                      "01",
		"cc-" + trace + "-" + span + "-01.what":                 "",
		"00-" + trace + "-" + span + "-01-more":                 "",
		"ff-" + trace + "-" + span + "-01":                      "",
		"00-" + strings.ToUpper(trace) + "-" + span + "-01":     "",
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01":    "",
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01":   "",
		"00-" + trace + "-" + span + "-1":                       "",
		"00_" + trace + "_" + span + "_01":                      "",
		"00-" + trace + "-" + span[:15] + "g-01":                "",
		"":                                                      "",
	} {
		got, ok := runs.ParseTraceparent(value)
		if ok != (want != "") || ok && got.String() != "00-"+trace+"-"+span+"-"+want {
			t.Errorf("%q: %v, %v", value, got, ok)
		}
	}
}

func FuzzTraceparent(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := runs.ParseTraceparent(s)
		if again, same := runs.ParseTraceparent(got.String()); ok && (!same || again != got) {
			t.Errorf("%q: %v becomes %v", s, got, again)
		}
	})
}

// The labels of a task may be full: then it has no trace context.
func TestTraceContextIsALabel(t *testing.T) {
	const value = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	labels := map[string]string{}
	for i := range 17 {
		got := runs.WithTraceparent(runs.LabelsOf(labels), value)
		if has := got.Value(runs.LabelTraceparent) == value; has != (i < 16) || got.Check() != nil && i <= 16 {
			t.Errorf("with %d labels: %v, %v", i, got, got.Check())
		}
		labels[fmt.Sprint(i)] = "x"
	}
	own, parent := runs.TraceOf("r", runs.LabelsOf(map[string]string{runs.LabelTraceparent: value}))
	if parent.String() != value || own.Trace != parent.Trace || own.Span == parent.Span {
		t.Errorf("%v in %v", own, parent)
	}
	if own, parent := runs.TraceOf("r", ""); parent.Span != [8]byte{} || own.Trace == [16]byte{} || !own.Sampled {
		t.Errorf("without a submitter: %v in %v", own, parent)
	}
}
