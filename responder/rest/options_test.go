package rest_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/responder/rest"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// The options that only some agents have arrive in the work queue as one form, however they are given; what the agents
// of the live workers cannot do is refused, with its id.
func TestOptionsOfRuns(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for body, want := range map[string]runs.Task{
		`{"task":"go","workingDir":"/srv","addDirs":["a","../b/","a"]}`: {
			Attributes: runs.Attributes{Mode: runs.ReadOnly, Dir: "/srv"}, AddDirs: []string{"/srv/a", "/b", "/srv/a"}},
		`{"task":"go","workingDir":"/srv","extensions":{"agent_api.exec.add_dirs.v1":{"dirs":[" a "]},` +
			`"agent_api.config.model.v1":" m "}}`: {
			Attributes: runs.Attributes{Mode: runs.ReadOnly, Dir: "/srv", Model: "m"}, AddDirs: []string{"/srv/a"}},
		`{"task":"go","workingDir":"/srv","external_sandbox":true}`: {
			Attributes: runs.Attributes{Mode: runs.DangerFull, Dir: "/srv"}, Unboxed: new(true)},
		`{"task":"go","workingDir":"/srv","externalSandbox":false}`: {
			Attributes: runs.Attributes{Mode: runs.ReadOnly, Dir: "/srv"}},
		`{"task":"go","workingDir":"/srv","live":true,"nonInteractive":true}`: {
			Attributes: runs.Attributes{Mode: runs.ReadOnly, Dir: "/srv"}, Live: true, Ask: new(false)},
		`{"task":"go","workingDir":"/srv","nonInteractive":false}`: {
			Attributes: runs.Attributes{Mode: runs.ReadOnly, Dir: "/srv"}},
	} {
		s.want(202, "POST", "/v1/runs", body)
		got := s.Task().Task
		got.Title, got.Agent, got.Labels, want.Prompt = "", "", "", "go"
		if a, b := string(runs.Encode(got)), string(runs.Encode(want)); a != b {
			t.Errorf("%s: the task is\n%s, want\n%s", body, a, b)
		}
	}

	for body, want := range map[string]api.Issue{
		`{"task":"go","addDirs":"a"}`:          {Field: "addDirs", Problem: "must be an array of strings"},
		`{"task":"go","externalSandbox":"no"}`: {Field: "externalSandbox", Problem: "must be true or false"},
		`{"task":"go","extensions":{"agent_api.exec.add_dirs.v1":{"dirs":[" "]}}}`: {Field: "extensions",
			Problem: "invalid agent_api.exec.add_dirs.v1.dirs[0]"},
		`{"task":"go","externalSandbox":true,"mode":"read-only"}`: {Field: "mode",
			Problem: "must be absent or danger-full-access with externalSandbox"},
	} {
		var p rest.Problem
		s.want(400, "POST", "/v1/runs", body).read(t, &p)
		if len(p.Issues) == 0 || p.Issues[0] != want {
			t.Errorf("%s: %+v, want %+v", body, p.Issues, want)
		}
	}
	unsupported := func(body, kind, capability string) {
		t.Helper()
		var p rest.Problem
		s.want(http.StatusNotImplemented, "POST", "/v1/runs", body).read(t, &p)
		if p.Code != "UNSUPPORTED" || p.Details == nil || *p.Details != (rest.Missing{Agent: kind, Capability: capability}) {
			t.Errorf("%s: %+v %+v", body, p, p.Details)
		}
	}
	unsupported(`{"task":"go","agent":"gemini","addDirs":7,"mode":"x"}`, "gemini_cli", runs.CanAddDirs)
	unsupported(`{"task":"go","extensions":{"agent_api.tools.mcp.add.v1":{}}}`, "codex", "agent_api.tools.mcp.add.v1")

	beat := func(id string, can map[string][]string) (stop func()) {
		return servicetest.During(t, id, func(ctx context.Context) error {
			s.Operator.SendHeartbeats(ctx, time.Minute, func() runs.Heartbeat {
				return runs.Heartbeat{ID: id, Name: id, Queue: bus.DefaultQueue, Slots: 1, Capabilities: can}
			})
			return nil
		})
	}
	workers := func() (all api.Workers) {
		s.want(200, "GET", "/v1/workers", "").read(t, &all)
		return all
	}
	beat("old", nil)
	fixture.Eventually(t, fixture.Patience, "a worker", func() bool { return len(workers().Workers) == 1 })
	unsupported(`{"task":"go","externalSandbox":true}`, "codex", runs.CanUnboxed)
	s.want(202, "POST", "/v1/runs", `{"task":"go","model":"m"}`)
	s.Task()
	beat("new", map[string][]string{"codex": {runs.CanAddDirs, runs.CanUnboxed}})
	fixture.Eventually(t, fixture.Patience, "another worker", func() bool { return len(workers().Workers) == 2 })
	for _, w := range workers().Workers {
		if can := w.Capabilities["codex"]; w.ID == "new" != slices.Contains(can, runs.CanUnboxed) {
			t.Errorf("worker %s can %q", w.ID, can)
		}
	}
	s.want(202, "POST", "/v1/runs", `{"task":"go","externalSandbox":true,"addDirs":["a"]}`)
	if task := s.Task(); !task.IsUnboxed() || len(task.AddDirs) != 1 {
		t.Errorf("the task is %+v", task)
	}
	unsupported(`{"task":"go","agent":"claude","addDirs":["a"]}`, "claude_code", runs.CanAddDirs)
	unsupported(`{"task":"go","nonInteractive":true}`, "codex", runs.CanNotAsk)

	var again runs.QueuedTask // of an older release
	if err := json.Unmarshal([]byte(`{"run":"T-local-x","agent":"codex","mode":"read-only","prompt":"go"}`), &again); err != nil ||
		again.Check() != nil || again.Needs() != nil {
		t.Errorf("%+v: %v, %v", again, err, again.Check())
	}
}
