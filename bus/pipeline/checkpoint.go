package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/runs"
)

// stored is the value of a run's key in RUNS.
type stored struct {
	Format int             `json:"format"`
	Raw    string          `json:"raw_stream"`
	Events string          `json:"event_stream"`
	Covers uint64          `json:"event_seq"`           // the record includes the run's events in EVENTS up to here
	More   uint64          `json:"more,omitempty"`      // and so many more, while RAW is read again
	Skip   uint64          `json:"skip,omitempty"`      // but for the last so many, from a former RAW
	Named  uint64          `json:"named_seq,omitempty"` // RAW sequence of the entry that named its thread
	Older  bool            `json:"older,omitempty"`     // one of the first releases began the record: it has less content
	Record *runs.Record    `json:"record"`
	State  json.RawMessage `json:"state,omitempty"` // while the run is open
	By     string          `json:"by,omitempty"`    // with State: what derived it from the beginning, see [Normalizer]
}

func (s *session) loadCheckpoint(ctx context.Context) (bus.Checkpoint, uint64, error) {
	var c bus.Checkpoint
	revision, _, err := s.loadKey(ctx, s.Out.State(), bus.CheckpointKey, false, &c)
	return c, revision, err
}

func (s *session) saveCheckpoint(ctx context.Context, c bus.Checkpoint) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	revision, err := bucket.New(s.Bus.JetStream(), s.Out.State()).Put(ctx, bus.CheckpointKey, b, nil, bucket.If(s.lastRev))
	if err != nil {
		return fmt.Errorf("save the checkpoint: %w", err)
	}
	s.lastRev, s.last = revision, c
	return nil
}

// loadRecord reads a run's record and its revision. For a removed record it returns nil
// and the revision of the marker. Listed says that one that is not in the list of keys is not there.
func (s *session) loadRecord(ctx context.Context, id string, listed bool) (*stored, uint64, error) {
	var v stored
	revision, rowless, err := s.loadKey(ctx, s.Out.Runs(), id, listed, &v)
	if err != nil || v.Record == nil {
		return nil, revision, err
	}
	v.Older = v.Older || rowless
	if v.Format > bus.Format {
		return nil, 0, fmt.Errorf(
			"%w: the record of run %s has format %d, and this linesman reads up to %d; use a newer one", bus.ErrUnfit, id,
			v.Format, bus.Format)
	}
	return &v, revision, nil
}

// loadKey decodes a key's value into v. It returns the key's revision, 0 if there is
// none, and whether the entry has no header. Listed says that a key that is not in the list of
// keys is not there.
func (s *session) loadKey(
	ctx context.Context, of, key string, listed bool, v any,
) (revision uint64, rowless bool, err error) {
	keys := s.keys[of] // nil: no set is kept
	if listed && keys != nil && keys.lacks(key) {
		return 0, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reader.AnswerTimeout)
	defer cancel()
	b := s.buckets[of]
	if b == nil {
		b = bucket.New(s.Bus.JetStream(), of)
		s.buckets[of] = b
	}
	e, err := b.Get(ctx, key)
	switch {
	case err != nil:
		return 0, false, fmt.Errorf("read %s of %s: %w", key, of, err)
	case len(e.Value) == 0: // nothing, or a delete marker
		if keys != nil && e.Revision == 0 {
			keys.missed(s.Bus.JetStream(), of, cmp.Or(s.toList, missesToList))
		}
		return e.Revision, false, nil
	case json.Unmarshal(e.Value, v) != nil:
		return 0, false, fmt.Errorf("%w: cannot decode %s of %s", bus.ErrUnfit, key, of)
	}
	return e.Revision, e.Header.Get(bus.HeaderRun) == "", nil
}

// lowest returns the last sequence of RAW that need not be read again. Unfinished lines
// must be, from their beginning, and what a record does not have, from where its own
// unfinished line begins.
func (s *session) lowest() uint64 {
	low := s.raw
	until := func(from uint64) {
		if from != 0 {
			low = min(low, from-1)
		}
	}
	for _, r := range s.runs {
		until(r.from)
		until(r.since)
		until(r.begin)
	}
	return low
}

// A cut records recordsPerCut runs at most, besides those whose records somebody waits for. The others follow within
// lateCuts intervals. A record is larger than an event: one for each line would cost more than the line.
const (
	recordsPerCut = 512 // in an interval
	lateCuts      = 10
	whole         = math.MaxUint16 // of an interval: all are recorded
)

// toRecord returns the runs that a cut records, for a part of an interval since the cut before: those that are due,
// and of the others the ones that have waited longest.
func (s *session) toRecord(part float64) []*run {
	var due, others []*run
	for _, r := range s.runs {
		switch {
		case r.dirty && r.due:
			due = append(due, r)
		case r.dirty:
			others = append(others, r)
		}
	}
	n := int(float64(max(cmp.Or(s.perCut, recordsPerCut), len(others)/lateCuts)) * part)
	if n < len(others) && !s.full {
		slices.SortFunc(others, func(a, b *run) int { return cmp.Compare(a.since, b.since) })
		others = others[:n]
	}
	return append(due, others...)
}

// late returns the first sequence of RAW that the record of its run does not have; 0: there is none.
func (s *session) late() (first uint64) {
	for _, r := range s.runs {
		if r.since != 0 && (first == 0 || r.since < first) {
			first = r.since
		}
	}
	return first
}

// unknown reports whether a run has no record, and is not in the cut that begins.
func (s *session) unknown() bool {
	for _, r := range s.runs {
		if r.dirty && r.revision == 0 {
			return true
		}
	}
	return false
}

// beginCut takes a snapshot of all changes. It is stored after the events that it
// covers, while folding continues.
//
// Part is how long ago the last one was, see toRecord.
func (s *session) beginCut(ctx context.Context, part float64) error {
	if s.cut != nil {
		return nil
	}
	if err := s.events.settle(ctx); err != nil {
		return err
	}
	covers := s.events.next - 1
	again := !s.resume.past(s.raw)
	var values []keyed
	s.cutRun = s.toRecord(part)
	for _, r := range s.cutRun {
		state, err := r.State()
		if err != nil {
			return err
		}
		if !again { // else EVENTS has more of the run than its record
			r.covers, r.more = covers, 0
		}
		one := stored{
			Format: bus.Format, Raw: s.streams.raw, Events: s.streams.events, Covers: r.covers, More: r.more,
			Skip: r.skip, Named: r.named, Older: r.older, Record: r.Record, State: state,
		}
		if state != nil {
			one.By = r.by
		}
		v, err := bounds.Encode(one)
		if err != nil {
			return fmt.Errorf("run %s: encode its record: %w", r.Record.ID, err)
		}
		s.keys[s.Out.Runs()].add(r.Record.ID)
		values = append(values, keyed{s.Out.Runs(), r.Record.ID, v, r.Record.Header().Text(), &r.revision})
		r.dirty, r.due, r.since, r.begin, r.size = false, false, 0, 0, len(v)
		r.count()
	}
	usages, err := s.usages()
	if err != nil {
		return err
	}
	s.dirty, s.urgent = s.dirty-len(s.cutRun), false
	c := s.last
	c.Late = s.late()
	known := c.Known
	if s.raw >= c.CutRaw {
		c.CutRaw, c.CutEvents, c.CutPos = s.raw, covers-s.resume.beyond, ""
		if at := s.resume.cursor; s.raw < at.Raw {
			c.CutPos = string(bus.AppendPos(nil, at))
		}
		if !again && !s.unknown() {
			known = covers
		}
	} else if c.Late == 0 { // it is read again: EVENTS has more of it than the records
		c.Late = s.raw + 1
	}
	done := c
	done.Known = known
	done.Raw = max(s.lowest(), c.Raw)
	folds := s.saved.take()
	if s.tally != nil {
		s.tally.Cut()
	}
	s.cut = make(chan error, 1)
	s.cutAt = time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*ackTimeout) // a started cut completes
	go func(result chan<- error) {
		defer cancel()
		result <- s.storeCut(ctx, c, done, folds, usages, values)
	}(s.cut)
	return nil
}

// keyed is a value to be stored in a bucket.
type keyed struct {
	of, key  string // bucket and key
	value    []byte
	header   string  // of a run record
	revision *uint64 // the expected revision; after the write its own
}

func (k keyed) subject() string { return bucket.Subject(k.of, k.key) }

func (k keyed) put(js jetstream.JetStream) (jetstream.PubAckFuture, error) {
	var header nats.Header
	if k.header != "" {
		header = nats.Header{bus.HeaderRun: {k.header}}
	}
	var follows []jetstream.PublishOpt
	if k.revision != nil {
		follows = append(follows, bucket.If(*k.revision))
	}
	return bucket.New(js, k.of).PutAsync(k.key, k.value, header, follows...)
}

// storeCut stores a cut: saved folds, the checkpoint of its start, the changes, the checkpoint of
// its end.
func (s *session) storeCut(ctx context.Context, begun, done bus.Checkpoint, folds, usages, records []keyed) error {
	if err := s.events.stored(ctx, begun.CutEvents); err != nil {
		return err
	}
	s.storeFolds(ctx, folds)
	if err := s.saveCheckpoint(ctx, begun); err != nil {
		return err
	}
	if err := s.putAll(ctx, usages, 0); err != nil {
		return err
	}
	err := s.putAll(ctx, records, begun.Runs)
	if errors.Is(err, errLostEnd) {
		// When the next term checks, RUNS may be as long as before.
		begun.Raw, begun.Runs, begun.Known = 0, 0, 0
		err = errors.Join(err, s.saveCheckpoint(ctx, begun))
	}
	if err != nil {
		return err
	}
	for _, r := range records {
		done.Runs = max(done.Runs, *r.revision)
	}
	return s.saveCheckpoint(ctx, done)
}

// errLostEnd reports that a stream is shorter than before, or reused a sequence number:
// messages were lost.
var errLostEnd = errors.New("the stream lost its end")

// putAll stores values in a bucket whose last known sequence is had. All new sequences
// must be higher, otherwise it returns errLostEnd.
func (s *session) putAll(ctx context.Context, values []keyed, had uint64) error {
	for some := range slices.Chunk(values, 256) { // in flight at a time
		if err := s.put(ctx, some, had); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) put(ctx context.Context, values []keyed, had uint64) (failed error) {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	fail := func(v keyed, err error) {
		if failed == nil {
			time.AfterFunc(time.Second, cancel) // time for answers in transit
		}
		if failed == nil && bucket.Moved(err) {
			s.Metrics.Refused("runs")
		}
		if failed == nil || errors.Is(err, errLostEnd) {
			failed = fmt.Errorf("store %s: %w", v.subject(), err)
		}
	}
	var futures []jetstream.PubAckFuture
	for _, v := range values {
		f, err := v.put(s.Bus.JetStream())
		if err != nil {
			fail(v, err)
			break
		}
		futures = append(futures, f)
	}
	for i, f := range futures {
		v := values[i]
		select {
		case ack := <-f.Ok():
			s.keys[v.of].acked.Store(ack.Sequence)
			if ack.Sequence <= had {
				fail(v, errLostEnd)
			} else if v.revision != nil {
				*v.revision = ack.Sequence
			}
		case err := <-f.Err():
			fail(v, err)
		case <-ctx.Done():
			fail(v, ctx.Err())
		}
	}
	return failed
}

// maxRuns is the maximum number of open runs in memory, and maxStored the maximum length of all
// their records and states as stored, in bytes. Recorded runs can be read again.
const (
	maxRuns    = 16384
	maxStored  = 128 << 20
	recordSize = 1 << 10 // of one that was read, about
)

// cutDone completes a cut. It drops recorded runs from memory: those that ended, and
// others above the limit.
func (s *session) cutDone(err error) error {
	s.cut = nil
	if err != nil {
		return err
	}
	s.countCut()
	for _, keys := range s.keys {
		keys.trim()
	}
	for _, r := range s.cutRun {
		if r.Done() && !r.dirty {
			delete(s.runs, r.Record.ID)
			s.hasEnded(r.Record.ID)
		}
	}
	size := 0
	for _, r := range s.runs {
		size += r.size
	}
	over := func() bool { return len(s.runs) > cmp.Or(s.maxRuns, maxRuns) || size > cmp.Or(s.maxStored, maxStored) }
	for id, r := range s.runs {
		if over() && !r.dirty && r.from == 0 {
			delete(s.runs, id)
			size -= r.size
		}
	}
	s.full = over()
	return nil
}
