package main

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// candidates lists the candidates for the last of words, which are those after the name of
// the program: a command, a flag, or one of the choices of its value. A description may follow
// after a tab. None means a file, or that they are not known.
func candidates(node *kong.Node, words []string, choices func(*kong.Value) []string) []string {
	if len(words) == 0 {
		return nil
	}
	// bash splits --flag=value at the sign, after which nothing may be typed yet.
	words = slices.Clone(words)
	if last := &words[len(words)-1]; *last == "=" {
		*last = ""
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "=" })
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
		return matching("", flagTexts(node), typed)
	case positionals < len(node.Positional):
		return matching("", choices(node.Positional[positionals]), typed)
	default:
		return matching("", subcommands(node), typed)
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

func flagTexts(node *kong.Node) (all []string) {
	for _, f := range allFlags(node) {
		all = append(all, "--"+f.Name+"\t"+f.Help)
	}
	return all
}

func findCommand(node *kong.Node, name string) *kong.Node {
	for _, n := range node.Children {
		if n.Name == name || slices.Contains(n.Aliases, name) {
			return n
		}
	}
	return nil
}

func subcommands(node *kong.Node) (all []string) {
	for _, n := range node.Children {
		if !n.Hidden {
			all = append(all, n.Name+"\t"+n.Help)
		}
	}
	return all
}
