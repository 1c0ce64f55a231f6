package mcp

import (
	"bufio"
	"slices"
	"strings"
	"testing"
)

// A cancelled call must not be answered; all other calls are.
func TestCancelledCallIsNotAnswered(t *testing.T) {
	for _, id := range []string{`2`, `"two"`} {
		c, begun, ended := waiting()
		in, out := serveStdio(t, t.Context(), NewServer(c))
		lines := bufio.NewScanner(out)
		ask(t, in, lines, initialize)
		write(t, in, strings.Replace(callWait, `"id":2`, `"id":`+id, 1))
		<-begun
		for _, params := range []string{`{}`, `{"requestId":null}`, `{"requestId":[2]}`, `{"requestId":8}`, `[]`,
			`{"requestId":` + id + `}`} {
			write(t, in, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":`+params+`}`)
		}
		<-ended
		write(t, in, `{"jsonrpc":"2.0","id":8,"method":"ping"}`)
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
		var answers []string
		for lines.Scan() {
			answers = append(answers, lines.Text())
		}
		if want := []string{`{"jsonrpc":"2.0","id":8,"result":{}}`}; !slices.Equal(answers, want) {
			t.Errorf("call %s was cancelled, and the answers are %q", id, answers)
		}
	}
}
