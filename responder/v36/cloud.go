package v36

import (
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
	p.fact("Cloud task", code(x.CloudID))
	p.fact("Cloud status", code(x.CloudStatus))
	p.fact("Environment", code(x.Environment))
	if x.Attempts > 1 {
		p.fact("Attempts", number(int64(x.Attempts)))
	}
	if x.FilesChanged > 0 {
		p.fact("Changes", files(x.FilesChanged)+", +"+number(int64(x.Added))+" -"+number(int64(x.Removed))+" lines")
	}
	if x.Applied {
		p.fact("Applied", "yes")
	}
	p.fact("Web page", link(x.WebURL))
}

func files(n int) string {
	if n == 1 {
		return "1 file"
	}
	return number(int64(n)) + " files"
}
