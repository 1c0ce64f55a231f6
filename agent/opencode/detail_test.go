package opencode_test

import (
	"testing"

	"github.com/linesman/linesman/agent/opencode"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// Forms of lines that no recording has.
func TestDetailsOfOpencode(t *testing.T) {
	call := func(tool, state string) string {
		return `{"type":"tool_use","part":{"id":"p","tool":"` + tool + `","callID":"c","state":` + state + `}}`
	}
	backendtest.MapDetails(t, opencode.Backend{}, []backendtest.DetailCase{
		{"a file that is written again", []string{
			call("write", `{"status":"completed","input":{"filePath":"a","content":"x"},"metadata":{"exists":true}}`),
		}, []string{`1.1 tool_result {"files":[{"path":"a","kind":"modified","diff":{"head":"+x\n"}}]}`}},
		{"an edit without a diff", []string{
			call("edit", `{"status":"completed","input":{"filePath":"a","oldString":"x","newString":"y"}}`),
		}, []string{`1.1 tool_result {"files":[{"path":"a","kind":"modified","added":1,"removed":1,` +
			`"diff":{"head":"-x\n+y\n"}}]}`}},
		{"a patch", []string{call("patch", `{"status":"completed","input":{"patchText":"p"}}`)},
			[]string{`1.1 tool_result {"arguments":{"head":"{\"patchText\":\"p\"}"}}`}},
		{"a plan without metadata", []string{
			call("todowrite", `{"status":"completed","input":{"todos":[{"content":"A","status":"cancelled"}]}}`),
		}, []string{`1.1 tool_result {"plan":[{"text":"A","state":"pending"}]}`}},
		{"the web", []string{call("webfetch", `{"status":"completed","input":{"url":"https://x"},"output":"page"}`)},
			[]string{`1.1 tool_result {"arguments":{"head":"https://x"},"result":{"head":"page"}}`}},
	})
}
