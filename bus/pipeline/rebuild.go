package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// errRemoved reports that the temporary streams of a rebuild are gone.
var errRemoved = errors.New("the temporary streams of this rebuild were removed: a run was forgotten, or an `up` was " +
	"started; start it again")

// Rebuilt is the result of a rebuild.
type Rebuilt struct {
	Entries     uint64   `json:"entries"`     // entries of RAW that were read
	Runs        int      `json:"runs"`        // runs that RAW covers from their beginning, compared
	Partial     int      `json:"partial"`     // runs that RAW covers in part, not compared
	Older       int      `json:"older"`       // compared, but an older linesman made the record, with less content
	Events      int      `json:"events"`      // events that were compared
	Differences []string `json:"differences"` // at most 100 sentences
}

// maxDifferences is the maximum number of reported differences, at which a rebuild
// stops.
const maxDifferences = 100

// maxSuspects is the maximum number of runs that are noted for a comparison of their own: 16 MB.
// If there are more, all runs are compared so.
const maxSuspects = 1 << 16

// scratchAge is the age from which temporary streams count as those of a rebuild that was
// killed.
const scratchAge = 24 * time.Hour

// Rebuild derives EVENTS and RUNS again from RAW, and compares them with the stored ones,
// for runs that RAW covers from their beginning. It works beside a running normalizer. The
// records are stored under a temporary prefix, and removed at the end; if this one is
// killed, at the next start of an `up`, when a run is forgotten, or by a rebuild on a later
// day. The events are compared as they are derived. So the memory that it needs is that of
// a normalizer, plus a few batches of stored events, plus the ids of at most 65,536 runs,
// whatever the numbers of events and runs are. The error is [errRemoved] if its streams
// were removed meanwhile.
func Rebuild(ctx context.Context, b *bus.Bus, backends []normalizer.Backend, maxLine int,
	log *zap.Logger) (Rebuilt, error) {
	return rebuild(ctx, &Normalizer{Bus: b, Backends: backends, MaxLine: maxLine, Log: log}, maxSuspects)
}

func rebuild(ctx context.Context, n *Normalizer, limit int) (r Rebuilt, err error) {
	b := n.Bus
	raw, err := b.Stream(ctx, b.Raw())
	if err != nil {
		return r, err
	}
	state := raw.CachedInfo().State
	if state.Msgs == 0 {
		return r, nil
	}
	if err := b.Reached(ctx, state.LastSeq); err != nil {
		return r, err
	}
	if err := b.RemoveScratch(ctx, time.Now().Add(-scratchAge)); err != nil {
		n.Log.Warn("temporary streams of an interrupted rebuild were not removed", zap.String("why", b.Explain(err)))
	}
	scratch, remove, err := b.Scratch(ctx, b.RebuildNames(time.Now()))
	defer func() { err = errors.Join(err, remove(context.WithoutCancel(ctx))) }()
	if err != nil {
		return r, err
	}
	n.Out, n.Until = scratch.Names, state.LastSeq
	c := comparison{
		n: n, raw: raw.CachedInfo(), suspects: map[string]bool{}, limit: limit,
		stored:  &session{Normalizer: &Normalizer{Bus: b, Out: b.Names}, buckets: map[string]*bucket.Bucket{}},
		Rebuilt: &r,
	}
	if err := c.derive(ctx); err != nil {
		return r, err
	}
	r.Entries = state.LastSeq - state.FirstSeq + 1
	c.late = time.Now().Add(5 * time.Second)
	return r, c.records(ctx)
}

// comparison compares the stored events and records with derived ones. EVENTS is in the
// order of RAW, so one pass over both finds the runs whose events may differ. Only those are
// then compared run by run, which finds out how, and whether the oldest ones have expired.
type comparison struct {
	n      *Normalizer
	raw    *jetstream.StreamInfo
	stored *session  // reads the stored records
	late   time.Time // until then, records of a cut in progress may be stored

	next func() (bus.Stored, error, bool) // of the stored events
	head bus.Stored                       // the next one
	more bool                             // there is one
	at   uint64                           // RAW sequence of the derived event
	done uint64                           // RAW sequence up to which an earlier term has derived events

	suspects map[string]bool // runs whose events may differ
	limit    int             // of their number
	all      bool            // there were more: any run is one

	*Rebuilt
}

// since is the time from which on stored events and records are read. They are stored after their entries, except for
// the difference of two servers' clocks. The event of an entry that RAW received again, after a loss, may be older, and
// makes its run a suspect.
func (c *comparison) since() time.Time { return c.raw.State.FirstTime.Add(-time.Minute) }

// derive runs the normalizer, and compares the events that it derives with the stored
// ones.
func (c *comparison) derive(ctx context.Context) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var stop func()
	c.next, stop = iter.Pull2(read(ctx, c.n.Bus, runs.Selection{Since: runs.Time(c.since().UnixMilli())}))
	defer stop()
	if err := c.advance(); err != nil {
		return err
	}
	c.n.Ready = func() { c.done = c.at }
	c.n.Prepare = func(ctx context.Context) error { // after an error, too
		_, err := c.n.Bus.Stream(ctx, bucket.Stream(c.n.Out.Runs()))
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			fail(errRemoved)
		}
		return err
	}
	c.n.take = func(_ context.Context, run string, m normalizer.Message) error {
		err := c.derived(run, m)
		if err != nil {
			fail(err) // the stored events cannot be read twice
		}
		return err
	}
	if err := c.n.Run(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil && c.more {
		c.suspect(c.head.Run)
		if err := c.advance(); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// read returns the selected events.
func read(ctx context.Context, b *bus.Bus, f runs.Selection) iter.Seq2[bus.Stored, error] {
	return func(yield func(bus.Stored, error) bool) {
		err := b.Read(ctx, f, func(s bus.Stored) error {
			if !yield(s, nil) {
				return reader.ErrStop
			}
			return nil
		})
		if err != nil {
			yield(bus.Stored{}, err)
		}
	}
}

// advance reads the next stored event from an entry that is compared.
func (c *comparison) advance() (err error) {
	for {
		c.head, err, c.more = c.next()
		switch raw := c.head.Pos.Raw; {
		case err != nil, !c.more:
			return err
		case raw > c.n.Until: // new, or wrong
			c.suspect(c.head.Run)
		case raw >= c.raw.State.FirstSeq:
			return nil
		}
	}
}

// derived compares a derived event with the stored one. All events from one entry of RAW are
// of one run.
func (c *comparison) derived(run string, m normalizer.Message) error {
	if m.Raw <= c.done {
		return nil
	}
	c.at = m.Raw
	for c.more && c.head.Pos.Raw < m.Raw { // not derived
		c.suspect(c.head.Run)
		if err := c.advance(); err != nil {
			return err
		}
	}
	if !c.more || c.head.Pos.Raw > m.Raw { // not stored
		c.suspect(run)
		return nil
	}
	if c.Events++; c.head.Run != run || !same(c.head, m) {
		c.suspect(c.head.Run)
		c.suspect(run)
	}
	return c.advance()
}

func same(s bus.Stored, m normalizer.Message) bool {
	return s.Pos == m.Pos && s.Token == m.Token && bytes.Equal(s.Body, m.Body)
}

// suspect notes that the events of a run may differ.
func (c *comparison) suspect(run string) {
	if len(c.suspects) < c.limit {
		c.suspects[run] = true
	} else if !c.suspects[run] {
		c.all = true
	}
}

func (c *comparison) differ(run, format string, a ...any) {
	if len(c.Differences) < maxDifferences {
		c.Differences = append(c.Differences, "run "+run+": "+fmt.Sprintf(format, a...))
	}
}

// records compares the records, and the events of suspects.
func (c *comparison) records(ctx context.Context) error {
	of := c.n.Out.Runs()
	ahead := newAhead(ctx, c.n.Bus, c.since())
	defer ahead.stop()
	r := reader.NewConsumer(c.n.Bus.JetStream(), bucket.Stream(of), bucket.Subject(of, ">"), 256, 1)
	return r.ToEnd(ctx, func(m *jetstream.RawStreamMsg) error {
		id := strings.TrimPrefix(m.Subject, bucket.Subject(of, ""))
		if have := ahead.take(id); have != nil && !c.all && !c.suspects[id] && sameRecord(have, m.Data) {
			c.Runs++
			return nil
		}
		var want stored
		if err := json.Unmarshal(m.Data, &want); err != nil {
			return fmt.Errorf("rebuilt records: %w", err)
		}
		if err := c.run(ctx, want.Record); err != nil || len(c.Differences) < maxDifferences {
			return err
		}
		return reader.ErrStop
	})
}

func (c *comparison) run(ctx context.Context, want *runs.Record) error {
	stored, removed, err := c.recordUpTo(ctx, want)
	switch {
	case err != nil || removed:
		return err
	case stored == nil:
		c.differ(want.ID, "has no record")
		return nil
	}
	have := stored.Record
	if c.raw.State.FirstSeq > 1 &&
		(want.Gaps > have.Gaps || want.QueuedAt != have.QueuedAt || want.StartedAt != have.StartedAt && want.QueuedAt == 0) {
		c.Partial++ // its beginning has expired
		return nil
	}
	c.Runs++
	ended := (have.State.Final() || have.Waits()) && have.Seq <= c.n.Until
	switch {
	case !ended && want.Seq < have.Seq: // the stored one is newer
	case stored.Older:
		c.Older++
	case !bytes.Equal(have.Comparable().JSON(), want.Comparable().JSON()):
		c.differ(want.ID, "the record differs")
	}
	if c.all || c.suspects[want.ID] {
		return c.events(ctx, want, ended)
	}
	return nil
}

// recordUpTo returns what is stored of a run when it covers RAW as far as the derived
// record, or the current one at the deadline, nil if there is none. The checkpoint of a cut
// is stored before its records.
func (c *comparison) recordUpTo(ctx context.Context, want *runs.Record) (have *stored, removed bool, err error) {
	for {
		have, revision, err := c.stored.loadRecord(ctx, want.ID, false)
		removed := have == nil && revision != 0
		if err != nil || removed || have != nil && have.Record.Seq >= want.Seq || time.Now().After(c.late) {
			return have, removed, err
		}
		if err := reader.Sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, false, err
		}
	}
}

// events compares the events of one run, in order; ended reports that there must be no
// later ones.
func (c *comparison) events(ctx context.Context, want *runs.Record, ended bool) error {
	next, stop := iter.Pull2(read(ctx, c.n.Bus, runs.Selection{Run: want.ID}))
	defer stop()
	have, err, more := next()
	equal, missing, differs := 0, 0, false
	compare := func(m normalizer.Message) {
		switch {
		case err != nil || differs:
		case !more, equal == 0 && m.Pos != have.Pos && m.Raw <= have.Pos.Raw: // not stored yet, or expired
			missing++
		case !same(have, m):
			differs = true
		default:
			equal, missing = equal+1, 0
			have, err, more = next()
		}
	}
	fold := normalizer.NewFold(c.n.backend(want.Agent), want.ID, c.n.MaxLine)
	entries := reader.NewConsumer(c.n.Bus.JetStream(), c.n.Bus.Raw(), c.n.Bus.RawSubject(want.Agent, want.ID), 64,
		c.raw.State.FirstSeq)
	if readErr := entries.UpTo(ctx, c.raw, c.n.Until, func(m *jetstream.RawStreamMsg) error {
		if apply(fold, m.Sequence, m.Header, m.Data, compare); fold.Done() || differs || err != nil {
			return reader.ErrStop
		}
		return nil
	}); err == nil {
		err = readErr
	}
	if more && (differs || equal == 0 && missing > 0 && have.Pos.Raw <= c.n.Until) {
		c.differ(want.ID, "event %d (stream sequence %d) differs", equal+1, have.Seq)
		return err
	}
	extra := 0
	for ; err == nil && more; have, err, more = next() {
		if ended || have.Pos.Raw <= c.n.Until {
			extra++
		}
	}
	switch {
	case err != nil:
	case extra > 0:
		c.differ(want.ID, "%d events too many", extra)
	case missing > 0:
		c.differ(want.ID, "%d events are missing", missing)
	}
	return err
}
