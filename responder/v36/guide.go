package v36

import "strings"

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
		b.WriteString("\n## Step " + number(int64(s.Step)) + ": " + s.Title + "\n\n")
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
