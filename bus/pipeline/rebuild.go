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
func Rebuild(
	ctx context.Context,
	b *bus.Bus,
	backends []normalizer.Backend,
	maxLine int,
	log *zap.Logger,
) (r Rebuilt, err error) {
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
	return r, compare(ctx, b, scratch, state.FirstSeq, &r)
}

// compare compares the stored runs with the rebuilt ones.
func compare(ctx context.Context, b, made *bus.Bus, firstRaw uint64, r *Rebuilt) error {
	stream, err := b.JetStream().Stream(ctx, bucket.Stream(made.Runs()))
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(bucket.Subject(made.Runs(), ">")))
	if err != nil {
		return err
	}
	prefix := bucket.Subject(made.Runs(), "")
	late := time.Now().Add(5 * time.Second) // for the records of a cut in progress
	for subject := range info.State.Subjects {
		if err := compareRun(ctx, b, made, subject[len(prefix):], firstRaw, late, r); err != nil {
			return err
		}
		if len(r.Differences) >= maxDifferences {
			return nil
		}
	}
	return nil
}

func compareRun(ctx context.Context, b, made *bus.Bus, run string, firstRaw uint64, late time.Time, r *Rebuilt) error {
	differ := func(format string, a ...any) {
		if len(r.Differences) < maxDifferences {
			r.Differences = append(r.Differences, "run "+run+": "+fmt.Sprintf(format, a...))
		}
	}
	want, _, err := made.Record(ctx, run)
	if err != nil {
		return err
	}
	if want == nil {
		return nil
	}
	have, ok, err := recordUpTo(ctx, b, run, want.Seq, late)
	if err != nil {
		return err
	}
	if !ok {
		if e, err := b.RunEntry(ctx, run); e.Deleted || err != nil {
			return err
		}
		differ("has no record")
		return nil
	}
	if firstRaw > 1 &&
		(want.Gaps > have.Gaps || want.QueuedAt != have.QueuedAt || want.StartedAt != have.StartedAt && want.QueuedAt == 0) {
		r.Partial++ // its beginning has expired
		return nil
	}
	r.Runs++
	if !have.State.Final() && !have.Waits() && want.Seq < have.Seq {
		return compareEvents(ctx, b, made, run, false, differ, r)
	}
	older, err := older(ctx, b, run)
	if err != nil {
		return err
	}
	if older {
		r.Older++
	} else if got, want := comparableRecord(have), comparableRecord(want); !bytes.Equal(got, want) {
		differ("the record differs")
	}
	return compareEvents(ctx, b, made, run, have.State.Final() || have.Waits(), differ, r)
}

// recordUpTo returns the record of a run when it covers RAW up to seq, or the current
// one at the deadline late. The checkpoint of a cut is stored before its records.
func recordUpTo(ctx context.Context, b *bus.Bus, run string, seq uint64, late time.Time) (*runs.Record, bool, error) {
	for {
		record, ok, err := b.Record(ctx, run)
		if err != nil || ok && record.Seq >= seq || time.Now().After(late) {
			return record, ok, err
		}
		if e, err := b.RunEntry(ctx, run); e.Deleted || err != nil {
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

// compareEvents compares the events of a run, in order; the numbers must be equal if
// the run has ended.
func compareEvents(
	ctx context.Context,
	b, made *bus.Bus,
	run string,
	ended bool,
	differ func(string, ...any),
	r *Rebuilt,
) error {
	have, err := collect(ctx, b, run)
	if err != nil {
		return err
	}
	want, err := collect(ctx, made, run)
	if err != nil {
		return err
	}
	if n := len(want) - len(have); n > 0 && len(have) > 0 && (have[0].Pos != want[0].Pos) {
		want = want[n:] // the oldest events have expired
	}
	for i := range min(len(have), len(want)) {
		r.Events++
		if h, w := have[i], want[i]; h.Token != w.Token || h.Pos != w.Pos || h.sum != w.sum {
			differ("event %d (stream sequence %d) differs", i+1, h.Seq)
			return nil
		}
	}
	switch n := len(have) - len(want); {
	case n < 0:
		differ("%d events are missing", -n)
	case n > 0 && ended:
		differ("%d events too many", n)
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
