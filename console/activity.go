package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// activity describes what a run is doing, with its age; "": unknown.
func activity(run *api.Run, now time.Time) string {
	d := run.Doing
	if d == nil {
		return ""
	}
	age := ""
	if d.Since != 0 {
		age = " " + seconds(now.UnixMilli()-int64(d.Since))
	}
	switch d.Phase {
	case runs.RunningTool:
		return strings.TrimSpace("running "+Word(d.Tool)) + age
	case runs.Retrying:
		text := "retrying the model"
		var facts []string
		if d.Attempt > 0 && d.Of > 0 {
			facts = append(facts, fmt.Sprintf("%d of %d", d.Attempt, d.Of))
		}
		if wait := int64(d.NextAt) - now.UnixMilli(); d.NextAt != 0 && wait > 0 {
			facts = append(facts, "next in "+seconds(wait))
		}
		if len(facts) > 0 {
			text += " (" + strings.Join(facts, ", ") + ")"
		}
		return text
	}
	return Safe(strings.ReplaceAll(string(d.Phase), "-", " ")) + age
}

// statusLine is the status line at a time, without a newline: what the run is doing, its
// tokens and its plan, in fewer cells than the terminal has.
func (t *Timeline) statusLine(now time.Time) string {
	run := t.run
	if run == nil || run.State.Final() {
		return ""
	}
	doing := activity(run, now)
	if doing == "" {
		doing = Safe(string(run.State))
	}
	facts := []string{doing, shortTokens(run.Tokens)}
	if p := run.Progress; p != nil && p.Total > 0 {
		facts = append(facts, fmt.Sprintf("plan %d/%d", p.Completed, p.Total))
	}
	return t.r.Paint(Dim, cut(strings.Join(facts, " | "), t.r.width()-1))
}
