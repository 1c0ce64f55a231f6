package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

type statusCmd struct {
	Run_  runID `arg:"" name:"run" optional:"" help:"Only this run."`
	Limit int   `default:"10" placeholder:"N" help:"How many runs to list that have ended, 1 to 100 (default 10)."`
	Tasks bool  `help:"Only runs that came by the work queue."`
	JSON  bool  `name:"json" help:"Print the responder's answer, a v3.6 envelope, on one line."`
}

// Help is printed by `linesman status --help`.
func (statusCmd) Help() string {
	return `Says which runs work and how far they are, which wait and at which place, and which ended last. One line is one run: its
state, its id, and what there is to say. Steps are those of the agent's own to-do list; without one, none are shown.

Examples:

    linesman status
    linesman status T-local-0mwqeheq41ojmir
    linesman status --tasks --json | jq .data.summary

Exit status: 0 done, 1 failed, 2 bad flags or settings, 3 NATS or the responder is out of reach, 4 there is no such run.`
}

func (c *statusCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	tool, args := "_codex_local_status", map[string]any{"limit": c.Limit, "showAll": !c.Tasks}
	if c.Run_ != "" {
		if c.Tasks {
			return exitWith(exitUsage, errors.New("--tasks: not for a single run"))
		}
		tool, args = c.Run_.tool("status"), c.Run_.named()
	}
	caller, err := a.caller(ctx)
	if err != nil {
		return err
	}
	defer caller.bus.Close()
	now, err := caller.ask(ctx, answerTime, tool, args)
	if err != nil {
		return err
	}
	return caller.finish(now, c.JSON, map[string]string{"limit": "--limit"}, c.Run_, func() error {
		var s snapshot
		if err := now.read(&s); err != nil {
			return err
		}
		r := newRenderer(a.stdout, a.environ)
		if c.Run_ != "" {
			return s.printOne(r)
		}
		return s.print(r)
	})
}

// snapshot is the payload of a status.
type snapshot struct {
	Summary struct {
		Running int
		Queued  int
		Ended   int `json:"recently_completed"`
	}
	Tasks []struct {
		TaskID   string `json:"task_id"`
		Started  string `json:"started_ts"`
		Elapsed  int64  `json:"elapsed_seconds"`
		Progress struct {
			Activity string `json:"current_activity"`
		}
		Ext entryExt
	}
	Queue []struct {
		TaskID   string `json:"task_id"`
		Position int
	}
	Ended []struct {
		TaskID   string `json:"task_id"`
		State    string
		Duration int64  `json:"duration_seconds"`
		At       string `json:"completed_ts"`
		Ext      entryExt
	} `json:"recently_completed"`
	Ext struct {
		Tasks int `json:"tasks_unlisted"`
		Queue int `json:"queue_unlisted"`
	}
}

type entryExt struct {
	Lost   bool
	Worker string
	Reason string
	WebURL string `json:"web_ui_url"`
	Plan   struct {
		Done  int `json:"completed_steps"`
		Total int `json:"total_steps"`
	}
}

// statusRow is one run. Its texts are safe.
type statusRow struct {
	state, run, about string
	facts             [][2]string // the same with names, for a run by itself
}

// rows are the runs, those that work first and those that ended last.
func (s *snapshot) rows(now time.Time) []statusRow {
	var all []statusRow
	for _, t := range s.Tasks {
		r := statusRow{state: "working", run: safeWord(t.TaskID)}
		elapsed := inSeconds(t.Elapsed)
		r.fact("started", safe(t.Started)+", "+elapsed+" ago")
		r.about = elapsed
		if p := t.Ext.Plan; p.Total > 0 {
			steps := fmt.Sprintf("%d of %d steps", p.Done, p.Total)
			r.about += "  " + steps
			r.fact("progress", steps)
		}
		if activity := t.Progress.Activity; activity != "" {
			r.about += "  " + safe(activity)
			r.fact("activity", safe(activity))
		}
		if t.Ext.Lost {
			r.about += "  lost: worker " + safeWord(t.Ext.Worker) + " is silent"
			r.fact("worker", safeWord(t.Ext.Worker)+" is silent")
		}
		r.link(t.Ext)
		all = append(all, r)
	}
	for _, t := range s.Queue {
		r := statusRow{state: "queued", run: safeWord(t.TaskID), about: "next"}
		if t.Position > 0 {
			r.about = behind(t.Position)
		}
		r.fact("waits", behind(t.Position))
		all = append(all, r)
	}
	for _, t := range s.Ended {
		r := statusRow{state: safeWord(t.State), run: safeWord(t.TaskID), about: ago(t.At, now) + "  took " + inSeconds(t.Duration)}
		r.fact("ended", safe(t.At)+", "+ago(t.At, now))
		r.fact("took", inSeconds(t.Duration))
		if t.Ext.Reason != "" {
			r.about += "  " + safe(t.Ext.Reason)
			r.fact("reason", safe(t.Ext.Reason))
		}
		r.link(t.Ext)
		all = append(all, r)
	}
	return all
}

func (r *statusRow) fact(name, value string) { r.facts = append(r.facts, [2]string{name, value}) }

func (r *statusRow) link(x entryExt) {
	if x.WebURL != "" {
		r.fact("web page", safe(x.WebURL))
	}
}

// color is what a state looks like.
func color(state string) string {
	switch state {
	case "completed":
		return green
	case "failed", "timeout":
		return red
	case "cancelled":
		return yellow
	case "working":
		return cyan
	}
	return ""
}

// print lists the runs. On a terminal a row is one line, whatever it holds.
func (s *snapshot) print(r *renderer) error {
	var b strings.Builder
	rows, width := s.rows(time.Now()), 0
	for _, row := range rows {
		width = max(width, len(row.run)) // ASCII
	}
	for _, row := range rows {
		state, rest := fmt.Sprintf("%-9s", row.state), fmt.Sprintf("  %-*s  %s", width, row.run, row.about)
		if r.terminal {
			rest = fold(rest, max(r.width()-len(state)-1, 8))[0]
		}
		b.WriteString(r.paint(color(row.state), state) + rest + "\n")
	}
	total := fmt.Sprintf("%d working, %d queued, %d ended", s.Summary.Running, s.Summary.Queued, s.Summary.Ended)
	for _, more := range []struct {
		n    int
		what string
	}{{s.Ext.Tasks, "working"}, {s.Ext.Queue, "queued"}, {s.Summary.Ended - len(s.Ended), "ended"}} {
		if more.n > 0 {
			total += fmt.Sprintf("; %d %s not shown", more.n, more.what)
		}
	}
	b.WriteString(r.paint(dim, total) + "\n")
	_, err := r.out.Write([]byte(b.String()))
	return err
}

// printOne tells all that is known of the only run.
func (s *snapshot) printOne(r *renderer) error {
	var b strings.Builder
	for _, row := range s.rows(time.Now()) {
		facts := append([][2]string{{"run", row.run}, {"state", row.state}}, row.facts...)
		writeFacts(&b, r, facts)
	}
	_, err := r.out.Write([]byte(b.String()))
	return err
}

// writeFacts writes names and values, which are safe, each on lines of its own.
func writeFacts(b *strings.Builder, r *renderer, facts [][2]string) {
	for _, f := range facts {
		value := f[1]
		if f[0] == "state" {
			value = r.paint(color(value), value)
		}
		fmt.Fprintf(b, "%s  %s\n", r.paint(dim, fmt.Sprintf("%-9s", f[0])), value)
	}
}
