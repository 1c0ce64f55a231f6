package console

import (
	"bytes"
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

func exampleDiff() *api.Diff {
	return &api.Diff{
		Run: "T-1", Changes: &api.Changes{Files: 204, Added: 12, Removed: 3}, Unlisted: 200, Truncated: true,
		Files: []runs.DiffFile{
			{Path: "a/" + strings.Repeat("long/", 20) + "name.go", Kind: "modified", Added: 10, Removed: 3},
			{Path: "宽/字.txt", Kind: "added", Added: 2},
			{Path: "new\x1b[2J", From: "old\n", Kind: "renamed"},
			{Path: "p.png", Kind: "deleted", Binary: true},
		},
		Patch: "diff --git a/x b/x\n@@ -1 +1,3 @@\n-old\n+\tnew \x1b[31m\n+" + strings.Repeat("w", 60) + "\n+cr\r\n",
	}
}

func TestDiffIsPrinted(t *testing.T) {
	t.Parallel()
	long := "a/" + strings.Repeat("long/", 20) + "name.go"
	for _, test := range []struct {
		name     string
		terminal bool
		color    bool
		width    int
		want     string
	}{
		{"pipe", false, false, 80, "M " + long + "  +10 -3\nA 宽/字.txt  +2 -0\nR old\\n → new\\x1b[2J  +0 -0\nD p.png  binary\n" +
			"and 200 more\n204 files changed in the directory +12 -3\n\n" +
			"diff --git a/x b/x\n@@ -1 +1,3 @@\n-old\n+\tnew \\x1b[31m\n+" +
			strings.Repeat("w", 60) + "\n+cr\r\n\n" +
			"(the patch lacks some of the changes: it has at most 256 KiB, and 64 KiB of each file)\n"},
		{"narrow", true, false, 40, "M …long/name.go    +10 -3\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := renderTo(&out, test.terminal, test.color, test.width).Diff(exampleDiff()); err != nil {
				t.Fatal(err)
			}
			got := out.String()
			if test.terminal {
				if strings.Contains(got, "\r") || strings.Contains(got, "\\r") {
					t.Errorf("a terminal gets the carriage return: %q", got)
				}
				for line := range strings.Lines(got) {
					if cells := cellsIn(strings.TrimSuffix(line, "\n")); cells > test.width && !strings.HasPrefix(line, "(") {
						t.Errorf("%d cells in %q", cells, line)
					}
				}
				return
			}
			if got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func cellsIn(line string) (n int) {
	for _, r := range line {
		n += cellsOf(r)
	}
	return n
}

func TestDiffHasColorsOnATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := renderTo(&out, true, true, 80).Diff(exampleDiff()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{Green + "│ +    new \\x1b[31m" + reset, Red + "│ -old" + reset, Green + "+10" + reset} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in %q", want, out.String())
		}
	}
	if strings.Contains(strings.ReplaceAll(out.String(), "\x1b[31m", ""), "\x1b[2J") {
		t.Errorf("the agent's escapes are printed: %q", out.String())
	}
}

func TestMissingDiffIsExplained(t *testing.T) {
	t.Parallel()
	for reason, why := range api.Whys {
		var out bytes.Buffer
		if err := renderTo(&out, false, false, 80).Diff(&api.Diff{Reason: reason, Why: why}); err != nil {
			t.Fatal(err)
		}
		if out.String() != "no diff: "+why+"\n" {
			t.Errorf("got %q", &out)
		}
	}
	var out bytes.Buffer
	if err := renderTo(&out, false, false, 80).Diff(&api.Diff{Changes: &api.Changes{}}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "no changes\n" {
		t.Errorf("got %q", &out)
	}
}

func TestResultHasTheNumbersOfTheChanges(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]*api.Changes{
		"changes    3 files +10 -2\n":                       {Files: 3, Added: 10, Removed: 2},
		"changes    1 file +1 -0\n":                         {Files: 1, Added: 1},
		"changes    none\n":                                 {},
		"changes    unknown: " + api.Whys["timeout"] + "\n": {Reason: "timeout"},
	} {
		var out bytes.Buffer
		run := &api.Run{Summary: runs.Summary{ID: "T-1", State: runs.StateCompleted}, Detail: &api.Detail{Changes: c}}
		if err := renderTo(&out, false, false, 80).Result(&api.Result{Run: run}, ResultOptions{}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
