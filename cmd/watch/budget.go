package watch

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/runs"
)

// budgetUnit is what a budget counts.
type budgetUnit string

// The units.
const (
	unitTokens budgetUnit = "tokens" // input and output, as lists of runs show them
	unitTime   budgetUnit = "time"   // from the start of a run to its end
)

// budget is a limit for a run, or for all runs of a day. Its text is
//
//	UNIT=LIMIT/run  UNIT=LIMIT/day  UNIT=LIMIT/day/BY
//
// as in tokens=2M/run, time=10h/day, tokens=10M/day/label:team.
type budget struct {
	Unit  budgetUnit
	Limit int64 // tokens, or nanoseconds
	Daily bool
	By    string // of a day: caller, source, agent, dir or label:KEY, which divide it; "": all runs
}

// maxTokens is the largest limit of tokens.
const maxTokens = 1_000_000_000_000_000

// by are the divisions beside label:KEY.
var by = []string{"caller", "source", "agent", "dir"}

// parseBudget reads the text of a budget. The error has no prefix.
func parseBudget(text string) (b budget, err error) {
	unit, rest, _ := strings.Cut(text, "=")
	limit, period, _ := strings.Cut(rest, "/")
	b.Unit = budgetUnit(unit)
	switch b.Unit {
	case unitTokens:
		b.Limit, err = parseTokens(limit)
	case unitTime:
		var d time.Duration
		if d, err = time.ParseDuration(limit); err != nil || d <= 0 {
			err = errors.New("the limit must be a duration such as 30m or 2h")
		}
		b.Limit = int64(d)
	default:
		err = errors.New("must begin with tokens= or time=")
	}
	period, b.By, _ = strings.Cut(period, "/")
	b.Daily = period == "day"
	label, isLabel := strings.CutPrefix(b.By, "label:")
	switch {
	case err != nil:
	case period != "run" && period != "day":
		err = errors.New("must end with /run, /day or /day/BY")
	case strings.HasSuffix(text, "/"), b.By != "" && !b.Daily, isLabel && label == "",
		b.By != "" && !isLabel && !slices.Contains(by, b.By):
		err = errors.New("only a day can be divided: /day/caller, /day/source, /day/agent, /day/dir or /day/label:KEY")
	}
	if err != nil {
		return budget{}, fmt.Errorf("%w, got %q", err, text)
	}
	return b, nil
}

// parseTokens reads a number such as 500k, 2M or 1.5G.
func parseTokens(text string) (int64, error) {
	factor := 1.0
	for i, unit := range []string{"k", "M", "G"} {
		if number, found := strings.CutSuffix(text, unit); found {
			text, factor = number, []float64{1e3, 1e6, 1e9}[i]
			break
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if n *= factor; err != nil || !(n >= 1 && n <= maxTokens) {
		return 0, errors.New("the limit must be a number of tokens such as 500k or 2M")
	}
	return int64(n), nil
}

// parseBudgets reads several budgets. The error reports all mistakes.
func parseBudgets(texts []string) (all []budget, err error) {
	for _, text := range texts {
		b, wrong := parseBudget(text)
		err = errors.Join(err, wrong)
		all = append(all, b)
	}
	return all, err
}

// String returns the budget in one form for each: the same limit has the same text.
func (b budget) String() string {
	limit, period := strconv.FormatInt(b.Limit, 10), "run"
	if b.Unit == unitTime {
		limit = time.Duration(b.Limit).String()
	}
	if b.Daily {
		period = "day"
	}
	if b.By != "" {
		period += "/" + url.QueryEscape(b.By)
	}
	return string(b.Unit) + "=" + limit + "/" + period
}

// amount is a part of the budget for people.
func (b budget) amount(n int64) string {
	if b.Unit == unitTime {
		return console.ShortTime(time.Duration(n))
	}
	return console.ShortNumber(n) + " tokens"
}

// usage is how much of a budget is used. Times are in seconds.
type usage struct {
	Budget string     `json:"budget"` // its text
	Unit   budgetUnit `json:"unit"`
	Limit  int64      `json:"limit"`
	Used   int64      `json:"used"`
	Day    string     `json:"day,omitempty"`   // of a day: its date
	Group  string     `json:"group,omitempty"` // of a divided day: the caller, source, agent, dir or value of the label
}

func (b budget) use(used int64) *usage {
	u := &usage{Budget: b.String(), Unit: b.Unit, Limit: b.Limit, Used: used}
	if b.Unit == unitTime {
		u.Limit, u.Used = int64(time.Duration(b.Limit)/time.Second), int64(time.Duration(used)/time.Second)
	}
	return u
}

// group returns the part of a divided day that a run belongs to.
func (b budget) group(run *api.Run) string {
	switch label, isLabel := strings.CutPrefix(b.By, "label:"); {
	case isLabel:
		return run.Labels.Value(label)
	case b.By == "caller":
		return run.Labels.Value(runs.LabelCaller)
	case b.By == "source":
		return run.Source
	case b.By == "agent":
		return run.Agent
	case b.By == "dir":
		return run.Dir
	}
	return ""
}

// day adds up what the runs of one day use. It is computed from the runs alone; what it
// remembers of them are facts that do not change: what a run had used when the day began.
type day struct {
	budgets []budget // of days
	from    time.Time
	to      time.Time

	before map[string]int64 // tokens that runs had used when the day began
	last   map[string]int64 // tokens of the open runs when they were looked at last
	ended  map[string]bool  // runs that are in total
	total  map[part]int64   // of runs that have ended
}

// part is a budget, by its index, and a group.
type part struct {
	budget int
	group  string
}

// newDay returns the day of now. Before has the tokens that runs had used when that day
// began, as far as that is known; of another run that began earlier, all tokens are
// counted if it was active on the day.
func newDay(budgets []budget, now time.Time, before map[string]int64) *day {
	d := &day{last: map[string]int64{}}
	for _, b := range budgets {
		if b.Daily {
			d.budgets = append(d.budgets, b)
		}
	}
	d.begin(now)
	for run, n := range before {
		d.before[run] = n
	}
	return d
}

// begin begins the day of now.
func (d *day) begin(now time.Time) {
	y, m, day := now.Date()
	d.from, d.to = time.Date(y, m, day, 0, 0, 0, 0, now.Location()), time.Date(y, m, day+1, 0, 0, 0, 0, now.Location())
	d.before, d.ended, d.total = d.last, map[string]bool{}, map[part]int64{}
	d.last = map[string]int64{}
}

// Date returns the date of the day.
func (d *day) Date() string { return d.from.Format(time.DateOnly) }

// Before returns what [newDay] needs to continue this day.
func (d *day) Before() map[string]int64 { return d.before }

// Ended adds a run that has ended, once. The first call on a later day begins that day. Now may be a moment before the
// day, which a look has begun meanwhile.
func (d *day) Ended(run *api.Run, now time.Time) {
	if len(d.budgets) == 0 {
		return
	}
	if !now.Before(d.to) {
		d.begin(now)
	}
	if d.ended[run.ID] {
		return
	}
	d.ended[run.ID] = true
	d.add(d.total, run, now)
}

// add adds the part of a run that belongs to the day.
func (d *day) add(sums map[part]int64, run *api.Run, now time.Time) {
	for i, b := range d.budgets {
		n := d.tokens(run)
		if b.Unit == unitTime {
			n = int64(d.time(run, now))
		}
		if n > 0 {
			p := part{i, b.group(run)}
			sums[p] = plus(sums[p], n)
		}
	}
}

// plus is the sum of two numbers of which agents report one, at most the largest number.
func plus(a, b int64) int64 {
	if a, b = max(a, 0), max(b, 0); a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// tokens returns the tokens of a run that were reported on the day.
func (d *day) tokens(run *api.Run) int64 {
	if at(max(run.ActiveAt, run.StartedAt)).Before(d.from) {
		return 0
	}
	return max(tokens(run)-d.before[run.ID], 0)
}

// time returns how long a run worked on the day.
func (d *day) time(run *api.Run, now time.Time) time.Duration {
	if run.StartedAt == 0 {
		return 0
	}
	from, to := at(run.StartedAt), now
	if run.EndedAt != 0 {
		to = at(run.EndedAt)
	}
	if from.Before(d.from) {
		from = d.from
	}
	if to.After(d.to) {
		to = d.to
	}
	return max(to.Sub(from), 0)
}

// Look returns a notice for each budget of the day that is used up at now, with the open
// runs as they are. The first call on another day begins that day.
func (d *day) Look(open []*api.Run, now time.Time) (all []notice) {
	if len(d.budgets) == 0 {
		return nil
	}
	if !now.Before(d.to) || now.Before(d.from) { // the clock was set back
		d.begin(now)
	}
	sums := map[part]int64{}
	for p, n := range d.total {
		sums[p] = n
	}
	d.last = make(map[string]int64, len(open))
	for _, run := range open {
		if at(max(run.ActiveAt, run.StartedAt)).Before(d.from) {
			d.before[run.ID] = tokens(run)
		}
		d.last[run.ID] = tokens(run)
		if !d.ended[run.ID] {
			d.add(sums, run, now)
		}
	}
	for p, used := range sums {
		if b := d.budgets[p.budget]; used >= b.Limit {
			all = append(all, d.notice(b, p.group, used, now))
		}
	}
	slices.SortFunc(all, func(a, b notice) int { return strings.Compare(a.ID, b.ID) })
	return all
}

func (d *day) notice(b budget, group string, used int64, now time.Time) notice {
	id, of := d.Date()+"/"+string(kindBudget)+"/"+b.String(), "all runs"
	if b.By != "" {
		id += "/" + url.QueryEscape(group)
		if of = "the runs without " + b.By; group != "" {
			of = fmt.Sprintf("the runs with %s %q", b.By, group)
		}
	}
	u := b.use(used)
	u.Day, u.Group = d.Date(), group
	return notice{
		ID: id, Kind: kindBudget, Time: runs.Time(now.UnixMilli()), Budget: u,
		Text: fmt.Sprintf("%s have used %s on %s, the budget is %s", of, b.amount(used), d.Date(), b.amount(b.Limit)),
	}
}
