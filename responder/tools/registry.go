package tools

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	v36 "github.com/linesman/linesman/responder/v36"
)

func cleanup(c *call) action {
	q := api.Cleanup{
		Stuck:  time.Duration(c.args.Number("stuckTaskMaxAgeSeconds")) * time.Second,
		Old:    time.Duration(c.args.Number("oldTaskMaxAgeHours")) * time.Hour,
		DryRun: c.args.Flag("dryRun"),
	}
	return func(ctx context.Context) (outcome, error) {
		done, err := c.service.Cleanup(ctx, q)
		if err != nil {
			e := *api.Known(err)
			e.Message += fmt.Sprintf("; until then %d stuck tasks were ended, and %d old ones removed",
				len(done.Ended), done.Removed)
			return outcome{}, &e
		}
		return outcome{reply: v36.CleanedUp(q, done, c.service.Basis())}, nil
	}
}

func listEnvironments(c *call) action {
	return func(context.Context) (outcome, error) {
		list, err := c.service.Environments()
		if err != nil {
			return outcome{}, err
		}
		return outcome{reply: v36.Environments(list)}, nil
	}
}

// Nothing of these can end a word of a shell or a mark of markdown.
var (
	gitHubURL = regexp.MustCompile(`^https://github\.com/([A-Za-z0-9](?:[A-Za-z0-9-]{0,38}))/([A-Za-z0-9._-]{1,100})$`)
	address   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,180})$`)
)

func gitHubSetup(c *call) action {
	q := v36.Setup{Stack: c.args.Text("stack"), Name: c.args.Text("gitUserName"), Email: c.args.Text("gitUserEmail")}
	url := c.args.Text("repoUrl")
	var ok bool
	if q.Repository, ok = repository(url); url != "" && !ok {
		c.args.Refuse("repoUrl", "must be https://github.com/OWNER/REPOSITORY")
	}
	if strings.HasPrefix(q.Name, "-") {
		c.args.Refuse("gitUserName", "must not begin with '-': git would take it for an option")
	}
	if !address.MatchString(q.Email) {
		c.args.Refuse("gitUserEmail", "must be an address of mail")
	}
	return func(context.Context) (outcome, error) { return outcome{reply: v36.Guide(q)}, nil }
}

// repository is the address of a repository without what follows its name.
func repository(url string) (string, bool) {
	url = strings.TrimSuffix(strings.TrimSuffix(url, "/"), ".git")
	m := gitHubURL.FindStringSubmatch(url)
	return url, m != nil && m[2] != "." && m[2] != ".."
}
