package backendtest

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/linesman/linesman/normalizer"
)

// Expect compares messages with the expected envelopes in want, which are JSON
// without agent_kind and without null fields.
func Expect(tb testing.TB, agent string, messages []normalizer.Message, want ...string) {
	tb.Helper()
	Check(tb, agent, messages)
	for i, m := range messages {
		if i >= len(want) {
			tb.Errorf("message %d is unexpected: %s", i+1, clip(m.Body))
			continue
		}
		got := envelope(tb, m.Body)
		if got["agent_kind"] != agent {
			tb.Errorf("message %d: agent_kind %v, want %s", i+1, got["agent_kind"], agent)
		}
		delete(got, "agent_kind")
		if !reflect.DeepEqual(got, envelope(tb, []byte(want[i]))) {
			tb.Errorf("message %d:\n got %s\nwant %s", i+1, clip(m.Body), clip([]byte(want[i])))
		}
	}
	for i := len(messages); i < len(want); i++ {
		tb.Errorf("message %d is missing: %s", i+1, clip([]byte(want[i])))
	}
}

func envelope(tb testing.TB, body []byte) map[string]any {
	tb.Helper()
	var e map[string]any
	if err := json.Unmarshal(body, &e); err != nil {
		tb.Fatalf("%s: %v", clip(body), err)
	}
	for key, value := range e {
		if value == nil {
			delete(e, key)
		}
	}
	return e
}
