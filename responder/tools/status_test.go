package tools_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/tools"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

func TestStatusTellsWhatRunsWaitsAndEnded(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	if a := ask(t, s.tools, "_codex_local_status", `{}`); len(a.Data) != 1 || a.Meta["total"] != 0.0 {
		t.Errorf("of nothing: %s", a.Envelope)
	}
	for i := range 7 {
		s.play(t, fmt.Sprintf("T-done-%d", i), "hello", i%2) // every other one fails
	}
	out, _ := recording(t, "shell-fail")
	working := s.Begin("codex", "T-working", runs.Start{Source: "queue", Attributes: runs.Attributes{Dir: "/srv/a"},
		Worker: "w1"})
	working.Out(out[:900])
	s.Await("T-working", servicetest.Active)
	q1 := submitted(t, ask(t, s.tools, "_codex_local_exec", `{"task":"x","workingDir":"/srv/a"}`))
	q2 := submitted(t, ask(t, s.tools, "_codex_local_exec", `{"task":"x","workingDir":"/srv/b"}`))
	a := ask(t, s.tools, "_codex_local_status", `{"verbose":true}`)
	summary := a.Data["summary"].(map[string]any)
	if summary["running"] != 1.0 || summary["queued"] != 2.0 || summary["recently_completed"] != 7.0 ||
		a.Meta["total"] != 3.0 {
		t.Errorf("summary %v, meta %v", summary, a.Meta)
	}
	task := a.Data["tasks"].([]any)[0].(map[string]any)
	progress := task["progress"].(map[string]any)
	if progress["current_activity"] == "" || progress["percent"].(float64) <= 0 {
		t.Errorf("progress %v", progress)
	}
	if ext, _ := task["ext"].(map[string]any); ext["plan"] != nil {
		t.Errorf("the plan of an agent without one: %v", ext)
	}
	if lines := task["last_lines"].([]any); len(lines) == 0 || len(lines) > 5 {
		t.Errorf("%d last lines", len(lines))
	}
	if got := ids(a, "queue"); !slices.Equal(got, []string{q1, q2}) {
		t.Errorf("queue %q", got)
	}
	if p := a.Data["queue"].([]any)[1].(map[string]any)["position"]; p != 1.0 {
		t.Errorf("position %v", p)
	}
	if got := ids(a, "recently_completed"); !slices.Equal(got, []string{"T-done-6", "T-done-5", "T-done-4", "T-done-3",
		"T-done-2"}) {
		t.Errorf("recently completed %q", got)
	}
	for _, c := range []struct {
		args                   string
		running, queued, ended int
		recent                 int
	}{
		{`{"limit":100}`, 1, 2, 7, 7},
		{`{"showAll":false}`, 1, 2, 0, 0},
		{`{"workingDir":"/srv/a"}`, 1, 1, 0, 0},
		{`{"workingDir":"/srv/a/"}`, 1, 1, 0, 0},
		{`{"workingDir":"/home/dev/project","limit":2}`, 0, 0, 7, 2},
		{`{"task_id":"T-working"}`, 1, 0, 0, 0},
		{`{"task_id":"` + q2 + `"}`, 0, 1, 0, 0},
		{`{"task_id":"T-done-1"}`, 0, 0, 1, 1},
		// Other filters count, too.
		{`{"task_id":"T-working","workingDir":"/srv/a","state":"working","since":"2020-01-01T00:00:00Z"}`, 1, 0, 0, 0},
		{`{"task_id":"T-working","workingDir":"/srv/b"}`, 0, 0, 0, 0},
		{`{"task_id":"T-working","state":"completed"}`, 0, 0, 0, 0},
		{`{"task_id":"T-working","labels":["a=b"]}`, 0, 0, 0, 0},
		{`{"task_id":"T-working","until":"2020-01-01T00:00:00Z"}`, 0, 0, 0, 0},
		{`{"task_id":"T-working","unseen":true}`, 0, 0, 0, 0},
		{`{"task_id":"T-working","agent":"opencode"}`, 0, 0, 0, 0},
		{`{"task_id":"T-working","showAll":false}`, 1, 0, 0, 0},
		{`{"task_id":"T-done-1","showAll":false}`, 0, 0, 0, 0},
	} {
		a := ask(t, s.tools, "_codex_local_status", c.args)
		sum := a.Data["summary"].(map[string]any)
		got := []float64{sum["running"].(float64), sum["queued"].(float64), sum["recently_completed"].(float64),
			float64(len(ids(a, "recently_completed")))}
		if want := []float64{float64(c.running), float64(c.queued), float64(c.ended), float64(c.recent)}; !slices.Equal(got,
			want) {
			t.Errorf("%s: %v, want %v", c.args, got, want)
		}
	}
	for _, wrong := range []string{"since", "until"} {
		refused(t, ask(t, s.tools, "_codex_local_status", args("task_id", "T-working", wrong, "yesterday")), wrong, false)
	}
	refused(t, ask(t, s.tools, "_codex_local_status", `{"task_id":"T-working","labels":["a"]}`), "labels", false)
	if ext := a.Data["ext"].(map[string]any)["stream"].(map[string]any); ext["seq"].(float64) < 1 {
		t.Errorf("based on %v", ext)
	}
}

func ids(a answer, list string) (all []string) {
	entries, _ := a.Data[list].([]any)
	for _, e := range entries {
		all = append(all, e.(map[string]any)["task_id"].(string))
	}
	return all
}

func TestTaskOfALostWorkerIsMarkedLost(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	impatient := responder.New(responder.Config{Streams: s.Operator, Queue: bus.DefaultQueue, LostAfter: time.Nanosecond,
		Patience: fixture.Patience})
	servicetest.During(t, "responder", impatient.Run)
	if err := impatient.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Begin("codex", "T-1", runs.Start{Source: "queue", Worker: "w`1"})
	other := &servicetest.Streams{T: t, Service: impatient}
	other.Await("T-1", func(v runs.Header) bool { return v.WorkerLost })
	a := ask(t, tools.New(impatient), "_codex_local_status", `{}`)
	ext, _ := a.Data["tasks"].([]any)[0].(map[string]any)["ext"].(map[string]any)
	if ext["lost"] != true || ext["worker"] != "w`1" || !strings.Contains(a.Text(), "lost: worker `` w`1 `` is silent") {
		t.Errorf("%s\n%s", a.Envelope, a.Text())
	}
}

func TestNoAnswerBeforeTheTableIsRead(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	d := tools.New(responder.New(responder.Config{Streams: s.Operator, Queue: bus.DefaultQueue})) // not running
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, tool := range []string{"_codex_local_status", "_codex_local_run"} {
		a := start(ctx, t, d, tool, args(good[tool]...), nil)()
		if a.Error.Code != "INTERNAL" || !a.Error.Retryable {
			t.Errorf("%s: %s", tool, a.Envelope)
		}
	}
}

// Nobody has made the streams yet, as where no normalizer has run, or the
// server has no room for them.
func TestErrorsNameWhatTheTableWaitsFor(t *testing.T) {
	t.Parallel()
	names := bus.Names{Prefix: bus.DefaultPrefix}
	server, err := embedded.StartServer(t.TempDir(), "127.0.0.1:0", names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	b, err := server.Connect(bustest.Patient(t), embedded.OperatorUser, names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	r := responder.New(responder.Config{Streams: b, Queue: bus.DefaultQueue, Cause: b.Cause})
	servicetest.During(t, "responder", r.Run)
	d := tools.New(r)
	for _, tool := range []string{"_codex_local_status", "_codex_local_run"} {
		fixture.Eventually(t, fixture.Patience, tool+" does not name it", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			a := start(ctx, t, d, tool, args(good[tool]...), nil)()
			if a.Error.Code != "INTERNAL" || !a.Error.Retryable {
				t.Fatalf("%s: %s", tool, a.Envelope)
			}
			return a.Error.Message == "the run table is not read yet: stream KV_linesman_runs: it does not exist yet: a "+
				"normalizer makes it"
		})
	}
}

func TestErrorsNameTheCauseInTheStreams(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *responder.Config) { c.Cause = bus.Cause })
	if err := s.jetstream(t).DeleteStream(t.Context(), s.Operator.Work()); err != nil {
		t.Fatal(err)
	}
	a := ask(t, s.tools, "_codex_local_run", `{"task": "Go.", "mode": "read-only"}`)
	if a.Error.Code != "INTERNAL" || !a.Error.Retryable || !strings.HasPrefix(a.Error.Message, "no stream takes it now") {
		t.Errorf("%s", a.Envelope)
	}
}

// TestManyTasksAreBounded has more of them than an answer lists.
func TestManyTasksAreBounded(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	const all = 1040
	var group errgroup.Group
	group.SetLimit(32)
	for i := range all {
		group.Go(func() error {
			raw, err := s.Operator.OpenLog(t.Context(), "codex", fmt.Sprintf("T-%04d", i), runs.Mark{})
			if err != nil {
				return err
			}
			return raw.Append(t.Context(), runs.Entry{Kind: runs.Started, Time: servicetest.Begun,
				Body: runs.Encode(runs.Start{Source: "run"})})
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		s.Await(fmt.Sprintf("T-%04d", i), servicetest.Working)
	}
	a := ask(t, s.tools, "_codex_local_status", `{}`)
	if n := len(ids(a, "tasks")); n != 1000 || a.Meta["total"] != float64(all) ||
		a.Data["ext"].(map[string]any)["tasks_unlisted"] != 40.0 {
		t.Errorf("%d tasks, %v in all", n, a.Meta["total"])
	}
	if len(a.Envelope) > 300<<10 || !strings.Contains(a.Text(), "- 40 more\n") {
		t.Errorf("an answer of %d bytes", len(a.Envelope))
	}
}

func TestCancelReportsTheStateOfTheTask(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	id := submitted(t, ask(t, s.tools, "_codex_local_exec", `{"task":"x"}`))
	a := ask(t, s.tools, "_codex_local_cancel", args("task_id", id, "reason", "No longer <needed>"))
	if a.Data["state"] != "cancelled" || a.Data["previous_state"] != "queued" || a.Data["reason"] != "No longer <needed>" {
		t.Errorf("a queued one: %s", a.Envelope)
	}
	s.Await(id, servicetest.Ended)
	a = ask(t, s.tools, "_codex_local_cancel", args("taskId", id))
	if a.Error.Code != "VALIDATION" || a.Error.Details["state"] != "cancelled" || a.Error.Details["field"] != "taskId" {
		t.Errorf("one that has ended: %s", a.Envelope)
	}
	s.Begin("codex", "T-1", runs.Start{Source: "run"}) // its worker is gone
	s.Await("T-1", servicetest.Working)
	a = ask(t, s.tools, "_codex_local_cancel", `{"task_id":"T-1"}`)
	if a.Data["state"] != "cancelling" || a.Data["previous_state"] != "working" {
		t.Errorf("one that works: %s", a.Envelope)
	}
	r := ask(t, s.tools, "_codex_local_results", args("task_id", id))
	if r.Data["state"] != "cancelled" || r.Data["duration_seconds"] != 0.0 {
		t.Errorf("results of a cancelled one: %s", r.Envelope)
	}
}

func TestCleanupCountsAndBoundsWhatItLists(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for i := range 60 {
		s.Begin("codex", fmt.Sprintf("T-stuck-%02d", i), runs.Start{Source: "run"})
	}
	s.play(t, "T-old", "hello", 0)
	for i := range 60 { // which come in any order
		s.Await(fmt.Sprintf("T-stuck-%02d", i), servicetest.Working)
	}
	// Silence before the responder started counts by the times of the records.
	later := responder.New(responder.Config{Streams: s.Operator, Queue: bus.DefaultQueue, LostAfter: time.Minute,
		Patience: fixture.Patience})
	servicetest.During(t, "another responder", later.Run)
	other := tools.New(later)
	for _, dry := range []bool{true, false} {
		a := ask(t, other, "_codex_cleanup_registry", args("dryRun", dry))
		stuck, old := a.Data["stuck_tasks"].(map[string]any), a.Data["old_tasks"].(map[string]any)
		done := map[bool]float64{true: 0, false: 60}[dry]
		if stuck["found"] != 60.0 || stuck["cleaned"] != done || len(stuck["task_ids"].([]any)) != 50 ||
			old["found"] != 1.0 || old["deleted"] != min(done, 1) ||
			old["oldest_age_hours"].(float64) < 24 {
			t.Errorf("dry %v: %s", dry, a.Envelope)
		}
		if a.Meta["dry_run"] != dry || a.Meta["stuck_threshold_seconds"] != 3600.0 || a.Meta["old_threshold_hours"] != 24.0 {
			t.Errorf("meta %v", a.Meta)
		}
	}
	if a := ask(t, other, "_codex_local_results", `{"task_id":"T-old"}`); a.Error.Code != "NOT_FOUND" {
		t.Errorf("an old one that was removed: %s", a.Envelope)
	}
}
