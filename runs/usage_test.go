package runs_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
)

// largestModels returns more models than a record lists, with the longest names and counts.
func largestModels() (all []runs.Model) {
	most := int64(1 << 53)
	for i := range runs.MaxModels + 2 {
		all = append(all, runs.Model{
			Name:  fmt.Sprint(i) + strings.Repeat("x", 63-i/10),
			Usage: runs.Usage{Input: most, CachedInput: most, CacheWriteInput: most, Output: most, ReasoningOutput: most},
			Cost:  new(1e9 / 3),
		})
	}
	return all
}

// largestAccount returns an account with the largest counts that are recorded.
func largestAccount() *runs.Account {
	models := largestModels()
	return &runs.Account{Usage: models[0].Usage, Cost: new(1e9 / 3), Models: models}
}

func TestModelsAreThoseOfTheLastLineWithSome(t *testing.T) {
	model := func(name string, n int64) runs.Model { return runs.Model{Name: name, Usage: runs.Usage{Input: n}} }
	r := runs.NewRecord("T-local-x", "claude_code")
	for _, line := range [][]runs.Model{nil, {model("a", 1), model("b", 2)}, nil, {model("b", 3)}, nil} {
		r.Line(runs.Facts{Used: &runs.Account{Models: line}}, 1)
	}
	if want := []runs.Model{model("b", 3)}; !reflect.DeepEqual(r.Models, want) {
		t.Errorf("got %+v, want %+v", r.Models, want)
	}
}

func TestModelsAreBounded(t *testing.T) {
	r := runs.NewRecord("T-local-x", "claude_code")
	given := largestModels()
	given[0].Name = "claude-opus-4[1m]"
	given[1].Name = "é\n\x1b[0m " + strings.Repeat("x", 100)
	given[2].Name = "sk-proj-" + strings.Repeat("a1B2", 12)
	r.Line(runs.Facts{Used: &runs.Account{Models: given}}, 1)
	if len(r.Models) != runs.MaxModels || r.Models[0].Name != given[0].Name || r.Models[7].Usage != given[7].Usage {
		t.Errorf("%+v", r.Models)
	}
	for _, m := range r.Models {
		if len(m.Name) > 64 || strings.ContainsAny(m.Name, "é\n\x1b\x00 ") || strings.Contains(m.Name, "a1B2") {
			t.Errorf("the name %q", m.Name)
		}
	}
}

// usage returns a usage of n requests: one has 1200 tokens of input, of which 1000 are cached,
// and 80 of output.
func usage(n int64) *runs.Usage {
	return &runs.Usage{Input: 1200 * n, CachedInput: 1000 * n, Output: 80 * n}
}

func used(n int64) *runs.Account { return &runs.Account{Usage: *usage(n), Cost: new(float64(n))} }

func logged(l runs.Logged) runs.Entry {
	return runs.Entry{Kind: runs.Note, Body: runs.Encode(runs.Remark{Reason: runs.NoteUsage, Logged: &l})}
}

// A run has used what the model served for it, as far as its lines and the logs of its session
// tell it. Numbers are numbers of requests; -1: unknown.
func TestSpentIsWhatTheModelServed(t *testing.T) {
	const unknown = -1
	resumes := runs.Entry{Kind: runs.Started, Body: runs.Encode(runs.Start{Source: "run",
		Attributes: runs.Attributes{Thread: "t1"}})}
	after := func(n int64) runs.Entry {
		return runs.Entry{Kind: runs.Started, Body: runs.Encode(runs.Start{Source: "run",
			Attributes: runs.Attributes{Thread: "t1"}, Before: used(n)})}
	}
	total := func(n int64) runs.Facts { return runs.Facts{Used: used(n)} }
	whole := func(n int64) runs.Facts { return runs.Facts{Used: used(n), Counts: runs.CountsAll} }
	spent := func(n int64) runs.Facts { return runs.Facts{Spent: usage(n)} }
	delegates := runs.Facts{Delegates: true}
	for _, c := range []struct {
		why                   string
		log                   []any // entries and facts of lines
		own, subagents, total int64
		partial, earlier      bool
	}{
		{"nothing is reported", nil, unknown, unknown, unknown, false, false},
		{"the total of a new thread", []any{total(2), total(3)}, 3, unknown, 3, false, false},
		{"of a resumed thread, whose log tells what it was", []any{after(2), total(3)}, 1, unknown, 1, false, false},
		{"of a resumed thread that is not known", []any{resumes, total(3)}, 3, unknown, 3, false, true},
		{"the same, of an agent that counts its sub-agents", []any{resumes, whole(3)}, 3, unknown, 3, false, true},
		{"the same, and its log is read at the end", []any{resumes, total(3), logged(runs.Logged{Own: usage(1), All: true})},
			1, unknown, 1, false, false},
		{"the line tells what it was", []any{resumes, runs.Facts{Used: used(3), Before: used(2)}}, 1, unknown, 1, false,
			false},
		{"a total of zero, as of a review", []any{total(0)}, unknown, unknown, unknown, false, false},
		{"the same, and the logs tell it", []any{total(0), logged(runs.Logged{Own: usage(0), Subagents: usage(2),
			All: true})},
			0, 2, 2, false, false},
		{"a sub-agent that the total does not count", []any{delegates, total(6)}, 6, unknown, 6, true, false},
		{"the same, and the logs tell it",
			[]any{delegates, total(6), logged(runs.Logged{Own: usage(6), Subagents: usage(3), All: true})}, 6, 3, 9, false,
			false},
		{"the same, but not all was read",
			[]any{delegates, total(6), logged(runs.Logged{Own: usage(6), Subagents: usage(1), Partial: true})}, 6, 1, 7, true,
			false},
		{"the agent was ended before it told its total", []any{logged(runs.Logged{Own: usage(1), All: true})},
			1, unknown, 1, false, false},

		{"parts", []any{spent(1), spent(2)}, 3, unknown, 3, false, false},
		{"parts, and requests that no line tells", []any{runs.Facts{Untold: true, Spent: usage(1)}}, 1, unknown, 1, true,
			false},
		{"parts, and a sub-agent that they do not count", []any{spent(1), delegates}, 1, unknown, 1, true, false},
		{"a whole without sub-agents has compactions", []any{spent(1), whole(2)}, 2, unknown, 2, false, false},
		{"a whole with sub-agents", []any{delegates, spent(3), whole(5)}, 3, 2, 5, false, false},
		{"the same, and the logs tell them", []any{delegates, spent(3), whole(6), logged(runs.Logged{Subagents: usage(2)})},
			4, 2, 6, false, false},
		{"a whole of a resumed session", []any{after(4), spent(1), whole(5)}, 1, unknown, 1, false, false},
		{"the parts of a whole", []any{
			resumes, runs.Facts{Spent: usage(1), SpentAll: usage(2), Used: used(6), Before: used(4), Counts: runs.CountsMore},
			runs.Facts{Spent: usage(1), SpentAll: usage(1), Used: used(7), Counts: runs.CountsMore},
		}, 3, unknown, 3, false, false},
		{"an error after the answer tells zero", []any{spent(2), whole(2), whole(0), spent(0)}, 2, unknown, 2, false, false},
		{"the agent was ended before its last total", []any{delegates, whole(1), logged(runs.Logged{Own: usage(2),
			Subagents: usage(1)})},
			2, 1, 3, false, false},
		{"a whole whose parts are not told", []any{delegates, runs.Facts{SpentAll: usage(4)}}, unknown, unknown, 4, false,
			false},
		{"a followed session, whose sub-agents are runs of their own",
			[]any{runs.Facts{Log: true, Spent: usage(2), Delegates: true}, whole(5)}, 2, unknown, 2, false, false},
		{"a followed session with requests that its log does not tell",
			[]any{runs.Facts{Log: true, Spent: usage(2)}, runs.Facts{Log: true, Untold: true}}, 2, unknown, 2, true, false},
	} {
		r := runs.NewRecord("T-local-x", "codex")
		for _, one := range c.log {
			switch one := one.(type) {
			case runs.Entry:
				r.Entry(one)
			case runs.Facts:
				r.Line(one, 1)
			}
		}
		number := func(u *runs.Usage) int64 {
			switch {
			case u == nil:
				return unknown
			case *u != *usage(u.Output / 80):
				t.Errorf("%s: %+v is no whole number of requests", c.why, u)
			}
			return u.Output / 80
		}
		s := r.Spent()
		if own, sub, all := number(s.Own), number(s.Subagents), number(s.Total); own != c.own || sub != c.subagents ||
			all != c.total || s.Partial != c.partial || s.Earlier != c.earlier {
			t.Errorf("%s: own %d, sub-agents %d, total %d, partial %v, earlier %v", c.why, own, sub, all, s.Partial, s.Earlier)
		}
		if known := r.Header().Tokens != nil; known != (c.total != unknown && !c.earlier) {
			t.Errorf("%s: the row has tokens: %v", c.why, known)
		}
		r.End(runs.Exit{Reason: runs.ReasonEOF}, 2)
		if row := r.Brief().Cost; c.earlier && row != nil || !c.earlier && !reflect.DeepEqual(row, s.Cost) {
			t.Errorf("%s: the row has the cost %v of %v", c.why, row, s.Cost)
		}
	}
}

// The cost of a resumed session is what it has cost beyond that before, and so are its models.
func TestCostIsThatOfTheRun(t *testing.T) {
	model := func(name string, n int64) runs.Model {
		return runs.Model{Name: name, Usage: *usage(n), Cost: new(float64(n))}
	}
	r := runs.NewRecord("T-local-x", "claude_code")
	r.Line(runs.Facts{Counts: runs.CountsAll, Used: &runs.Account{
		Usage: *usage(7), Cost: new(7.0), Models: []runs.Model{model("a", 4), model("b", 1), model("c", 2)},
	}}, 1)
	r.Resumed(runs.Account{Usage: *usage(4), Cost: new(4.0), Models: []runs.Model{model("a", 3), model("b", 1)}})
	s := r.Spent()
	if s.Cost == nil || *s.Cost != 3 || *r.Cost != 7 ||
		!reflect.DeepEqual(s.Models, []runs.Model{model("a", 1), model("c", 2)}) {
		t.Errorf("cost %v of %v, models %+v", s.Cost, r.Cost, s.Models)
	}
	log := runs.NewRecord("T-local-x", "claude_code") // whose messages before were not read
	log.Line(runs.Facts{Log: true, Spent: usage(1)}, 1)
	log.Line(runs.Facts{Log: true, Counts: runs.CountsAll, Used: used(3)}, 1)
	if s := log.Spent(); s.Cost != nil || *log.Cost != 3 {
		t.Errorf("cost of a fork %v", *s.Cost)
	}
	next := runs.NewRecord("T-local-x-2", "claude_code") // its sub-agents cost, too; those before are not known
	next.Entry(runs.Entry{Kind: runs.Started, Body: runs.Encode(runs.Start{Source: "session",
		Attributes: runs.Attributes{Labels: runs.LabelsOf(map[string]string{runs.LabelContinues: "T-local-x"})}})})
	next.Line(runs.Facts{Log: true, Delegates: true, Spent: usage(1)}, 1)
	next.Line(runs.Facts{Log: true, Counts: runs.CountsAll, Used: used(3)}, 1)
	if s := next.Spent(); s.Cost != nil || s.Models != nil {
		t.Errorf("cost of the next run of a session with sub-agents %v", *s.Cost)
	}
	if next.Resumed(*used(2)); *next.Spent().Cost != 1 {
		t.Errorf("cost of the same, when that before is known, %v", *next.Spent().Cost)
	}
	if log.Resumed(*used(2)); *log.Spent().Cost != 1 {
		t.Errorf("cost of the next run of a session %v", *log.Spent().Cost)
	}
	r.Resumed(runs.Account{Usage: *usage(5)}) // without a cost
	if s := r.Spent(); s.Cost != nil {
		t.Errorf("cost %v", *s.Cost)
	}
}
