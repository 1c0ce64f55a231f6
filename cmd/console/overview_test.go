package console

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// someRuns are runs of all kinds at a time.
func someRuns(now time.Time) *api.Overview {
	ago := func(d time.Duration) runs.Time { return api.TimeOf(now.Add(-d)) }
	return &api.Overview{
		Working: []*api.Run{
			{Summary: runs.Summary{ID: "T-local-mhhq2k1f3a9x2c0", Attributes: runs.Attributes{Agent: "codex",
				Title: "Fix the flaky test of 日本語 names", Dir: "/home/dev/project",
				Labels: runs.LabelsOf(map[string]string{"ticket": "42", "team": "core",
					runs.LabelTraceparent: "00-0af7651916cd43dd-1-01"})}, State: runs.StateWorking,
				StartedAt: ago(90 * time.Second), Tokens: &runs.Spend{Input: 4800, Output: 320},
				Progress: &runs.Todo{Done: 1, Total: 3}, Activity: "Run the tests", ActiveAt: ago(12 * time.Second),
				Doing: &runs.Doing{Phase: runs.RunningTool, Tool: "Bash", Since: ago(12 * time.Second)}}},
			{Summary: runs.Summary{ID: "T-local-mhhq2k1f3a9x2d7", Attributes: runs.Attributes{Agent: "claude_code",
				Title: "A session"}, State: runs.StateWorking, Source: runs.SourceSession,
				StartedAt: ago(3 * time.Hour), ActiveAt: ago(time.Second), Doing: &runs.Doing{
					Phase: runs.Retrying, Attempt: 3, Of: 10, NextAt: ago(-40 * time.Second), Since: ago(time.Second)}}},
			{Summary: runs.Summary{ID: "T-local-mhhq2k1f3a9x2e9", Attributes: runs.Attributes{Agent: "opencode",
				Title: strings.Repeat("long ", 24)}, State: runs.StateWorking, StartedAt: ago(time.Hour),
				Worker: "worker-1", WorkerLost: true}},
		},
		Queued: []*api.Run{{Summary: runs.Summary{ID: "T-local-kkhq2k1f3a9x2c0",
			Attributes: runs.Attributes{Agent: "gemini_cli", Title: "Write the docs"},
			State:      runs.StateQueued, Position: new(1), QueuedAt: ago(7 * time.Second),
		}}},
		Ended: []*api.Run{
			{Summary: runs.Summary{ID: "mine", Attributes: runs.Attributes{Agent: "codex", Title: "Try it", Dir: "/tmp"},
				State: runs.StateFailed, Reason: "exit code 1", Unseen: true,
				StartedAt: ago(5 * time.Minute),
				EndedAt:   ago(time.Minute), Tokens: &runs.Spend{Input: 1_200_000, Output: 45_000}}},
			{Summary: runs.Summary{ID: "T-local-zzhq2k1f3a9x2c0", Attributes: runs.Attributes{Agent: "codex"},
				State: runs.StateCompleted, StartedAt: ago(26 * time.Hour),
				EndedAt: ago(25 * time.Hour)}},
		},
		Counts: api.Counts{Working: 3, Queued: 1, Ended: 7},
	}
}

func TestListsOfRunsLookAsTheyDid(t *testing.T) {
	for form, width := range map[string]int{"40": 40, "60": 60, "80": 80, "120": 120, "200": 200, "pipe": 0} {
		t.Run(form, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				all := someRuns(time.Now())
				if err := renderTo(&out, width > 0, false, width).Overview(all); err != nil {
					t.Fatal(err)
				}
				for line := range strings.Lines(out.String()) {
					if n := cells(strings.TrimSuffix(line, "\n")); width > 0 && n >= width {
						t.Errorf("%d cells: %q", n, line)
					}
				}
				golden(t, filepath.Join("testdata", "list", form), out.String())
			})
		})
	}
}

func TestShortIDsAreUnique(t *testing.T) {
	all := []*api.Run{{Summary: runs.Summary{ID: "T-local-aaaaaab1"}}, {Summary: runs.Summary{ID: "T-local-aaaaaab2"}},
		{Summary: runs.Summary{ID: "T-local-aaaaaac"}},
		{Summary: runs.Summary{ID: "T-cloud-aaaaaab1"}}, {Summary: runs.Summary{ID: "T-local-b"}},
		{Summary: runs.Summary{ID: "T-local-mine-and-long"}}, {Summary: runs.Summary{ID: "another-name"}},
		{Summary: runs.Summary{ID: "T-local-aaaaaac"}}}
	got := strings.Join(shortIDs(all), " ")
	if want := "aaaaaab1 aaaaaab2 aaaaaac aaaaaa b mine-a another-name aaaaaac"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A run by itself shows what it is for, what it runs on, and what its times are.
func TestFactsOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := someRuns(time.Now())
		all.Working[0].Model, all.Working[0].Version = "gpt-5-codex", "0.169.0"
		all.Ended[0].Times = runs.Captured
		var out bytes.Buffer
		held := &api.Run{
			Summary: runs.Summary{ID: "T-local-held", Attributes: runs.Attributes{Agent: "asker"},
				State: runs.StateInputRequired, StartedAt: all.Working[0].StartedAt, Doing: &runs.Doing{Phase: runs.YourTurn}},
			Detail: &api.Detail{Conversation: &api.Conversation{Waiting: 1, Held: true}},
		}
		for _, run := range []*api.Run{all.Working[0], all.Working[1], all.Queued[0], all.Ended[0], held} {
			if err := renderTo(&out, false, false, 0).Run(run); err != nil {
				t.Fatal(err)
			}
			out.WriteByte('\n')
		}
		golden(t, filepath.Join("testdata", "list", "run"), out.String())
	})
}

func TestASubmittedRunThatIsKeptWaitsForNoSlot(t *testing.T) {
	t.Parallel()
	for want, kept := range map[string]bool{
		"It waits for a free slot, as the next one.": false, "It waits for a worker.": true,
	} {
		var out bytes.Buffer
		if err := Submitted(&out, "T-1", 0, kept); err != nil || !strings.Contains(out.String(), "\n"+want+"\n") {
			t.Errorf("%v: %q, %v", kept, &out, err)
		}
	}
}

// No id is cut, however long it is and however narrow the terminal.
func TestListsDoNotCutIDs(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 63)
	for _, width := range []int{40, 60, 80, 100} {
		var out bytes.Buffer
		all := &api.Overview{Ended: []*api.Run{
			{Summary: runs.Summary{ID: long + "1", State: runs.StateCompleted, Attributes: runs.Attributes{Title: "first"}}},
			{Summary: runs.Summary{ID: long + "2", State: runs.StateFailed, Attributes: runs.Attributes{Title: "second"}}},
			{Summary: runs.Summary{ID: "T-local-aaaaaaaaa", State: runs.StateFailed}}}}
		if err := renderTo(&out, true, false, width).Overview(all); err != nil {
			t.Fatal(err)
		}
		got := strings.ReplaceAll(strings.ReplaceAll(out.String(), "\n", ""), " ", "")
		if !strings.Contains(got, long+"1") || !strings.Contains(got, long+"2") || !strings.Contains(got, "aaaaaa") {
			t.Errorf("width %d:\n%s", width, &out)
		}
		for line := range strings.Lines(out.String()) {
			if n := cells(strings.TrimSuffix(line, "\n")); n >= width {
				t.Errorf("%d cells on a terminal of %d: %q", n, width, line)
			}
		}
	}
}

// A failed run shows why, also without its results.
func TestStatusOfAFailedRunHasItsError(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	why := &api.ErrorContext{Message: "no such directory", Suggestions: []string{"Name another one"}}
	failed := &api.Run{Summary: runs.Summary{ID: "T-1", State: runs.StateFailed, Reason: "spawn"},
		Detail: &api.Detail{Error: why}}
	if err := renderTo(&out, false, false, 80).Run(failed); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "error      no such directory\ntry        Name another one\n") {
		t.Errorf("it prints\n%s", &out)
	}
}

// A run that needs a person is the first one, and says what it needs; a queued one says what it
// is, also in a pipe.
func TestRunsThatNeedYouAreFirst(t *testing.T) {
	t.Parallel()
	now := time.Now()
	all := someRuns(now)
	all.Working = append(all.Working,
		&api.Run{Summary: runs.Summary{ID: "T-local-asks", Attributes: runs.Attributes{Agent: "codex", Title: "Ask"},
			State: runs.StateInputRequired, StartedAt: runs.Time(now.Add(-time.Hour).UnixMilli()),
			EndedAt: runs.Time(now.UnixMilli())}},
		&api.Run{Summary: runs.Summary{ID: "T-local-session", Attributes: runs.Attributes{Agent: "codex"},
			State:     runs.StateWorking,
			Source:    runs.SourceSession,
			StartedAt: runs.Time(now.UnixMilli()), Doing: &runs.Doing{Phase: runs.YourTurn}}},
		&api.Run{Summary: runs.Summary{ID: "T-local-kept", Attributes: runs.Attributes{Agent: "asker"},
			State:     runs.StateInputRequired,
			StartedAt: runs.Time(now.UnixMilli()), Doing: &runs.Doing{Phase: runs.YourTurn}}})
	all.Counts.Working = len(all.Working)
	for _, width := range []int{0, 50, 90, 200} {
		var out bytes.Buffer
		if err := renderTo(&out, width > 0, false, width).Overview(all); err != nil {
			t.Fatal(err)
		}
		_, list, found := strings.Cut(out.String(), "ACTIVITY\n")
		if !found {
			list = out.String()
		}
		lines := strings.Split(list, "\n")
		if !strings.HasPrefix(lines[0], "needs you") || !strings.Contains(list, "needs an agent's") ||
			!strings.Contains(list, "(1 needs you, 2 your turn)") {
			t.Errorf("width %d:\n%s", width, &out)
		}
		if at := strings.Index(list, "your turn"); at < 0 || at > strings.Index(list, "working ") {
			t.Errorf("width %d: a session whose turn it is stands below working ones:\n%s", width, &out)
		}
		if width != 50 && !strings.Contains(list, "needs a message") {
			t.Errorf("width %d: a live run whose turn has ended does not wait for a message:\n%s", width, &out)
		}
		if width == 0 && (!strings.Contains(list, "linesman run --resume T-local-asks -- …\n") ||
			!strings.Contains(list, "behind one other  gemini_cli  Write the docs\n")) {
			t.Errorf("in a pipe:\n%s", &out)
		}
	}
	if b, err := json.Marshal(RunsJSON(all)); err != nil || !strings.HasPrefix(string(b),
		`{"runs":[{"run":"T-local-asks"`) {
		t.Errorf("as JSON: %.200s, %v", b, err)
	}
}

func TestLineIsBrokenBetweenWordsWhereATerminalIsTooNarrow(t *testing.T) {
	t.Parallel()
	words := []string{"ready nats=nats://127.0.0.1:4222", "http=http://127.0.0.1:8422",
		"data=/home/dev/.local/share/linesman"}
	line := strings.Join(words, " ")
	broken := words[0] + "\n      " + words[1] + "\n      " + words[2]
	for width, want := range map[int]string{0: line, 80: broken, 97: line, 96: broken} {
		if got := renderTo(&bytes.Buffer{}, width > 0, false, width).OneLine(words); got != want {
			t.Errorf("width %d:\n%s\nwant\n%s", width, got, want)
		}
	}
}
