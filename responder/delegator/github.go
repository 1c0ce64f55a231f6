package delegator

import (
	"context"
	"regexp"
	"strings"
)

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

// Nothing of these can end a word of a shell or a mark of markdown.
var (
	gitHubURL = regexp.MustCompile(`^https://github\.com/([A-Za-z0-9](?:[A-Za-z0-9-]{0,38}))/([A-Za-z0-9._-]{1,100})$`)
	address   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,180})$`)
)

func checkGitHub(c *call) {
	if _, ok := repository(c.args.text("repoUrl")); c.args.text("repoUrl") != "" && !ok {
		c.args.refuse("repoUrl", "must be https://github.com/OWNER/REPOSITORY")
	}
	if strings.HasPrefix(c.args.text("gitUserName"), "-") {
		c.args.refuse("gitUserName", "must not begin with '-': git would take it for an option")
	}
	if !address.MatchString(c.args.text("gitUserEmail")) {
		c.args.refuse("gitUserEmail", "must be an address of mail")
	}
}

// repository is the address of a repository without what follows its name.
func repository(url string) (string, bool) {
	url = strings.TrimSuffix(strings.TrimSuffix(url, "/"), ".git")
	m := gitHubURL.FindStringSubmatch(url)
	return url, m != nil && m[2] != "." && m[2] != ".."
}

// installing is how the dependencies of a stack are installed, and its tests run.
var installing = map[string]struct{ install, test string }{
	"node":   {"npm ci", "npm test"},
	"python": {"python -m pip install -r requirements.txt", "python -m pytest"},
	"go":     {"go mod download", "go test ./..."},
	"rust":   {"cargo fetch", "cargo test"},
}

func gitHubSetup(c *call, _ context.Context) (*reply, error) {
	repo, _ := repository(c.args.text("repoUrl"))
	stack := c.args.text("stack")
	do := installing[stack]
	script := "git config --global user.name " + quote(c.args.text("gitUserName")) + "\n" +
		"git config --global user.email " + quote(c.args.text("gitUserEmail")) + "\n" + do.install + "\n"
	d := &guideData{
		Steps: []guideStep{
			{1, "Create a fine-grained token",
				"Visit https://github.com/settings/personal-access-tokens/new. Choose only the repository " + repo +
					", and the permissions Contents: read and write, Pull requests: read and write. Let it expire."},
			{2, "Configure the environment",
				"In Codex Cloud make an environment for " + repo + ". Add the token as the secret GITHUB_TOKEN; never write it into a file of the repository."},
			{3, "Set up git and " + stack,
				"Make this the setup script of the environment:\n\n" + fenced(script, "sh")},
		},
		Check: "Create the branch codex/check, run `" + do.test + "`, and report its result. Change no files.",
	}
	var b strings.Builder
	b.WriteString("# GitHub setup for " + repo + "\n")
	for _, s := range d.Steps {
		b.WriteString("\n## Step " + number(int64(s.Step)) + ": " + s.Title + "\n\n" + strings.TrimRight(s.Instructions, "\n") + "\n")
	}
	b.WriteString("\n## Check it\n\nSubmit this task to the environment: " + d.Check + "\n")
	d.Guide = b.String()
	return &reply{meta: guideMeta{repo, stack}, data: d}, nil
}

// quote is s as one word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (d *guideData) markdown(p *page) { p.b.WriteString(d.Guide) }
