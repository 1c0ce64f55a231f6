package console

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
)

// activity describes what a run is doing, with its age, or that it is silent; "": unknown.
func activity(run *api.Run, now time.Time) string {
	if run.Doing == nil && run.ActiveAt == 0 {
		return ""
	}
	s := run.Summary
	if s.Doing != nil {
		s.Doing = new(*s.Doing)
		s.Doing.Tool = flat(s.Doing.Tool)
	}
	return Safe(s.DoingText(now.UnixMilli()))
}

// statusLine is the status line at a time, without a newline: what the run is doing, its
// tokens and its plan, in fewer cells than the terminal has.
func (t *Timeline) statusLine(now time.Time) string {
	run := t.run
	if run == nil || run.State.Final() {
		return ""
	}
	does := cmp.Or(doing(run, now), Safe(string(run.State)))
	facts := []string{does, shortTokens(run.Tokens)}
	if p := run.Progress; p != nil && p.Total > 0 {
		facts = append(facts, fmt.Sprintf("plan %d/%d", p.Done, p.Total))
	}
	return t.r.Paint(Dim, cut(strings.Join(facts, " | "), t.r.width()-1))
}
