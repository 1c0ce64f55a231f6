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
	state, run, about string // about: its position, or how long it has been working
	activity          string // of a working run: what it does, and that its worker is silent
	steps             string // done and all, of a working run
	brief             string // the most important of it, for a narrow column
	facts             facts  // the same with names, for a run by itself
}

// rowOf describes the state of a run.
func rowOf(run *api.Run, now time.Time) row {
	r := row{state: workingWord(run, now), run: Word(run.ID)}
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
		r.brief = r.about
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

// workingWord is the state of a run that has begun and not ended, for people.
func workingWord(run *api.Run, now time.Time) string {
	need := run.Need(now)
	switch {
	case need == runs.NeedsAnswer:
		return "needs you"
	case run.WorkerLost:
	case need == runs.MayNeedAnswer:
		return "may need you"
	case need == runs.NeedsPrompt:
		return "your turn"
	}
	return "working"
}

// needed says what a run waits for whose program has ended or says no more; "": nothing.
func needed(run *api.Run) string {
	switch {
	case run.State != runs.StateInputRequired, run.Doing != nil && run.Doing.Phase == runs.AwaitingInput:
		return ""
	case run.EndedAt != 0:
		return "needs an agent's answer, then: linesman run --resume " + Word(run.ID) + " -- …"
	}
	return "needs an answer"
}

func (r *row) working(run *api.Run, now time.Time) {
	begun := run.StartedAt
	if begun == 0 {
		begun = run.QueuedAt
	}
	r.about = seconds(now.UnixMilli() - int64(begun))
	r.facts.add("started", begun.String()+", "+r.about+" ago")
	if p := run.Progress; p != nil && p.Total > 0 {
		r.steps = fmt.Sprintf("%d of %d steps", p.Done, p.Total)
		r.facts.add("progress", r.steps)
	}
	doing := activity(run, now)
	if need := needed(run); need != "" {
		doing = need
	}
	r.facts.add("doing", doing)
	var words []string
	for _, s := range []string{doing, Safe(run.Activity)} {
		if s != "" {
			words = append(words, s)
		}
	}
	if run.Activity != "" {
		r.facts.add("activity", Safe(run.Activity))
	}
	if r.brief = doing; doing == "" {
		r.brief = r.about
	}
	if run.WorkerLost {
		silent := Word(run.Worker) + " is silent"
		words = append(words, "lost: worker "+silent)
		r.brief = "lost: worker " + silent
		r.facts.add("worker", silent)
	}
	r.activity = strings.Join(words, "  ")
}

func (r *row) ended(run *api.Run, now time.Time) {
	since, took := Ago(run.EndedAt, now), seconds(lasted(run))
	r.state, r.about = Word(string(run.State)), since+", took "+took
	r.brief = since + ", took " + took
	r.facts.add("ended", run.EndedAt.String()+", "+since)
	r.facts.add("took", took)
	if run.Reason != "" {
		r.about += ", " + flat(run.Reason)
		r.brief = since + ", " + flat(run.Reason)
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

// Run prints the state of one run.
func (r *Renderer) Run(run *api.Run) error {
	one := rowOf(run, time.Now())
	var b strings.Builder
	all := facts{{"run", one.run}, {"state", one.state}}
	all.about(run)
	all.add("directory", Safe(run.Dir))
	all = append(all, one.facts...)
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
	one := rowOf(run, time.Now())
	words := []string{one.state, one.about}
	for _, s := range []string{one.steps, one.activity} {
		if s != "" {
			words = append(words, s)
		}
	}
	return r.screen.show(r.out, "", r.Paint(Dim, cut(strings.Join(words, "  "), r.wholeWidth())))
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
    linesman attach %[2]s
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
