package responder_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

const threadID = "0199a213-81c0-7800-8aa1-bbab2a03500"

// began begins a run of Codex in a directory, with the thread of a number, so many minutes after others.
func began(s *servicetest.Streams, minutes int64, id, n, dir string) *servicetest.Log {
	start := runs.Start{Source: "run", Worker: "w1", Attributes: runs.Attributes{Dir: dir}}
	l := s.BeginAt("codex", id, servicetest.Begun+minutes*60_000, start).
		Out([]byte(`{"type":"thread.started","thread_id":"` + threadID + n + `"}` + "\n"))
	s.Await(id, func(v runs.Header) bool { return v.Thread != "" })
	return l
}

func earlier(agent, dir string, resume, fork *api.ThreadRef) api.Submission {
	return api.Submission{
		Task:   runs.Task{Attributes: runs.Attributes{Agent: agent, Dir: dir}, Prompt: "Go on."},
		Resume: resume, Fork: fork,
	}
}

var last = &api.ThreadRef{Selector: api.SelectLast}

// The last thread is the one whose newest run ended last, of the agent in the directory, by any of its paths; one that
// works is a conflict.
func TestLastThreadIsTheOneThatEndedLast(t *testing.T) {
	t.Parallel()
	s := stage(t)
	s.Sessions() // of others, elsewhere
	dir, linked := t.TempDir(), filepath.Join(t.TempDir(), "linked")
	dir, err := filepath.EvalSymlinks(dir)
	if err == nil {
		err = os.Symlink(dir, linked)
	}
	if err != nil {
		t.Fatal(err)
	}
	submit := func(q api.Submission) (api.Submitted, error) { return s.Service.Submit(t.Context(), q) }
	for _, q := range []api.Submission{
		earlier("codex", dir, last, nil), earlier("codex", dir, nil, last), earlier("claude", dir, last, nil),
	} {
		if _, err := submit(q); !api.Is(err, api.NotFound) || api.Known(err).Message != "no session found" {
			t.Errorf("without a session: %v", err)
		}
	}
	first, second := began(s, 0, "first", "8", dir), began(s, 1, "second", "9", dir)
	if _, err := submit(earlier("codex", dir, last, nil)); !api.Is(err, api.Conflict) {
		t.Errorf("two work: %v", err)
	}
	second.Exit(0)
	if _, err := submit(earlier("codex", dir, nil, last)); !api.Is(err, api.Conflict) || api.Known(err).Run != "first" {
		t.Errorf("one works: %v", err)
	}
	first.At = second.At + 1 // though it began first
	first.Exit(0)
	for _, path := range []string{dir, linked, dir + "/"} {
		done, err := submit(earlier("", path, nil, last)) // by default of Codex
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Task(); got.ForkedFrom != threadID+"8" || got.Thread != "" || done.Thread != "" || got.Dir != dir {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if _, err := submit(earlier("claude", dir, last, nil)); !api.Is(err, api.NotFound) {
		t.Errorf("of another agent: %v", err)
	}
	done, err := submit(earlier("codex", linked, last, nil))
	if got := s.Task(); err != nil || got.Thread != threadID+"8" || got.ForkedFrom != "" || done.Thread != got.Thread {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := submit(earlier("codex", dir, last, nil)); !api.Is(err, api.Conflict) {
		t.Errorf("the last one is to be continued already: %v", err)
	}
}

// Links are those of the responder's machine: the task is in the directory as the worker of the thread has told it.
func TestLastThreadIsInTheDirectoryOfItsWorker(t *testing.T) {
	t.Parallel()
	s := stage(t)
	linked := filepath.Join(t.TempDir(), "linked")
	if err := os.Symlink(t.TempDir(), linked); err != nil {
		t.Fatal(err)
	}
	began(s, 0, "remote", "8", linked).Exit(0)
	_, err := s.Service.Submit(t.Context(), earlier("codex", linked, last, nil))
	if got := s.Task(); err != nil || got.Thread != threadID+"8" || got.Dir != linked {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := s.Service.Submit(t.Context(), earlier("codex", linked, last, nil)); !api.Is(err, api.Conflict) {
		t.Errorf("the last one is to be continued already: %v", err)
	}
}

// The session of a person is one of them; while its program may still use it, only by force.
func TestLastThreadMayBeThatOfAPerson(t *testing.T) {
	t.Parallel()
	s := stage(t)
	for id, ago := range map[string]time.Duration{"9": 0, "8": time.Hour} {
		at := time.Now().Add(-ago)
		s.BeginAt("codex", "p"+id, at.UnixMilli(), runs.Start{Source: runs.SourceSession, Worker: "w1", Person: true}).
			Out([]byte(`{"timestamp":"` + at.UTC().Format(time.RFC3339Nano) + `","type":"session_meta","payload":{"id":"` +
				threadID + id + `","cwd":"/srv/` + id + `"}}` + "\n"))
		s.Await("p"+id, func(v runs.Header) bool { return v.Thread != "" && v.Dir != "" })
	}
	if _, err := s.Service.Submit(t.Context(), earlier("codex", "/srv/9", last, nil)); !api.Is(err, api.Conflict) {
		t.Errorf("one that changed just now: %v", err)
	}
	forced := earlier("codex", "/srv/9", last, nil)
	forced.Force = true
	for _, q := range []api.Submission{forced, earlier("codex", "/srv/8", last, nil)} {
		if _, err := s.Service.Submit(t.Context(), q); err != nil || s.Task().Thread != threadID+q.Dir[len("/srv/"):] {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// The same request with the same key is the same run, whatever the last thread is meanwhile.
func TestReplayOfATaskOnTheLastThreadIsTheSameRun(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t)
	s.Service = responder.New(responder.Config{Streams: s.Bus, Queue: bus.DefaultQueue, Agents: known.All(),
		Requests: &idempotency.Requests{Store: s.Bus.RequestStore()}, Patience: fixture.Patience})
	servicetest.During(t, "service", s.Service.Run)
	if err := s.Service.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	minutes := int64(0)
	for name, q := range map[string]api.Submission{
		"a key": {Once: api.Once{Key: "0123456789abcdef"}}, "a run id": {Run: "T-local-mine"},
	} {
		q.Task, q.Fork = runs.Task{Attributes: runs.Attributes{Agent: "codex", Dir: "/srv"}, Prompt: "Go on."}, last
		minutes += 2
		began(s, minutes, "first-"+name[2:3], "8", "/srv").Exit(0)
		one, err := s.Service.Submit(t.Context(), q)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		l := began(s, minutes+1, "other-"+one.Run, "9", "/srv") // would be a conflict
		again, err := s.Service.Submit(t.Context(), q)
		if err != nil || again.Run != one.Run || !again.Replayed || again.At != one.At {
			t.Errorf("%s: %+v, then %+v, %v", name, one, again, err)
		}
		if got := s.Task(); got.ForkedFrom != threadID+"8" {
			t.Errorf("%s: %+v", name, got)
		}
		l.Exit(0)
	}
}

// A copy is of the thread's agent, in the thread's directory; it may be made while the thread works.
func TestACopyIsOfTheThreadsAgent(t *testing.T) {
	t.Parallel()
	s := stage(t)
	for _, one := range s.Sessions() {
		q := earlier("", "", nil, &api.ThreadRef{Selector: api.SelectID, ID: one.ID})
		_, err := s.Service.Submit(t.Context(), q)
		if !one.Agent.Can(runs.CanFork) {
			if e := api.Known(err); e.Code != api.Unsupported || e.Field != api.FieldFork {
				t.Errorf("%s: %v", one.Agent.Name, err)
			}
			continue
		}
		got := runs.QueuedTask{}
		if err == nil {
			got = s.Task()
		}
		if err != nil || got.Agent != one.Agent.Kind() || got.ForkedFrom != one.ID || got.Thread != "" ||
			got.Dir != "/srv/"+one.Agent.Short {
			t.Errorf("%s: %+v, %v", one.Agent.Name, got, err)
		}
		if q.Agent = "claude"; one.Agent.Short == q.Agent {
			q.Agent = "codex"
		}
		if err := s.Service.CheckSubmit(q); err == nil || !strings.Contains(err.Error(), "fork: belongs to "+one.Agent.Name) {
			t.Errorf("a copy of %s by another agent: %v", one.Agent.Name, err)
		}
	}
	began(s, 0, "works", "8", "/srv")
	for thread, want := range map[string]bool{threadID + "8": true, "0199a213-0000-7800-8aa1-000000000000": true} {
		_, err := s.Service.Submit(t.Context(), earlier("codex", "/srv", nil, &api.ThreadRef{Selector: "id", ID: thread}))
		if (err == nil) != want || err == nil && s.Task().ForkedFrom != thread {
			t.Errorf("%s: %v", thread, err)
		}
	}
}

func TestMistakesInThreadsToContinue(t *testing.T) {
	s := responder.New(responder.Config{})
	id := &api.ThreadRef{Selector: api.SelectID, ID: threadID + "1"}
	with := func(change func(*api.Submission)) api.Submission {
		q := earlier("codex", "/srv", nil, nil)
		change(&q)
		return q
	}
	of := func(resume, fork *api.ThreadRef) api.Submission { return earlier("codex", "/srv", resume, fork) }
	ref := func(selector, id string) *api.ThreadRef { return &api.ThreadRef{Selector: selector, ID: id} }
	const form = "must be the id of a thread, a UUID"
	for want, q := range map[string]api.Submission{
		"resume: selector must be last or id":                        of(ref("first", ""), nil),
		"fork: id is required with the selector id":                  of(nil, ref("id", "")),
		"fork: id is for the selector id":                            of(nil, ref("last", "x")),
		"fork: " + form:                                              of(nil, ref("id", "x")),
		"threadId: " + form:                                          of(ref("id", "x"), nil),
		"fork: must be printable text without white space around it": of(nil, ref("id", " x")),
		"resume: is another thread than threadId": with(func(q *api.Submission) {
			q.Resume, q.Thread = last, threadID+"1"
		}),
		"fork: not with a thread to resume":         with(func(q *api.Submission) { q.Fork, q.Resume = id, last }),
		"fork: not with live":                       with(func(q *api.Submission) { q.Fork, q.Live = last, true }),
		"forkedFrom: is not for requests: use fork": with(func(q *api.Submission) { q.ForkedFrom = threadID + "1" }),
		"": with(func(q *api.Submission) { q.Resume, q.Thread = id, strings.ToUpper(id.ID) }),
	} {
		got := ""
		if err := s.CheckSubmit(q); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if _, err := s.Queue(t.Context(), earlier("codex", "", last, nil)); err == nil {
		t.Error("the last thread of no directory")
	}
}
