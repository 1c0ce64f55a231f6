package v36

import "github.com/linesman/linesman/api"

// environment is one environment of Codex Cloud, as an answer shows it.
type environment struct {
	ID         string          `json:"id"`
	Name       string          `json:"name"`
	Repository string          `json:"repository,omitempty"`
	Stack      string          `json:"tech_stack,omitempty"`
	Created    api.Time        `json:"created_at,omitzero"`
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
