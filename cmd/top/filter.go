package top

import (
	"slices"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// group is what a run needs of its owner; the smaller, the sooner.
type group int

const (
	needsYou group = iota // it waits for an answer
	mayNeed               // it may wait for a permission
	yourTurn              // it waits for the next prompt
	working
	queued
	unseen // it has ended, and its owner has not opened it
	failed
	lost
	ended
)

// groups names the groups in filters and totals.
var groups = [...]string{
	"needs-you", "may-need-you", "your-turn", "working", "queued", "unseen", "failed", "lost", "ended",
}

// groupOf returns the group of a run at now.
func groupOf(run *api.Run, now time.Time) group {
	need := run.Need(now)
	switch {
	case need == runs.NeedsAnswer:
		return needsYou
	case run.WorkerLost:
		return lost
	case need == runs.MayNeedAnswer:
		return mayNeed
	case need == runs.NeedsPrompt:
		return yourTurn
	case run.State == runs.StateQueued:
		return queued
	case !run.State.Final():
		return working
	case run.Unseen:
		return unseen
	case isLost(run):
		return lost
	case isFailed(run):
		return failed
	}
	return ended
}

// isLost and isFailed are as the filters "lost" and "failed" of the page.
func isLost(run *api.Run) bool {
	return run.WorkerLost || run.State.Final() && run.Reason == string(runs.ReasonLost)
}

func isFailed(run *api.Run) bool {
	return (run.State == runs.StateFailed || run.State == runs.StateTimeout) && !isLost(run)
}

// isIn reports whether a run of a group counts in another one, too: a run that its owner has
// not opened may be a failed or a lost one.
func isIn(run *api.Run, own, g group) bool {
	return own == g || own == unseen && (g == failed && isFailed(run) || g == lost && isLost(run))
}

// filter selects runs: those with all of its words. Its zero value selects all.
type filter struct {
	text  string // as it was typed
	all   []func(*api.Run, group) bool
	words []string // each in lower case
}

// filterHelp explains filters in one line.
const filterHelp = "words, state:working, agent:claude, label:ticket=42, dir:src"

// parseFilter reads a filter. A word with a prefix of [filterHelp] selects by that property, any
// other one by title, directory, id, agent, labels and activity. Capitals do not count.
func parseFilter(text string) filter {
	f := filter{text: strings.TrimSpace(text)}
	f.words = strings.Fields(strings.ToLower(text))
	for _, word := range f.words {
		f.all = append(f.all, condition(word))
	}
	return f
}

// list asks for the runs that have ended which the filter may select, and perhaps for more: it is for a service that
// has more of them than are known here. False: it selects all, or none that has ended.
func (f filter) list() (q api.List, asks bool) {
	const most = 16 // words of a request
	states := endings
	for _, word := range f.words {
		key, value, has := strings.Cut(word, ":")
		switch {
		case has && key == "state":
			states = slices.DeleteFunc(slices.Clone(states), func(s runs.State) bool { return !mayBe(s, value) })
		case has && value != "" && slices.Contains([]string{"agent", "dir", "label"}, key):
			q.Words = append(q.Words, value)
		case !has || value != "":
			q.Words = append(q.Words, word)
		}
	}
	if len(states) == 0 || len(f.words) == 0 {
		return q, false
	}
	if len(states) < len(endings) {
		q.States = states
	}
	q.Order, q.Words = api.ByChange, q.Words[:min(len(q.Words), most)]
	return q, true
}

// endings are the states of runs that have ended.
var endings = []runs.State{runs.StateCompleted, runs.StateFailed, runs.StateTimeout, runs.StateCancelled}

// mayBe reports whether a run of an ended state may be one of the condition state:VALUE.
func mayBe(s runs.State, value string) bool {
	is := func(name string) bool { return strings.HasPrefix(name, value) }
	failed := s == runs.StateFailed
	return is(string(s)) || is("ended") || is("unseen") || is("lost") && failed ||
		is("failed") && (failed || s == runs.StateTimeout)
}

func condition(word string) func(*api.Run, group) bool {
	key, value, _ := strings.Cut(word, ":")
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), value) }
	switch key {
	case "state":
		if value == "running" { // as opposed to lost
			return func(_ *api.Run, g group) bool { return g == working }
		}
		return func(run *api.Run, g group) bool {
			for one, name := range groups {
				if strings.HasPrefix(name, value) && isIn(run, g, group(one)) {
					return true
				}
			}
			return strings.HasPrefix(string(run.State), value) || strings.HasPrefix("ended", value) && run.State.Final()
		}
	case "agent":
		return func(run *api.Run, _ group) bool { return has(run.Agent) }
	case "dir":
		return func(run *api.Run, _ group) bool { return has(run.Dir) }
	case "label":
		return func(run *api.Run, _ group) bool {
			for k, v := range run.Labels.Map() {
				if strings.HasPrefix(strings.ToLower(k+"="+v), value) {
					return true
				}
			}
			return false
		}
	}
	value = word
	return func(run *api.Run, _ group) bool {
		for k, v := range run.Labels.Map() {
			if has(k + "=" + v) {
				return true
			}
		}
		return has(run.Title) || has(run.Dir) || has(run.ID) || has(run.Agent) || has(run.Activity)
	}
}

func (f filter) keeps(run *api.Run, g group) bool {
	for _, is := range f.all {
		if !is(run, g) {
			return false
		}
	}
	return true
}
