package responder_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// stage is a service beside a normalizer that knows all agents.
func stage(t *testing.T) *servicetest.Streams {
	t.Helper()
	s := servicetest.New(t)
	s.Service = responder.New(responder.Config{Streams: s.Bus, Queue: bus.DefaultQueue, Agents: known.All(),
		Patience: fixture.Patience})
	servicetest.During(t, "service", s.Service.Run)
	if err := s.Service.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// A task that resumes a session is of the session's agent, in the session's directory, and
// of no other.
func TestASessionIsResumedByItsOwnAgent(t *testing.T) {
	t.Parallel()
	s := stage(t)
	sessions := s.Sessions()
	for i, one := range sessions {
		kind, other := one.Agent.Kind(), sessions[(i+1)%len(sessions)].Agent
		v, _ := s.Service.Get(one.Run)
		if thread, err := s.Service.Resumable(v); thread != one.ID || err != nil {
			t.Errorf("%s: the thread is %q (%v), want %q", kind, thread, err, one.ID)
		}
		for _, q := range []api.Submission{
			{Task: runs.Task{Attributes: runs.Attributes{Thread: one.ID}}},
			{Task: runs.Task{Attributes: runs.Attributes{Thread: one.ID, Agent: kind}}},
			{Task: runs.Task{Attributes: runs.Attributes{Thread: one.ID, Agent: one.Agent.Short}}},
			{Task: runs.Task{Attributes: runs.Attributes{Thread: strings.ToUpper(one.ID)}}},
		} {
			if q.Thread != one.ID && kind == "opencode" { // its ids are no UUIDs
				continue
			}
			q.Prompt = "Go on."
			if _, err := s.Service.Submit(t.Context(), q); err != nil {
				t.Errorf("%s: %+v: %v", kind, q, err)
				continue
			}
			if got := s.Task(); got.Agent != kind || got.Thread != q.Thread || got.Dir != "/srv/"+one.Agent.Short {
				t.Errorf("%s: %+v becomes a task of %s in %s", kind, q, got.Agent, got.Dir)
			}
		}
		err := s.Service.CheckSubmit(api.Submission{Task: runs.Task{Attributes: runs.Attributes{Thread: one.ID,
			Agent: other.Short}, Prompt: "Go on."}})
		var e *api.Error
		if !errors.As(err, &e) || e.Field != api.FieldThread || len(e.Issues) != 1 ||
			e.Message != "belongs to "+one.Agent.Name+", which alone can resume it" {
			t.Errorf("%s: resumed by %s: %v", kind, other.Short, err)
		}
	}
}

// A task of an agent has what the agent can do, and the reason for everything else.
func TestSubmissionChecksWhatTheAgentCanDo(t *testing.T) {
	schema := []byte(`{"type":"object"}`)
	s := responder.New(responder.Config{})
	for _, a := range known.Agents {
		for name, c := range map[string]struct {
			q    api.Submission
			want map[string]string // by short name; "": of the others
		}{
			"a task": {api.Submission{Task: runs.Task{Attributes: runs.Attributes{Mode: runs.WorkspaceWrite, Dir: "/srv",
				Model: "m"}, SkipGit: true, Idle: 1, Hard: 1}, Confirm: true}, nil},
			"a schema": {api.Submission{Task: runs.Task{Schema: schema}}, map[string]string{
				"gemini":   "outputSchema: is not for Gemini CLI: it cannot keep to a schema",
				"opencode": "outputSchema: is not for opencode: it cannot keep to a schema"}},
			"a session by name": {api.Submission{Task: runs.Task{Attributes: runs.Attributes{Thread: "name"}}},
				map[string]string{
					"codex":    "threadId: must be the id of a thread, a UUID",
					"opencode": "threadId: must be the id of a session: ses_ and letters and digits",
					"":         "threadId: must be the id of a session, a UUID"}},
		} {
			want, ok := c.want[a.Short]
			if !ok {
				want = c.want[""]
			}
			c.q.Prompt, c.q.Agent = "x", a.Short
			got := ""
			if err := s.CheckSubmit(c.q); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s: %s: %q, want %q", a.Short, name, got, want)
			}
		}
	}
}

func TestRunsThatCannotBeResumedTellWhy(t *testing.T) {
	s := responder.New(responder.Config{})
	for _, c := range []struct {
		row  runs.Header
		code api.Code
		want string
	}{
		{runs.Header{Summary: runs.Summary{Attributes: runs.Attributes{Agent: "codex_cloud", Thread: "x"}}}, api.Unsupported,
			"runs of codex_cloud cannot be resumed, only those of codex, claude, gemini, opencode"},
		{runs.Header{Summary: runs.Summary{Attributes: runs.Attributes{Agent: "external"}, State: runs.StateInputRequired}},
			api.Unsupported,
			"runs of external cannot be resumed, only those of codex, claude, gemini, opencode"},
		{runs.Header{Summary: runs.Summary{Attributes: runs.Attributes{Agent: "gemini_cli"}, State: runs.StateQueued}},
			api.Conflict,
			"it has no thread yet: wait until it works, or has ended"},
		{runs.Header{Summary: runs.Summary{Attributes: runs.Attributes{Agent: "claude_code"}, State: runs.StateFailed}},
			api.Conflict,
			"it ended before it had a thread: submit a new task"},
		{runs.Header{Summary: runs.Summary{Attributes: runs.Attributes{Agent: "opencode", Thread: "s-1"},
			State: runs.StateFailed}}, api.Conflict,
			"its thread cannot be resumed: it must be the id of a session: ses_ and letters and digits"},
	} {
		c.row.ID = "T-1"
		_, err := s.Resumable(c.row)
		var e *api.Error
		if !errors.As(err, &e) || e.Code != c.code || e.Message != c.want || e.Run != "T-1" || e.State != c.row.State ||
			e.Retryable != (c.row.State == runs.StateQueued) {
			t.Errorf("%s: %+v, want %s", c.row.Agent, err, c.want)
		}
	}
}

// A task that was asked to resume a thread, and never did, says nothing about whose it is.
func TestAThreadIsOfTheAgentThatReportedIt(t *testing.T) {
	t.Parallel()
	s := stage(t)
	const thread = "0199a213-81c0-7800-8aa1-bbab2a035999"
	if _, err := s.Service.Submit(t.Context(),
		api.Submission{Task: runs.Task{Attributes: runs.Attributes{Thread: thread}, Prompt: "x"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Service.CheckSubmit(api.Submission{Task: runs.Task{Attributes: runs.Attributes{Thread: thread,
		Agent: "claude"}, Prompt: "x"}}); err != nil {
		t.Errorf("another agent may not resume it: %v", err)
	}
	told := s.Sessions()[1] // of Claude Code
	err := s.Service.CheckSubmit(api.Submission{Task: runs.Task{Attributes: runs.Attributes{Thread: told.ID,
		Agent: "codex"}, Prompt: "x"}})
	if err == nil || !strings.Contains(err.Error(), "belongs to Claude Code") {
		t.Errorf("a thread of %s: %v", told.Agent.Name, err)
	}
}

// A task of an agent that only speaks the Agent Client Protocol is a live run, also if nobody said so.
func TestATaskOfAnAgentWithoutACommandLineIsLive(t *testing.T) {
	t.Parallel()
	s := stage(t)
	for agent, live := range map[string]bool{"qwen": true, "qwen_code": true, "gemini": false} {
		if _, err := s.Service.Submit(t.Context(), api.Submission{Task: runs.Task{Attributes: runs.Attributes{Agent: agent,
			Dir: "/"}, Prompt: "x"}}); err != nil {
			t.Fatalf("%s: %v", agent, err)
		}
		if task := s.Task(); task.Live != live {
			t.Errorf("%s: live is %t", agent, task.Live)
		}
	}
	schema := runs.Task{Attributes: runs.Attributes{Agent: "qwen"}, Prompt: "x", Schema: []byte("{}")}
	err := s.Service.CheckSubmit(api.Submission{Task: schema})
	if err == nil || !strings.Contains(err.Error(), "not with live") {
		t.Errorf("a schema: %v", err)
	}
	thread, err := s.Service.Resumable(runs.Header{Summary: runs.Summary{ID: "r",
		Attributes: runs.Attributes{Agent: "qwen_code", Thread: "t"}}})
	if thread != "t" || err != nil {
		t.Errorf("resumed: %q, %v", thread, err)
	}
}

// Two processes of a thread would write to one session: while a live run is open, no other one gets its thread, and no
// live run that of another one that is open.
func TestThreadOfAnOpenLiveRunIsItsOwn(t *testing.T) {
	t.Parallel()
	s := stage(t)
	s.Sessions()
	const thread = "01a1fd7c-3234-7431-a730-2b1ea25bc866"
	l := s.BeginLive("codex", "keeps", runs.Start{Source: "queue", Worker: "w1", Keep: true})
	l.Await("keeps", func(v runs.Header) bool { return v.Thread == thread })
	submit := func(live bool) (api.Submitted, error) {
		return s.Service.Submit(t.Context(), api.Submission{Task: runs.Task{
			Attributes: runs.Attributes{Thread: thread, Agent: "codex", Dir: "/srv"}, Prompt: "Go on.", Live: live,
		}})
	}
	for _, live := range []bool{false, true} {
		if _, err := submit(live); !api.Is(err, api.Conflict) || api.Known(err).Run != "keeps" {
			t.Errorf("live %t, beside an open live run: %v", live, err)
		}
	}
	l.Quit()
	if _, err := submit(true); err != nil || s.Task().Thread != thread {
		t.Fatalf("after its end: %v", err)
	}
	if _, err := submit(true); !api.Is(err, api.Conflict) {
		t.Errorf("beside a live one that is queued: %v", err)
	}
}

// The session of a person is continued a minute after its last change, whether its program still runs or not; before,
// only by force.
func TestSessionOfAPersonIsContinuedWhenItIsQuiet(t *testing.T) {
	t.Parallel()
	s := stage(t)
	for name, c := range map[string]struct {
		ago   time.Duration
		ended bool
		want  bool
	}{
		"now": {0, false, false}, "ended now": {0, true, false},
		"before": {2 * time.Minute, false, true}, "ended before": {2 * time.Minute, true, true},
	} {
		id := "p-" + strings.ReplaceAll(name, " ", "-")
		thread := fmt.Sprintf("01a1fd7c-3234-7431-a730-%012x", len(name))
		at := time.Now().Add(-c.ago)
		l := s.BeginAt("codex", id, at.UnixMilli(), runs.Start{Source: runs.SourceSession, Worker: "w1", Person: true}).
			Out(fmt.Appendf(nil, `{"timestamp":%q,"type":"session_meta","payload":{"id":%q,"cwd":"/srv"}}`+"\n",
				at.UTC().Format(time.RFC3339Nano), thread))
		s.Await(id, func(v runs.Header) bool { return v.Thread == thread })
		if c.ended {
			l.End(runs.Exit{Reason: runs.ReasonEOF})
		}
		for _, live := range []bool{false, true} {
			for _, force := range []bool{false, true} {
				q := api.Submission{Force: force, Task: runs.Task{Attributes: runs.Attributes{Thread: thread}, Prompt: "Go on.",
					Live: live}}
				all, err := s.Service.Sessions(t.Context(), api.List{Thread: thread})
				if err != nil || len(all.Sessions) != 1 || (all.Sessions[0].Refused == "") != c.want {
					t.Fatalf("%s: %+v, error %v", name, all, err)
				}
				done, err := s.Service.Submit(t.Context(), q)
				if ok := c.want || force; ok != (err == nil) {
					t.Errorf("%s, live %t, force %t: %v", name, live, force, err)
				}
				if err != nil {
					if e := api.Known(err); e.Code != api.Conflict || e.Run != id || !strings.Contains(e.Message, "use force") {
						t.Errorf("%s: %+v", name, e)
					}
					continue
				}
				if _, err := s.Service.Cancel(t.Context(), api.Cancel{Run: done.Run}); err != nil {
					t.Fatal(err)
				}
				s.Await(done.Run, servicetest.Ended) // without the thread: the session is as it was
			}
		}
	}
}

// There is one session a thread, whatever its runs are, and none where no task can continue it.
func TestSessionsAreThreads(t *testing.T) {
	t.Parallel()
	s := stage(t)
	told := s.Sessions()
	s.Begin("codex", "again", runs.Start{Source: "run", Worker: "w1", Attributes: runs.Attributes{Dir: "/srv/codex",
		Thread: strings.ToUpper(told[0].ID), Title: "Again"}})
	s.Await("again", servicetest.Working)
	s.Begin("codex", "none", runs.Start{Source: "run", Worker: "w1"}).Exit(0)
	s.Begin("codex_cloud", "cloud", runs.Start{Source: "cloud", Attributes: runs.Attributes{Thread: told[0].ID + "x"}})
	s.Await("cloud", servicetest.Working)
	var got []string
	for q := (api.List{Limit: 3}); ; {
		page, err := s.Service.Sessions(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range page.Sessions {
			got = append(got, one.Newest.ID+" "+one.Refused)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	slices.Sort(got)
	want := []string{"T-session-claude ", "T-session-gemini ", "T-session-opencode ",
		"again its thread is that of an open run, which has to end before"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for q, want := range map[*api.List]string{
		{Agent: "claude"}: "T-session-claude", {Dir: "/srv/codex/"}: "again", {Dir: "/srv"}: "",
	} {
		page, err := s.Service.Sessions(t.Context(), *q)
		one := ""
		for _, v := range page.Sessions {
			one += v.Newest.ID
		}
		if err != nil || one != want {
			t.Errorf("%+v: %q, error %v", *q, one, err)
		}
	}
	if _, err := s.Service.Sessions(t.Context(), api.List{Limit: 101}); !api.Is(err, api.Validation) {
		t.Errorf("a page of 101: %v", err)
	}
}
