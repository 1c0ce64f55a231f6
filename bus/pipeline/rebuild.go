package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"hash/maphash"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// Rebuilt is the result of a rebuild.
type Rebuilt struct {
	Entries     uint64   `json:"entries"`     // entries of RAW that were read
	Runs        int      `json:"runs"`        // runs that RAW covers from their beginning, compared
	Partial     int      `json:"partial"`     // runs that RAW covers in part, not compared
	Older       int      `json:"older"`       // compared, but an older linesman made the record, with less content
	Events      int      `json:"events"`      // events that were compared
	Differences []string `json:"differences"` // at most MaxDifferences sentences
}

// maxDifferences is the maximum number of reported differences, at which a rebuild
// stops.
const maxDifferences = 100

// Rebuild derives EVENTS and RUNS again from RAW, under a temporary prefix, and
// compares them with the stored ones, for runs that RAW covers from their beginning. It
// works beside a running normalizer, and removes its temporary streams.
func Rebuild(ctx context.Context, b *bus.Bus, backends []normalizer.Backend, maxLine int,
	log *zap.Logger) (r Rebuilt, err error) {
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
	scratch, remove, err := b.Scratch(ctx, bus.Names{Prefix: b.Prefix + "_rebuild_" + bus.StreamID(time.Now())})
	defer func() { err = errors.Join(err, remove(context.WithoutCancel(ctx))) }()
	if err != nil {
		return r, err
	}
	n := &Normalizer{Bus: b, Backends: backends, MaxLine: maxLine, Log: log, Out: scratch.Names, Until: state.LastSeq}
	if err := n.Run(ctx); err != nil {
		return r, err
	}
	if err := ctx.Err(); err != nil {
		return r, err
	}
	r.Entries = state.LastSeq - state.FirstSeq + 1
	c := comparison{b: b, made: scratch, firstRaw: state.FirstSeq, late: time.Now().Add(5 * time.Second), Rebuilt: &r}
	return r, c.all(ctx)
}

// comparison compares the stored runs with the rebuilt ones.
type comparison struct {
	b, made  *bus.Bus
	firstRaw uint64    // the first sequence in RAW
	late     time.Time // until then, records of a cut in progress may be stored
	*Rebuilt
}

func (c *comparison) differ(run, format string, a ...any) {
	if len(c.Differences) < maxDifferences {
		c.Differences = append(c.Differences, "run "+run+": "+fmt.Sprintf(format, a...))
	}
}

func (c *comparison) all(ctx context.Context) error {
	stream, err := c.made.Stream(ctx, bucket.Stream(c.made.Runs()))
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(bucket.Subject(c.made.Runs(), ">")))
	if err != nil {
		return err
	}
	prefix := bucket.Subject(c.made.Runs(), "")
	for subject := range info.State.Subjects {
		if err := c.run(ctx, subject[len(prefix):]); err != nil || len(c.Differences) >= maxDifferences {
			return err
		}
	}
	return nil
}

func (c *comparison) run(ctx context.Context, run string) error {
	want, _, err := c.made.Record(ctx, run)
	if err != nil || want == nil {
		return err
	}
	have, ok, err := c.recordUpTo(ctx, run, want.Seq)
	if err != nil {
		return err
	}
	if !ok {
		if e, err := c.b.RunEntry(ctx, run); e.Deleted || err != nil {
			return err
		}
		c.differ(run, "has no record")
		return nil
	}
	if c.firstRaw > 1 &&
		(want.Gaps > have.Gaps || want.QueuedAt != have.QueuedAt || want.StartedAt != have.StartedAt && want.QueuedAt == 0) {
		c.Partial++ // its beginning has expired
		return nil
	}
	c.Runs++
	ended := have.State.Final() || have.Waits()
	if !ended && want.Seq < have.Seq {
		return c.events(ctx, run, false)
	}
	older, err := older(ctx, c.b, run)
	if err != nil {
		return err
	}
	if older {
		c.Older++
	} else if !bytes.Equal(comparableRecord(have), comparableRecord(want)) {
		c.differ(run, "the record differs")
	}
	return c.events(ctx, run, ended)
}

// recordUpTo returns the record of a run when it covers RAW up to seq, or the current
// one at the deadline. The checkpoint of a cut is stored before its records.
func (c *comparison) recordUpTo(ctx context.Context, run string, seq uint64) (*runs.Record, bool, error) {
	for {
		record, ok, err := c.b.Record(ctx, run)
		if err != nil || ok && record.Seq >= seq || time.Now().After(c.late) {
			return record, ok, err
		}
		if e, err := c.b.RunEntry(ctx, run); e.Deleted || err != nil {
			return nil, false, err
		}
		if err := reader.Sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, false, err
		}
	}
}

// older reports whether one of the first releases made the beginning of a run's record.
func older(ctx context.Context, b *bus.Bus, run string) (bool, error) {
	e, err := b.RunEntry(ctx, run)
	if err != nil {
		return false, err
	}
	var v stored
	err = json.Unmarshal(e.Value, &v)
	return v.Older || e.Header.Get(bus.HeaderRow) == "", err
}

// comparableRecord returns a record without what depends on runs that RAW may no longer
// have.
func comparableRecord(r *runs.Record) []byte {
	c := *r
	c.Before, c.Own = nil, nil
	return c.JSON()
}

// events compares the events of a run, in order; the numbers must be equal if the run has
// ended.
func (c *comparison) events(ctx context.Context, run string, ended bool) error {
	var have, want []digest
	var reading errgroup.Group
	reading.Go(func() (err error) { have, err = collect(ctx, c.b, run); return err })
	reading.Go(func() (err error) { want, err = collect(ctx, c.made, run); return err })
	if err := reading.Wait(); err != nil {
		return err
	}
	if n := len(want) - len(have); n > 0 && len(have) > 0 && (have[0].Pos != want[0].Pos) {
		want = want[n:] // the oldest events have expired
	}
	for i := range min(len(have), len(want)) {
		c.Events++
		if h, w := have[i], want[i]; h.Token != w.Token || h.Pos != w.Pos || h.sum != w.sum {
			c.differ(run, "event %d (stream sequence %d) differs", i+1, h.Seq)
			return nil
		}
	}
	switch n := len(have) - len(want); {
	case n < 0:
		c.differ(run, "%d events are missing", -n)
	case n > 0 && ended:
		c.differ(run, "%d events too many", n)
	}
	return nil
}

// digest is what is kept of an event for a comparison: a checksum instead of its body.
type digest struct {
	Seq   uint64
	Pos   normalizer.Pos
	Token string
	sum   uint64
}

// collect reads the events of a run.
func collect(ctx context.Context, b *bus.Bus, run string) ([]digest, error) {
	var all []digest
	err := b.Read(ctx, bus.Filter{Run: run}, func(s bus.Stored) error {
		all = append(all, digest{s.Seq, s.Pos, s.Token, maphash.Bytes(seed, s.Body)})
		return nil
	})
	return all, err
}

// seed makes the checksums of one process comparable.
var seed = maphash.MakeSeed()
