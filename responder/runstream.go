package responder

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/runs"
)

// Limits of streams of runs.
const (
	maxBatch    = 128                   // runs that are given to a reader at once
	maxAbsent   = 10_000                // runs that a stream remembers as gone
	mergeTime   = 50 * time.Millisecond // changes within this time are one
	derivedTime = time.Second           // interval of changes without an entry of the raw log
	derivedRuns = 1000                  // such changes at once; after more of them the interval is as much longer
)

// runStream is the list of all runs that fit a filter, or of the newest ones, and then their changes.
type runStream struct {
	service *Service
	keep    func(runs.Header) bool
	filter  bool   // keep refuses some runs
	prefix  string // of ids: this process and the filter
	from    uint64 // the change after which the stream resumes
	resumes bool

	query api.List
	next  string // cursor of the pages with the runs that the snapshot has left out

	absent  map[string]bool     // runs that the reader knows it has not
	derived map[string]viewOnly // of the open runs that the reader has
	moves   uint64              // of the queues when derived was compared with the table
}

// viewOnly is what changes in a view without a change of the row.
type viewOnly struct {
	queued   bool
	position int
	lost     bool
}

func viewOnlyOf(v runs.Header) viewOnly {
	return viewOnly{v.State == runs.StateQueued, v.Before(), v.WorkerLost}
}

// FollowRuns opens the stream of the runs that fit q, without regard to its page. It resumes after the
// id of a change that this process has sent not too long ago for the same filter; with any other
// id it begins again. The error is [api.Validation] for a wrong filter.
func (s *Service) FollowRuns(q api.List, after string) (*runStream, error) {
	keep, err := s.Filter(q)
	if err != nil {
		return nil, err
	}
	q.Limit, q.Cursor, q.Order = 0, "", ""
	list := listID(q)
	prefix := s.epoch + "." + list
	if q.Recent > 0 { // with another number the reader lacks other runs
		prefix += "." + strconv.Itoa(q.Recent)
	}
	f := &runStream{
		service: s, keep: keep, filter: list != listID(api.List{}), prefix: prefix, query: q,
		absent: map[string]bool{}, derived: map[string]viewOnly{},
	}
	f.from, f.resumes = f.readChange(after)
	return f, nil
}

// Each calls each with all runs of the list, the newest first, or if the stream resumes with
// those that have changed since; then with [api.RunChange.Synced]; and then with each change of a
// run, until ctx ends, which is no error, or each returns an error. Several changes of a run
// within a short time, or while each works, are one. Only what follows Synced, and Synced itself, has an
// id. If a reader is too slow the error is [api.Unavailable]: it must begin again.
func (f *runStream) Each(ctx context.Context, each func([]api.RunChange) error) error {
	at, err := f.begin(ctx, each)
	if err == nil && ctx.Err() == nil {
		err = each([]api.RunChange{{ID: f.changeID(at), Synced: &api.Synced{Resumed: f.resumes, Next: f.next}}})
	}
	due := time.Now().Add(derivedTime)
	for err == nil && ctx.Err() == nil {
		pause(ctx, mergeTime)
		if at, err = f.changes(ctx, at, true, each); err == nil && !time.Now().Before(due) {
			var sent int
			sent, err = f.rederive(each)
			due = time.Now().Add(derivedTime * time.Duration(1+sent/derivedRuns))
		}
	}
	if errors.Is(err, runtable.ErrForgotten) {
		return unavailable("there were too many changes for the reader of this stream; it begins again", err)
	}
	return err
}

// begin sends all that the reader lacks, and returns the last change that this includes.
func (f *runStream) begin(ctx context.Context, each func([]api.RunChange) error) (at uint64, err error) {
	last := f.service.table.LastChange()
	if f.resumes && f.from == last {
		f.doubt()
		return last, nil
	}
	if f.resumes {
		if at, err = f.changes(ctx, f.from, false, each); !errors.Is(err, runtable.ErrForgotten) {
			f.doubt()
			return at, err
		}
		f.resumes = false
	}
	return last, f.snapshot(ctx, each)
}

// doubt makes rederive send the open runs that were not sent yet: the reader has them from before,
// perhaps with another position or worker.
func (f *runStream) doubt() {
	f.service.table.Walk(false, runtable.Open, nil, func(r runs.Header) bool {
		if _, sent := f.derived[r.ID]; !sent && !r.State.Final() && f.keep(r) {
			f.derived[r.ID] = viewOnly{position: -1}
		}
		return true
	})
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// snapshot sends the runs of the list, without ids: all, the newest first, or the open ones and the recent ones of
// those that have ended. Neither holds the table for long, nor all runs in memory.
func (f *runStream) snapshot(ctx context.Context, each func([]api.RunChange) error) error {
	recent := f.query.Recent
	if recent == 0 {
		return f.part(ctx, false, among(f.query), f.keep, each)
	}
	err := f.part(ctx, false, runtable.Open, func(r runs.Header) bool { return !r.State.Final() && f.keep(r) }, each)
	if err != nil {
		return err
	}
	pages := f.query
	pages.Order = api.ByChange
	ended, last := 0, runtable.Point{}
	return f.part(ctx, true, among(f.query), func(r runs.Header) bool {
		if _, open := f.derived[r.ID]; open || !r.State.Final() || !f.keep(r) {
			return false // what was sent while it was open has changed, which follows
		}
		if ended++; ended > recent {
			f.next = cmp.Or(f.next, cursorAt(last, pages))
			return false
		}
		last = pointOf(api.ByChange, r)
		return true
	}, each)
}

// part sends the runs of an order that fit, until there are the pages of f.next.
func (f *runStream) part(ctx context.Context, changed bool, a runtable.Among, fits func(runs.Header) bool,
	each func([]api.RunChange) error) error {
	var after *runtable.Point
	for ctx.Err() == nil {
		var ids []string
		f.service.table.Walk(changed, a, after, func(r runs.Header) bool {
			if fits(r) {
				ids, after = append(ids, r.ID), new(runtable.PointOf(changed, r))
			}
			return len(ids) < maxBatch && f.next == ""
		})
		var batch []api.RunChange
		for _, v := range f.service.table.Views(ids) {
			// Else it has changed, which follows; with recent runs it belongs to the other part.
			if f.keep(v) && (f.query.Recent == 0 || v.State.Final() == changed) {
				batch = append(batch, f.shown(v))
			}
		}
		if len(batch) > 0 {
			if err := each(batch); err != nil {
				return err
			}
		}
		if len(ids) < maxBatch || f.next != "" {
			return nil
		}
	}
	return nil
}

// changes sends the runs that have changed after a change, and returns the last change among
// them. It waits for the first one at most until the derived values are due again. The last one of
// a batch has an id, if they are to have ids.
func (f *runStream) changes(
	ctx context.Context, at uint64, withID bool, each func([]api.RunChange) error,
) (uint64, error) {
	waiting, cancel := context.WithTimeout(ctx, derivedTime)
	defer cancel()
	ids, last, err := f.service.table.ChangedAfter(waiting, at)
	if err != nil {
		return at, err
	}
	for len(ids) > 0 && ctx.Err() == nil {
		part := ids[:min(len(ids), maxBatch)]
		ids = ids[len(part):]
		batch := f.look(part)
		if len(batch) == 0 {
			continue
		}
		if withID && len(ids) == 0 { // only then all changes up to the last one were sent
			batch[len(batch)-1].ID = f.changeID(last)
		}
		if err := each(batch); err != nil {
			return at, err
		}
	}
	return last, nil
}

// look returns runs as they are now: with a filter they may be gone, and the reader may know.
func (f *runStream) look(ids []string) (batch []api.RunChange) {
	have := map[string]runs.Header{}
	for _, v := range f.service.table.Views(ids) {
		if f.keep(v) {
			have[v.ID] = v
		}
	}
	for _, id := range ids {
		if v, ok := have[id]; ok {
			batch = append(batch, f.shown(v))
			continue
		}
		delete(f.derived, id)
		if f.absent[id] {
			continue
		}
		if f.filter {
			if len(f.absent) == maxAbsent {
				clear(f.absent)
			}
			f.absent[id] = true
		}
		batch = append(batch, api.RunChange{Gone: id})
	}
	return batch
}

// shown is a run that the reader has from now on.
func (f *runStream) shown(v runs.Header) api.RunChange {
	delete(f.absent, v.ID)
	if delete(f.derived, v.ID); !v.State.Final() {
		f.derived[v.ID] = viewOnlyOf(v)
	}
	return api.RunChange{Run: Summarize(v)}
}

// rederive sends the open runs whose position in the queue, or whose worker, has changed, and
// returns their number. Positions are compared only if a queue has changed.
func (f *runStream) rederive(each func([]api.RunChange) error) (sent int, err error) {
	moves := f.service.table.Moves()
	var ids []string
	for id, known := range f.derived {
		if !known.queued || moves != f.moves {
			ids = append(ids, id)
		}
	}
	f.moves = moves
	var batch []api.RunChange
	for _, v := range f.service.table.Views(ids) {
		if f.keep(v) && !v.State.Final() && f.derived[v.ID] != viewOnlyOf(v) {
			batch = append(batch, f.shown(v))
		}
	}
	for part := range slices.Chunk(batch, maxBatch) {
		if err := each(part); err != nil {
			return 0, err
		}
	}
	return len(batch), nil
}

// changeID is the id of a change: of this process, because the numbers begin again with each, and
// of this filter, because with another one the reader lacks other runs.
func (f *runStream) changeID(n uint64) string { return f.prefix + "-" + strconv.FormatUint(n, 10) }

// readChange reads an id; false if it is not of this process and this filter.
func (f *runStream) readChange(id string) (n uint64, ok bool) {
	prefix, number, _ := strings.Cut(id, "-")
	n, err := strconv.ParseUint(number, 10, 64)
	return n, err == nil && prefix == f.prefix
}

// newEpoch identifies a process among those that have served the same streams.
func newEpoch() string { return strconv.FormatUint(rand.Uint64N(math.MaxUint64), 36) }
