package known_test

import (
	"slices"
	"testing"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/runs"
)

// earlier are the arguments with which each agent resumes and forks a thread.
var earlier = map[string]struct {
	id            string
	resume, forks []string
}{
	"codex": {"01a1fd7c-2962-7480-bee8-860dd513208c",
		[]string{"resume", "--", "01a1fd7c-2962-7480-bee8-860dd513208c"},
		[]string{"fork", "--", "01a1fd7c-2962-7480-bee8-860dd513208c"}},
	"claude": {"01a1fd7c-2962-7480-bee8-860dd513208c",
		[]string{"--resume=01a1fd7c-2962-7480-bee8-860dd513208c"},
		[]string{"--resume=01a1fd7c-2962-7480-bee8-860dd513208c", "--fork-session"}},
	"gemini": {"01a1fd7c-2962-7480-bee8-860dd513208c", []string{"--resume=01a1fd7c-2962-7480-bee8-860dd513208c"}, nil},
	"opencode": {"ses_dd692b8f4ffesj5Vbf6g1eWBKV", []string{"--session=ses_dd692b8f4ffesj5Vbf6g1eWBKV"},
		[]string{"--session=ses_dd692b8f4ffesj5Vbf6g1eWBKV", "--fork"}},
}

// A task that resumes or forks a thread says so in the command line, after which a run of that command line is known to
// continue, or to be a copy of, the thread; and no other text than an id gets there.
func TestThreadsToResumeAndToForkAreInTheCommandLine(t *testing.T) {
	for _, a := range known.Agents {
		want := earlier[a.Short]
		for _, fork := range []bool{false, true} {
			task := runs.Task{Attributes: runs.Attributes{Mode: runs.ReadOnly, Thread: want.id}, Prompt: "Go on."}
			args := want.resume
			if fork {
				task.Thread, task.ForkedFrom, args = "", want.id, want.forks
			}
			if fork && !a.Can(runs.CanFork) {
				if args != nil {
					t.Errorf("%s does not fork", a.Name)
				}
				continue
			}
			argv := append([]string{a.Program}, a.Args(task, "")...)
			at := slices.Index(argv, args[0])
			if at < 0 || at+len(args) > len(argv) || !slices.Equal(argv[at:at+len(args)], args) {
				t.Errorf("%s, fork %t: %q, want %q", a.Name, fork, argv, args)
			}
			if err := a.Check(task); err != nil {
				t.Errorf("%s, fork %t: %v", a.Name, fork, err)
			}
			if id, forks := a.Continues(argv); a.Thread != nil && (id != want.id || forks != fork) {
				t.Errorf("%s: %q continues %q, fork %t", a.Name, argv, id, forks)
			}
			field := "threadId: "
			for _, id := range []*string{&task.Thread, &task.ForkedFrom} {
				if *id != "" {
					*id = "--last"
				}
			}
			if fork {
				field = "fork: "
			}
			if err := a.Check(task); err == nil || err.Error()[:len(field)] != field {
				t.Errorf("%s, fork %t: the id --last: %v", a.Name, fork, err)
			}
		}
	}
}

// That an agent has no session is certain where it says nothing else.
func TestNoSessionIsCertain(t *testing.T) {
	for said, want := range map[string]bool{
		"\x1b[91m\x1b[1mError: \x1b[0mSession not found\n": true, "Error: Session not found": true, "": false,
		"Error: Session not found\nx": false, "Error: Model not found": false, "x Error: Session not found": false,
	} {
		a, _ := known.Agents.Find("opencode")
		if got := a.NoSession([]byte(said)); got != want {
			t.Errorf("%q: %t, want %t", said, got, want)
		}
	}
}
