package bus

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/runs"
)

// Forget erases a run that has ended: its raw log, its events, its record, its
// task, its requests and its notifications. What stays is a mark under its id, so that
// nothing makes a record of it again. It first waits until the normalizer has
// recorded the run wholly, so that nobody misses what goes. Broken off, it can
// be called again. The error is [runs.ErrNoRun] where nothing is known of it,
// [runs.ErrOpen] where it has not ended, and [runs.ErrNeeded] where an earlier run of its
// task is to be forgotten first. It needs the rights of an operator.
func (b *Bus) Forget(ctx context.Context, run string) (runs.Forgotten, error) {
	return b.forget(ctx, run, func(string) error { return nil })
}

// forget calls each before every step, for tests to break off there.
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
	steps := []struct {
		name string
		do   func() error
	}{
		{"record", func() (err error) { f.Record, err = b.mark(ctx, run); return err }},
		{"raw", func() (err error) {
			f.Entries, err = purge(ctx, b.js, b.Raw(), b.RawSubject("*", run))
			return err
		}},
		{"events", func() (err error) {
			f.Events, err = purge(ctx, b.jsPub, b.Names.Events(), b.EventSubject("*", run, "*"))
			return err
		}},
		{"task", func() error { // of one that was cancelled before it began
			_, err := purge(ctx, b.js, b.Work(), b.WorkSubject("*", run))
			return err
		}},
		{"requests", func() (err error) { f.Requests, err = b.forgetRequests(ctx, run); return err }},
		{"registrations", func() error {
			_, err := purge(ctx, b.js, bucket.Stream(b.Push()), bucket.Subject(b.Push(), run))
			return err
		}},
		{"notices", func() (err error) {
			f.Notices, err = purge(ctx, b.js, b.Outbox(), b.PushSubject(run, "*"))
			return err
		}},
	}
	for _, s := range steps {
		if err = each(s.name); err == nil {
			err = s.do()
		}
		if err != nil {
			return f, fmt.Errorf("run %s: forget its %s: %w", run, s.name, err)
		}
	}
	return f, nil
}

// recordedWholly returns once the normalizer has recorded all that RAW holds
// of a run that has ended.
func (b *Bus) recordedWholly(ctx context.Context, run string) error {
	if e, err := b.RunEntry(ctx, run); e.Deleted || err != nil {
		return err // an ended one, or one that was forgotten halfway
	}
	entry, err := last(ctx, b.js, b.Raw(), b.RawSubject("*", run))
	if err != nil {
		return fmt.Errorf("run %s: %w", run, err)
	}
	if entry == nil { // aged out
		return b.ended(ctx, run, 0)
	}
	if err := b.Reached(ctx, entry.Sequence); err != nil {
		return err
	}
	return b.ended(ctx, run, entry.Sequence)
}

// ended returns once the record of a run that has ended says so. What the
// normalizer has reached is stored before the records of that: a
// record that is older than the last entry, or is not there, is waited for. The
// error is runs.ErrOpen for a run that goes on.
func (b *Bus) ended(ctx context.Context, run string, last uint64) error {
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
		case !ok && (last == 0 || late): // it has aged out
			return nil
		case !ok:
			if e, err := b.RunEntry(ctx, run); e.Deleted || err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// notNeeded returns runs.ErrNeeded for a run that ended a task of which there are
// earlier runs.
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
			return fmt.Errorf("run %s: %w, and run %s would wait again: forget that first", run, runs.ErrNeeded, id)
		}
		if id, err = runs.LinkID(record.Continues, n); err != nil {
			return err
		}
	}
	return nil
}

// notWaiting returns runs.ErrOpen for a run of a task that is open: it waits to be
// gone on with, and the newest of those that went on waits as well, or works.
func (b *Bus) notWaiting(ctx context.Context, run string) error {
	newest, ok, err := b.Record(ctx, run)
	if err != nil || !ok || !newest.Waits() {
		return err
	}
	task := cmp.Or(newest.Continues, run)
	for n := 2; ; n++ {
		id, err := runs.LinkID(task, n)
		if err != nil {
			break // no more can be
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

// mark replaces the record of a run by the mark that it was removed.
func (b *Bus) mark(ctx context.Context, run string) (had bool, err error) {
	e, err := b.RunEntry(ctx, run)
	if err != nil || e.Deleted {
		return false, err
	}
	return e.Exists(), b.RemoveRun(ctx, run, e.Revision)
}

// forgetRequests erases the requests that made the run, or were about it.
func (b *Bus) forgetRequests(ctx context.Context, run string) (n uint64, err error) {
	stream := bucket.Stream(b.Requests())
	s, err := b.js.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	t := &reader.Tail{JS: b.js, Stream: stream, Subject: bucket.Subject(b.Requests(), ">"), From: 1, Batch: 256}
	err = t.UpTo(ctx, s.CachedInfo(), func(m jetstream.Msg) (bool, error) {
		var request struct {
			Run     string `json:"run"`
			Outcome struct {
				Run string `json:"run"`
			} `json:"outcome"`
		}
		if json.Unmarshal(m.Data(), &request) != nil || request.Run != run && request.Outcome.Run != run {
			return true, nil
		}
		gone, err := purge(ctx, b.js, stream, m.Subject())
		n += gone
		return true, err
	})
	return n, err
}

// purge erases what a stream holds under a subject, and tells how much it was.
func purge(ctx context.Context, js jetstream.JetStream, stream, subject string) (uint64, error) {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return 0, fmt.Errorf("stream %s: %w", stream, err)
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
