package codex

import "testing"

func TestLastMessageIsTheLastWholeAnswer(t *testing.T) {
	const one, two = `{"type":"item.completed","item":{"id":"a","type":"agent_message","text":"one"}}`,
		`{"type":"item.completed","item":{"id":"b","type":"agent_message","text":"t\u0077o"}}`
	for name, tt := range map[string]struct {
		output, want string
		ok           bool
	}{
		"nothing":            {"", "", false},
		"the last of two":    {one + "\n" + two + "\n{\"type\":\"turn.completed\"}\n", "two", true},
		"a blank one":        {one + "\n" + `{"type":"item.completed","item":{"type":"agent_message","text":" \n"}}`, "one", true},
		"without a newline":  {one + "\n" + two, "two", true},
		"behind half a line": {one[10:] + "\n" + two + "\n", "two", true},
		"half a line":        {one[10:] + "\n", "", false},
		"begun but not completed": {one + "\n" + `{"type":"item.started","item":{"type":"agent_message","text":"x"}}`,
			"one", true},
		"a command that prints one": {`{"type":"item.completed","item":{"type":"command_execution","text":"\"agent_message\""}}`, "", false},
	} {
		if got, ok := lastMessage([]byte(tt.output)); got != tt.want || ok != tt.ok {
			t.Errorf("%s: got %q, %v; want %q, %v", name, got, ok, tt.want, tt.ok)
		}
	}
}
