package runs_test

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/linesman/linesman/runs"
)

var (
	runID     = regexp.MustCompile(`\A[A-Za-z0-9_-]{1,64}\z`)
	agentKind = regexp.MustCompile(`\A[a-z][a-z0-9_]{0,63}\z`)
)

func TestCheckID(t *testing.T) {
	for _, id := range []string{"a", "-", "_", "T-local-0123456789abcde", "T-cloud-x_y", strings.Repeat("x", 64)} {
		if err := runs.CheckID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", strings.Repeat("x", 65), "a.b", "a*", ">", "a b", "a\n", "a/b", "..",
		"é", "a\x00", "\xff"} {
		if runs.CheckID(id) == nil {
			t.Errorf("%q is accepted", id)
		}
	}
}

func TestCheckAgent(t *testing.T) {
	for _, kind := range []string{"codex", "claude_code", "a", "a1_", "x__9", strings.Repeat("x", 64)} {
		if err := runs.CheckAgent(kind); err != nil {
			t.Errorf("%q: %v", kind, err)
		}
	}
	for _, kind := range []string{"", strings.Repeat("x", 65), "Codex", "1a", "_a", "a-b", "a.b", "a ", "a\n",
		"codex>", "é", "\xff"} {
		if runs.CheckAgent(kind) == nil {
			t.Errorf("%q is accepted", kind)
		}
	}
}

func TestLabelsAreChecked(t *testing.T) {
	many := map[string]string{}
	for i := range runs.MaxLabels {
		many[strings.Repeat("k", i+1)] = "v"
	}
	for _, labels := range []map[string]string{
		nil, {}, {"k": ""}, {"team": "größer 🚀"}, {strings.Repeat("k", 64): strings.Repeat("v", 256)},
		{"a b": "=,\"\\"}, many,
	} {
		if err := runs.LabelsOf(labels).Check(); err != nil {
			t.Errorf("%v: %v", labels, err)
		}
	}
	tooMany := map[string]string{"more": "v"}
	for k, v := range many {
		tooMany[k] = v
	}
	for _, c := range []struct {
		labels map[string]string
		errors int
	}{
		{tooMany, 1},
		{map[string]string{"": "SECRET"}, 1},
		{map[string]string{strings.Repeat("k", 65): "SECRET"}, 1},
		{map[string]string{"k\n": "SECRET"}, 1},
		{map[string]string{"k\xff": "SECRET"}, 1},
		{map[string]string{"k": "SECRET\x00"}, 1},
		{map[string]string{"k": "SECRET\u0085"}, 1},
		{map[string]string{"k": "SECRET\xff"}, 1},
		{map[string]string{"k": "SECRET" + strings.Repeat("v", 251)}, 1},
		{map[string]string{"k": "SECRET\n" + strings.Repeat("v", 256), "": "SECRET"}, 3},
	} {
		err := runs.LabelsOf(c.labels).Check()
		if err == nil {
			t.Errorf("%q is accepted", c.labels)
			continue
		}
		if n := strings.Count(err.Error(), "\n") + 1; n != c.errors || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%q: %d errors, want %d without values: %v", c.labels, n, c.errors, err)
		}
	}
}

// Local ids sort by time, and are valid run ids at any time.
func TestLocalIDsSortByTime(t *testing.T) {
	var ids []string
	for _, ms := range []int64{0, 1, 35, 36, 1_700_000_000_000, 1_700_000_000_001, 1_800_000_000_000,
		101_559_956_668_415} {
		for _, random := range []uint64{0, 1, 36*36*36*36*36*36 - 1} {
			id := runs.LocalID(ms, random)
			if err := runs.CheckID(id); err != nil || !strings.HasPrefix(id, "T-local-") || len(id) != 23 {
				t.Errorf("%q: %v", id, err)
			}
			ids = append(ids, id)
		}
	}
	if !slices.IsSorted(ids) || len(slices.Compact(ids)) != 24 {
		t.Errorf("not sorted, or not unique: %q", ids)
	}
	for _, ms := range []int64{math.MinInt64, -1, math.MaxInt64} {
		if err := runs.CheckID(runs.LocalID(ms, math.MaxUint64)); err != nil {
			t.Errorf("at %d: %v", ms, err)
		}
	}
}

// The checks agree with regular expressions, and no text causes a panic.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{"", "T-local-x", "codex", "a.b", "é", "a\xff", "9", "_", strings.Repeat("x", 64),
		strings.Repeat("x", 65)} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		if got, want := runs.CheckID(name) == nil, runID.MatchString(name); got != want {
			t.Errorf("id %q: %v, want %v", name, got, want)
		}
		if got, want := runs.CheckAgent(name) == nil, agentKind.MatchString(name); got != want {
			t.Errorf("agent %q: %v, want %v", name, got, want)
		}
		printable := func(s string) bool { return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) }
		want := name != "" && len(name) <= runs.MaxLabelKey && printable(name) &&
			len(value) <= runs.MaxLabelValue && printable(value)
		if got := runs.LabelsOf(map[string]string{name: value}).Check() == nil; got != want {
			t.Errorf("label %q=%q: %v, want %v", name, value, got, want)
		}
	})
}

// Neighbouring runs differ in the first characters of their ids, and ids are unique.
func TestNeighbouringRunsDifferInTheFirstCharacters(t *testing.T) {
	for name, id := range map[string]func(int64, uint64) string{"local": runs.NewID, "cloud": runs.NewCloudID} {
		const prefix = len("T-local-")
		a, b := id(1_700_000_000_000, 1), id(1_700_000_000_001, 36*36*36*36*36+1)
		if a[prefix] == b[prefix] {
			t.Errorf("%s: neighbours begin alike: %s, %s", name, a, b)
		}
		if again := id(1_700_000_000_001, 1); again == a || runs.CheckID(again) != nil {
			t.Errorf("%s: %s and %s", name, a, again)
		}
	}
}
