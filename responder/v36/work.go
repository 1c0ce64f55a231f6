package v36

import (
	"fmt"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// workData is what an agent did.
type workData struct {
	Commands []commandData   `json:"commands,omitempty"` // the newest
	Files    []fileData      `json:"files,omitempty"`
	Plan     []runs.PlanStep `json:"plan,omitempty"`

	CommandsUnlisted int  `json:"commands_unlisted,omitempty"`
	FilesUnlisted    int  `json:"files_unlisted,omitempty"`
	Partial          bool `json:"partial,omitempty"` // a part of the run was not read
}

type commandData struct {
	Command  string `json:"command"`
	ExitCode *int   `json:"exit_code,omitempty"`
	Duration *int64 `json:"duration_ms,omitempty"`
}

type fileData struct {
	Path    string `json:"path"`
	Kind    string `json:"kind"`
	Added   *int   `json:"lines_added,omitempty"`
	Removed *int   `json:"lines_removed,omitempty"`
}

// workOf returns nil if nothing is known.
func workOf(w *responder.Work) *workData {
	if w == nil {
		return nil
	}
	d := &workData{
		Plan: w.Plan, CommandsUnlisted: w.Unlisted.Commands, FilesUnlisted: w.Unlisted.Files, Partial: w.Partial,
	}
	for _, c := range w.Commands {
		d.Commands = append(d.Commands, commandData{c.Text, c.ExitCode, c.Took})
	}
	for _, f := range w.Files {
		d.Files = append(d.Files, fileData{f.Path, f.Kind, f.Added, f.Removed})
	}
	if len(d.Commands)+len(d.Files)+len(d.Plan) == 0 {
		return nil
	}
	return d
}

func (d *workData) markdown(p *page) {
	if d == nil {
		return
	}
	if len(d.Commands) > 0 {
		p.heading("Commands")
	}
	for _, c := range d.Commands {
		line := code(c.Command)
		if c.ExitCode != nil {
			line += ": exit code " + number(*c.ExitCode)
		}
		if c.Duration != nil {
			line += fmt.Sprintf(", %.1f s", float64(*c.Duration)/1000)
		}
		p.item(line)
	}
	if d.CommandsUnlisted > 0 {
		p.item(number(d.CommandsUnlisted) + " before them not listed")
	}
	if len(d.Files) > 0 {
		p.heading("Changes")
	}
	for _, f := range d.Files {
		line := plain(f.Kind) + " " + code(f.Path)
		if f.Added != nil && f.Removed != nil {
			line += fmt.Sprintf(" (+%d -%d)", *f.Added, *f.Removed)
		}
		p.item(line)
	}
	if d.FilesUnlisted > 0 {
		p.item(number(d.FilesUnlisted) + " not listed")
	}
	if len(d.Plan) > 0 {
		p.heading("Plan")
	}
	for _, s := range d.Plan {
		p.item(plain(s.State) + ": " + plain(s.Text))
	}
	if d.Partial {
		p.gap()
		p.line("A part of the run is not listed: it is long, or its beginning is no longer kept")
	}
}
