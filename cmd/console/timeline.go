package console

import (
	"io"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Timeline prints what one run did, item by item, for its owner: its prompt, texts, commands
// with the end of their output, changed files, plans, errors, and how it ended. On a terminal
// rows are wrapped to its width, in colour unless NO_COLOR is set, and a status line at the
// bottom shows what the run is doing. Anywhere else rows are as long as the text requires.
//
// Texts of the agent are printed as [Safe] returns them, each row behind a mark, so that none
// of them can pass for a row of linesman. A Timeline is for one goroutine.
type Timeline struct {
	r       *Renderer
	options TimelineOptions
	run     *api.Run // newest known state; nil: unknown
	drawn   int      // how often the status line was drawn in the second that began at since
	since   time.Time

	begun   bool // something was printed
	first   runs.Time
	prose   prose
	calls   calls
	plan    string // the plan that was printed last
	changes changes
	task    *runs.Excerpted // the prompt of a detail, until a turn starts
	problem string          // message of the newest error, if that was printed last
}

// TimelineOptions select how much a [Timeline] prints.
type TimelineOptions struct {
	Full  bool // the texts as far as the details contain them, and all events
	Diffs bool // the diffs of changed files
}

// NewTimeline returns a timeline that prints to out, as on a terminal if out is one, or comes
// from [Screen.Pane]. Getenv looks up NO_COLOR and TERM.
func NewTimeline(out io.Writer, getenv func(string) string, o TimelineOptions) *Timeline {
	return &Timeline{r: New(out, getenv), options: o}
}

// Terminal reports whether it prints as on a terminal.
func (t *Timeline) Terminal() bool { return t.r.terminal }

// Status sets the state of the run, which the status line shows. The first one prints the
// title of the run and what it runs on, unless details were printed before.
func (t *Timeline) Status(run *api.Run) error {
	t.run = run
	var b strings.Builder
	if !t.begun {
		t.head(&b, run)
	}
	return t.show(b.String())
}

// Write prints a detail.
func (t *Timeline) Write(item api.DetailItem) error {
	if t.first == 0 {
		t.first = item.At
	}
	var b strings.Builder
	t.writeItem(&b, item)
	t.begun = t.begun || b.Len() > 0
	return t.show(b.String())
}

// Tick draws the status line again, and prints an unfinished row to which nothing was added
// since the last Tick. Call it every second. The argument is not used: it is that of [ticker].
func (t *Timeline) Tick(time.Time) error {
	var b strings.Builder
	if t.prose.idle {
		t.pause(&b)
	}
	t.prose.idle = true
	return t.show(b.String())
}

// Close prints an unfinished row and removes the status line.
func (t *Timeline) Close() error {
	var b strings.Builder
	t.endProse(&b)
	return t.r.screen.show(t.r.out, b.String(), "")
}

// maxDrawn is how often the status line is drawn in a second.
const maxDrawn = 10

// show prints rows above the status line. In a burst the line is left out until a later call.
func (t *Timeline) show(rows string) error {
	if !t.r.terminal {
		_, err := io.WriteString(t.r.out, rows)
		return err
	}
	now := time.Now()
	if now.Sub(t.since) >= time.Second {
		t.since, t.drawn = now, 0
	}
	line := ""
	if t.drawn < maxDrawn {
		line = t.statusLine(now)
		t.drawn++
	} else if rows == "" {
		return nil
	}
	return t.r.screen.show(t.r.out, rows, line)
}

// writeItem writes an item.
func (t *Timeline) writeItem(b *strings.Builder, item api.DetailItem) {
	v, d := lookAtDetail(item), item.Detail
	if d == nil {
		d = &runs.Detail{}
	}
	if v.kind == "text_output" {
		t.text(b, v)
		return
	}
	t.endProse(b)
	switch v.kind {
	case "tool_call":
		t.call(b, v, d)
	case "tool_result":
		t.result(b, v, d)
	case "completion":
		t.completion(b, v, d)
	default:
		t.notice(b, v, d)
	}
	t.steps(b, d)
	if v.kind != "error" && b.Len() > 0 {
		t.problem = ""
	}
}

func lookAtDetail(item api.DetailItem) view {
	rec := Record{Time: time.UnixMilli(int64(item.At)), Line: item.Line, Part: item.Part}
	switch {
	case item.Kind == "completion":
		rec.Completion = item.Event
	case len(item.Event) == 0:
		return view{Record: rec, kind: "detail"}
	default:
		rec.Event = item.Event
	}
	return look(rec)
}

// row writes a safe line behind its mark, on as many rows as it needs.
func (t *Timeline) row(b *strings.Builder, color, mark, line string) {
	t.calls.last = ""
	parts := []string{line}
	if t.r.terminal {
		parts = wrap(line, t.room(mark))
	}
	for _, part := range parts {
		b.WriteString(t.r.Paint(color, mark+part))
		b.WriteByte('\n')
	}
}

// one writes a safe line behind its mark on one row: the end of a longer line is left out,
// but not that of the facts, which follow the line.
func (t *Timeline) one(b *strings.Builder, color, mark, line, facts string) {
	t.calls.last = ""
	if facts != "" {
		facts = "  " + facts
	}
	if t.r.terminal {
		room := t.room(mark)
		facts = cut(facts, room)
		line = cut(line, max(room-cells(facts), 0))
	}
	b.WriteString(t.r.Paint(color, mark+line+facts))
	b.WriteByte('\n')
}

// room is the number of cells behind a mark. The last column stays empty: some terminals
// wrap a row that fills it.
func (t *Timeline) room(mark string) int { return max(t.r.width()-1-cells(mark), 8) }
