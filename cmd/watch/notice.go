package watch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/runs"
)

// kind is what a notice is about.
type kind string

// The kinds.
const (
	kindCompleted  kind = "completed"   // the run has completed
	kindFailed     kind = "failed"      // the run has failed or was ended by a limit
	kindCancelled  kind = "cancelled"   // the run was cancelled
	kindLost       kind = "lost"        // the worker of the run sends no heartbeats, or the run ended as lost
	kindStalled    kind = "stalled"     // the run has no output, and nothing explains that
	kindNeedsInput kind = "needs-input" // the run waits for a person

	// kindMayNeedInput is for a session whose log does not tell a tool that runs from a question.
	kindMayNeedInput kind = "may-need-input"
	kindTurn         kind = "turn"   // a turn of a live run has ended, and the run waits for a message
	kindBudget       kind = "budget" // a budget is used up
)

// kinds are all kinds, in the order of the documents.
var kinds = []kind{kindCompleted, kindFailed, kindCancelled, kindLost, kindStalled, kindNeedsInput,
	kindMayNeedInput, kindTurn, kindBudget}

// notice reports one thing about a run, or about a day. Its id is the same whenever the same
// thing is reported again, so that a receiver can recognize a notice that it has.
type notice struct {
	ID     string    `json:"id"` // printable ASCII without spaces
	Kind   kind      `json:"kind"`
	Time   runs.Time `json:"time"`          // when it was noticed
	Run    string    `json:"run,omitempty"` // "": the notice is about a day
	Text   string    `json:"text"`          // one line for people
	Budget *usage    `json:"budget,omitempty"`
	Status *api.Run  `json:"status,omitempty"` // the run, as lists show it

	Question string `json:"question,omitempty"` // id of the question that the run asks

	Cancel bool `json:"cancel,omitempty"` // the watcher cancels the run, see [rules]
}

// rules say what is reported. They are pure: all that they know of time is passed to them.
type rules struct {
	On           []kind
	StalledAfter time.Duration // time without output after which a run counts as stalled
	Budgets      []budget
	CancelOn     []kind // of the kinds budget and stalled: what also ends a run
}

func (r *rules) on(k kind) bool { return slices.Contains(r.On, k) }

// Run returns the notices whose condition holds for a run at now. Active is when the run had
// output last, see [activity].
func (r *rules) Run(run *api.Run, active, now time.Time) (all []notice) {
	add := func(k kind, holds bool, episode, text string) {
		if holds && r.on(k) {
			all = append(all, r.notice(k, run, episode, text, now))
		}
	}
	end := "run " + name(run) + " " + console.Word(string(run.State))
	if run.Reason != "" {
		end += " (" + console.Safe(run.Reason) + ")"
	}
	if took := lasted(run, now); took > 0 {
		end += " after " + console.ShortTime(took)
	}
	add(kindCompleted, run.State == runs.StateCompleted, "", end)
	add(kindFailed, run.State == runs.StateFailed || run.State == runs.StateTimeout, "", end)
	add(kindCancelled, run.State == runs.StateCancelled, "", end)

	quiet := stamp(run.ActiveAt, run.StartedAt) // one silence: a worker that is lost again in it was reported
	add(kindLost, run.State == runs.StateFailed && run.Reason == string(runs.ReasonLost), quiet, end)
	add(kindLost, !run.State.Final() && run.WorkerLost, quiet, fmt.Sprintf("run %s: its worker %s sends no heartbeats",
		name(run), console.Word(run.Worker)))

	silent := now.Sub(active)
	stalled := fmt.Sprintf("run %s has had no output for %s", name(run), console.ShortTime(silent))
	if run.WorkerLost {
		stalled += ", and its worker sends no heartbeats"
	}
	add(kindStalled, silent >= r.StalledAfter && mustWrite(run, now), quiet, stalled)

	since := runs.Time(0)
	if run.Doing != nil {
		since = run.Doing.Since
	}
	episode := stamp(since, run.ActiveAt, run.StartedAt)
	need := run.Need(now)
	add(kindNeedsInput, need == runs.NeedsAnswer && len(run.Questions) == 0, episode,
		"run "+name(run)+" waits for an answer")
	for _, id := range run.Questions {
		if r.on(kindNeedsInput) {
			n := r.notice(kindNeedsInput, run, id, "", now)
			n.Question, n.Text = id, asks(run, api.Question{Run: run.ID, ID: id, Cut: true})
			all = append(all, n)
		}
	}
	add(kindMayNeedInput, need == runs.MayNeedAnswer, episode, "run "+name(run)+" runs a tool, or waits for a permission")
	add(kindTurn, run.AwaitsMessage(), strconv.Itoa(run.Turn), fmt.Sprintf("run %s waits for a message after turn %d",
		name(run), run.Turn))
	if r.on(kindBudget) {
		all = append(all, r.budgets(run, now)...)
	}
	return all
}

// asks says that a run asks a question: what the run is for, the kind of the tool and how to answer, and nothing else
// of what is asked.
func asks(run *api.Run, q api.Question) string {
	text := "run " + name(run) + " asks"
	const letters = "abcdefghijklmnopqrstuvwxyz_"
	if q.Tool != "" && len(q.Tool) <= 20 && strings.Trim(q.Tool, letters) == "" { // no path, and nothing else of an agent
		text += " for " + q.Tool
	}
	if title := console.Safe(run.Title); title != "" {
		text += ": " + title
	}
	return text + " — " + strings.TrimSuffix(console.AnswerLine(q), " --whole")
}

// notice returns a notice about a run. Episode distinguishes what can happen to a run
// several times; "" is for what cannot.
func (r *rules) notice(k kind, run *api.Run, episode, text string, now time.Time) notice {
	id := run.ID + "/" + string(k)
	if episode != "" {
		id += "/" + episode
	}
	if title := console.Safe(run.Title); title != "" {
		text += ": " + title
	}
	return notice{
		ID: id, Kind: k, Time: runs.Time(now.UnixMilli()), Run: run.ID, Text: text, Status: run,
		Cancel: slices.Contains(r.CancelOn, k) && !run.State.Final() && run.Source != runs.SourceSession,
	}
}

// budgets returns a notice for each budget of a run that the run has used up.
func (r *rules) budgets(run *api.Run, now time.Time) (all []notice) {
	for _, b := range r.Budgets {
		if b.Daily {
			continue
		}
		used := tokens(run)
		if b.Unit == unitTime {
			used = int64(lasted(run, now))
		}
		if used < b.Limit {
			continue
		}
		text := fmt.Sprintf("run %s has used %s, its budget is %s", name(run), b.amount(used), b.amount(b.Limit))
		n := r.notice(kindBudget, run, b.String(), text, now)
		n.Budget = b.use(used)
		all = append(all, n)
	}
	return all
}

// mustWrite reports whether a run without output is a stalled one. What the agent does
// explains silence: a tool call or a sub-agent that takes long, a question to a person, an
// announced pause until the next request to the model. It does so only while the worker is
// alive, because nothing can be known of a run whose worker is not. An agent that linesman
// did not start may wait for its user between two turns.
func mustWrite(run *api.Run, now time.Time) bool {
	if run.State != runs.StateWorking {
		return false
	}
	if run.WorkerLost {
		return true
	}
	if run.Doing == nil {
		return run.Source == "run" || run.Source == "queue"
	}
	switch run.Doing.Phase {
	case runs.RunningTool, runs.RunningOrAsking, runs.AwaitingAgent, runs.AwaitingInput, runs.YourTurn:
		return false
	}
	return !at(run.Doing.NextAt).After(now)
}

// activity remembers when open runs had output last. It uses the times of a run only until
// the run changes, because they are those of another machine.
type activity map[string]sign

// sign is the newest sign of life of a run.
type sign struct {
	seq uint64    // of the run
	at  time.Time // by the clock of this process

	changed   time.Time // the same, without the times of the run: when this process saw it first, or changed
	firstSeen time.Time // when this process, or an earlier one, saw the run first
}

// Observe stores the state of a run at now, and returns when the run had output last.
func (a activity) Observe(run *api.Run, now time.Time) time.Time {
	s, known := a[run.ID]
	switch {
	case !known:
		s = sign{run.Seq, at(max(run.ActiveAt, run.StartedAt)), now, now}
		if s.at.After(now) || s.at.Equal(at(0)) {
			s.at = now
		}
	case s.seq != run.Seq:
		s = sign{run.Seq, now, now, s.firstSeen}
	}
	a[run.ID] = s
	return s.at
}

// name is the id of a run with its agent, for people.
func name(run *api.Run) string { return console.Word(run.ID) + " (" + console.Word(run.Agent) + ")" }

// stamp returns the first of these times that is known, in Unix milliseconds.
func stamp(all ...runs.Time) string {
	for _, t := range all {
		if t != 0 {
			return strconv.FormatInt(int64(t), 10)
		}
	}
	return ""
}

func at(t runs.Time) time.Time { return time.UnixMilli(int64(t)) }

// lasted returns how long a run has lasted at now.
func lasted(run *api.Run, now time.Time) time.Duration {
	if run.StartedAt == 0 {
		return 0
	}
	if run.EndedAt != 0 {
		now = at(run.EndedAt)
	}
	return max(now.Sub(at(run.StartedAt)), 0)
}

// tokens returns the tokens of a run so far, 0 if they are not known.
func tokens(run *api.Run) int64 {
	if run.Tokens == nil {
		return 0
	}
	return plus(run.Tokens.Input, run.Tokens.Output)
}

// parseKinds reads names of kinds.
func parseKinds(names []string, allowed ...kind) (all []kind, err error) {
	for _, n := range names {
		k := kind(strings.TrimSpace(n))
		if !slices.Contains(allowed, k) {
			return nil, fmt.Errorf("must be of %s, got %q", strings.Join(texts(allowed), ", "), n)
		}
		if !slices.Contains(all, k) {
			all = append(all, k)
		}
	}
	return all, nil
}

func texts(kinds []kind) (all []string) {
	for _, k := range kinds {
		all = append(all, string(k))
	}
	return all
}
