package watch

import (
	"maps"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

func TestParseBudget(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"tokens=2M/run":                "tokens=2000000/run",
		"tokens=1.5k/day":              "tokens=1500/day",
		"tokens=10G/day/source":        "tokens=10000000000/day/source",
		"tokens=7/day/label:team":      "tokens=7/day/label%3Ateam",
		"tokens=7/day/caller":          "tokens=7/day/caller",
		"time=90m/run":                 "time=1h30m0s/run",
		"time=10h/day/agent":           "time=10h0m0s/day/agent",
		"tokens=2000000/day/dir":       "tokens=2000000/day/dir",
		"":                             "",
		"tokens":                       "",
		"tokens=2M":                    "",
		"tokens=2M/":                   "",
		"tokens=2M/week":               "",
		"tokens=2M/run/source":         "",
		"tokens=2M/day/":               "",
		"tokens=2M/day/label:":         "",
		"tokens=2M/day/who":            "",
		"tokens=0/run":                 "",
		"tokens=-1/run":                "",
		"tokens=0.1/run":               "",
		"tokens=NaN/run":               "",
		"tokens=Inf/run":               "",
		"tokens=2MM/run":               "",
		"tokens=99999999999999999/run": "",
		"time=0s/run":                  "",
		"time=-1h/run":                 "",
		"time=2/run":                   "",
		"dollars=5/day":                "",
	} {
		b, err := parseBudget(text)
		if (err == nil) != (want != "") || err == nil && b.String() != want {
			t.Errorf("%q: %q, %v, want %q", text, b, err, want)
		}
	}
}

// use is a run with tokens, from and to hours after midnight; to 0: it is open.
func use(id string, tokens int64, from, to float64, team string) *api.Run {
	hour := func(h float64) runs.Time { return ago(12*time.Hour - time.Duration(h*float64(time.Hour))) }
	run := &api.Run{
		Summary: runs.Summary{
			ID: id, Attributes: runs.Attributes{Agent: "codex", Labels: runs.LabelsOf(map[string]string{"team": team})},
			State: runs.StateWorking, StartedAt: hour(from), ActiveAt: ago(0),
			Tokens: &runs.Spend{Input: tokens - 1, Output: 1},
		},
	}
	if to != 0 {
		run.State, run.EndedAt, run.ActiveAt = runs.StateCompleted, hour(to), hour(to)
	}
	return run
}

func budgets(t *testing.T, texts ...string) []budget {
	t.Helper()
	all, err := parseBudgets(texts)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// used returns how much of each budget is used.
func used(notices []notice) map[string]int64 {
	all := map[string]int64{}
	for _, n := range notices {
		all[n.Budget.Budget+" "+n.Budget.Group] = n.Budget.Used
	}
	return all
}

func TestDayAddsUpItsRuns(t *testing.T) {
	t.Parallel()
	d := newDay(budgets(t, "tokens=1/day", "tokens=100/day/label:team", "time=1s/day", "tokens=1/run"), noon, nil)
	ended := use("ended", 100, 1, 2, "web")
	d.Ended(ended, noon)
	d.Ended(ended, noon)                              // a second time
	d.Ended(use("yesterday", 1000, -5, -1, ""), noon) // its end is read late
	d.Ended(use("midnight", 10, -1, 1, "db"), noon)   // no longer known what it had used
	open := []*api.Run{use("open", 5, 11, 0, "web")}
	want := map[string]int64{
		"tokens=1/day ": 115, "tokens=100/day/label%3Ateam web": 105, "time=1s/day ": 3 * 3600,
	}
	for range 2 {
		if got := used(d.Look(open, noon)); !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// An agent that reports any number of tokens does not make the sum of a day small.
func TestSumsDoNotOverflow(t *testing.T) {
	t.Parallel()
	d := newDay(budgets(t, "tokens=1G/day"), noon, nil)
	d.Ended(use("one", math.MaxInt64, 1, 2, ""), noon)
	many := use("two", math.MaxInt64, 1, 2, "")
	many.Tokens.Output = math.MaxInt64
	got := used(d.Look([]*api.Run{many}, noon))
	if want := map[string]int64{"tokens=1000000000/day ": math.MaxInt64}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The tokens of a run are counted on the day on which they were reported, also by a watcher
// that is restarted.
func TestTokensAcrossMidnight(t *testing.T) {
	t.Parallel()
	d := newDay(budgets(t, "tokens=1/day"), noon, nil)
	midnight := noon.Add(12 * time.Hour)
	look := func(tokens int64, active, now time.Time) map[string]int64 {
		run := use("r", tokens, 1, 0, "")
		run.ActiveAt = runs.Time(active.UnixMilli())
		return used(d.Look([]*api.Run{run}, now))
	}
	const key = "tokens=1/day "
	if got := look(100, midnight.Add(-time.Minute), midnight.Add(-time.Second)); got[key] != 100 {
		t.Errorf("before midnight: %v", got)
	}
	if got := look(130, midnight.Add(time.Minute), midnight.Add(time.Minute)); got[key] != 30 {
		t.Errorf("after midnight: %v", got)
	}
	if got := d.Date(); got != "2026-11-24" {
		t.Errorf("the day is %s", got)
	}
	d = newDay(d.budgets, midnight.Add(time.Hour), d.Before())
	if got := look(150, midnight.Add(time.Hour), midnight.Add(time.Hour)); got[key] != 50 {
		t.Errorf("after a restart: %v", got)
	}
	d = newDay(d.budgets, midnight.Add(time.Hour), nil)
	if got := look(150, midnight.Add(-time.Minute), midnight.Add(time.Hour)); len(got) != 0 {
		t.Errorf("not active since: %v", got)
	}
	if got := look(160, midnight.Add(2*time.Hour), midnight.Add(2*time.Hour)); got[key] != 10 {
		t.Errorf("active again: %v", got)
	}
}

// An end is read just before midnight, and added after a look has begun the new day: it is still that day.
func TestAnEndDoesNotSetTheDayBack(t *testing.T) {
	t.Parallel()
	d := newDay(budgets(t, "tokens=1/day"), noon, nil)
	midnight := noon.Add(12 * time.Hour)
	look := func(tokens int64, now time.Time) map[string]int64 {
		run := use("r", tokens, 1, 0, "")
		run.ActiveAt = runs.Time(now.UnixMilli())
		return used(d.Look([]*api.Run{run}, now))
	}
	look(100, midnight.Add(-time.Second))
	want := map[string]int64{"tokens=1/day ": 30}
	for at := range 2 {
		now := midnight.Add(time.Duration(at) * time.Second)
		if got := look(130, now); !maps.Equal(got, want) || d.Date() != "2026-11-24" {
			t.Errorf("at %s: %v on %s, want %v", now, got, d.Date(), want)
		}
		d.Ended(use("ended", 1000, 1, 2, ""), midnight.Add(-time.Millisecond))
	}
}

func TestDayIsDivided(t *testing.T) {
	t.Parallel()
	of := func(by string) map[string]string {
		d := newDay(budgets(t, "tokens=1/day/"+by), noon, nil)
		named := use("named", 10, 1, 2, "web")
		named.Labels, named.Dir, named.Source, named.Agent = runs.LabelsOf(map[string]string{"team": "web",
			runs.LabelCaller: "ci"}), "/a b",
			"queue", "codex"
		d.Ended(named, noon)
		d.Ended(&api.Run{Summary: runs.Summary{ID: "other", StartedAt: ago(1), Tokens: &runs.Spend{Input: 7}}}, noon)
		all := map[string]string{}
		for _, n := range d.Look(nil, noon) {
			all[n.ID] = n.Text
		}
		return all
	}
	for by, want := range map[string]string{
		"caller": "/ci", "source": "/queue", "agent": "/codex", "dir": "/%2Fa+b", "label:team": "/web",
	} {
		got := of(by)
		id := "2026-11-23/budget/tokens=1/day/" + url.QueryEscape(by)
		if len(got) != 2 || !strings.Contains(got[id+want], "have used 10 tokens on 2026-11-23, the budget is 1 tokens") ||
			!strings.HasPrefix(got[id+"/"], "the runs without "+by+" have used 7 tokens") {
			t.Errorf("%s: %v", by, got)
		}
	}
}

func TestDayWithAChangeOfTheClock(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	now := time.Date(2026, 10, 25, 23, 30, 0, 0, zone) // a day of 25 hours
	d := newDay(budgets(t, "time=24h30m/day"), now, nil)
	run := &api.Run{Summary: runs.Summary{ID: "r", State: runs.StateWorking,
		StartedAt: runs.Time(now.Add(-48 * time.Hour).UnixMilli())}}
	if got := d.Look([]*api.Run{run}, now); len(got) != 1 || got[0].ID != "2026-10-25/budget/time=24h30m0s/day" {
		t.Errorf("got %v", got)
	}
}

func TestBudgetOfARunIsReportedOnceItIsUsedUp(t *testing.T) {
	t.Parallel()
	rules := rules{On: []kind{kindBudget}, Budgets: budgets(t, "tokens=100/run", "time=2h/run", "tokens=1/day")}
	got := rules.Run(use("r", 99, 11, 0, ""), noon, noon)
	if len(got) != 0 {
		t.Errorf("too early: %v", got)
	}
	got = rules.Run(use("r", 100, 10, 12, ""), noon, noon)
	if want := map[string]int64{"tokens=100/run ": 100, "time=2h0m0s/run ": 7200}; !maps.Equal(used(got), want) {
		t.Errorf("got %v, want %v", used(got), want)
	}
}
