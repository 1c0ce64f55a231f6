package main

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// topics are the numbers of the decisions in docs/decisions, by what they are about: a room, or
// what several rooms have together.
var topics = []struct {
	name    string
	numbers []int
}{
	{"agent", []int{5, 42, 43, 61, 63, 66, 67, 91, 92, 104, 105}},
	{"normalizer", []int{1, 2, 3, 4, 14, 25, 62, 76, 100}},
	{"bounds", []int{9, 10}},
	{"runs", []int{16, 17, 19, 27, 30, 33, 44, 45, 62, 74, 77, 79, 80, 82, 83, 103}},
	{"worker", []int{18, 24, 26, 36, 37, 38, 43, 46, 63, 66, 67, 79, 80, 81}},
	{"bus", []int{6, 12, 15, 20, 31, 34, 39, 47, 49, 84, 86, 88, 94, 97, 99}},
	{"bus/embedded: the built-in server", []int{7, 11, 13, 40, 48, 64, 93, 98}},
	{"responder", []int{21, 29, 41, 52, 68, 80, 85, 86, 87, 91, 92, 93, 95, 98}},
	{"responder/mcp, tools", []int{22, 23, 69, 71, 75}},
	{"responder/a2a, adcp, rest", []int{28, 32, 50, 51, 71, 78, 85, 89, 90, 96}},
	{"cmd and client", []int{8, 23, 35, 53, 54, 65, 87, 101}},
	{"daemon", []int{35, 50, 57, 65}},
	{"telemetry", []int{55, 56, 58, 59}},
	{"web: the page", []int{51, 52, 70, 87, 102}},
	{"tests and the house", []int{60, 72, 73}},
}

// decisionsPage is the index of the decisions in the given folder.
func decisionsPage(dir string, title func(file string) (string, error)) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		return "", err
	}
	numbered := map[int]string{}
	for _, file := range files {
		var n int
		if _, err := fmt.Sscanf(filepath.Base(file), "%04d-", &n); err != nil {
			return "", fmt.Errorf("%s has no number: %w", file, err)
		}
		numbered[n] = file
	}
	var b strings.Builder
	b.WriteString("# Decisions by what they are about\n\nGenerated from test/house/decisions.go. A decision may be " +
		"about several things.\n")
	seen := map[int]bool{}
	for _, a := range topics {
		fmt.Fprintf(&b, "\n## %s\n\n", a.name)
		for _, n := range slices.Sorted(slices.Values(a.numbers)) {
			file, ok := numbered[n]
			if !ok {
				return "", fmt.Errorf("%s: there is no decision %d", a.name, n)
			}
			text, err := title(file)
			if err != nil {
				return "", err
			}
			seen[n] = true
			fmt.Fprintf(&b, "- [%s](../decisions/%s)\n", text, path.Base(filepath.ToSlash(file)))
		}
	}
	for n := range numbered {
		if !seen[n] {
			return "", fmt.Errorf("test/house/decisions.go does not say what decision %d is about", n)
		}
	}
	return b.String(), nil
}
