package tools_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/tools"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/servicetest"
	standin "github.com/linesman/linesman/test/lab/cloud"
)

var update = flag.Bool("update", false, "write the golden answers anew")

// golden compares both forms of an answer with what is kept of them.
func golden(t *testing.T, d *tools.Set, name, tool, pairs string) answer {
	t.Helper()
	a := ask(t, d, tool, pairs)
	goldenAnswer(t, name, a)
	return a
}

func goldenAnswer(t *testing.T, name string, a answer) {
	t.Helper()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, a.Envelope, "", "  "); err != nil {
		t.Fatal(err)
	}
	for ending, text := range map[string]string{".json": mask(name, pretty.String()) + "\n", ".md": mask(name, a.Text())} {
		path := filepath.Join("testdata", name+ending)
		if *update {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(want) != text {
			t.Errorf("%s: run with -update if it should be so\n got %s\nwant %s", path, text, want)
		}
	}
}

// masks hide what differs from one time to the next.
var masks = []struct{ re, with string }{
	{`"request_id": "[0-9a-f-]{36}"`, `"request_id": "2e0f4a1c-5b7d-4c3e-9a8f-1d2b3c4d5e6f"`},
	{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`, `2025-11-18T10:30:00.000Z`},
	{`"seq": \d+`, `"seq": 42`},
	{`stream sequence \d+`, `stream sequence 42`},
	{`"elapsed_seconds": \d+`, `"elapsed_seconds": 7`},
	{`"oldest_age_hours": \d+`, `"oldest_age_hours": 48`},
	{`(Age of the oldest\*\*:) \d+`, `$1 48`},
	{`(Elapsed\*\*:) \d+ s`, `$1 7 s`},
	{`: \d+ s, since`, `: 7 s, since`},
	{`T-local-[0-9a-z]{15}`, `T-local-0mi3v7q2t4k9x1b`},
	{`T-cloud-[0-9a-z]{15}`, `T-cloud-0mi3v7q2t4k9x1b`},
	{`[~/][^"` + "`" + `\n]*/environments\.json`, `/home/ada/.config/mcp-delegator/environments.json`},
}

// clocked hide how long things took by the clock, in answers about what no
// test has given its times.
var clocked = []struct{ re, with string }{
	{`"duration_ms": \d+`, `"duration_ms": 93640`},
	{`"duration": \d+`, `"duration": 93`},
	{`"duration_seconds": \d+`, `"duration_seconds": 93`},
	{`(Duration\*\*:) \d+ s`, `$1 93 s`},
	{`after \d+ s`, `after 93 s`},
}

func mask(name, s string) string {
	all := masks
	if strings.HasPrefix(name, "cloud_") || name == "local_wait_deadline" {
		all = slices.Concat(masks, clocked)
	}
	for _, m := range all {
		s = regexp.MustCompile(m.re).ReplaceAllString(s, m.with)
	}
	return s
}

// TestAnswersAreThoseThatAreDocumented keeps one answer of each tool at least,
// in both formats. The documentation shows them.
func TestAnswersAreThoseThatAreDocumented(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "environments.json")
	c := newCloudStage(t, func(cfg *responder.Config) { cfg.Environments = path })
	d := c.tools

	// What has ended.
	c.play(t, "T-local-patched", "patch", 0)
	c.play(t, "T-local-signed-out", "http-401", 1)
	tests := "Tests:       2 failed, 1 skipped, 45 passed, 48 total\\n"
	c.Begin("codex", "T-local-tested", runs.Start{Source: "queue", Worker: "w1"}).Out(fmt.Appendf(nil,
		`{"type":"thread.started","thread_id":"01a1fd7b-f84f-78d0-8880-a6cacce2ab1b"}
{"type":"turn.started"}
{"type":"item.completed","item":{"id":"item_0","type":"command_execution","command":"npm test","aggregated_output":"FAIL src/cart.test.ts\n  TypeError: Cannot read properties of null\n    at src/cart.ts:42:15\n%s","exit_code":1,"status":"failed"}}
`, tests)).End(runs.Exit{Reason: runs.ReasonIdle, Signal: 15})
	for _, id := range []string{"patched", "signed-out", "tested"} {
		golden(t, d, "local_results_"+id, "_codex_local_results", args("task_id", "T-local-"+id))
		golden(t, d, "local_wait_"+id, "_codex_local_wait", args("task_id", "T-local-"+id))
	}
	golden(t, d, "local_results_output_events", "_codex_local_results",
		`{"task_id":"T-local-patched","include_output":true,"include_events":true}`)
	golden(t, d, "local_results_unknown", "_codex_local_results", `{"task_id":"T-local-none"}`)

	// What runs and what waits.
	out, _ := recording(t, "plan")
	c.Begin("codex", "T-local-planning", runs.Start{Source: "queue", Worker: "w1"}).Out(bytes.Join(bytes.SplitAfter(out,
		[]byte("\n"))[:6], nil))
	c.Await("T-local-planning", servicetest.Active)
	golden(t, d, "local_results_running", "_codex_local_results", `{"task_id":"T-local-planning"}`)
	golden(t, d, "local_wait_deadline", "_codex_local_wait", `{"task_id":"T-local-planning","timeout_sec":1}`)
	golden(t, d, "local_status", "_codex_local_status", `{"limit":2,"verbose":true}`)

	// What is asked for.
	queued := submitted(t, golden(t, d, "local_run_async", "_codex_local_run", `{"task":"Fix the test.","async":true}`))
	golden(t, d, "local_cancel", "_codex_local_cancel", args("task_id", queued, "reason", "Not needed"))
	c.Await(queued, servicetest.Ended)
	golden(t, d, "local_exec", "_codex_local_exec", `{"task":"Fix the test."}`)
	golden(t, d, "local_resume", "_codex_local_resume",
		`{"threadId":"01a1fd7b-f84f-78d0-8880-a6cacce2ab1b","task":"Go on."}`)
	golden(t, d, "local_exec_mistakes", "_codex_local_exec", `{"task":" ","mode":"workspace-write","workDir":"/srv"}`)
	golden(t, d, "local_cancel_running", "_codex_local_cancel", `{"task_id":"T-local-planning"}`)

	// The cloud.
	c.change(t, func(st *standin.State) { st.Next.Diff, st.Next.Files, st.Next.Added, st.Next.Lost = diff, 1, 2, 1 })
	inCloud := submitted(t, golden(t, d, "cloud_submit", "_codex_cloud_submit", `{"task":"Fix the test.","envId":"env"}`))
	c.Await(inCloud, servicetest.Working)
	c.awaitCloud(t, inCloud)
	c.Await(inCloud, servicetest.Active)
	golden(t, d, "cloud_status", "_codex_cloud_status", `{}`)
	golden(t, d, "cloud_cancel", "_codex_cloud_cancel", args("task_id", inCloud))
	c.end(t, inCloud, "READY")
	golden(t, d, "cloud_status_list", "_codex_cloud_status", `{"list":true,"showStats":true}`)
	golden(t, d, "cloud_results", "_codex_cloud_results", args("taskId", inCloud))
	golden(t, d, "cloud_wait", "_codex_cloud_wait", args("task_id", inCloud, "include_output", true))
	c.change(t, func(st *standin.State) { st.Behave["exec"] = standin.SignedOut })
	golden(t, d, "cloud_submit_signed_out", "_codex_cloud_submit", `{"task":"Fix the test.","envId":"env"}`)

	// What is kept, and what is set up.
	if err := os.WriteFile(path, []byte(`{"env_cart":{"name":"Cart","repoUrl":"https://github.com/owner/cart","stack":"node","description":"The shop"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	golden(t, d, "cloud_list_environments", "_codex_cloud_list_environments", `{}`)
	golden(t, d, "cloud_github_setup", "_codex_cloud_github_setup",
		`{"repoUrl":"https://github.com/owner/cart","stack":"node"}`)
	golden(t, d, "cleanup_registry", "_codex_cleanup_registry", `{}`)
}

// TestForegroundAnswersAreThoseThatAreDocumented does the same for tasks that
// are waited for.
func TestForegroundAnswersAreThoseThatAreDocumented(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for name, exit := range map[string]runs.Exit{
		"ended": {Reason: runs.ReasonExited, Code: new(int)}, "timeout": {Reason: runs.ReasonHard, Signal: 15},
	} {
		out, stderr := recording(t, "patch")
		if name == "timeout" {
			out = bytes.Join(bytes.SplitAfter(out, []byte("\n"))[:3], nil)
		}
		end := start(t.Context(), t, s.tools, "_codex_local_run",
			`{"task":"Patch it.","mode":"workspace-write","confirm":true}`, nil)
		l := s.Begin("codex", s.take(t).Run, runs.Start{Source: "queue", Worker: "w1"})
		l.Out(out).Err(stderr).End(exit)
		goldenAnswer(t, "local_run_"+name, end())
	}
}
