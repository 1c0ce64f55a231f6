package test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/tools"
	v36 "github.com/linesman/linesman/responder/v36"
)

var update = flag.Bool("update", false, "write the tables and answers of docs/reference/mcp.md")

// example is a call of a tool that docs/reference/mcp.md shows, with the golden file of
// its answer: what a test of the tools, in golden_test.go there, really got.
type example struct{ args, golden string }

var examples = map[string]example{
	"_codex_local_run": {`{"task": "Patch it.", "mode": "workspace-write", "confirm": true}`,
		"local_run_ended.md"},
	"_codex_local_exec": {`{"task": "Fix the test."}`, "local_exec.md"},
	"_codex_local_resume": {`{"threadId": "01a1fd7b-f84f-78d0-8880-a6cacce2ab1b", "task": "Go on."}`,
		"local_resume.md"},
	"_codex_local_status":  {`{"limit": 2, "verbose": true}`, "local_status.md"},
	"_codex_local_results": {`{"task_id": "T-local-tested", "format": "json"}`, "local_results_tested.json"},
	"_codex_local_wait":    {`{"task_id": "T-local-patched"}`, "local_wait_patched.md"},
	"_codex_local_cancel": {`{"task_id": "T-local-0mi3v7q2t4k9x1b", "reason": "Not needed"}`,
		"local_cancel.md"},
	"_codex_cloud_submit":            {`{"task": "Fix the test.", "envId": "env"}`, "cloud_submit.md"},
	"_codex_cloud_status":            {`{"list": true, "showStats": true}`, "cloud_status_list.md"},
	"_codex_cloud_results":           {`{"taskId": "T-cloud-0mi3v7q2t4k9x1b"}`, "cloud_results.md"},
	"_codex_cloud_wait":              {`{"task_id": "T-cloud-0mi3v7q2t4k9x1b", "include_output": true}`, "cloud_wait.md"},
	"_codex_cloud_cancel":            {`{"task_id": "T-cloud-0mi3v7q2t4k9x1b"}`, "cloud_cancel.md"},
	"_codex_cloud_list_environments": {`{}`, "cloud_list_environments.md"},
	"_codex_cloud_github_setup": {`{"repoUrl": "https://github.com/owner/cart", "stack": "node"}`,
		"cloud_github_setup.md"},
	"_codex_cleanup_registry": {`{}`, "cleanup_registry.md"},
}

// TestPageOfToolsIsWhatTheyAre compares the section of each tool in docs/reference/mcp.md
// with the tool: the table of its parameters, and an answer that a test keeps.
func TestPageOfToolsIsWhatTheyAre(t *testing.T) {
	page := text(t, "docs/reference/mcp.md")
	var told, names []string
	for _, m := range regexp.MustCompile("(?m)^### `(_codex_\\w+)`$").FindAllStringSubmatch(page, -1) {
		told = append(told, m[1])
	}
	for _, tool := range tools.List() {
		names = append(names, tool.Name)
		head := "### `" + tool.Name + "`\n"
		before, section, ok := strings.Cut(page, head)
		if !ok {
			t.Errorf("no section tells of %s", tool.Name)
			continue
		}
		section, after, more := strings.Cut(section, "\n### `_codex_")
		about, have, _ := strings.Cut(section, parametersHead)
		if len(strings.TrimSpace(about)) < 40 {
			t.Errorf("%s: what does it do?", tool.Name)
		}
		want := parameters(tool) + "\n" + shown(t, tool)
		if have = parametersHead + have; strings.TrimSpace(have) != strings.TrimSpace(want) {
			t.Errorf("%s: run with -update if it should be so: the page has\n%s\nand the tool is\n%s", tool.Name, have, want)
		}
		if page = before + head + about + strings.TrimSpace(want) + "\n"; more {
			page += "\n### `_codex_" + after
		}
	}
	if !slices.Equal(told, names) {
		t.Errorf("the page tells of %q, the tools are %q", told, names)
	}
	if *update {
		if err := os.WriteFile("../docs/reference/mcp.md", []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The page has a section for each of linesman's own tools, with the table of its parameters.
func TestPageOfAgentToolsIsWhatTheyAre(t *testing.T) {
	page := text(t, "docs/reference/mcp.md")
	var told, names []string
	for _, m := range regexp.MustCompile("(?m)^### `(_agent_\\w+)`$").FindAllStringSubmatch(page, -1) {
		told = append(told, m[1])
	}
	list := slices.Concat(tools.Named("agents"), slices.DeleteFunc(tools.Named("live"), func(t v36.Tool) bool {
		return t.Name == api.ToolAgentAnswer // of both
	}))
	for _, tool := range list {
		names = append(names, tool.Name)
		head := "### `" + tool.Name + "`\n"
		before, section, ok := strings.Cut(page, head)
		if !ok {
			t.Errorf("no section tells of %s", tool.Name)
			continue
		}
		end := strings.Index(section, "\n##")
		section, after := section[:end], section[end:]
		about, have, _ := strings.Cut(section, parametersHead)
		if len(strings.TrimSpace(about)) < 40 {
			t.Errorf("%s: what does it do?", tool.Name)
		}
		want := parameters(tool)
		if have = parametersHead + have; strings.TrimSpace(have) != strings.TrimSpace(want) {
			t.Errorf("%s: run with -update if it should be so: the page has\n%s\nand the tool is\n%s", tool.Name, have, want)
		}
		page = before + head + about + want + after
	}
	if !slices.Equal(told, names) {
		t.Errorf("the page tells of %q, the tools are %q", told, names)
	}
	if *update {
		if err := os.WriteFile("../docs/reference/mcp.md", []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const parametersHead = "| parameter | value | default | meaning |\n|---|---|---|---|\n"

// parameters is the table of a tool's parameters, as its schema has them.
func parameters(tool v36.Tool) string {
	var b strings.Builder
	b.WriteString(parametersHead)
	required := gjson.GetBytes(tool.InputSchema, "required").Array()
	gjson.GetBytes(tool.InputSchema, "properties").ForEach(func(name, p gjson.Result) bool {
		var words []string
		for _, w := range p.Get("enum").Array() {
			words = append(words, "`"+w.String()+"`")
		}
		value := p.Get("type").String()
		switch {
		case words != nil:
			value = strings.Join(words, " ")
		case value == "integer":
			value = p.Get("minimum").Raw + " to " + p.Get("maximum").Raw
		case value == "array":
			value = "array of strings, at most " + p.Get("maxItems").Raw
		case value == "string":
			value = "string, at most " + p.Get("maxLength").Raw
		}
		def := ""
		if d := p.Get("default"); d.Exists() {
			def = "`" + d.Raw + "`"
		}
		if slices.ContainsFunc(required, func(r gjson.Result) bool { return r.String() == name.String() }) {
			def = "required"
		}
		about, _, _ := strings.Cut(p.Get("description").String(), " Also accepted as ")
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, value, def, about)
		return true
	})
	return b.String()
}

// shown is the example of a tool. No fence of an answer is as long as ours.
func shown(t *testing.T, tool v36.Tool) string {
	t.Helper()
	x := examples[tool.Name]
	gjson.Parse(x.args).ForEach(func(name, _ gjson.Result) bool {
		if !gjson.GetBytes(tool.InputSchema, "properties."+name.String()).Exists() {
			t.Errorf("%s has no parameter %s", tool.Name, name)
		}
		return true
	})
	answer := text(t, "responder/tools/testdata/"+x.golden)
	name, ending, _ := strings.Cut(x.golden, ".") // each is kept in both formats
	if got := gjson.Get(text(t, "responder/tools/testdata/"+name+".json"), "tool").String(); got != tool.Name {
		t.Errorf("%s is an answer of %s", x.golden, got)
	}
	kind := map[string]string{"json": "json", "md": "markdown"}[ending]
	return fmt.Sprintf("```json\n%s\n```\n\n`````%s\n%s\n`````\n", x.args, kind, strings.TrimRight(answer, "\n"))
}

// An answer that is shown elsewhere is a kept one, too.
func TestErrorOnThePageIsReal(t *testing.T) {
	want := strings.TrimRight(text(t, "responder/tools/testdata/local_exec_mistakes.md"), "\n")
	if !strings.Contains(text(t, "docs/reference/mcp.md"), "`````markdown\n"+want+"\n`````\n") {
		t.Errorf("docs/reference/mcp.md does not show\n%s", want)
	}
}
