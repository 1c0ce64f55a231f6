package top

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/runs"
)

func TestListAtEachWidth(t *testing.T) {
	for _, width := range []int{40, 80, 120, 250} {
		m := stage(width, 16, false)
		m.Update(found(someRuns()...))
		press(m, "down")
		checkGolden(t, fmt.Sprintf("list-%d", width), screen(m))
		checkSafe(t, m)
	}
}

// Each key is explained on a page that fits into a small terminal.
func TestHelpFitsTheScreen(t *testing.T) {
	m := stage(80, 24, false)
	m.Update(found(someRuns()...))
	for _, view := range []string{"list", "run"} {
		press(m, "?")
		checkGolden(t, "help-"+view, screen(m))
		if s := screen(m); !strings.Contains(s, "Any key closes") {
			t.Errorf("the end is missing:\n%s", s)
		}
		press(m, "x", "enter")
	}
}

func TestRunAtEachWidth(t *testing.T) {
	for _, width := range []int{40, 80, 120, 250} {
		m := stage(width, 40, false)
		m.Update(found(someRuns()...))
		press(m, "down", "enter")
		m.Update(detailsMsg{id: m.run.id, load: m.run.load, items: recorded(t, "claude", "tools"), next: "9"})
		checkGolden(t, fmt.Sprintf("run-%d", width), screen(m))
		checkSafe(t, m)
	}
}

// Every size of a terminal has a screen of that size.
func TestScreenFitsEverySize(t *testing.T) {
	items := recorded(t, "codex", "plan")
	for _, width := range []int{1, 2, 9, 20, 33, 59, 60, 79, 80, 99, 100, 119, 140, 200, 260} {
		for _, height := range []int{1, 2, 5, 24} {
			m := stage(width, height, true)
			m.Update(found(someRuns()...))
			for _, keys := range []string{"", "?", "?", "/codex", "esc", "c", "n", "enter"} {
				press(m, keys)
				if m.run != nil {
					m.Update(detailsMsg{id: m.run.id, load: m.run.load, items: items, done: true})
				}
				if n := strings.Count(screen(m), "\n") + 1; n != height {
					t.Fatalf("%dx%d after %q: %d rows", width, height, keys, n)
				}
				if width >= 20 {
					checkSafe(t, m)
				}
			}
		}
	}
}

func TestColoursAreOnlyUsedIfAllowed(t *testing.T) {
	for _, color := range []bool{false, true} {
		m := stage(120, 24, color)
		m.Update(found(someRuns()...))
		if has := strings.Contains(screen(m), "\x1b[3"); has != color {
			t.Errorf("color %v: the list has colours: %v", color, has)
		}
		press(m, "enter")
		m.Update(detailsMsg{id: m.run.id, load: m.run.load, items: recorded(t, "claude", "tools"), done: true})
		if has := strings.Contains(screen(m), "\x1b[3"); has != color {
			t.Errorf("color %v: the run has colours: %v", color, has)
		}
	}
}

// Texts of agents do not reach the terminal as anything but text.
func TestHostileTextsStayTexts(t *testing.T) {
	evil := "a\x1b]52;c;ZXZpbA==\x07\x1b[2J\x1b[H\u202eb\u2066c\u0085d\r\ne\u200bf\x9b31mg" + strings.Repeat("\u0301", 50)
	m := stage(100, 30, true)
	m.Update(found(oneRun("T-local-evil00000000001", runs.StateWorking, func(r *api.Run) {
		r.Title, r.Dir, r.Activity, r.Reason, r.Model, r.Agent = evil, evil, evil, evil, evil, evil
		r.Labels = runs.LabelsOf(map[string]string{"k": evil})
		r.Doing = &runs.Doing{Phase: runs.RunningTool, Tool: evil, Since: at(-30)}
	})))
	checkSafe(t, m)
	press(m, "c")
	checkSafe(t, m)
	press(m, "n", "/")
	m.Update(tea.PasteMsg{Content: evil})
	checkSafe(t, m)
	press(m, "esc", "enter")
	event := fmt.Sprintf(`{"agent_kind":"codex","kind":"TextOutput","channel":"assistant","text":%q}`, "safe\u001b[2J\u202e")
	m.Update(detailsMsg{id: m.run.id, load: m.run.load, done: true, items: []api.DetailItem{
		{Kind: "text_output", Event: []byte(event), At: at(-3)},
		{Kind: "detail", At: at(-2), Detail: &runs.Detail{Prompt: runs.Whole(evil), Stderr: runs.Whole(evil)}},
	}})
	checkSafe(t, m)
	m.Update(updateMsg{at: m.now, err: errors.New(evil)})
	checkSafe(t, m)
}

func TestRunsAreInTheOrderOfNeed(t *testing.T) {
	m := stage(250, 24, false)
	m.Update(found(someRuns()...))
	var ids []string
	for _, run := range m.table.shown {
		ids = append(ids, strings.Trim(strings.TrimPrefix(run.ID, "T-local-0"), "0"))
	}
	want := "needs000000001 work0000000001 work0000000002 queue000000001 unseen00000001 unseen00000002 failed00000001 " +
		"lost0000000001 ended000000002 ended000000001"
	if got := strings.Join(ids, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	press(m, "s")
	if m.table.order != byNewest || m.table.shown[0].ID != "T-local-0queue000000001" {
		t.Errorf("newest first: %s", m.table.shown[0].ID)
	}
}

// The totals are those of the page: a run that its owner has not opened counts as failed, too.
func TestTotalsAreThoseOfThePage(t *testing.T) {
	m := stage(250, 24, false)
	m.Update(found(append(someRuns(),
		oneRun("T-local-0failed00000002", runs.StateTimeout, func(r *api.Run) { r.Unseen = true }),
		oneRun("T-local-0lost0000000002", runs.StateFailed, func(r *api.Run) {
			r.Unseen, r.Reason = true, string(runs.ReasonLost)
		}))...))
	for g, want := range map[group]int{needsYou: 1, working: 2, queued: 1, unseen: 4, failed: 3, lost: 2} {
		if got := m.table.totals[g]; got != want {
			t.Errorf("%d %s, want %d", got, groups[g], want)
		}
	}
}

func TestFilters(t *testing.T) {
	m := stage(120, 24, false)
	m.Update(found(someRuns()...))
	for text, want := range map[string]int{
		"": 10, "state:running": 2, "state:working": 3, "state:failed": 2, "state:unseen": 2, "state:ended": 5,
		"agent:claude": 2, "agent:CLAUDE state:needs": 1, "label:ticket=42": 1, "label:team=": 1, "label:42": 0,
		"dir:src/linesman": 10, "日本語": 1, "0lost": 1, "go test": 1, "nothing": 0, "flaky codex": 5,
	} {
		m.filter(text)
		if got := len(m.table.shown); got != want {
			t.Errorf("%q selects %d runs, want %d", text, got, want)
		}
	}
	m.filter("")
	press(m, "/")
	press(m, "agent:gem")
	if got := len(m.table.shown); got != 1 {
		t.Errorf("while typing: %d runs", got)
	}
	press(m, "enter")
	if s := screen(m); !strings.Contains(s, "agent:gem: 1 of 10") {
		t.Errorf("the footer does not have the filter:\n%s", s)
	}
	press(m, "esc")
	if got := len(m.table.shown); got != 10 {
		t.Errorf("after escape: %d runs", got)
	}
}

// The selection stays at a run while others come and go, and at the top until it is moved.
func TestSelectionStaysAtItsRun(t *testing.T) {
	m := stage(120, 8, false)
	m.Update(found(someRuns()...))
	first := func() string { run, _ := m.selected(); return run.ID }
	if first() != "T-local-0needs000000001" {
		t.Fatalf("selected %s", first())
	}
	press(m, "down", "down")
	m.Update(updateMsg{at: m.now, runs: []*api.Run{oneRun("T-local-0new00000000001", runs.StateWorking,
		func(r *api.Run) { r.StartedAt = at(-1) })}, gone: []string{"T-local-0needs000000001"}})
	if first() != "T-local-0work0000000002" {
		t.Errorf("the selection moved to %s", first())
	}
	m.Update(updateMsg{at: m.now, gone: []string{"T-local-0work0000000002"}})
	if screen(m); first() != m.table.shown[0].ID {
		t.Errorf("without its run the selection is %s", first())
	}
	press(m, "end")
	if last := m.table.shown[len(m.table.shown)-1]; first() != last.ID || !strings.Contains(screen(m), "> ") {
		t.Errorf("the last run is not selected: %s", first())
	}
}

func TestCancelNeedsAConfirmation(t *testing.T) {
	m := stage(120, 24, false)
	m.Update(found(someRuns()...))
	press(m, "down", "c")
	if s := screen(m); !strings.Contains(s, "cancel T-local-0work0000000001?") {
		t.Fatalf("no question:\n%s", s)
	}
	if cmd := press(m, "x"); cmd != nil || m.asking != "" {
		t.Error("another key than y cancels the run")
	}
	press(m, "c")
	if cmd := press(m, "y"); cmd == nil {
		t.Error("y does not cancel the run")
	}
	m.Update(cancelMsg{run: "T-local-0work0000000001", err: client.ErrDenied})
	if s := screen(m); !strings.Contains(s, "not cancelled: these credentials do not allow it") {
		t.Errorf("no reason:\n%s", s)
	}
	press(m, "end", "c")
	if m.asking != "" || !strings.Contains(screen(m), "has ended") {
		t.Error("a run that has ended can be cancelled")
	}
}

func TestOpenedRunsAreSeenOnceEnded(t *testing.T) {
	m := stage(120, 24, false)
	run := oneRun("T-local-0work0000000001", runs.StateWorking, nil)
	m.Update(found(run))
	press(m, "enter")
	if m.run.seen {
		t.Error("a run that works was marked as seen")
	}
	m.Update(found(oneRun(run.ID, runs.StateCompleted, func(r *api.Run) { r.Unseen = true })))
	if !m.run.seen {
		t.Error("the open run was not marked as seen at its end")
	}
	m.Update(seenMsg{run: run.ID})
	press(m, "esc")
	if s := screen(m); strings.Contains(s, "*completed") {
		t.Errorf("it is still shown as unseen:\n%s", s)
	}
}

func TestStaleListSaysSo(t *testing.T) {
	m := stage(120, 24, false)
	if s := screen(m); !strings.Contains(s, "○ connecting") {
		t.Errorf("before the first answer:\n%s", s)
	}
	m.Update(found(someRuns()...))
	if s := screen(m); !strings.Contains(s, "● live") {
		t.Errorf("not live:\n%s", s)
	}
	m.Update(tickMsg(m.now.Add(12 * time.Second)))
	m.Update(updateMsg{at: m.now, err: &api.Error{Code: api.Unavailable, Err: client.ErrNoResponder}})
	if s := screen(m); !strings.Contains(s, "○ stale for 12s: no responder is running, retrying") ||
		!strings.Contains(s, "Choose a database") {
		t.Errorf("not stale:\n%s", s)
	}
	m.Update(updateMsg{at: m.now})
	if s := screen(m); !strings.Contains(s, "● live") {
		t.Errorf("not live again:\n%s", s)
	}
}

// A second without news changes nothing on a screen without runs that work.
func TestNothingIsDrawnWithoutNews(t *testing.T) {
	m := stage(120, 24, true)
	m.Update(found(someRuns()[5:7]...))
	before := m.View()
	m.Update(tickMsg(m.now.Add(time.Second)))
	m.Update(updateMsg{at: m.now})
	if got := m.View(); got.Content != before.Content {
		t.Errorf("the screen has changed:\n%s\n%s", before.Content, got.Content)
	}
}

func TestRunWithoutATitleShowsItsID(t *testing.T) {
	m := stage(80, 10, false)
	m.Update(found(oneRun("T-local-0untitled001", runs.StateCompleted, func(r *api.Run) { r.Title = "" })))
	if got := screen(m); !strings.Contains(got, "T-local-0untitled001") {
		t.Errorf("no id:\n%s", got)
	}
}
