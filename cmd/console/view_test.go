package console

import "testing"

// A foreign writer may put anything into the data of an event: the rest of the event is shown all the same.
func TestEventsWithForeignDataAreShownWithoutIt(t *testing.T) {
	t.Parallel()
	for data, known := range map[string]bool{
		`{"tool":{"tool_name":"x"},"usage":{"input_tokens":1}}`: true,
		`{"tool":{"tool_name":"x"},"usage":"none"}`:             false,
		`{"tool":{"tool_name":"x","exit_code":"1"}}`:            false,
		`{"tool":{"tool_name":"x"},"session":[]}`:               false,
		`[{"tool":1}]`: false,
		`null`:         false,
	} {
		v := look(Record{Event: []byte(`{"data":` + data + `,"kind":"ToolCall","message":"m"}`)})
		if v.kind != "tool_call" || v.message != "m" || (v.tool != nil) != known || v.session != "" {
			t.Errorf("%s is shown as %+v", data, v)
		}
	}
	if v := look(Record{Event: []byte(`{"data":{"usage":"none"},"kind":5}`)}); v.kind != "unknown" {
		t.Errorf("an event without a kind is shown as %+v", v)
	}
}
