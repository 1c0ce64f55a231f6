package console

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// States of working runs that wait for a person.
const (
	needsYou   = "needs you"
	mayNeedYou = "may need you"
	yourTurn   = "your turn"
)

// stateWord is the state of a run, for people.
func stateWord(run *api.Run, now time.Time) string {
	need := run.Need(now)
	switch {
	case run.State.Final(), run.State == runs.StateQueued:
		return Word(string(run.State))
	case need == runs.NeedsAnswer:
		return needsYou
	case run.WorkerLost:
	case need == runs.MayNeedAnswer:
		return mayNeedYou
	case need == runs.NeedsPrompt:
		return yourTurn
	}
	return "working"
}

// needed says what a run waits for whose program has ended, or whose turn has; "": nothing.
func needed(run *api.Run) string {
	var phase runs.Phase
	if run.Doing != nil {
		phase = run.Doing.Phase
	}
	switch {
	case run.State != runs.StateInputRequired, phase == runs.AwaitingInput:
		return ""
	case run.EndedAt != 0:
		return "needs an agent's answer, then: linesman run --resume " + Word(run.ID) + " -- …"
	case phase == runs.YourTurn && run.Detail != nil && run.Conversation != nil &&
		run.Conversation.Held && run.Conversation.Waiting > 0:
		return fmt.Sprintf("%d held: linesman send --release %s", run.Conversation.Waiting, Word(run.ID))
	case phase == runs.YourTurn:
		return "needs a message"
	}
	return "needs an answer"
}

// doing says what a run does that has begun and not ended, or what it needs.
func doing(run *api.Run, now time.Time) string {
	if run.CancelRequested {
		return "is being cancelled"
	}
	return cmp.Or(needed(run), activity(run, now))
}

// silent says that the worker of a run is.
func silent(run *api.Run) string { return Word(run.Worker) + " is silent" }

// begun is when a run was started or, before that, submitted.
func begun(run *api.Run) runs.Time { return cmp.Or(run.StartedAt, run.QueuedAt) }

// position is the place of a run in the queue, from 0.
func position(run *api.Run) int { return *cmp.Or(run.Position, new(int)) }

// lasted is how many milliseconds a run that has ended took; 0 for one that was
// never started.
func lasted(run *api.Run) int64 {
	if run.StartedAt == 0 {
		return 0
	}
	return max(int64(run.EndedAt-run.StartedAt), 0)
}

// Run prints the state of one run.
func (r *Renderer) Run(run *api.Run) error {
	now := time.Now()
	c := CellsOf(run, now)
	var b strings.Builder
	all := facts{{"run", c.ID}, {"state", c.State}}
	all.about(run)
	all.add("directory", c.Dir)
	all.course(run, c, now)
	switch {
	case run.Detail != nil && run.Usage != nil && run.Usage.Total != nil:
		total := run.Usage.Total
		all.add("tokens", bound(run.Usage)+shortTokens(&runs.Spend{Input: total.Input, Output: total.Output}))
	case run.Tokens == nil:
		all.add("tokens", "–")
	default:
		all.add("tokens", shortTokens(run.Tokens))
	}
	if run.Times == runs.Captured {
		all.add("times", captured)
	}
	if run.Unseen {
		all.add("opened", "not yet")
	}
	if d := run.Detail; d != nil {
		all.finished(d)
		all.add("unknown", unknown(d.Drift))
		if d.Error != nil {
			all.add("error", Safe(d.Error.Message))
			all.each("try", d.Error.Suggestions)
		}
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
	c := CellsOf(run, time.Now()).plain()
	line := joined(c.State, c.Time, c.steps(), c.Doing)
	return r.screen.show(r.out, "", r.Paint(Dim, cut(line, r.wholeWidth())))
}

// captured describes times of the kind [runs.Captured].
const captured = "of capture: when linesman read the lines"

// about adds what a run is for and what it runs on.
func (f *facts) about(run *api.Run) {
	f.add("title", flat(run.Title))
	f.agent(run)
	if run.Model != "" && (run.Detail == nil || len(run.Models) == 0) {
		f.add("model", Word(run.Model))
	}
	if run.Source == runs.SourceSession {
		f.add("source", "a session of the agent")
	}
	f.add("labels", labels(run.Labels.Map()))
}

// course adds what a run waits for or does, or how it ended.
func (f *facts) course(run *api.Run, c Cells, now time.Time) {
	switch {
	case run.State.Final():
		f.add("ended", run.EndedAt.String()+", "+c.ago)
		f.add("took", c.Time)
		f.add("reason", Safe(run.Reason))
	case run.State == runs.StateQueued:
		f.add("waits", behind(position(run)))
	default:
		f.add("started", begun(run).String()+", "+c.Time+" ago")
		f.add("progress", c.steps())
		f.add("doing", doing(run, now))
		f.add("activity", Safe(run.Activity))
		if run.WorkerLost {
			f.add("worker", silent(run))
		}
	}
	if run.Detail != nil && run.Cloud != nil {
		f.add("web page", Safe(run.Cloud.URL))
	}
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

// Submitted tells a person what to do with a run that waits in the queue, at a position from 0. One that is kept
// takes no slot.
func Submitted(w io.Writer, run string, position int, kept bool) error {
	waits := behind(position)
	if kept && position == 0 {
		waits = "for a worker"
	}
	_, err := fmt.Fprintf(w, `
It waits %s.

    linesman status %s
    linesman wait %[2]s
    linesman attach %[2]s
`, waits, run)
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
func Ago(t runs.Time, now time.Time) string {
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
