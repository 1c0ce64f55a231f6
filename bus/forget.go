package bus

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/runs"
)

// Forget erases a run that has ended: its raw log, events, record, task, requests and
// notifications. A delete marker remains under its id, so that no record of it is
// created again. Forget first waits until the normalizer has processed the run
// completely. If interrupted, it can be called again. The error is [runs.ErrNoRun] if
// the run is unknown, [runs.ErrOpen] if it has not ended, and [runs.ErrNeeded] if an
// earlier run of its task must be forgotten first. It needs the permissions of an
// operator.
func (b *Bus) Forget(ctx context.Context, run string) (runs.Forgotten, error) {
	return b.forget(ctx, run, func(string) error { return nil })
}

// forget is Forget that calls each before every step, so that tests can interrupt it.
func (b *Bus) forget(ctx context.Context, run string, each func(step string) error) (f runs.Forgotten, err error) {
	known, err := b.Known(ctx, run)
	if err != nil {
		return f, err
	}
	if !known {
		return f, runs.ErrNoRun
	}
	if err := b.recordedWholly(ctx, run); err != nil {
		return f, err
	}
	if err := b.notNeeded(ctx, run); err != nil {
		return f, err
	}
	if err := b.notWaiting(ctx, run); err != nil {
		return f, err
	}
	var others uint64
	steps := []struct {
		name, stream, subject string
		n                     *uint64
	}{
		{"record", "", "", nil},
		{"raw", b.Raw(), b.RawSubject("*", run), &f.Entries},
		{"folds", "", "", nil},
		{"rebuilds", "", "", nil},
		{"events", b.Names.Events(), b.EventSubject("*", run, "*"), &f.Events},
		{"task", b.Work(), b.WorkSubject("*", run), &others}, // that was cancelled before it started
		{"requests", "", "", nil},
		{"seen", bucket.Stream(b.Seen()), bucket.Subject(b.Seen(), run), &others},
		{"registrations", bucket.Stream(b.Push()), bucket.Subject(b.Push(), run), &others},
		{"notices", b.Outbox(), b.PushSubject(run, "*"), &f.Notices},
	}
	for _, s := range steps {
		err := each(s.name)
		switch {
		case err != nil:
		case s.name == "record":
			f.Record, err = b.mark(ctx, run)
		case s.name == "rebuilds": // killed or not: they may have its record
			err = b.RemoveScratch(ctx, time.Time{})
		case s.name == "folds":
			err = b.forgetFolds(ctx, run)
		case s.name == "requests":
			f.Requests, err = b.forgetRequests(ctx, run)
		default:
			*s.n, err = b.purge(ctx, s.stream, s.subject)
		}
		if err != nil {
			return f, fmt.Errorf("run %s: forget its %s: %w", run, s.name, err)
		}
	}
	return f, nil
}

// recordedWholly waits until the normalizer has recorded all entries of a run that has
// ended.
func (b *Bus) recordedWholly(ctx context.Context, run string) error {
	if e, err := b.RunEntry(ctx, run); e.Deleted || err != nil {
		return err // it ended, or forgetting it was interrupted
	}
	entry, err := b.lastOf(ctx, b.Raw(), b.RawSubject("*", run))
	if err != nil {
		return fmt.Errorf("run %s: %w", run, err)
	}
	if entry == nil { // expired
		return b.ended(ctx, run, nil)
	}
	if err := b.Reached(ctx, entry.Sequence); err != nil {
		return err
	}
	return b.ended(ctx, run, entry)
}

// ended waits until the record of a run shows that the run has ended. The checkpoint is
// stored before the records, so it waits for a record that is missing, or older than
// the last entry; nil: all have expired. The error is runs.ErrOpen for an open run, also for one whose record is gone.
func (b *Bus) ended(ctx context.Context, run string, entry *jetstream.RawStreamMsg) error {
	last := uint64(0)
	if entry != nil {
		last = entry.Sequence
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		record, ok, err := b.Record(ctx, run)
		late := time.Now().After(deadline)
		switch {
		case err != nil:
			return err
		case ok && (record.State.Final() || record.Waits()):
			return nil
		case ok && (record.Seq >= last || late):
			return runs.ErrOpen
		case !ok && last == 0: // it has expired
			return nil
		case !ok && late:
			return b.logEnds(ctx, run, entry)
		case !ok:
			if e, err := b.RunEntry(ctx, run); e.Deleted || err != nil {
				return err
			}
		}
		if err := reader.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// logEnds returns runs.ErrOpen unless the log of a run, whose last entry is given, shows that the run has ended: by an
// exit, or a cancel that no worker had to obey.
func (b *Bus) logEnds(ctx context.Context, run string, entry *jetstream.RawStreamMsg) error {
	switch runs.Kind(entry.Header.Get(HeaderRecord)) {
	case runs.Exited:
		return nil
	case runs.Cancelled:
	default:
		return runs.ErrOpen
	}
	agent, _, _ := b.ParseRaw(entry.Subject)
	record, ends := runs.NewRecord(run, agent), false
	err := b.Entries(ctx, agent, run, 1, false, func(_ uint64, e runs.Entry) error {
		ends = ends || e.Kind == runs.Exited || e.Kind == runs.Cancelled && record.Unowned()
		record.Entry(e)
		return nil
	})
	if err == nil && !ends {
		err = runs.ErrOpen
	}
	return err
}

// notNeeded returns runs.ErrNeeded for a run that completed a task with earlier runs.
func (b *Bus) notNeeded(ctx context.Context, run string) error {
	record, ok, err := b.Record(ctx, run)
	if err != nil || !ok || record.Continues == "" || record.Waits() {
		return err
	}
	id := record.Continues
	for n := 2; id != run; n++ {
		earlier, ok, err := b.Record(ctx, id)
		if err != nil {
			return err
		}
		if ok && earlier.Waits() {
			return fmt.Errorf("run %s: %w, and run %s would await resumption again: forget that one first", run,
				runs.ErrNeeded, id)
		}
		if id, err = runs.LinkID(record.Continues, n); err != nil {
			return err
		}
	}
	return nil
}

// notWaiting returns runs.ErrOpen for a run of an open task: the run awaits resumption,
// and the latest run that resumed it is open too, or awaits resumption again.
func (b *Bus) notWaiting(ctx context.Context, run string) error {
	newest, ok, err := b.Record(ctx, run)
	if err != nil || !ok || !newest.Waits() {
		return err
	}
	task := cmp.Or(newest.Continues, run)
	for n := 2; ; n++ {
		id, err := runs.LinkID(task, n)
		if err != nil {
			break // the limit of runs per task
		}
		record, ok, err := b.Record(ctx, id)
		if err != nil {
			return err
		}
		if !ok {
			known, err := b.Known(ctx, id)
			if err != nil {
				return err
			}
			if !known {
				break
			}
		}
		if ok && record.Continues == task {
			newest = record
		}
	}
	if newest.State.Final() {
		return nil
	}
	return runs.ErrOpen
}

// mark replaces the record of a run by a delete marker.
func (b *Bus) mark(ctx context.Context, run string) (had bool, err error) {
	e, err := b.RunEntry(ctx, run)
	if err != nil || e.Deleted {
		return false, err
	}
	return e.Exists(), b.RemoveRun(ctx, run, e.Revision)
}

// forgetRequests erases the requests that created the run, or referred to it.
func (b *Bus) forgetRequests(ctx context.Context, run string) (n uint64, err error) {
	stream := bucket.Stream(b.Requests())
	r := reader.NewConsumer(b.js, stream, bucket.Subject(b.Requests(), ">"), 256, 1)
	err = r.ToEnd(ctx, func(m *jetstream.RawStreamMsg) error {
		if of := gjson.GetManyBytes(m.Data, "run", "outcome.run"); of[0].Str != run && of[1].Str != run {
			return nil
		}
		purged, err := b.purge(ctx, stream, m.Subject)
		n += purged
		return err
	})
	return n, err
}

// purge erases the messages of a subject, and returns how many there were.
func (b *Bus) purge(ctx context.Context, stream, subject string) (uint64, error) {
	s, err := b.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	before, err := s.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return 0, fmt.Errorf("stream %s: %w", stream, err)
	}
	var n uint64
	for _, of := range before.State.Subjects {
		n += of
	}
	if n == 0 {
		return 0, nil
	}
	if err := s.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
		return 0, fmt.Errorf("stream %s: purge: %w", stream, err)
	}
	return n, nil
}
