package opencode_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/opencode"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// patched is the line of a call of apply_patch, with metadata as 1.18.33 makes it.
const patched = `{"type":"tool_use","part":{"id":"p","callID":"c","tool":"apply_patch","state":{"status":"completed",` +
	`"input":{"patchText":"SECRET"},"output":"Success.","title":"SECRET","metadata":{"diff":"0123456789","files":[` +
	`{"filePath":"/w/new","relativePath":"new","type":"add","patch":"+a\n","additions":1,"deletions":0},` +
	`{"filePath":"/w/a","relativePath":"a","type":"update","patch":"@@ -1 +1 @@\n-x\n+y\n","additions":1,"deletions":1},` +
	`{"filePath":"/w/old","relativePath":"old","type":"delete","patch":"-a\n","additions":0,"deletions":1},7,` +
	`{"filePath":"/w/from","relativePath":"to","type":"move","patch":"@@\n+z\n","movePath":"/w/to"}],"diagnostics":{}}}}}`

func TestPatches(t *testing.T) {
	backendtest.Expect(t, "opencode", feed(t, patched), done(`"backend_item_id":"p","tool_use_id":"c","tool_name":"apply_patch"`,
		`"bytes":{"diff":10,"result":8}`))
	undone := strings.Replace(patched, `"completed"`, `"error"`, 1)
	for _, c := range []struct{ line, added, modified, deleted string }{
		{patched, "/w/new /w/to", "/w/a", "/w/old /w/from"},
		{undone, "", "", ""},
	} {
		_, fold := backendtest.Fold(backend, backendtest.Output([]byte(c.line+"\n")))
		var added, modified, deleted string
		if f := fold.Record.Files; f != nil {
			added, modified, deleted = strings.Join(f.Added, " "), strings.Join(f.Modified, " "), strings.Join(f.Deleted, " ")
		}
		if added != c.added || modified != c.modified || deleted != c.deleted {
			t.Errorf("added %q, modified %q, deleted %q", added, modified, deleted)
		}
	}
	backendtest.MapDetails(t, opencode.Backend{}, []backendtest.DetailCase{{"a patch", []string{patched},
		[]string{`1.1 tool_result {"files":[{"path":"/w/new","kind":"added","added":1,"removed":0,"diff":{"head":"+a\n"}},` +
			`{"path":"/w/a","kind":"modified","added":1,"removed":1,"diff":{"head":"@@ -1 +1 @@\n-x\n+y\n"}},` +
			`{"path":"/w/old","kind":"deleted","added":0,"removed":1,"diff":{"head":"-a\n"}},` +
			`{"path":"/w/from","kind":"deleted"},{"path":"/w/to","kind":"added","added":1,"removed":0,"diff":{"head":"@@\n+z\n"}}]}`}}})
}

// A text that opencode says in the user's name is none of the agent.
func TestPromptsOfOpencodeItself(t *testing.T) {
	prompt := part("text", `"type":"text","synthetic":true,"metadata":{"compaction_continue":true},"text":"SECRET",`+
		`"time":{"start":1,"end":2}`)
	backendtest.Map(t, backend, []backendtest.Case{
		{"a prompt after a compaction", []string{start, prompt, say("a"), part("text", `"synthetic":false,"text":"b"`)},
			[]string{status("step started"), status("user message"), text("assistant", "a"), text("assistant", "b")}},
	})
	backendtest.Finals(t, backend, []backendtest.Final{
		{"a prompt of itself before the text", []string{start, prompt, say("a"), prompt, say("b"), stop}, `"a\nb"`},
		{"only a prompt of itself", []string{start, prompt, stop}, `null`},
		{"a prompt of itself behind the end", []string{start, say("a"), stop, prompt}, `"a"`},
	})
}
