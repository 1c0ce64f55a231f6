package top

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/runs"
)

// kinds are what a run view shows: all, or some kinds of items.
type kinds int

const (
	allKinds kinds = iota
	texts
	tools
	problems
	nKinds
)

func (k kinds) String() string { return [...]string{"all", "texts", "tools", "errors"}[k] }

// Limits of a run view.
const (
	newestItems = 500              // loaded at first
	maxItems    = 4000             // kept; of more of them the newest
	maxBytes    = 16 << 20         // of all items, about
	detailWait  = 20               // seconds, of a request for new items
	gutterWidth = 9                // the time since the start, before an item
	minGutter   = 60               // columns of a terminal that has it
	restTime    = time.Second / 10 // between two requests
)

// runView is the timeline of a run. Items are formatted once for a width, and what is scrolled
// away stays formatted. It is for one goroutine.
type runView struct {
	id    string
	run   *api.Run // newest known state; nil: unknown
	style style
	width int
	seen  bool // it was marked as seen

	question *questionView // in place of the timeline; nil: none
	aside    string        // id of the question that was put aside
	asked    string        // asks of the table when its questions were read apart

	items   []api.DetailItem
	bytes   int
	dropped bool // older items are not there
	expired bool // nor in RAW
	whole   bool // all items are loaded, not only the newest ones
	events  bool // the rights do not suffice for details: the items are events
	after   string
	seq     uint64 // with events: the sequence of the last one
	done    bool   // no item will come
	failing error
	load    int // number of the load that the items are of

	timeline *console.Timeline
	rows     []string
	begins   []int // row at which an item begins
	first    int   // visible row
	follow   bool
	kinds    kinds
	options  console.TimelineOptions
	pattern  string // of the search, in small letters
}

// detailsFound is a page of details of a load.
type detailsFound struct {
	id, next string
	load     int
	items    []api.DetailItem
	seq      uint64
	events   bool
	done     bool
	expired  bool // RAW has lost the beginning
	more     bool // there may be older items
	err      error
}

// open opens a run.
func (m *model) open(run *api.Run) tea.Cmd {
	m.loads++
	v := &runView{id: run.ID, run: run, style: m.style, load: m.loads, follow: !run.State.Final()}
	m.run, m.at = v, run.ID
	v.resize(m.bodyWidth())
	return tea.Batch(m.read(0), m.see(), m.showQuestion())
}

// read asks for the next page of the open run after a pause.
func (m *model) read(pause time.Duration) tea.Cmd {
	v := m.run
	last := v.newest()
	id, load, after, seq, events := v.id, v.load, v.after, v.seq, v.events
	return tea.Tick(pause, func(time.Time) tea.Msg {
		if events {
			return detailsMsg(readEvents(m.ctx(), m.svc, id, load, seq))
		}
		q := api.DetailRequest{Run: id, After: after, Last: last, Limit: newestItems}
		if after != "" {
			q.Wait = detailWait
		}
		page, err := m.svc.Detail(m.ctx(), q)
		if errors.Is(err, client.ErrDenied) {
			return detailsMsg(readEvents(m.ctx(), m.svc, id, load, seq))
		}
		return detailsMsg{id: id, load: load, items: page.Items, next: page.Next, done: page.Done, err: err,
			expired: page.Omitted == api.Expired, more: last > 0 && len(page.Items) >= last}
	})
}

// readEvents reads a page of events in the form of details.
func readEvents(ctx context.Context, svc Service, id string, load int, seq uint64) detailsFound {
	page, err := ask(ctx, func(ctx context.Context) (api.EventPage, error) {
		return svc.Events(ctx, api.EventsRequest{Run: id, After: seq, Limit: newestItems})
	})
	f := detailsFound{id: id, load: load, seq: max(page.Next, seq), events: true, done: page.Done, err: err}
	for _, e := range page.Events {
		f.items = append(f.items, api.DetailItem{Line: e.Line, Part: e.Part, At: e.At, Kind: e.Kind, Event: e.Body})
	}
	return f
}

// details takes over a page, and asks for the next one.
func (m *model) details(f detailsFound) tea.Cmd {
	v := m.run
	if v == nil || v.id != f.id || v.load != f.load {
		return nil // it was left, or is loaded again
	}
	v.failing = f.err
	if f.err != nil {
		if api.Is(f.err, api.NotFound) || errors.Is(f.err, client.ErrDenied) {
			v.done = true
			return nil
		}
		return m.read(pollBusy)
	}
	v.after, v.seq, v.events, v.done = f.next, f.seq, f.events, f.done
	v.dropped, v.expired = v.dropped || f.more, v.expired || f.expired
	v.add(f.items)
	m.scroll(0)
	switch {
	case f.done:
		return nil
	case f.events && len(f.items) == 0:
		return m.read(pollBusy)
	case v.after == "" && !f.events: // nothing was printed yet
		return m.read(pollBusy)
	}
	return m.read(restTime)
}

// newest is how many of the newest items the next page begins with: 0 after the first page.
func (v *runView) newest() int {
	if v.after != "" || v.events || v.whole {
		return 0
	}
	return newestItems
}

func (v *runView) know(run *api.Run) {
	v.run = run
	v.timeline.SetRun(run)
}

// add appends items, and drops the oldest ones beyond the limits, a quarter of them at once.
func (v *runView) add(items []api.DetailItem) {
	for _, item := range items {
		v.items, v.bytes = append(v.items, item), v.bytes+sizeOf(item)
		v.format(item)
	}
	if len(v.items) <= maxItems && v.bytes <= maxBytes {
		return
	}
	n := 0
	for ; n < len(v.items)-1 && (n < len(v.items)/4 || v.bytes > maxBytes*3/4); n++ {
		v.bytes -= sizeOf(v.items[n])
	}
	v.items, v.dropped = slices.Clone(v.items[n:]), true
	rows := v.begins[n]
	v.begins, v.first = v.begins[n:], max(v.first-rows, 0)
	for i := range v.begins {
		v.begins[i] -= rows
	}
	v.layout()
}

// sizeOf is about how much memory an item needs, without its rows.
func sizeOf(item api.DetailItem) int {
	n := 500 + len(item.Event)
	if d := item.Detail; d != nil {
		for _, e := range []*runs.Excerpted{d.Prompt, d.Command, d.Arguments, d.Output, d.Result, d.Stderr, d.Text} {
			if e != nil {
				n += len(e.Head) + len(e.Tail)
			}
		}
		for _, f := range d.Files {
			if f.Diff != nil {
				n += len(f.Diff.Head) + len(f.Diff.Tail)
			}
		}
	}
	return n
}

// resize formats all items for another width.
func (v *runView) resize(width int) {
	if v.width != width {
		v.width = width
		v.layout()
	}
}

// layout formats all items again. What is at the top of the screen stays there, unless that
// is the first row.
func (v *runView) layout() {
	top, _ := slices.BinarySearch(v.begins, v.first+1)
	within := 0 // rows of the item at the top that are above the screen
	if top > 0 {
		within = v.first - v.begins[top-1]
	}
	v.timeline = console.NewRows(v.width-v.gutter(), v.style.color, v.options)
	v.timeline.SetRun(v.run)
	v.rows, v.begins = nil, nil
	for _, item := range v.items {
		v.format(item)
	}
	if v.first > 0 && top > 0 && top <= len(v.begins) {
		end := len(v.rows)
		if top < len(v.begins) {
			end = v.begins[top]
		}
		v.first = max(min(v.begins[top-1]+within, end-1), v.begins[top-1])
	}
}

func (v *runView) gutter() int {
	if v.width < minGutter {
		return 0
	}
	return gutterWidth
}

// format appends the rows of an item.
func (v *runView) format(item api.DetailItem) {
	v.begins = append(v.begins, len(v.rows))
	if !v.shows(item) {
		return
	}
	v.rows = append(v.rows, v.timed(v.timeline.Rows(item), item.At)...)
}

// timed puts the time of an item before its rows.
func (v *runView) timed(rows []string, at runs.Time) []string {
	n := v.gutter()
	if n == 0 {
		return rows
	}
	since := ""
	if v.run != nil && v.run.StartedAt > 0 && at > 0 {
		since = console.Elapsed(time.Duration(at-v.run.StartedAt) * time.Millisecond)
	}
	for i, row := range rows {
		rows[i] = v.style.in(console.Dim, strings.Repeat(" ", max(n-2-len(since), 0))+since) + "  " + row
		since = ""
	}
	return rows
}

// shows reports whether the kind of an item is shown.
func (v *runView) shows(item api.DetailItem) bool {
	switch v.kinds {
	case texts:
		return item.Kind == "text_output" || item.Kind == api.Completion
	case tools:
		return item.Kind == "tool_call" || item.Kind == "tool_result"
	case problems:
		return item.Kind == "error" || item.Kind == api.Completion ||
			item.Kind == "tool_result" && strings.Contains(string(item.Event), `"fail`)
	}
	return true
}

// visible are all rows, with the unfinished ones.
func (v *runView) visible() []string {
	if rows := v.timeline.Unfinished(); len(rows) > 0 && (v.kinds == allKinds || v.kinds == texts) {
		return slices.Concat(v.rows, v.timed(rows, 0))
	}
	return v.rows
}

// search marks rows with a text, and shows the next one from the top of the screen.
func (v *runView) search(text string) {
	if v.pattern = strings.ToLower(text); v.pattern != "" && !v.matches(v.first) {
		v.find(1)
	}
}

// find shows the next row that matches, or with -1 the previous one.
func (v *runView) find(by int) {
	for i := v.first + by; i >= 0 && i < len(v.rows); i += by {
		if v.matches(i) {
			v.first, v.follow = i, false
			return
		}
	}
}

func (v *runView) matches(i int) bool {
	return i < len(v.rows) && strings.Contains(strings.ToLower(ansi.Strip(v.rows[i])), v.pattern)
}
