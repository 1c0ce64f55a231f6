package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/runs"
)

func checkedIn(t *testing.T) *files {
	t.Helper()
	f, err := load("../..")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestWhatIsGeneratedAgreesWithTheResults(t *testing.T) {
	f := checkedIn(t)
	page, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	if want, err := f.page(page); err != nil || !bytes.Equal(page, want) {
		t.Errorf("docs/agents.md: %v; run `go run ./test/drift -generate`", err)
	}
	results, err := os.ReadFile("results.json")
	if err != nil {
		t.Fatal(err)
	}
	if want, err := f.results.encode(); err != nil || !bytes.Equal(results, want) {
		t.Errorf("results.json is not as drift writes it: %v", err)
	}
	for _, a := range known.Agents {
		want, err := f.known(a)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile("../../agent/" + a.Short + "/known.go")
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("agent/%s/known.go: %v; run `go run ./test/drift -generate`", a.Short, err)
		}
		for _, v := range f.results.known(a.Short) {
			if v != a.Tested && !slices.Contains(a.Known, v) {
				t.Errorf("%s %s is good, but not in the table of agents", a.Name, v)
			}
		}
	}
}

func TestEachListedVersionHasAResult(t *testing.T) {
	f := checkedIn(t)
	for _, all := range []int{len(f.plans), len(f.results)} {
		if all != len(known.Agents) {
			t.Errorf("%d agents, want %d", all, len(known.Agents))
		}
	}
	for _, a := range known.Agents {
		p := f.plans[a.Short]
		if !slices.IsSortedFunc(p.Versions, compare) {
			t.Errorf("%s: the versions are not in order: %v", a.Name, p.Versions)
		}
		var have []string
		for _, r := range f.results[a.Short] {
			have = append(have, r.Version)
			if err := runs.CheckVersion(r.Version); err != nil {
				t.Errorf("%s %q: %v", a.Name, r.Version, err)
			}
		}
		if !slices.Equal(have, p.Versions) {
			t.Errorf("%s: results of %v\nlisted are %v", a.Name, have, p.Versions)
		}
		if !slices.Contains(f.results.known(a.Short), a.Tested) {
			t.Errorf("%s %s: linesman was tested with it, but it is not known good", a.Name, a.Tested)
		}
	}
}

func TestScenariosAndTheirRecordingsExist(t *testing.T) {
	for agent, p := range checkedIn(t).plans {
		for _, s := range p.Scenarios {
			for _, file := range []string{
				"test/lab/agents/scenarios/" + agent + "-" + s + ".json", p.Recorded + "/" + s + ".jsonl",
				p.Recorded + "/" + s + ".exit",
			} {
				if _, err := os.Stat(filepath.Join("../..", file)); err != nil {
					t.Error(err)
				}
			}
		}
		for _, c := range p.Changes {
			if !slices.Contains(p.Versions, c.From) {
				t.Errorf("%s: a change of version %s, which is not tried", agent, c.From)
			}
		}
		for _, r := range p.Ranges {
			if r.Why == "" || r.Below != "" && compare(r.From, r.Below) >= 0 {
				t.Errorf("%s: a range without a reason or a version: %+v", agent, r)
			}
			for _, s := range r.Scenarios {
				if !slices.Contains(p.Scenarios, s) {
					t.Errorf("%s: a range for the scenario %s, which is not played", agent, s)
				}
			}
		}
	}
}

// Recordings of old versions stand for what a program printed.
func TestResultOfRecordings(t *testing.T) {
	f := checkedIn(t)
	a, _ := known.Agents.Find("codex")
	recordings, err := filepath.Abs("../corpus/codex-versions")
	if err != nil {
		t.Fatal(err)
	}
	outputs := t.TempDir()
	if err := os.Symlink(recordings, filepath.Join(outputs, "codex")); err != nil {
		t.Fatal(err)
	}
	p, err := newPlayer("../..", outputs)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	plan := f.plans["codex"]
	plan.Scenarios = []string{"hello", "mcp", "patch", "http-400"}
	t.Setenv("PATH", "") // nothing is installed
	for version, want := range map[string]string{
		"0.163.0": "Codex 0.163.0: good",
		"0.101.0": "patch differs: without ToolCall(file_change start)",
		"0.58.0":  "http-400 differs: ",
		"0.36.0":  "times in hello",
		"0.37.0":  "not played: cannot be installed",
	} {
		r := p.version(context.Background(), a, plan, version)
		if got := r.text(a.Name); !strings.Contains(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
		if good := version != "0.36.0" && version != "0.37.0"; r.good() != good {
			t.Errorf("%s: good: %v, want %v", version, r.good(), good)
		}
	}
}

func TestRangesOfVersions(t *testing.T) {
	empty := ""
	p := plan{Scenarios: []string{"a", "b"}, Ranges: []span{
		{Below: "0.9.0", Model: "old"},
		{From: "0.5.0", Below: "0.10.0", Scenarios: []string{"b"}, Config: &empty, State: runs.StateFailed},
		{Below: "0.2.0", Scenarios: []string{"b"}, Skip: true},
	}}
	for _, c := range []struct {
		version, scenario, model string
		config                   bool
	}{
		{"0.4.9", "a", "old", false}, {"0.5.0", "b", "old", true}, {"0.9.10", "b", "", true}, {"0.10.0", "b", "", false},
		{"0.9.0", "a", "", false},
	} {
		if s := p.of(c.version, c.scenario); s.Model != c.model || (s.Config != nil) != c.config {
			t.Errorf("%s of %s: %+v", c.scenario, c.version, s)
		}
	}
	if got := p.played("0.1.5"); !slices.Equal(got, []string{"a"}) {
		t.Errorf("0.1.5 plays %v", got)
	}
	if !slices.Equal(p.Scenarios, []string{"a", "b"}) {
		t.Errorf("the plan changed: %v", p.Scenarios)
	}
}

func TestScenarioOfAVersion(t *testing.T) {
	config := "a = 1"
	for name, want := range map[string]string{
		"plan":      `"config":"a = 1"`,
		"hello":     `"model":"old"`,
		"code-mode": `"model":"gpt-6.1-sol"`, // a scenario that names one keeps it
	} {
		file, err := prepare("../lab/agents/scenarios/codex-"+name+".json", t.TempDir(), span{Model: "old", Config: &config})
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(file); err != nil || !bytes.Contains(b, []byte(want)) {
			t.Errorf("%s: %v, %s\nwant %s", name, err, b, want)
		}
	}
}

func TestDifferencesAndRangesInWords(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"x y z", "x y z", ""},
		{"x y z", "x z", "without y"},
		{"x z", "x y z", "also y"},
		{"x y z", "x w z", "w in place of y"},
		{"", "1 2 3 4 5 6 7 8", "also 1, 2, 3, 4, 5, 6 and 2 more"},
	} {
		if got := diff(strings.Fields(c.a), strings.Fields(c.b)); got != c.want {
			t.Errorf("%s, %s: %s, want %s", c.a, c.b, got, c.want)
		}
	}
	var all []result
	bad := map[string]bool{"1.2": true, "1.6": true}
	for _, v := range []string{"1.1", "1.2", "1.3", "1.4", "1.5", "1.6", "1.7", "1.10"} {
		all = append(all, result{Version: v})
	}
	got := ranges(all, func(r result) bool { return !bad[r.Version] })
	if want := "1.1, 3 versions from 1.3 to 1.5, 1.7, 1.10"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	r := results{}
	for _, v := range []string{"1.10", "1.9", "1.10"} {
		r.put("x", result{Version: v})
	}
	r.put("x", result{Version: "1.9", Missing: "no network"}) // the result that is there stays
	if versions := r.known("x"); !slices.Equal(versions, []string{"1.9", "1.10"}) {
		t.Errorf("%v", r)
	}
}

// Of each adapter the newest version is told beside the tested one.
func TestAdaptersAreListedWithTheirNewestVersions(t *testing.T) {
	dir := t.TempDir()
	npm := "#!/bin/sh\ncase \"$2\" in\n*/codex-acp) echo 9.9.9 ;;\n*) exit 1 ;;\nesac\n"
	if err := os.WriteFile(filepath.Join(dir, "npm"), []byte(npm), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	var out bytes.Buffer
	if err := adapters(t.Context(), &out, ""); err != nil {
		t.Fatal(err)
	}
	want := "@agentclientprotocol/codex-acp: tested with 2.6.0, newest: 9.9.9\n" +
		"@agentclientprotocol/claude-agent-acp: tested with 0.49.0, newest: unknown\n"
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}
