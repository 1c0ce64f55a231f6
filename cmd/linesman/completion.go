package main

import (
	"embed"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/console"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (c *completionCmd) Run(a *app) error {
	script, err := completionScripts.ReadFile("completion/" + c.Shell)
	if err == nil {
		_, err = a.stdout.Write(script)
	}
	return err
}

// completionScripts ask the binary itself, so that they need no change when the
// grammar changes. If it has no answer, the shell offers files.
//
//go:embed completion
var completionScripts embed.FS

// completeCmd answers the scripts: one candidate a line, with its description
// after a tab.
type completeCmd struct {
	Words []string `arg:"" optional:"" help:"The words after linesman; the last is being typed."`
}

func (c *completeCmd) Run(a *app, k *kong.Kong) error {
	_, err := io.WriteString(a.stdout, strings.Join(append(console.Candidates(k.Model.Node, c.Words, choices), ""), "\n"))
	return err
}

// choices are the values that a flag or an argument can have, if they can be
// listed.
func choices(v *kong.Value) []string {
	if v.Enum != "" {
		return v.EnumSlice()
	}
	if names := listed[v.Target.Type()]; names != nil {
		return names
	}
	for _, s := range config.Settings() {
		if s.Key == v.Tag.Get("setting") {
			return s.Choices
		}
	}
	return nil
}
