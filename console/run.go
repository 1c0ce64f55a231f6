package console

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// row is one run in words. Its texts are safe.
type row struct {
	state, run, about string
	facts             facts // the same with names, for a run by itself
}

// rowOf describes the state of a run.
func rowOf(run *api.Run, now time.Time) row {
	r := row{state: "working", run: Word(run.ID)}
	switch {
	case run.State.Final():
		r.ended(run, now)
	case run.State == runs.StateQueued:
		position := 0
		if run.Position != nil {
			position = *run.Position
		}
		if r.state, r.about = "queued", "next"; position > 0 {
			r.about = behind(position)
		}
		r.facts.add("waits", behind(position))
		return r
	default:
		r.working(run, now)
	}
	if run.Detail != nil && run.Cloud != nil {
		r.facts.add("web page", Safe(run.Cloud.URL))
	}
	return r
}

func (r *row) working(run *api.Run, now time.Time) {
	begun := run.StartedAt
	if begun == 0 {
		begun = run.QueuedAt
	}
	r.about = seconds(now.UnixMilli() - int64(begun))
	r.facts.add("started", begun.String()+", "+r.about+" ago")
	if p := run.Progress; p != nil && p.Total > 0 {
		steps := fmt.Sprintf("%d of %d steps", p.Completed, p.Total)
		r.about += "  " + steps
		r.facts.add("progress", steps)
	}
	if run.Activity != "" {
		r.about += "  " + Safe(run.Activity)
		r.facts.add("activity", Safe(run.Activity))
	}
	if run.WorkerLost {
		silent := Word(run.Worker) + " is silent"
		r.about += "  lost: worker " + silent
		r.facts.add("worker", silent)
	}
}

func (r *row) ended(run *api.Run, now time.Time) {
	since, took := Ago(run.EndedAt, now), seconds(lasted(run))
	r.state, r.about = Word(string(run.State)), since+"  took "+took
	r.facts.add("ended", run.EndedAt.String()+", "+since)
	r.facts.add("took", took)
	if run.Reason != "" {
		r.about += "  " + Safe(run.Reason)
		r.facts.add("reason", Safe(run.Reason))
	}
}

// lasted is how many milliseconds a run that has ended took; 0 for one that was
// never started.
func lasted(run *api.Run) int64 {
	if run.StartedAt == 0 {
		return 0
	}
	return max(int64(run.EndedAt-run.StartedAt), 0)
}

// Overview lists runs: the running ones first, the ended ones last. On a
// terminal a row is one line, whatever it holds.
func (r *Renderer) Overview(all *api.Overview) error {
	var rows []row
	width, now := 0, time.Now()
	for _, list := range [][]*api.Run{all.Working, all.Queued, all.Ended} {
		for _, run := range list {
			one := rowOf(run, now)
			rows, width = append(rows, one), max(width, len(one.run)) // ASCII
		}
	}
	var b strings.Builder
	for _, row := range rows {
		state, rest := fmt.Sprintf("%-9s", row.state), fmt.Sprintf("  %-*s  %s", width, row.run, row.about)
		if r.terminal {
			rest = fold(rest, max(r.width()-len(state)-1, 8))[0]
		}
		b.WriteString(r.Paint(colors[row.state], state) + rest + "\n")
	}
	n := all.Counts
	total := fmt.Sprintf("%d working, %d queued, %d ended", n.Working, n.Queued, n.Ended)
	for i, more := range []int{n.Working - len(all.Working), n.Queued - len(all.Queued), n.Ended - len(all.Ended)} {
		if more > 0 {
			total += fmt.Sprintf("; %d %s not shown", more, []string{"working", "queued", "ended"}[i])
		}
	}
	b.WriteString(r.Paint(Dim, total) + "\n")
	_, err := io.WriteString(r.out, b.String())
	return err
}

// Run prints the state of one run.
func (r *Renderer) Run(run *api.Run) error {
	one := rowOf(run, time.Now())
	var b strings.Builder
	all := facts{{"run", one.run}, {"state", one.state}}
	all.agent(run)
	all = append(all, one.facts...)
	if run.Detail != nil {
		all.add("unknown", unknown(run.Drift))
	}
	r.facts(&b, all)
	_, err := io.WriteString(r.out, b.String())
	return err
}

// Progress shows the state of a run in the status line, which [Renderer.Close]
// removes. On anything but a terminal it does nothing.
func (r *Renderer) Progress(run *api.Run) error {
	if !r.terminal {
		return nil
	}
	one := rowOf(run, time.Now())
	line := fold(one.state+"  "+one.about, max(r.width()-1, 8))[0]
	return r.screen.show(r.out, "", r.Paint(Dim, line))
}

// facts writes names and values, which are safe, each on a line of its own.
func (r *Renderer) facts(b *strings.Builder, facts [][2]string) {
	for _, f := range facts {
		value := f[1]
		if f[0] == "state" {
			value = r.Paint(colors[value], value)
		}
		fmt.Fprintf(b, "%s  %s\n", r.Paint(Dim, fmt.Sprintf("%-9s", f[0])), value)
	}
}

// colors are those of states.
var colors = map[string]string{
	"completed": Green, "failed": Red, "timeout": Red, "cancelled": Yellow, "working": cyan,
}

// Submitted tells a person what to do with a run that waits in the queue, at a position from 0.
func Submitted(w io.Writer, run string, position int) error {
	_, err := fmt.Fprintf(w, `
It waits %s.

    linesman status %s
    linesman wait %[2]s
    linesman events --run %[2]s --follow
`, behind(position), run)
	return err
}

// behind describes a place in the queue, from 0.
func behind(position int) string {
	switch position {
	case 0:
		return "for a free slot, as the next one"
	case 1:
		return "behind one other"
	}
	return fmt.Sprintf("behind %d others", position)
}

// Ago describes how long ago a time was, "" for none.
func Ago(t api.Time, now time.Time) string {
	if t == 0 {
		return ""
	}
	return ShortTime(now.Sub(time.UnixMilli(int64(t)))) + " ago"
}

// seconds describes a number of milliseconds, in whole seconds.
func seconds(ms int64) string {
	n := max(ms, 0) / 1000
	if n < 60 {
		return fmt.Sprintf("%ds", n)
	}
	return ShortTime(time.Duration(n) * time.Second)
}
