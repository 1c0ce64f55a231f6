package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// order is an order of the runs.
type order int

const (
	byNeed     order = iota // by group, then the newest first
	byNewest                // the last change of state first
	byActivity              // the last output first
	byTokens                // most first
	byTitle
	orders // number of orders
)

func (o order) String() string {
	return [...]string{"need", "newest", "activity", "tokens", "title"}[o]
}

// table are the known runs, and those that the filter selects in the chosen order.
type table struct {
	all    map[string]*api.Run
	shown  []*api.Run
	totals [len(groups)]int // of all runs, by group: see [isIn]
	filter filter
	order  order
	now    time.Time // of the server, at the last update
	asks   string    // the open questions of all runs, as RUN/q1
	moves  bool      // runs can come to another group as time passes
}

// apply takes over what a feed has found.
func (t *table) apply(u update) {
	if u.at.After(t.now) {
		t.now = u.at
	}
	if len(u.runs) == 0 && len(u.gone) == 0 && !t.moves {
		return
	}
	for _, run := range u.runs {
		t.all[run.ID] = run
	}
	for _, id := range u.gone {
		delete(t.all, id)
	}
	t.arrange()
}

// seen marks a run as opened until the feed has read it again.
func (t *table) seen(id string) {
	if run := t.all[id]; run != nil && run.Unseen {
		now := *run
		now.Unseen = false
		t.all[id] = &now
		t.arrange()
	}
}

// arrange counts, filters and sorts.
func (t *table) arrange() {
	t.shown, t.totals, t.moves = t.shown[:0], [len(groups)]int{}, false
	var asks []string
	for _, run := range t.all {
		g := groupOf(run, t.now)
		for one := range t.totals {
			if isIn(run, g, group(one)) {
				t.totals[one]++
			}
		}
		for _, id := range run.Asks() {
			asks = append(asks, refOf(run.ID, id))
		}
		t.moves = t.moves || run.Doing != nil && run.Doing.Phase == runs.RunningOrAsking
		if t.filter.keeps(run, g) {
			t.shown = append(t.shown, run)
		}
	}
	slices.Sort(asks)
	t.asks = strings.Join(asks, " ")
	slices.SortFunc(t.shown, t.compare)
}

func (t *table) compare(a, b *api.Run) int {
	c := 0
	switch t.order {
	case byNeed:
		g := groupOf(a, t.now)
		if c = cmp.Compare(g, groupOf(b, t.now)); c == 0 && g == queued {
			c = cmp.Compare(position(a), position(b))
		}
	case byActivity:
		c = cmp.Compare(b.ActiveAt, a.ActiveAt)
	case byTokens:
		c = cmp.Compare(tokens(b), tokens(a))
	case byTitle:
		c = cmp.Compare(a.Title, b.Title)
	}
	return cmp.Or(c, cmp.Compare(changedAt(b), changedAt(a)), cmp.Compare(b.ID, a.ID))
}

func position(run *api.Run) int { return *cmp.Or(run.Position, new(int)) }

func tokens(run *api.Run) int64 {
	if run.Tokens == nil {
		return -1
	}
	return run.Tokens.Input + run.Tokens.Output
}

// changedAt is when a run entered its state.
func changedAt(run *api.Run) runs.Time {
	switch {
	case run.State.Final():
		return cmp.Or(run.EndedAt, run.ActiveAt, run.StartedAt, run.QueuedAt)
	case run.State == runs.StateQueued:
		return run.QueuedAt
	}
	return cmp.Or(run.StartedAt, run.QueuedAt)
}

// index returns the place of a run among those that are shown, -1 if it is not.
func (t *table) index(id string) int {
	return slices.IndexFunc(t.shown, func(run *api.Run) bool { return run.ID == id })
}
