package mcp_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/linesman/linesman/responder/tools"
	"github.com/linesman/linesman/test/clients/mcp"
	"github.com/linesman/linesman/test/fixture"
)

var program string // the linesman under test

func TestMain(m *testing.M) {
	os.Exit(fixture.Main(m, "the conformance suite and the inspector take a minute", func(dir string) error {
		program = filepath.Join(dir, "linesman")
		return fixture.Build(dir, "./cmd/linesman")
	}))
}

// daemon is a running `linesman up`.
type daemon struct{ data, url, token string }

func up(t *testing.T) *daemon {
	t.Helper()
	data := t.TempDir()
	s := fixture.Up(t, program, data, append(os.Environ(), "HOME="+t.TempDir()))
	return &daemon{data: data, url: s.HTTP + "/mcp", token: s.Token}
}

// targets are the ways to speak to it.
func (d *daemon) targets() map[string][]string {
	return map[string][]string{
		"http 2025-11-25": mcp.OverHTTP(d.url, d.token, false),
		"http 2026-07-28": mcp.OverHTTP(d.url, d.token, true),
		"stdio":           {program, "-e", "LINESMAN_DATA_DIR=" + d.data, "-e", "LINESMAN_LOG_LEVEL=debug", "mcp"},
	}
}

func TestConformance(t *testing.T) {
	fixture.Long(t, "starts Node.js for each scenario")
	t.Parallel()
	d := up(t)
	mcp.Conform(t, mcp.WithToken(t, d.url, d.token))
}

func TestInspectorListsAllTools(t *testing.T) {
	fixture.Long(t, "starts Node.js for each question")
	t.Parallel()
	var want []string
	for _, tool := range tools.List() {
		want = append(want, tool.Name)
	}
	slices.Sort(want)
	if len(want) != 15 {
		t.Errorf("there are %d tools, want 15", len(want))
	}
	for name, target := range up(t).targets() {
		t.Run(name, func(t *testing.T) {
			out, exit := mcp.Inspect(t, target, "--method", "tools/list", "--strict")
			if exit != 0 {
				t.Fatalf("exit status %d\n%s", exit, out)
			}
			var listed struct{ Tools []struct{ Name string } }
			if err := json.Unmarshal(out, &listed); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			var got []string
			for _, tool := range listed.Tools {
				got = append(got, tool.Name)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

// Every tool answers: with data, or with the error that these arguments have. Each is called in
// one of the ways, in turn: a process of the inspector takes seconds, and what a tool answers does
// not depend on the way (see TestLocalToolsAreFewAndBrief and the tests of responder/mcp).
func TestInspectorCallsEveryTool(t *testing.T) {
	fixture.Long(t, "starts Node.js for each tool")
	t.Parallel()
	const nobody = `{"task_id":"T-local-none","format":"json"}`
	calls := map[string]struct{ args, status, code string }{
		"_codex_local_run":               {`{"task":"x","mode":"workspace-write","format":"json"}`, "error", "VALIDATION"},
		"_codex_local_exec":              {`{"task":"` + fixture.Sentinel + `hello","format":"json"}`, "ok", ""},
		"_codex_local_resume":            {`{"threadId":"x","task":"y","format":"json"}`, "error", "VALIDATION"},
		"_codex_local_status":            {`{"format":"json"}`, "ok", ""},
		"_codex_local_results":           {nobody, "error", "NOT_FOUND"},
		"_codex_local_wait":              {nobody, "error", "NOT_FOUND"},
		"_codex_local_cancel":            {nobody, "error", "NOT_FOUND"},
		"_codex_cloud_submit":            {`{"task":"x","envId":"e","model":"m","format":"json"}`, "error", "UNSUPPORTED"},
		"_codex_cloud_status":            {`{"format":"json"}`, "ok", ""},
		"_codex_cloud_results":           {`{"taskId":"T-cloud-none","format":"json"}`, "error", "NOT_FOUND"},
		"_codex_cloud_wait":              {`{"task_id":"T-cloud-none","format":"json"}`, "error", "NOT_FOUND"},
		"_codex_cloud_cancel":            {`{"task_id":"T-cloud-none","format":"json"}`, "error", "NOT_FOUND"},
		"_codex_cloud_list_environments": {`{"format":"json"}`, "ok", ""},
		"_codex_cloud_github_setup": {`{"repoUrl":"https://github.com/ada/engine","stack":"go","format":"json"}`, "ok",
			""},
		"_codex_cleanup_registry": {`{"dryRun":true,"format":"json"}`, "ok", ""},
	}
	targets := up(t).targets()
	for way, name := range slices.Sorted(maps.Keys(targets)) {
		target := targets[name]
		t.Run(name, func(t *testing.T) {
			for i, tool := range tools.List() {
				if i%len(targets) != way {
					continue
				}
				want, ok := calls[tool.Name]
				if !ok {
					t.Errorf("%s is not called", tool.Name)
					continue
				}
				var got struct {
					Content    []struct{ Text string }
					Structured struct {
						Tool, Status string
						Error        struct{ Code string }
					} `json:"structuredContent"`
					IsError bool
				}
				out := mcp.InspectTool(t, target, tool.Name, want.args)
				if err := json.Unmarshal(out, &got); err != nil {
					t.Fatalf("%s: %v\n%s", tool.Name, err, out)
				}
				if s := got.Structured; s.Tool != tool.Name || s.Status != want.status || s.Error.Code != want.code ||
					got.IsError != (want.status == "error") || len(got.Content) != 1 {
					t.Errorf("%s: %s", tool.Name, out)
				}
			}
		})
	}
}

func TestInspectorWithoutTheTokenGetsNothing(t *testing.T) {
	fixture.Long(t, "starts Node.js for each question")
	t.Parallel()
	out, exit := mcp.Inspect(t, mcp.OverHTTP(up(t).url, "", true), "--method", "tools/list")
	if exit == 0 {
		t.Errorf("got %s", out)
	}
}
