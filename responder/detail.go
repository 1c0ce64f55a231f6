package responder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// DetailFold derives the details of one run from the entries of its raw log.
type DetailFold interface {
	// Apply folds the entry with a sequence number, and calls each with the items, in
	// order and without Pos.
	Apply(seq uint64, e runs.Entry, each func(api.DetailItem))
	// Done reports whether the last item was that of the completion.
	Done() bool
	// Pending returns the number of bytes of an unfinished line in memory.
	Pending() int
	// Again returns the entries of stderr that must be applied first to one that was restored.
	Again() []runs.Span
}

// Limits of details.
const (
	maxFolds      = 256       // concurrent ones; further ones are [api.TooMany]
	maxReading    = 8         // that read stored entries at the same time; others wait for their turn
	maxHeld       = 128 << 20 // bytes of unfinished lines of all folds
	minHeld       = 1 << 20   // a fold with less is never refused because of maxHeld
	maxRing       = 4 << 20   // bytes of the newest items
	detailPageLen = 100       // items of a page, by default
)

// position is the position of an item in a run: the entry that it came from, and its
// number among the items of that entry, from 1.
type position struct {
	raw  uint64
	n    int
	last bool // it is that of the completion
}

// endMark is the end of the position of a completion.
const endMark = "end"

func (p position) String() string {
	s := strconv.FormatUint(p.raw, 10) + "." + strconv.Itoa(p.n)
	if p.last {
		s += "." + endMark
	}
	return s
}

func parsePosition(s string) (p position, ok bool) {
	part := strings.Split(s, ".")
	if len(part) == 3 && part[2] == endMark {
		part, p.last = part[:2], true
	}
	if len(part) != 2 || len(s) > 64 {
		return p, false
	}
	raw, bad := strconv.ParseUint(part[0], 10, 64)
	n, worse := strconv.ParseInt(part[1], 10, 32)
	p.raw, p.n = raw, int(n)
	return p, bad == nil && worse == nil && raw > 0 && n > 0
}

// covers reports whether an item at q is at or before p.
func (p position) covers(q position) bool { return q.raw < p.raw || q.raw == p.raw && q.n <= p.n }

// details is an open reading of the details of a run. Close it.
type details struct {
	// Ended means that the run has ended, and that no item follows, or is left.
	Ended bool

	service *Service
	view    runs.Header
	free    func()
	turned  bool   // it has its turn
	wait    bool   // the run has not ended
	end     uint64 // newest entry when it was opened; 0: none is left
	last    int    // begin with so many of the newest items; 0: with the first
	detailCursor
}

// detailCursor is how far details have been read. It can be kept for a later request.
type detailCursor struct {
	fold  DetailFold
	after position         // items up to there are skipped
	from  uint64           // next entry to read
	queue []api.DetailItem // the next items, of the entry before it
	torn  bool             // RAW has lost the beginning of the log
	held  int              // bytes of it that the service has counted
}

// OpenDetail opens the details of a run: after a position, "" being the beginning; or,
// without one and with a last, with the newest items. The error is [api.Validation] if
// the position is not one of an item, [api.Conflict] if RAW ends before it, since it was
// recreated, [api.TooMany] if too many are open, and [api.NotFound].
func (s *Service) OpenDetail(ctx context.Context, run, after string, last int) (*details, error) {
	if s.cfg.Details == nil {
		return nil, notOffered(api.FieldRun, "this responder derives no details")
	}
	d := &details{service: s, last: min(last, api.MaxDetailItems)}
	if after != "" {
		var ok bool
		if d.after, ok = parsePosition(after); !ok {
			return nil, api.Invalid(api.FieldAfter, "must be the pos of an item of this run")
		}
		d.last = 0
	}
	v, err := s.Look(ctx, run)
	if err != nil {
		return nil, err
	}
	d.view = v
	newest, end, err := s.cfg.Streams.EntriesEnd(ctx, v.Agent, v.ID)
	if err != nil {
		return nil, s.explain("read a raw log", err)
	}
	if d.after.raw > end {
		return nil, &api.Error{
			Code: api.Conflict, Field: api.FieldAfter, Run: v.ID, State: v.State,
			Message: "the raw log ends before it: the stream was recreated; start without it",
		}
	}
	d.end, d.wait = newest, !over(v)
	d.Ended = over(v) && (newest == 0 || d.after.last || d.after.raw > newest)
	var ok bool
	if d.free, ok = s.folds.Take(Caller(ctx)); !ok {
		return nil, tooManyDetails()
	}
	if kept, found := s.kept.take(v.ID, after); found && kept.from <= end+1 {
		d.detailCursor = kept
		return d, nil
	}
	if err := d.start(ctx, d.after.raw, func(runs.SavedFold) bool { return true }); err != nil {
		d.Close()
		return nil, s.explain("read a raw log", err)
	}
	return d, nil
}

func tooManyDetails() *api.Error {
	return &api.Error{Code: api.TooMany, Message: "too many requests for details are open", Retryable: true}
}

// Close frees what the reading holds.
func (d *details) Close() {
	d.service.held.Add(-int64(d.held))
	d.held = 0
	d.free()
}

// Each calls each with the items until the completion, or without follow until the end
// of what is stored. It ends with the error of each, that of ctx, or an [*api.Error].
// Called again it continues.
func (d *details) Each(ctx context.Context, follow bool, each func(api.DetailItem) error) error {
	if d.last > 0 {
		if err := d.inTurn(ctx, func() error { return d.newest(ctx) }); err != nil {
			return err
		}
	}
	return d.read(ctx, follow, each, d.fold.Done)
}

// inTurn calls read, which passes no item to a client: a slow client would keep the turn. A
// burst of requests is served a few at a time, so that the first ones are answered while the
// others wait; if all of them read at once, none would be in time.
func (d *details) inTurn(ctx context.Context, read func() error) error {
	if d.turned {
		return read()
	}
	select {
	case d.service.reading <- struct{}{}:
	case <-ctx.Done():
		return tooManyDetails()
	}
	d.turned = true
	defer func() {
		d.turned = false
		<-d.service.reading
	}()
	return read()
}

// read is Each without the newest items. It ends after an entry if stop reports true.
func (d *details) read(ctx context.Context, follow bool, each func(api.DetailItem) error, stop func() bool) error {
	if err := d.drain(each); err != nil || d.fold.Done() {
		return err
	}
	var own error
	err := d.service.cfg.Streams.Entries(ctx, d.view.Agent, d.view.ID, d.from, follow && d.wait,
		func(seq uint64, e runs.Entry) error {
			if own = d.apply(seq, e); own == nil {
				own = d.drain(each)
			}
			if own == nil && stop() {
				return errEnough
			}
			return own
		})
	switch {
	case err == nil, own == nil && errors.Is(err, errEnough):
		return nil
	case own != nil, ctx.Err() != nil:
		return err
	}
	return d.service.explain("read a raw log", err)
}

// drain passes the queue on. What each refuses stays in it.
func (d *details) drain(each func(api.DetailItem) error) error {
	for len(d.queue) > 0 {
		if err := each(d.queue[0]); err != nil {
			return err
		}
		if d.held > minHeld { // the others count little
			d.hold(d.held - sizeOf(d.queue[0]))
		}
		d.queue[0] = api.DetailItem{}
		d.queue = d.queue[1:]
	}
	d.queue = nil
	return nil
}

// apply folds an entry, and queues its items.
func (d *details) apply(seq uint64, e runs.Entry) error {
	if d.from <= 1 {
		d.torn = e.Kind != runs.Queued && e.Kind != runs.Started
	}
	d.from = seq + 1
	at, size := position{raw: seq}, 0
	d.fold.Apply(seq, e, func(item api.DetailItem) {
		at.n++
		at.last = item.Kind == api.Completion
		if !d.after.covers(at) {
			item.Pos, item.Meaning = at.String(), d.service.meaning(d.view.Agent, item.Kind, item.Event)
			d.queue = append(d.queue, item)
			size += sizeOf(item)
		}
	})
	return d.count(d.fold.Pending() + size)
}

// count keeps the sum of what all readings hold. Of those with much the one that exceeds
// the maximum ends.
func (d *details) count(held int) error {
	if d.hold(held) > maxHeld && held > minHeld {
		return tooManyDetails()
	}
	return nil
}

// hold counts what this reading holds, and returns the sum of all.
func (d *details) hold(held int) (sum int64) {
	sum = d.service.held.Add(int64(held - d.held))
	d.held = held
	return sum
}

// Detail calls each with the details of a run after a position, "" being the beginning:
// those that are stored, and with follow further ones until the completion. The errors
// are those of [Service.OpenDetail] and [Details.Each].
func (s *Service) Detail(ctx context.Context, run, after string, follow bool,
	each func(api.DetailItem) error) error {
	d, err := s.OpenDetail(ctx, run, after, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Each(ctx, follow, each)
}

// sizeOf is about the length of an item in JSON.
func sizeOf(item api.DetailItem) int {
	detail, err := json.Marshal(item.Detail)
	if err != nil { // strings and numbers
		panic(fmt.Sprintf("responder: encode a detail: %v", err))
	}
	return len(item.Event) + len(detail) + 160
}
