package top

import (
	"context"
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
	if s := screen(m); !strings.Contains(s, "text 99 of") || strings.Contains(s, "text 50 of") ||
		!strings.Contains(s, "following") {
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

// A run that is followed shows its end at each size.
func TestResizeKeepsTheEnd(t *testing.T) {
	m := opened(t, 100)
	for _, height := range []int{50, 12, 24} {
		m.Update(tea.WindowSizeMsg{Width: 80, Height: height})
		if rows := strings.Split(screen(m), "\n"); !strings.Contains(rows[height-2], "text 99 of") {
			t.Errorf("with %d rows the last one is %q", height, rows[height-2])
		}
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
	const pages = maxItems/newestItems + 3
	for i := range pages {
		m.Update(page(m, i*newestItems, newestItems))
		if n := len(m.run.items); n > maxItems || len(m.run.begins) != n {
			t.Fatalf("%d items, %d beginnings", n, len(m.run.begins))
		}
	}
	if s := screen(m); !strings.Contains(s, fmt.Sprintf("text %d of", pages*newestItems-1)) || !m.run.dropped {
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

// What is read stays on the screen while older items are dropped.
func TestDroppedItemsKeepThePlace(t *testing.T) {
	m := opened(t, 0)
	for n := 0; n < maxItems; n += newestItems {
		m.Update(page(m, n, newestItems))
	}
	press(m, "k")
	row := func() string { return strings.Split(screen(m), "\n")[4] }
	for i := range 2 {
		want := row()
		m.Update(page(m, maxItems, 1+i*newestItems*2))
		if got := row(); !m.run.dropped || got != want {
			t.Errorf("the first row is %q, and was %q", got, want)
		}
		long := page(m, 2*maxItems, 1) // the next time within an item
		long.items[0].Event = []byte(`{"agent_kind":"codex","kind":"TextOutput","channel":"assistant","text":"` +
			strings.Repeat(`a line\n`, 40) + `the last line"}`)
		m.Update(long)
		press(m, "end")
		press(m, "k", "k", "k")
	}
}

// Without the right to details a run shows its events.
func TestEventsAreShownWithoutTheRightToDetails(t *testing.T) {
	m := opened(t, 0)
	f := page(m, 0, 3)
	f.events, f.seq = true, 7
	m.Update(f)
	if s := screen(m); !strings.Contains(s, "text 2 of the run") || !strings.Contains(s, "events only: no right") {
		t.Errorf("no events:\n%s", s)
	}
	denied := &api.Error{Code: api.Unavailable, Err: client.ErrDenied}
	m.Update(detailsMsg{id: m.run.id, load: m.run.load, events: true, err: denied})
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

// denied is a server that allows no details, and has some events.
type denied struct{ *server }

func (denied) Detail(context.Context, api.DetailRequest) (api.DetailPage, error) {
	return api.DetailPage{}, &api.Error{Code: api.Unavailable, Err: client.ErrDenied}
}

func (denied) Events(_ context.Context, q api.EventsRequest) (api.EventPage, error) {
	body := []byte(`{"agent_kind":"codex","kind":"TextOutput","channel":"assistant","text":"an event"}`)
	return api.EventPage{Next: q.After + 1, Events: []api.Event{{Seq: q.After + 1, Kind: "text_output", Body: body}}}, nil
}

// A page that is denied is read from the events, and so are all that follow.
func TestDeniedDetailsAreReadAsEvents(t *testing.T) {
	m := opened(t, 0)
	m.svc, m.ctx = denied{newServer(1)}, t.Context
	m.run.after = ""
	next := m.read(0)
	for range 3 {
		_, next = m.Update(next())
	}
	if s := screen(m); strings.Count(s, "│ an event") != 3 || m.run.seq != 3 {
		t.Errorf("after sequence %d:\n%s", m.run.seq, s)
	}
}

// What a key asks for is asked of the service.
func TestKeysSendRequests(t *testing.T) {
	s := newServer(0)
	m := stage(100, 24, false)
	m.svc, m.ctx = s, t.Context
	ended := oneRun("T-local-0ended000000001", runs.StateCompleted, func(r *api.Run) { r.Unseen = true })
	m.Update(found(ended, oneRun("T-local-0work0000000001", runs.StateWorking, nil)))
	press(m, "c")
	m.Update(press(m, "y")())
	if got := strings.Join(s.cancelled, " "); got != "T-local-0work0000000001" {
		t.Errorf("cancelled %q", got)
	}
	press(m, "end", "enter")
	m.run.seen = false // by the command of the key, which is a batch
	m.Update(m.see()())
	if got := strings.Join(s.seen, " "); got != ended.ID || m.table.all[ended.ID].Unseen {
		t.Errorf("seen %q", got)
	}
}
