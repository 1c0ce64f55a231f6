package main

import (
	"cmp"
	"embed"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/linesman/linesman/config"
)

// helpTexts are the details of the commands: help/bridge-list.txt is that of
// `linesman bridge list`.
//
//go:embed help
var helpTexts embed.FS

func helpText(node *kong.Node) string {
	name := strings.ReplaceAll(cmp.Or(node.Path(), "linesman"), " ", "-")
	text, err := helpTexts.ReadFile("help/" + name + ".txt")
	if err != nil { // a command without one
		return ""
	}
	return strings.TrimSuffix(string(text), "\n")
}

// addHelp gives the commands their texts, and a flag with the help "${NAME}" the
// help of the setting of that name. As variables of kong these would be expanded
// for each value of the grammar, which takes longer than the rest of a short
// command.
func addHelp(k *kong.Kong) error {
	settings := map[string]string{}
	for _, s := range config.Settings() {
		text := strings.TrimSuffix(s.Help, ".") + " ($" + s.Env()
		if v := s.Value(); v != "" {
			text += ", default " + v
		}
		settings["${"+strings.ReplaceAll(s.Key, ".", "_")+"}"] = text + ")."
	}
	k.Model.Help = helpText(k.Model.Node)
	return kong.Visit(k.Model, func(v kong.Visitable, next kong.Next) error {
		switch v := v.(type) {
		case *kong.Node:
			v.Detail = helpText(v)
		case *kong.Flag:
			v.Help = cmp.Or(settings[v.Help], v.Help)
		}
		return next(nil)
	})
}
