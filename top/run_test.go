package top

import (
	"fmt"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/runs"
)

// opened is a model with an open run of so many texts.
func opened(t *testing.T, n int) *model {
	t.Helper()
	m := stage(100, 24, false)
	m.Update(found(oneRun("T-local-0work0000000001", runs.StateWorking, nil)))
	press(m, "enter")
	m.Update(page(m, 0, n))
	return m
}

// page is a page with texts.
func page(m *model, from, n int) detailsMsg {
	f := detailsMsg{id: m.run.id, load: m.run.load, next: fmt.Sprint(from + n)}
	for i := from; i < from+n; i++ {
		f.items = append(f.items, api.DetailItem{Kind: "text_output", At: at(i - 60), Event: fmt.Appendf(nil,
			`{"agent_kind":"codex","kind":"TextOutput","channel":"assistant","text":"text %d of the run"}`, i)})
	}
	return f
}

func TestFollowShowsTheEndAndScrollingStopsIt(t *testing.T) {
	m := opened(t, 100)
	if s := screen(m); !strings.Contains(s, "text 99 of") || strings.Contains(s, "text 50 of") || !strings.Contains(s, "following") {
		t.Fatalf("not at the end:\n%s", s)
	}
	press(m, "k")
	m.Update(page(m, 100, 10))
	if s := screen(m); strings.Contains(s, "text 99 of") || !strings.Contains(s, "text 98 of") {
		t.Errorf("it did not stay where it was scrolled to:\n%s", s)
	}
	press(m, "f")
	if s := screen(m); !strings.Contains(s, "text 109 of") {
		t.Errorf("it does not follow again:\n%s", s)
	}
	press(m, "g")
	if s := screen(m); !strings.Contains(s, "text 0 of") {
		t.Errorf("not at the beginning:\n%s", s)
	}
}

// At another width the same item is at the top.
func TestResizeKeepsThePlace(t *testing.T) {
	m := opened(t, 100)
	press(m, "g")
	for range 40 {
		press(m, "j")
	}
	for _, width := range []int{40, 250, 80} {
		m.Update(tea.WindowSizeMsg{Width: width, Height: 24})
		if row := strings.Split(screen(m), "\n")[4]; !strings.Contains(row, "text 40 of") {
			t.Errorf("at %d columns the first row is %q", width, row)
		}
	}
}

func TestSearch(t *testing.T) {
	m := opened(t, 100)
	press(m, "g", "/", "TEXT 7", "enter")
	row := func() string { return strings.Split(screen(m), "\n")[4] }
	if !strings.Contains(row(), "text 7 of") {
		t.Errorf("found %q", row())
	}
	press(m, "n")
	if !strings.Contains(row(), "text 70 of") {
		t.Errorf("next: %q", row())
	}
	press(m, "N")
	if !strings.Contains(row(), "text 7 of") {
		t.Errorf("previous: %q", row())
	}
}

func TestKindsAreShownAlone(t *testing.T) {
	m := stage(100, 60, false)
	m.Update(found(oneRun("T-local-0work0000000001", runs.StateWorking, nil)))
	press(m, "enter")
	m.Update(detailsMsg{id: m.run.id, load: m.run.load, items: recorded(t, "claude", "tools"), done: true})
	has := func(text string) bool { return strings.Contains(screen(m), text) }
	if !has("Written and edited.") || !has("$ ls") {
		t.Fatalf("not all:\n%s", screen(m))
	}
	press(m, "t")
	if !has("Written and edited.") || has("$ ls") || !has("texts only") {
		t.Errorf("not texts only:\n%s", screen(m))
	}
	press(m, "t")
	if has("Written and edited.") || !has("$ ls") {
		t.Errorf("not tools only:\n%s", screen(m))
	}
	press(m, "t")
	if has("Written and edited.") || has("$ ls") || !has("oops") {
		t.Errorf("not errors only:\n%s", screen(m))
	}
}

// A run of any length takes bounded memory, and the newest items are there.
func TestItemsAreBounded(t *testing.T) {
	m := opened(t, 0)
	for i := range 3 * maxItems / newestItems {
		m.Update(page(m, i*newestItems, newestItems))
		if n := len(m.run.items); n > maxItems || len(m.run.begins) != n {
			t.Fatalf("%d items, %d beginnings", n, len(m.run.begins))
		}
	}
	if s := screen(m); !strings.Contains(s, fmt.Sprintf("text %d of", 3*maxItems-1)) || !m.run.dropped {
		t.Errorf("the newest item is not there:\n%s", s)
	}
	big := page(m, 0, 40)
	for i := range big.items {
		big.items[i].Detail = &runs.Detail{Output: runs.Whole(strings.Repeat("x", 1<<20))}
	}
	m.Update(big)
	if m.run.bytes > maxBytes+maxBytes/4 {
		t.Errorf("%d bytes are kept", m.run.bytes)
	}
}

// Without the right to details a run shows its events.
func TestEventsAreShownWithoutTheRightToDetails(t *testing.T) {
	m := opened(t, 0)
	f := page(m, 0, 3)
	f.events, f.seq = true, 7
	m.Update(f)
	if s := screen(m); !strings.Contains(s, "text 2 of the run") || !strings.Contains(s, "events only: no right to details") {
		t.Errorf("no events:\n%s", s)
	}
	m.Update(detailsMsg{id: m.run.id, load: m.run.load, events: true, err: &api.Error{Code: api.Unavailable, Err: client.ErrDenied}})
	if !m.run.done {
		t.Error("it asks again for what is denied")
	}
}

// Pages of a run that was left, or is loaded again, are not shown.
func TestLatePagesAreDropped(t *testing.T) {
	m := opened(t, 3)
	late := page(m, 3, 3)
	press(m, "esc", "enter")
	m.Update(late)
	if n := len(m.run.items); n != 0 {
		t.Errorf("%d items of another load", n)
	}
}
