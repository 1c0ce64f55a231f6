package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// announce has the settings of the agents that a responder announces by the Agent Protocol for NATS.
type announce struct {
	Owner       string
	Profiles    profiles
	NATS, Creds string // Creds is absolute after [Load]
}

// profile is what prompts to an announced agent may do.
type profile struct {
	Name   string            `json:"name"`  // last token of its subjects
	Agent  string            `json:"agent"` // short name or kind
	Dir    string            `json:"working_dir,omitempty"`
	Mode   string            `json:"mode,omitempty"` // "": read-only
	Model  string            `json:"model,omitempty"`
	Queue  string            `json:"queue,omitempty"` // "": work.queue
	Labels map[string]string `json:"labels,omitempty"`
	// Live makes its prompts live runs: callers answer what the agent asks, and may so allow more than the mode does.
	Live bool `json:"live,omitempty"`
}

// profiles are several: an array of tables in a TOML file; in flags and in the environment a JSON array.
type profiles []profile

// String returns the JSON array.
func (p profiles) String() string {
	b, _ := json.Marshal(append([]profile{}, p...)) // no error: its values are strings and flags
	return string(b)
}

// parse parses the result of String. It returns a description of the error, or "".
func (p *profiles) parse(text string) string {
	*p = nil
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	if text == "" {
		return ""
	}
	if d.Decode(p) != nil || d.More() {
		return "not an array of profiles with name, agent, working_dir, mode, model, queue, labels and live"
	}
	if len(*p) == 0 {
		*p = nil // as the default
	}
	return ""
}

const maxProfiles = 64

func isProfileToken(s string) bool { return len(s) <= 63 && profileForm.MatchString(s) }

var profileForm = regexp.MustCompile(`^[a-z0-9_-]+\z`)

// checkProfiles returns what is wrong with the profiles, or "".
func (c *Config) checkProfiles() string {
	if len(c.Announce.Profiles) > maxProfiles {
		return fmt.Sprintf("at most %d", maxProfiles)
	}
	table, taken := c.Table(), map[[2]string]bool{}
	for _, p := range c.Announce.Profiles {
		a, known := table.Find(p.Agent)
		key := [2]string{a.Short, p.Name}
		switch {
		case !isProfileToken(p.Name):
			return "each needs a name of 1 to 63 of a-z 0-9 _ -"
		case !known:
			return "the agent of each must be one of " + strings.Join(table.Names(), ", ")
		case !slices.Contains([]string{"read-only", "workspace-write", "danger-full-access"}, cmp.Or(p.Mode, "read-only")):
			return "the mode of each must be read-only, workspace-write or danger-full-access"
		case p.Queue != "" && !isToken(p.Queue):
			return "the queue of each must be a lower-case letter, then at most 31 of a-z 0-9 _ -"
		case p.Live && a.Live.Program == "":
			return "the agent of each that is live must speak the Agent Client Protocol"
		case taken[key]:
			return "two have the same agent and name"
		}
		taken[key] = true
	}
	return ""
}

func (c *Config) announceSettings() []Setting {
	a := &c.Announce
	return []Setting{
		{Key: "announce.owner", target: &a.Owner,
			check: must(func() bool { return a.Owner == "" || isProfileToken(a.Owner) },
				"must be 1 to 63 of a-z 0-9 _ -"),
			Help: "Owner in the subjects of the agents that a responder announces by the Agent Protocol for NATS. Empty: " +
				"the name of the user."},
		{Key: "announce.profiles", target: &a.Profiles, check: c.checkProfiles,
			Help: "What is announced, and what prompts to it may do: tables with name, agent, working_dir, mode, model, " +
				"queue, labels and live, by which callers of live runs answer what the agent asks, and may allow more than " +
				"the mode. Empty: each kind of agent of the live workers, by the name of the queue, with the mode read-only."},
		{Key: "announce.nats", target: &a.NATS, check: serverURLs(&a.NATS),
			Help: "URL of the NATS server to announce them at. Empty: the account LINESMAN_AGENTS of the server of linesman, " +
				"if it has one."},
		{Key: "announce.creds", target: &a.Creds,
			check: must(func() bool { return a.Creds == "" || a.NATS != "" }, "needs announce.nats"),
			Help:  "NATS credentials file for announce.nats. Empty: none."},
	}
}
