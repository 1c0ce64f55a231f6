package main

import (
	"io"
	"slices"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/linesman/linesman/api"
)

// The flags of submit that are fields of a request are those of the table of names, in both directions.
func TestFlagsOfSubmitAreInTheTableOfNames(t *testing.T) {
	k, err := newParser(&grammar{}, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(k.Model.Children, func(n *kong.Node) bool { return n.Name == "submit" })
	own := []string{"--wait", "--wait-timeout", "--file", "--json", "--help"}
	given := map[string]bool{"PROMPT": true}
	for _, f := range k.Model.Children[at].Flags {
		flag := "--" + f.Name
		given[flag] = true
		in := slices.ContainsFunc(api.Names, func(n api.Name) bool { return n.Flag == flag })
		if in == slices.Contains(own, flag) {
			t.Errorf("%s: in the table: %v", flag, in)
		}
	}
	for _, n := range api.Names {
		if n.Flag != "" && !given[n.Flag] {
			t.Errorf("%s: submit has no %s", n.Field, n.Flag)
		}
	}
}
