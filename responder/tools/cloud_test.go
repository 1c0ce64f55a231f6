package tools_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/codexcloud"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/responder/tools"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
	standin "github.com/linesman/linesman/test/lab/cloud"
)

// program is the stand-in for the Codex CLI, built once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tools-test-*")
	if err != nil {
		return "", err
	}
	built = dir
	return standin.Build(dir)
})

var built string // what TestMain removes

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

type logs struct{ *bus.Bus }

func (l logs) Open(ctx context.Context, agent, run string, m runs.Mark) (codexcloud.Log, error) {
	return l.OpenLog(ctx, agent, run, m)
}

func (l logs) Output(ctx context.Context, agent, run string) ([]byte, error) {
	out, _, err := l.Bus.Output(ctx, agent, run, codexcloud.MaxOutput, false)
	return out.Head, err
}

// cloudStage is a stage with the stand-in of Codex Cloud.
type cloudStage struct {
	*stage
	service *standin.Service
	driver  *codexcloud.Driver
}

func newCloudStage(t testing.TB, change func(*responder.Config)) *cloudStage {
	t.Helper()
	command, err := program()
	if err != nil {
		t.Fatal(err)
	}
	c := &cloudStage{}
	if c.service, err = standin.New(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	c.stage = newStage(t, func(cfg *responder.Config) {
		c.driver, err = codexcloud.New(codexcloud.Config{Command: []string{command}, Scratch: t.TempDir(),
			Logs: logs{streams(cfg)},
			Env:  c.service.Env(), Min: 5 * time.Millisecond, Max: 40 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Cloud = c.driver
		if change != nil {
			change(cfg)
		}
	})
	return c
}

func (c *cloudStage) change(t testing.TB, change func(*standin.State)) {
	t.Helper()
	if err := c.service.Change(change); err != nil {
		t.Fatal(err)
	}
}

const diff = `diff --git a/parse.go b/parse.go
--- a/parse.go
+++ b/parse.go
@@ -1 +1,2 @@
-old
+new ` + "```" + `
+more
`

// end lets a task of the cloud end, as the service tells it.
func (c *cloudStage) end(t testing.TB, run, how string) {
	t.Helper()
	c.change(t, func(st *standin.State) {
		for i := range st.Tasks {
			st.Tasks[i].Plan = []string{how}
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	open := []codexcloud.Open{{Run: run}}
	go func() {
		ended <- c.driver.Follow(ctx, func(context.Context) ([]codexcloud.Open, error) { return open, nil })
	}()
	c.Await(run, servicetest.Ended)
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// awaitCloud waits until the record of a run names its task.
func (c *cloudStage) awaitCloud(t testing.TB, run string) {
	t.Helper()
	late := time.After(fixture.Patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if r, err := c.Service.Record(t.Context(), run); err == nil && r.Cloud != nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("run %s names no task", run)
		}
	}
}

func TestCloudTaskIsFoundByAllItsNames(t *testing.T) {
	t.Parallel()
	c := newCloudStage(t, nil)
	c.change(t, func(st *standin.State) { st.Next.Diff, st.Next.Files, st.Next.Added, st.Next.Lost = diff, 1, 2, 1 })
	ack := ask(t, c.tools, "_codex_cloud_submit", `{"task":"Fix it.","envId":"env","attempts":2}`)
	run := submitted(t, ack)
	ext := ack.Data["ext"].(map[string]any)
	id, url := ext["cloud_id"].(string), ext["web_ui_url"].(string)
	if !strings.HasPrefix(run, "T-cloud-") || !strings.HasSuffix(url, "/"+id) || ack.Data["capability"] != "background" {
		t.Errorf("ack %s", ack.Envelope)
	}
	c.awaitCloud(t, run)

	// Another service knows only what the streams tell.
	known := c.tools
	c.serve(t, nil)
	for _, name := range []string{run, id, url, strings.TrimPrefix(url, "https://")} {
		for _, d := range []*tools.Set{known, c.tools} {
			a := ask(t, d, "_codex_cloud_status", args("taskId", name))
			if got := ids(a, "tasks"); !slices.Equal(got, []string{run}) {
				t.Errorf("%s: %s", name, a.Envelope)
			}
			if a := ask(t, d, "_codex_cloud_results", args("taskId", name)); a.Error.Code != "VALIDATION" || !a.Error.Retryable {
				t.Errorf("results before the end: %s", a.Envelope)
			}
			a = ask(t, d, "_codex_cloud_cancel", args("task_id", name))
			if a.Error.Code != "UNSUPPORTED" || a.Error.Details["web_ui_url"] != url || a.Error.Details["task_id"] != run {
				t.Errorf("cancel: %s", a.Envelope)
			}
		}
	}
	if a := ask(t, c.tools, "_codex_cloud_wait", args("task_id", id, "timeout_sec", 1)); a.Error.Code != "TIMEOUT" ||
		!a.Error.Retryable {
		t.Errorf("wait: %s", a.Envelope)
	}
	c.end(t, run, "READY")
	for tool, param := range map[string]string{"_codex_cloud_results": "taskId", "_codex_cloud_wait": "task_id"} {
		a := ask(t, c.tools, tool, args(param, id))
		meta := a.Data["metadata"].(map[string]any)
		if a.Data["state"] != "completed" || meta["task_status"] != "completed" ||
			a.Data["output"].(map[string]any)["included"] != false ||
			a.Data["ext"].(map[string]any)["web_ui_url"] != url || !strings.Contains(a.Text(), url) {
			t.Errorf("%s: %s", tool, a.Envelope)
		}
		if changed := meta["file_operations"].(map[string]any)["lines_changed"]; changed != 3.0 {
			t.Errorf("%v lines changed", changed)
		}
		a = ask(t, c.tools, tool, args(param, url, "include_output", true))
		if o := a.Data["output"].(map[string]any); o["stdout"] != diff || o["truncated"] != false {
			t.Errorf("%s: output %v", tool, o)
		}
	}
}

func TestCloudToolsKnowWhatIsNotTheirs(t *testing.T) {
	t.Parallel()
	c := newCloudStage(t, nil)
	c.play(t, "T-local-1", "hello", 0)
	c.play(t, "myrun", "hello", 0)
	for tool, param := range map[string]string{"_codex_cloud_status": "taskId", "_codex_cloud_results": "taskId",
		"_codex_cloud_wait": "task_id", "_codex_cloud_cancel": "task_id"} {
		for id, code := range map[string]string{
			"T-local-1": "VALIDATION", "T-local-none": "VALIDATION", "myrun": "VALIDATION",
			"https://example.com/codex/tasks/task_e_1": "VALIDATION",
			"a b": "VALIDATION", "T-cloud-none": "NOT_FOUND", "task_e_none": "NOT_FOUND",
			"https://chatgpt.com/codex/tasks/task_e_1": "NOT_FOUND",
		} {
			a := ask(t, c.tools, tool, args(param, id))
			if a.Error.Code != code || a.Error.Retryable {
				t.Errorf("%s %s: %s", tool, id, a.Envelope)
			}
			if strings.HasPrefix(id, "T-local-") && !strings.Contains(a.Error.Message, "use "+strings.Replace(tool, "_cloud_",
				"_local_", 1)) {
				t.Errorf("the message names no tool: %s", a.Error.Message)
			}
		}
	}
	run := submitted(t, ask(t, c.tools, "_codex_cloud_submit", `{"task":"x","envId":"env"}`))
	c.Await(run, servicetest.Working)
	for _, tool := range []string{"_codex_local_status", "_codex_local_results", "_codex_local_wait",
		"_codex_local_cancel"} {
		a := ask(t, c.tools, tool, args("task_id", run))
		if a.Error.Code != "VALIDATION" || !strings.Contains(a.Error.Message, "use "+strings.Replace(tool, "_local_",
			"_cloud_", 1)) {
			t.Errorf("%s: %s", tool, a.Envelope)
		}
	}
	if a := ask(t, c.tools, "_codex_local_status", `{}`); len(ids(a, "tasks")) != 0 {
		t.Errorf("the local status shows a task of the cloud: %s", a.Envelope)
	}
}

func TestCloudStatusFilters(t *testing.T) {
	t.Parallel()
	c := newCloudStage(t, nil)
	c.change(t, func(st *standin.State) { st.Environments = []string{"one", "two"} })
	var all []string
	for _, env := range []string{"one", "one", "two"} {
		all = append(all, submitted(t, ask(t, c.tools, "_codex_cloud_submit", args("task", "x", "envId", env))))
	}
	for _, run := range all {
		c.awaitCloud(t, run)
	}
	c.end(t, all[0], "READY")
	c.end(t, all[2], "ERROR")
	for _, x := range []struct {
		args                   string
		running, ended, listed int
	}{
		{`{}`, 1, 2, 2},
		{`{"list":true}`, 1, 2, 2},
		{`{"list":true,"limit":1}`, 1, 2, 1},
		{`{"list":true,"status":"submitted"}`, 1, 0, 0},
		{`{"list":true,"status":"completed"}`, 0, 1, 1},
		{`{"list":true,"status":"failed"}`, 0, 1, 1},
		{`{"list":true,"status":"cancelled"}`, 0, 0, 0},
		{`{"list":true,"envId":"one"}`, 1, 1, 1},
		{`{"list":true,"envId":"two","status":"failed"}`, 0, 1, 1},
		{`{"list":true,"env_id":"none"}`, 0, 0, 0},
		{`{"list":true,"workingDir":"/srv"}`, 0, 0, 0},
		{`{"taskId":"` + all[2] + `"}`, 0, 1, 1},
	} {
		a := ask(t, c.tools, "_codex_cloud_status", x.args)
		sum := a.Data["summary"].(map[string]any)
		got := fmt.Sprint(sum["running"], sum["recently_completed"], len(ids(a, "recently_completed")))
		if want := fmt.Sprint(x.running, x.ended, x.listed); got != want {
			t.Errorf("%s: %s, want %s", x.args, got, want)
		}
	}
	a := ask(t, c.tools, "_codex_cloud_status", `{"showStats":true}`)
	if st := a.Data["ext"].(map[string]any)["statistics"].(map[string]any); st["working"] != 1.0 ||
		st["completed"] != 1.0 || st["failed"] != 1.0 {
		t.Errorf("statistics %v", st)
	}
	refused(t, ask(t, c.tools, "_codex_cloud_status", args("taskId", all[0], "list", true)), "taskId", false)
}

func TestFailureOfTheProgramIsItsOwnError(t *testing.T) {
	t.Parallel()
	c := newCloudStage(t, nil)
	for behave, want := range map[string]struct {
		reason    string
		retryable bool
	}{
		standin.SignedOut: {"not_signed_in", false},
		standin.Offline:   {"network", true},
		standin.Crash:     {"exit_error", false},
		standin.Silent:    {"unreadable", false},
	} {
		c.change(t, func(st *standin.State) { st.Behave["exec"] = behave })
		a := ask(t, c.tools, "_codex_cloud_submit", `{"task":"x","envId":"env"}`)
		d := a.Error.Details
		if a.Error.Code != "TOOL_ERROR" || d["reason"] != want.reason || a.Error.Retryable != want.retryable ||
			d["exit_code"] == nil {
			t.Errorf("%s: %s", behave, a.Envelope)
		}
		if strings.Contains(string(a.Envelope), "hunter2") {
			t.Errorf("a secret is told: %s", a.Envelope)
		}
	}
}

func TestModelIsNotForTheCloud(t *testing.T) {
	t.Parallel()
	c := newCloudStage(t, nil)
	a := ask(t, c.tools, "_codex_cloud_submit", `{"task":"x","envId":"env","model":"m"}`)
	if a.Error.Code != "UNSUPPORTED" || a.Error.Details["field"] != "model" || a.Error.Retryable {
		t.Errorf("%s", a.Envelope)
	}
	if st, err := c.service.State(); err != nil || len(st.Calls) != 0 {
		t.Errorf("the program was called: %v %v", st.Calls, err)
	}
}

func TestCloudThatIsNotDrivenIsUnsupported(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for _, tool := range []string{"_codex_cloud_submit", "_codex_cloud_status", "_codex_cloud_results",
		"_codex_cloud_wait"} {
		a := ask(t, s.tools, tool, args(good[tool]...))
		if a.Error.Code != "UNSUPPORTED" || a.Error.Retryable || a.Error.Details["suggestion"] == nil {
			t.Errorf("%s: %s", tool, a.Envelope)
		}
	}
}

// forgetful cannot begin a log.
type forgetful struct{ logs }

func (forgetful) Open(context.Context, string, string, runs.Mark) (codexcloud.Log, error) {
	return nil, errors.New("the streams are gone")
}

func TestTaskThatIsTakenAndNotRecordedIsNotSubmittedAgain(t *testing.T) {
	t.Parallel()
	c := newCloudStage(t, nil)
	command, err := program()
	if err != nil {
		t.Fatal(err)
	}
	driver, err := codexcloud.New(codexcloud.Config{Command: []string{command}, Scratch: t.TempDir(),
		Logs: forgetful{logs{c.Operator}}, Env: c.service.Env()})
	if err != nil {
		t.Fatal(err)
	}
	c.serve(t, func(cfg *responder.Config) { cfg.Cloud = driver })
	a := ask(t, c.tools, "_codex_cloud_submit", `{"task":"x","envId":"env"}`)
	if a.Error.Code != "TOOL_ERROR" || a.Error.Retryable || a.Error.Details["reason"] != "not_recorded" ||
		a.Error.Details["cloud_id"] == nil ||
		a.Error.Details["web_ui_url"] == nil {
		t.Errorf("%s", a.Envelope)
	}
}

// oneEntry lets a log begin, and takes nothing more.
type oneEntry struct{ logs }

type beginning struct{ codexcloud.Log }

func (l oneEntry) Open(ctx context.Context, agent, run string, m runs.Mark) (codexcloud.Log, error) {
	log, err := l.logs.Open(ctx, agent, run, m)
	return beginning{log}, err
}

func (b beginning) Append(ctx context.Context, e runs.Entry) error {
	if b.Mark().Seq != 0 {
		return errors.New("the streams are gone")
	}
	return b.Log.Append(ctx, e)
}

func TestTaskWhoseRunDoesNotNameItIsNotSubmittedAgain(t *testing.T) {
	t.Parallel()
	c := newCloudStage(t, nil)
	command, err := program()
	if err != nil {
		t.Fatal(err)
	}
	driver, err := codexcloud.New(codexcloud.Config{Command: []string{command}, Scratch: t.TempDir(),
		Logs: oneEntry{logs{c.Operator}}, Env: c.service.Env()})
	if err != nil {
		t.Fatal(err)
	}
	c.serve(t, func(cfg *responder.Config) { cfg.Cloud = driver })
	a := ask(t, c.tools, "_codex_cloud_submit", `{"task":"x","envId":"env"}`)
	run, _ := a.Error.Details["task_id"].(string)
	if a.Error.Code != "TOOL_ERROR" || a.Error.Retryable || a.Error.Details["reason"] != "not_recorded" ||
		a.Error.Details["cloud_id"] == nil || a.Error.Details["web_ui_url"] == nil || run == "" ||
		strings.Contains(a.Error.Message, "created") {
		t.Fatalf("%s", a.Envelope)
	}
	c.Await(run, servicetest.Working)
}

// leaver is a cloud whose first caller leaves as soon as it is asked.
type leaver struct {
	*codexcloud.Driver
	leave context.CancelFunc
}

func (l *leaver) Submit(ctx context.Context, r codexcloud.Request) (codexcloud.Submitted, error) {
	l.leave()
	return l.Driver.Submit(ctx, r)
}

// TestSubmissionThatWaitedInVainCanBeRepeated: its client left before there was a slot for it, so its key is free.
func TestSubmissionThatWaitedInVainCanBeRepeated(t *testing.T) {
	t.Parallel()
	c := newCloudStage(t, nil)
	c.change(t, func(st *standin.State) { st.Behave["exec"] = standin.Hang })
	ctx, end := context.WithCancel(t.Context())
	var hung sync.WaitGroup
	for range 4 { // all slots of submissions
		hung.Go(func() { _, _ = c.driver.Submit(ctx, codexcloud.Request{Prompt: "Hang.", Environment: "env"}) })
	}
	for range 4 {
		c.service.AwaitHung(t)
	}
	waiting, leave := context.WithCancel(t.Context())
	c.serve(t, func(cfg *responder.Config) {
		cfg.Cloud, cfg.Requests = &leaver{c.driver, leave}, &idempotency.Requests{Store: streams(cfg).RequestStore()}
	})
	q := api.CloudSubmission{Prompt: "Go.", Environment: "env", Once: api.Once{Key: "a-key-of-16-letters"}}
	if got, err := c.Service.SubmitCloud(waiting, q); err == nil {
		t.Errorf("without a slot: %+v", got)
	}
	c.change(t, func(st *standin.State) { clear(st.Behave) })
	end()
	c.driver.Stop()
	hung.Wait()
	got, err := c.Service.SubmitCloud(t.Context(), q)
	if err != nil || got.Replayed {
		t.Fatalf("again: %+v, %v", got, err)
	}
	c.Await(got.Run, servicetest.Working)
	if st, err := c.service.State(); err != nil || len(st.Tasks) != 1 {
		t.Errorf("%d tasks, %v", len(st.Tasks), err)
	}
}
