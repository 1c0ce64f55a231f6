package main

import (
	"embed"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/linesman/linesman/config"
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
	_, err := io.WriteString(a.stdout, strings.Join(append(complete(k.Model.Node, c.Words), ""), "\n"))
	return err
}

// complete lists the candidates for the last word. None means a file, or that they
// are not known.
func complete(node *kong.Node, words []string) []string {
	if len(words) == 0 {
		return nil
	}
	// bash splits --flag=value at the sign.
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "=" })
	typed := words[len(words)-1]

	var wants *kong.Flag // a flag that still has no value
	positionals := 0
	for _, word := range words[:len(words)-1] {
		name, _, joined := strings.Cut(word, "=")
		switch {
		case wants != nil:
			wants = nil
		case word == "--":
			return nil
		case strings.HasPrefix(word, "-"):
			if f := findFlag(node, name); f != nil && !f.IsBool() && !joined {
				wants = f
			}
		default:
			if command := findCommand(node, word); command != nil {
				node = command
			} else {
				positionals++
			}
		}
	}

	name, _, joined := strings.Cut(typed, "=")
	switch {
	case wants != nil:
		return matching("", choices(wants.Value), typed)
	case strings.HasPrefix(typed, "-") && joined:
		if f := findFlag(node, name); f != nil {
			return matching(name+"=", choices(f.Value), typed)
		}
		return nil
	case strings.HasPrefix(typed, "-"):
		return matching("", flags(node), typed)
	case positionals < len(node.Positional):
		return matching("", choices(node.Positional[positionals]), typed)
	default:
		return matching("", commands(node), typed)
	}
}

func matching(prefix string, candidates []string, typed string) []string {
	var found []string
	for _, c := range candidates {
		if strings.HasPrefix(prefix+c, typed) {
			found = append(found, prefix+c)
		}
	}
	return found
}

func allFlags(node *kong.Node) []*kong.Flag { return slices.Concat(node.AllFlags(true)...) }

func findFlag(node *kong.Node, name string) *kong.Flag {
	for _, f := range allFlags(node) {
		if name == "--"+f.Name || f.Short != 0 && name == "-"+string(f.Short) {
			return f
		}
	}
	return nil
}

func flags(node *kong.Node) (all []string) {
	for _, f := range allFlags(node) {
		all = append(all, "--"+f.Name+"\t"+f.Help)
	}
	return all
}

func findCommand(node *kong.Node, name string) *kong.Node {
	for _, n := range node.Children {
		if n.Name == name {
			return n
		}
	}
	return nil
}

func commands(node *kong.Node) (all []string) {
	for _, n := range node.Children {
		if !n.Hidden {
			all = append(all, n.Name+"\t"+n.Help)
		}
	}
	return all
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
