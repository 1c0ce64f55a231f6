package gemini_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// A result without words does not hide the error before it.
func TestAResultWithoutWordsLeavesTheErrorBeforeIt(t *testing.T) {
	const wordless = `{"type":"result","status":"error","stats":{"total_tokens":1}}`
	told := `{"type":"error","severity":"error","message":"the reason"}`
	for _, c := range []struct {
		want  string
		lines []string
	}{
		{"the reason", []string{start, told, wordless}},
		{"the reason", []string{told, wordless}},
		{"result error", []string{start, wordless}},
		{"result error", []string{wordless}},
		{"oops", []string{start, told, failed}},
	} {
		exit := runs.Entry{Kind: runs.Exited, Body: runs.EncodeExit(runs.Exit{Reason: runs.ReasonExited, Code: new(1)})}
		_, fold := backendtest.Fold(backend, append(backendtest.Output([]byte(strings.Join(c.lines, "\n")+"\n")), exit))
		if e := fold.Record.ErrorContext(); e == nil || e.Message != c.want {
			t.Errorf("%s: %+v, want %q", c.lines, e, c.want)
		}
	}
	backendtest.Expect(t, "gemini_cli", feed(t, wordless), failureData("result error", usage(`"total_tokens":1`)))
}
