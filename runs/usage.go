package runs

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/linesman/linesman/internal/lazy"
)

// Usage counts tokens.
type Usage struct {
	Input           int64 `json:"input_tokens"`             // all, also those from and to a cache
	CachedInput     int64 `json:"cached_input_tokens"`      // of Input, read from a cache
	CacheWriteInput int64 `json:"cache_write_input_tokens"` // of Input, written to a cache
	Output          int64 `json:"output_tokens"`            // all, also those of reasoning
	ReasoningOutput int64 `json:"reasoning_output_tokens"`  // of Output
}

// maxTokens is the largest count that enters a total: JSON has numbers up to it without loss.
const maxTokens = 1 << 53

// plausible returns u without counts that cannot be: they are 0.
func (u Usage) plausible() Usage {
	for _, n := range []*int64{&u.Input, &u.CachedInput, &u.CacheWriteInput, &u.Output, &u.ReasoningOutput} {
		if *n < 0 || *n > maxTokens {
			*n = 0
		}
	}
	return u
}

// Minus returns u minus v. No count of the result is negative.
func (u Usage) Minus(v Usage) Usage {
	return Usage{
		Input:           max(u.Input-v.Input, 0),
		CachedInput:     max(u.CachedInput-v.CachedInput, 0),
		CacheWriteInput: max(u.CacheWriteInput-v.CacheWriteInput, 0),
		Output:          max(u.Output-v.Output, 0),
		ReasoningOutput: max(u.ReasoningOutput-v.ReasoningOutput, 0),
	}
}

// Plus returns the sum of u and v. A sum that overflows is the largest value.
func (u Usage) Plus(v *Usage) Usage {
	if v == nil {
		return u
	}
	add := func(a, b int64) int64 {
		if sum := a + b; a < 0 || b < 0 || sum >= a {
			return sum
		}
		return math.MaxInt64
	}
	return Usage{
		Input:           add(u.Input, v.Input),
		CachedInput:     add(u.CachedInput, v.CachedInput),
		CacheWriteInput: add(u.CacheWriteInput, v.CacheWriteInput),
		Output:          add(u.Output, v.Output),
		ReasoningOutput: add(u.ReasoningOutput, v.ReasoningOutput),
	}
}

// less reports whether u counts fewer tokens than v.
func (u Usage) less(v Usage) bool { return u.Input+u.Output < v.Input+v.Output }

// Account is what a thread has used, as an agent tells it.
type Account struct {
	Usage
	Cost   *float64 `json:"cost_usd,omitempty"` // in US dollars; nil: not told
	Models []Model  `json:"models,omitempty"`   // the parts of the models in it, at most MaxModels; none: not told
}

// Model is the part of one model in an [Account].
type Model struct {
	Name string `json:"name"` // at most 64 bytes; "" if it is longer, or no name of a model
	Usage
	Cost *float64 `json:"cost_usd,omitempty"` // in US dollars; nil: not told
}

// MaxModels is the number of models that a run lists.
const MaxModels = 8

// modelName matches the names of models: claude-sonnet-4-5, openai/gpt-5.1, claude-opus-4-5[1m].
var modelName = lazy.Regexp(`^[a-z0-9]+(?:[.:/@-][a-z0-9]+)*(?:\[[a-z0-9]+\])?$`)

// checked returns a copy of a within its limits, which keeps no memory of a line.
func (a Account) checked() Account {
	a.Usage = a.plausible()
	if a.Cost != nil && !(*a.Cost >= 0 && *a.Cost <= maxCost) {
		a.Cost = nil
	}
	a.Models = slices.Clone(a.Models[:min(len(a.Models), MaxModels)])
	for i := range a.Models {
		m := &a.Models[i]
		m.Usage = m.plausible()
		if len(m.Name) > maxThing || !modelName().MatchString(m.Name) {
			m.Name = ""
		}
		m.Name = strings.Clone(m.Name)
	}
	return a
}

// maxCost is the largest cost that is recorded, in US dollars.
const maxCost = 1e9

// Since returns what was used after before; nil: all of it. A cost is nil if one of both is unknown.
func (a Account) Since(before *Account) Account {
	if before == nil {
		return a
	}
	a.Usage = a.Usage.Minus(before.Usage)
	a.Cost = difference(a.Cost, before.Cost)
	models := a.Models
	a.Models = nil
	for _, m := range models {
		i := slices.IndexFunc(before.Models, func(b Model) bool { return b.Name == m.Name })
		if i >= 0 {
			m.Usage, m.Cost = m.Usage.Minus(before.Models[i].Usage), difference(m.Cost, before.Models[i].Cost)
		}
		if m.Usage != (Usage{}) || m.Cost != nil && *m.Cost > 0 {
			a.Models = append(a.Models, m)
		}
	}
	return a
}

// difference returns a minus b, at least 0; nil if one of both is nil.
func difference(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	return new(max(*a-*b, 0))
}

// counts is what the total of a thread counts, as an agent tells it.
type counts string

// What a total counts.
const (
	countsOwn  counts = ""     // the thread without its sub-agents
	CountsAll  counts = "all"  // the thread with its sub-agents
	CountsMore counts = "more" // other lines tell what the run has used
)

// Spent is what a run has used: the sum of what the model served for it, as far as that is known.
type Spent struct {
	Own       *Usage `json:"own,omitempty"`       // of the run without its sub-agents; nil: unknown
	Subagents *Usage `json:"subagents,omitempty"` // of its sub-agents; nil: there were none, or unknown
	Total     *Usage `json:"total,omitempty"`     // of both; nil: unknown
	Partial   bool   `json:"partial,omitempty"`   // requests are missing in Total: it is a lower bound
	Earlier   bool   `json:"earlier,omitempty"`   // Total may count what the thread used before: it is an upper bound

	Cost   *float64 `json:"-"` // in US dollars, of the run with its sub-agents; nil: unknown
	Models []Model  `json:"-"` // the parts of the models in Total, where the agent tells them
}

// NoteUsage is the reason of a note with a [Logged].
const NoteUsage = "usage"

// Logged is what the logs of a run's session tell at its end: its requests to the model. It is
// the body of a note.
type Logged struct {
	Own       *Usage `json:"own,omitempty"`       // of the run without its sub-agents; nil: its log was not found
	Subagents *Usage `json:"subagents,omitempty"` // nil: there is no log of one
	All       bool   `json:"all,omitempty"`       // the logs have all requests
	Partial   bool   `json:"partial,omitempty"`   // not all of the logs was read
}

func (r *Record) foldLogged(l Logged) {
	for _, u := range []**Usage{&l.Own, &l.Subagents} {
		if *u != nil {
			*u = new((*u).plausible())
		}
	}
	r.Logged = &l
}

// Resumed sets what the thread had used when the run started, unless it is known that it was more.
func (r *Record) Resumed(before Account) {
	if r.Before != nil && !r.Before.less(before.Usage) {
		return
	}
	r.Before = new(before.checked())
	r.foldTotal()
}

// foldUsage folds the usage and the costs in a line.
func (r *Record) foldUsage(f *Facts) {
	r.Delegates, r.Untold = r.Delegates || f.Delegates, r.Untold || f.Untold
	if f.Before != nil {
		r.Resumed(*f.Before)
	}
	if f.Used != nil {
		used := f.Used.checked()
		// In a log that several processes have written the total of the thread can begin anew.
		if r.Log && f.Counts == countsOwn && r.Usage != nil && used.Usage != (Usage{}) && used.less(*r.Usage) {
			r.Untold = true
		}
		if used.Usage != (Usage{}) && !(f.Counts == CountsAll && r.Usage != nil && used.less(*r.Usage)) {
			r.Usage, r.Counts = &used.Usage, f.Counts // else it is of an error after the answer
		}
		if used.Cost != nil && (r.Cost == nil || *used.Cost > *r.Cost) {
			r.Cost = used.Cost
		}
		if len(used.Models) > 0 {
			r.Models = used.Models
		}
		r.foldTotal()
	}
	if f.Spent != nil {
		r.Own = new(f.Spent.plausible().Plus(r.Own))
	}
	if f.SpentAll != nil {
		r.All = new(f.SpentAll.plausible().Plus(r.All))
	}
	if f.SpentCost != nil {
		sum := *f.SpentCost
		if r.Cost != nil {
			sum += *r.Cost
		}
		r.Cost = &sum
	}
}

// foldTotal derives what the run has used from the total of its thread.
func (r *Record) foldTotal() {
	if r.Usage == nil {
		return
	}
	spent := *r.Usage
	// Codex up to 0.77 counts only its own process. A total of the thread is never less
	// than the one before.
	if r.Before != nil && spent.Input >= r.Before.Input && spent.Output >= r.Before.Output {
		spent = spent.Minus(r.Before.Usage)
	}
	switch r.Counts {
	case countsOwn:
		r.Own = &spent
	case CountsAll:
		r.All = &spent
	}
}

// Account returns what the thread has used so far, as the agent tells it.
func (r *Record) Account() Account {
	a := Account{Cost: r.Cost, Models: r.Models}
	if r.Usage != nil {
		a.Usage = *r.Usage
	}
	return a
}

// Spent returns what the run has used. The sub-agents of a followed session are runs of their own.
func (r *Record) Spent() Spent {
	account := r.Account().Since(r.Before)
	s := Spent{Own: r.Own, Cost: account.Cost, Models: account.Models}
	logs := cmp.Or(r.Logged, new(Logged))
	switch {
	case r.Log:
		s.Total, s.Partial = s.Own, r.Untold && s.Own != nil
		// The account may be of the session that it was forked from, and that of a next run is of the whole session.
		if s.Own == nil || account.Usage != *s.Own && !r.Delegates || r.Continues != "" && r.Before == nil {
			s.Cost, s.Models = nil, nil
		}
	case logs.All && logs.Own != nil:
		s.Own, s.Subagents = logs.Own, logs.Subagents
		s.Total = new(s.Own.Plus(s.Subagents))
	case r.All != nil:
		s.total(*r.All, logs, r.Delegates)
	default:
		if logs.Own != nil && (s.Own == nil || s.Own.less(*logs.Own)) {
			s.Own = logs.Own
		}
		s.Subagents = logs.Subagents
		s.Partial = logs.Partial || r.Untold || r.Delegates && s.Subagents == nil
		if s.Own != nil {
			s.Total = new(s.Own.Plus(s.Subagents))
		}
	}
	s.Earlier = r.Resumes != "" && r.Usage != nil && r.Before == nil && !logs.All && s.Total != nil
	return s
}

// total sets what is known if the agent tells what all has used.
func (s *Spent) total(all Usage, logs *Logged, delegates bool) {
	if logs.Own != nil {
		if logged := logs.Own.Plus(logs.Subagents); all.less(logged) { // the agent was ended before it told
			all, s.Partial = logged, logs.Partial
		}
	}
	if s.Own != nil && all.less(*s.Own) {
		all = *s.Own
	}
	s.Total = &all
	switch {
	case logs.Subagents != nil && !logs.Partial:
		s.Own, s.Subagents = new(all.Minus(*logs.Subagents)), logs.Subagents
	case !delegates:
		s.Own = &all
	case s.Own != nil:
		s.Subagents = new(all.Minus(*s.Own))
	}
}
