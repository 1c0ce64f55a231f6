package runtable

import (
	"cmp"
	"math"
	"strings"

	"github.com/linesman/linesman/runs"
)

// row is a [runs.Header] in a third of its size: a table has one for each run. It does not change, but stale.
//
//	row ──▶ common  what many runs have, once for all of them
//	    ──▶ text    what is of this run alone, one after the other
//	    ──▶ rest    what few runs have
type row struct {
	common *common
	rest   *rest // nil: there is none
	text   string
	ends   [texts]uint32 // where each text ends
	stale  bool          // from a run bucket that was replaced

	queuedAt, startedAt, activeAt, endedAt runs.Time
	tokens                                 *runs.Spend
	progress                               *runs.Todo
	steps                                  *runs.Progress
	changed                                *runs.Changed
	tested                                 *runs.TestCount
	cost                                   *float64
	seq, work                              uint64
}

// common is what many runs share.
type common struct {
	agent, dir, model, source, worker, queue, reason, version string
	mode                                                      runs.Mode
	state                                                     runs.State
	times                                                     runs.Times
	cancelRequested, asked                                    bool
}

// rest is what few runs have.
type rest struct {
	forkedFrom, continues, continuedBy, activity, governance, kind string
	doing                                                          *runs.Doing
	questions                                                      []string
	turn                                                           int
}

// The texts of a row, in their order.
const (
	textID = iota
	textTitle
	textThread
	textAnswer
	textCause
	textHint
	textLabels
	texts
)

// commons are what rows share. Once there are many of them, rows that come later share others.
type commons map[common]*common

const maxCommons = 4096

func (all commons) of(c common) *common {
	have := all[c]
	if have == nil {
		if len(all) == maxCommons {
			clear(all)
		}
		have = &c
		all[c] = have
	}
	return have
}

// rowOf packs a header.
func (all commons) rowOf(h *runs.Header) row {
	own := [texts]string{h.ID, h.Title, h.Thread, h.Answer, h.Cause, h.Hint, string(h.Labels)}
	r := row{
		common: all.of(common{
			h.Agent, h.Dir, h.Model, h.Source, h.Worker, h.Queue, h.Reason, h.Version,
			h.Mode, h.State, h.Times, h.CancelRequested, h.Asked,
		}),
		queuedAt: h.QueuedAt, startedAt: h.StartedAt, activeAt: h.ActiveAt, endedAt: h.EndedAt,
		tokens: h.Tokens, progress: h.Progress, steps: h.Steps, changed: h.Changed, tested: h.Tested, cost: h.Cost,
		seq: h.Seq, work: h.Work,
	}
	var b strings.Builder
	size := 0
	for _, text := range own {
		size += len(text)
	}
	b.Grow(size)
	for i, text := range own {
		b.WriteString(text)
		r.ends[i] = uint32(min(b.Len(), math.MaxUint32))
	}
	r.text = b.String()
	if h.ForkedFrom+h.Continues+h.ContinuedBy+h.Activity+h.Governance+h.Type != "" || h.Doing != nil ||
		h.Questions != nil || h.Turn != 0 {
		r.rest = &rest{
			h.ForkedFrom, h.Continues, h.ContinuedBy, h.Activity, h.Governance, h.Type, h.Doing, h.Questions, h.Turn,
		}
	}
	return r
}

func (r *row) own(i int) string {
	if i == 0 {
		return r.text[:r.ends[0]]
	}
	return r.text[r.ends[i-1]:r.ends[i]]
}

func (r *row) id() string        { return r.own(textID) }
func (r *row) thread() string    { return r.own(textThread) }
func (r *row) state() runs.State { return r.common.state }

// continues is the first run of the task that the run resumes, "" if it resumes none.
func (r *row) continues() string {
	if r.rest == nil {
		return ""
	}
	return r.rest.continues
}

// header returns what was packed.
func (r *row) header() (h runs.Header) {
	if x := r.rest; x != nil {
		h.ForkedFrom, h.Continues, h.ContinuedBy, h.Activity = x.forkedFrom, x.continues, x.continuedBy, x.activity
		h.Governance, h.Type, h.Doing, h.Questions, h.Turn = x.governance, x.kind, x.doing, x.questions, x.turn
	}
	c := r.common
	h.Agent, h.Dir, h.Model, h.Source, h.Worker, h.Queue = c.agent, c.dir, c.model, c.source, c.worker, c.queue
	h.Reason, h.Version, h.Mode, h.State, h.Times = c.reason, c.version, c.mode, c.state, c.times
	h.CancelRequested, h.Asked = c.cancelRequested, c.asked
	h.ID, h.Title, h.Thread, h.Answer = r.own(textID), r.own(textTitle), r.own(textThread), r.own(textAnswer)
	h.Cause, h.Hint, h.Labels = r.own(textCause), r.own(textHint), runs.Labels(r.own(textLabels))
	h.QueuedAt, h.StartedAt, h.ActiveAt, h.EndedAt = r.queuedAt, r.startedAt, r.activeAt, r.endedAt
	h.Progress, h.Steps = r.progress, r.steps
	h.Tokens, h.Changed, h.Tested, h.Cost = r.tokens, r.changed, r.tested, r.cost
	h.Seq, h.Work = r.seq, r.work
	return h
}

// point is [PointOf].
func (r *row) point(changed bool) Point {
	at := cmp.Or(r.queuedAt, r.startedAt)
	if changed {
		at = r.changedAt()
	}
	return Point{at, r.id()}
}

// changedAt is [runs.Header.ChangedAt].
func (r *row) changedAt() runs.Time {
	h := runs.Header{Summary: runs.Summary{
		State: r.common.state, QueuedAt: r.queuedAt, StartedAt: r.startedAt, ActiveAt: r.activeAt, EndedAt: r.endedAt,
	}}
	return h.ChangedAt()
}
