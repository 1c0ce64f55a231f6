package main

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/linesman/linesman/runs"
)

// plan says which versions of an agent are played, and how.
type plan struct {
	Package   string   // of npm
	Versions  []string // in ascending order
	Which     string   // how the versions were chosen
	Recorded  string   // folder with the recordings of the tested version
	Scenarios []string // of test/lab/agents/scenarios, without the agent's name
	Unordered []string // scenarios in which the order of events depends on timing
	Ranges    []span   // what differs between versions; a later range overrides an earlier one
	Changes   []change // notes of what changed in the output, in ascending order; no program shows them
}

// span is what differs in a range of versions.
type span struct {
	From      string   // the first version; "": all up to Below
	Below     string   // the first version after the range; "": none
	Scenarios []string // empty: all

	Model  string     // of scenarios that name none
	Config *string    // in place of the scenario's
	Skip   bool       // these versions have nothing of what the scenarios play
	State  runs.State // of the run, where it is not that of the tested version
	Why    string
}

// change is something that the output has since a version.
type change struct {
	From string
	What string
}

// covers reports whether a scenario of a version is in a range.
func (s span) covers(version, scenario string) bool {
	return compare(s.From, version) <= 0 && (s.Below == "" || compare(version, s.Below) < 0) &&
		(len(s.Scenarios) == 0 || slices.Contains(s.Scenarios, scenario))
}

// of merges the ranges that cover a scenario of a version.
func (p plan) of(version, scenario string) span {
	var all span
	for _, s := range p.Ranges {
		if !s.covers(version, scenario) {
			continue
		}
		all.Model, all.Skip = cmp.Or(s.Model, all.Model), s.Skip || all.Skip
		all.State, all.Why = cmp.Or(s.State, all.State), cmp.Or(s.Why, all.Why)
		if s.Config != nil {
			all.Config = s.Config
		}
	}
	return all
}

// played returns the scenarios of a version.
func (p plan) played(version string) []string {
	return slices.DeleteFunc(slices.Clone(p.Scenarios), func(s string) bool { return p.of(version, s).Skip })
}

// compare compares two versions by their numbers. "" is before all.
func compare(a, b string) int {
	return slices.Compare(numbers(a), numbers(b))
}

func numbers(version string) (all []int) {
	for part := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(part) // "": 0
		all = append(all, n)
	}
	return all
}

// files are the checked-in files of this program, and what they have.
type files struct {
	root    string // of the repository
	plans   map[string]plan
	results results
}

func load(root string) (*files, error) {
	f := &files{root: root, results: results{}}
	if err := f.read("versions.json", &f.plans); err != nil {
		return nil, err
	}
	return f, f.read("results.json", &f.results)
}

func (f *files) read(name string, v any) error {
	b, err := os.ReadFile(filepath.Join(f.root, "test", "drift", name))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}
