package v36

import (
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// cloudExt is what only a task of Codex Cloud has.
type cloudExt struct {
	CloudID      string `json:"cloud_id,omitempty"`
	WebURL       string `json:"web_ui_url,omitempty"`
	Environment  string `json:"environment,omitempty"`
	CloudStatus  string `json:"cloud_status,omitempty"` // pending, ready, applied or error
	Attempts     int    `json:"attempts,omitempty"`
	Applied      bool   `json:"applied,omitempty"`
	FilesChanged int    `json:"files_changed,omitempty"`
	Added        int    `json:"lines_added,omitempty"`
	Removed      int    `json:"lines_removed,omitempty"`
}

func cloudOf(c *runs.Cloud) cloudExt {
	if c == nil {
		return cloudExt{}
	}
	return cloudExt{c.ID, c.URL, c.Environment, c.Status, c.Attempts, c.Applied, c.FilesChanged, c.Added, c.Removed}
}

func (x *cloudExt) facts(p *page) {
	attempts, changes, applied := "", "", ""
	if x.Attempts > 1 {
		attempts = number(x.Attempts)
	}
	if x.FilesChanged > 0 {
		changes = files(x.FilesChanged) + ", +" + number(x.Added) + " -" + number(x.Removed) + " lines"
	}
	if x.Applied {
		applied = "yes"
	}
	p.facts("Cloud task", code(x.CloudID), "Cloud status", code(x.CloudStatus), "Environment", code(x.Environment),
		"Attempts", attempts, "Changes", changes, "Applied", applied, "Web page", link(x.WebURL))
}

func files(n int) string {
	if n == 1 {
		return "1 file"
	}
	return number(n) + " files"
}

// environment is one environment of Codex Cloud, as an answer shows it.
type environment struct {
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Repository string          `json:"repository,omitempty"`
	Stack      string          `json:"tech_stack,omitempty"`
	Created    runs.Time       `json:"created_at,omitzero"`
	Ext        *environmentExt `json:"ext,omitempty"`
}

type environmentExt struct {
	Description string `json:"description"`
}

type environmentsData struct {
	Environments []environment `json:"environments"`
}

type environmentsMeta struct {
	Count  int    `json:"count"`
	Source string `json:"source"`
}

// Environments is the answer to a request for the environments of Codex Cloud.
func Environments(list api.Environments) *Reply {
	d := &environmentsData{Environments: []environment{}}
	for _, e := range list.All {
		one := environment{ID: e.ID, Name: e.Name, Repository: e.Repository, Stack: e.Stack, Created: e.Created}
		if e.Description != "" {
			one.Ext = &environmentExt{e.Description}
		}
		d.Environments = append(d.Environments, one)
	}
	return &Reply{environmentsMeta{len(d.Environments), list.File}, d}
}

func (d *environmentsData) message() string { return "" }

func (d *environmentsData) markdown(p *page) {
	p.heading("Codex Cloud environments")
	if len(d.Environments) == 0 {
		p.line("None are listed.")
	}
	for _, e := range d.Environments {
		s := code(e.ID) + ": " + plain(e.Name)
		if e.Repository != "" {
			s += ", " + link(e.Repository)
		}
		if e.Stack != "" {
			s += ", " + plain(e.Stack)
		}
		if e.Created != 0 {
			s += ", created " + e.Created.String()
		}
		p.item(s)
		if e.Ext != nil {
			p.line("  " + plain(e.Ext.Description))
		}
	}
}

// guideData is a guide to connecting a repository with an environment.
type guideData struct {
	Guide string      `json:"guide"`
	Steps []guideStep `json:"steps"`
	Check string      `json:"verification_task"`
}

type guideStep struct {
	Step         int    `json:"step"`
	Title        string `json:"title"`
	Instructions string `json:"instructions"`
}

type guideMeta struct {
	Repository string `json:"repository"`
	Stack      string `json:"tech_stack"`
}

// installing is how the dependencies of a stack are installed, and its tests run.
var installing = map[string]struct{ install, test string }{
	"node":   {"npm ci", "npm test"},
	"python": {"python -m pip install -r requirements.txt", "python -m pytest"},
	"go":     {"go mod download", "go test ./..."},
	"rust":   {"cargo fetch", "cargo test"},
}

// Setup is what a guide is about. The address of the repository must be free of
// characters that a shell or markdown interprets.
type Setup struct {
	Repository  string // its address
	Stack       string // node, python, go or rust
	Name, Email string // of the commits
}

// Guide is the answer to a request for a guide.
func Guide(q Setup) *Reply {
	do := installing[q.Stack]
	script := "git config --global user.name " + quote(q.Name) + "\n" +
		"git config --global user.email " + quote(q.Email) + "\n" + do.install + "\n"
	d := &guideData{
		Steps: []guideStep{
			{1, "Create a fine-grained token",
				"Visit https://github.com/settings/personal-access-tokens/new. Choose only the repository " + q.Repository +
					", and the permissions Contents: read and write, Pull requests: read and write. Let it expire."},
			{2, "Configure the environment",
				"In Codex Cloud make an environment for " + q.Repository +
					". Add the token as the secret GITHUB_TOKEN; never write it into a file of the repository."},
			{3, "Set up git and " + q.Stack,
				"Make this the setup script of the environment:\n\n" + fenced(script, "sh")},
		},
		Check: "Create the branch codex/check, run `" + do.test + "`, and report its result. Change no files.",
	}
	var b strings.Builder
	b.WriteString("# GitHub setup for " + q.Repository + "\n")
	for _, s := range d.Steps {
		b.WriteString("\n## Step " + number(s.Step) + ": " + s.Title + "\n\n")
		b.WriteString(strings.TrimRight(s.Instructions, "\n") + "\n")
	}
	b.WriteString("\n## Check it\n\nSubmit this task to the environment: " + d.Check + "\n")
	d.Guide = b.String()
	return &Reply{guideMeta{q.Repository, q.Stack}, d}
}

// quote is s as one word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (d *guideData) markdown(p *page) { p.b.WriteString(d.Guide) }

func (d *guideData) message() string { return "" }
