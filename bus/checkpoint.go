package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// checkpoint says where a normalizer can go on. Every run record is at least
// as new as Raw; what lies beyond it is read again.
type checkpoint struct {
	RawID    string `json:"raw_stream"`   // which RAW: a stream made anew has another one
	EventsID string `json:"event_stream"` // which EVENTS
	RunsID   string `json:"run_stream"`   // which RUNS: what its records covered is gone with them
	Raw      uint64 `json:"raw_seq"`      // all before and at it need not be read again
	Anew     uint64 `json:"anew,omitempty"`
	Runs     uint64 `json:"run_seq,omitempty"` // RUNS reached at least so far: one that is shorter has lost its end

	// The last cut that was begun: when EVENTS ended with CutEvents, it held
	// all that RAW up to CutRaw gives. Records of that cut may be stored.
	CutRaw    uint64 `json:"cut_raw_seq"`
	CutEvents uint64 `json:"cut_event_seq"`
}

// identity tells one stream from another of the same name.
type identity struct{ raw, events, runs string }

func streamID(created time.Time) string { return strconv.FormatInt(created.UnixNano(), 36) }

// continued is the id of a stream: the known one, if the stream is still that.
func continued(known string, created time.Time) string {
	if id := streamID(created); known != id && !strings.HasPrefix(known, id+".") {
		return id
	}
	return known
}

// shortened is the id of a stream that has lost its end, as after a power
// failure: what was made from it, or covered it, counts no more.
func shortened(id string) string {
	id, times, _ := strings.Cut(id, ".")
	n, _ := strconv.Atoi(times)
	return id + "." + strconv.Itoa(n+1)
}

// stored is the value of a run's key in RUNS.
type stored struct {
	Format int             `json:"format"`
	Raw    string          `json:"raw_stream"`
	Events string          `json:"event_stream"`
	Covers uint64          `json:"event_seq"`           // EVENTS holds the run's events up to here, as far as the record goes
	Skip   uint64          `json:"skip,omitempty"`      // and as many more, from a RAW that is gone
	Named  uint64          `json:"named_seq,omitempty"` // RAW sequence where it named its thread
	Older  bool            `json:"older,omitempty"`     // one of the first builds made the beginning of the record: it says less
	Record *runs.Record    `json:"record"`
	State  json.RawMessage `json:"state,omitempty"` // while the run is open
}

// resume says which events EVENTS has already, of those that will be made
// again from RAW.
type resume struct {
	next   uint64         // sequence that the next event will get
	cursor normalizer.Pos // position of the last event, if it is there
	all    bool           // none is missing: what comes now is new
	purged bool           // the last event is gone; only counts are known
	cutRaw uint64         // purged: all of RAW up to here is in EVENTS
	beyond uint64         // purged: and as many events more
}

// have reports whether EVENTS has the event at pos. It is asked once for
// every event that is made, in order.
func (r *resume) have(pos normalizer.Pos) bool {
	switch {
	case r.all:
		return false
	case r.purged:
		if pos.Raw <= r.cutRaw {
			return true
		}
		if r.beyond > 0 {
			r.beyond--
			return true
		}
	case pos.Raw < r.cursor.Raw:
		return true
	case pos.Raw == r.cursor.Raw:
		r.all = pos.Line == r.cursor.Line && pos.Part == r.cursor.Part
		return true
	}
	r.all = true
	return false
}

// locate reads from the streams where they stand.
func (s *session) locate(ctx context.Context) error {
	raw, err := s.streamInfo(ctx, s.Bus.js, s.Bus.Raw())
	if err != nil {
		return err
	}
	events, err := s.streamInfo(ctx, s.Bus.jsPub, s.Out.Events())
	if err != nil {
		return err
	}
	runs, err := s.streamInfo(ctx, s.Bus.js, bucketStream(s.Out.Runs()))
	if err != nil {
		return err
	}
	s.canBurst = events.Config.AllowBatchPublish
	if s.last, s.lastRev, err = s.loadCheckpoint(ctx); err != nil {
		return err
	}
	last := events.State.LastSeq
	cursor, found, err := s.cursor(ctx, last)
	if err != nil {
		return err
	}
	s.resume = resume{next: last + 1}
	c := &s.last
	s.streams = identity{
		raw: continued(c.RawID, raw.Created), events: continued(c.EventsID, events.Created), runs: streamID(runs.Created),
	}
	if s.streams.events == c.EventsID && last < c.CutEvents {
		if err := followed(events); err != nil {
			return err
		}
		s.log.Warn("the event stream lost its end", zap.Uint64("last", last), zap.Uint64("want", c.CutEvents))
		s.streams.events = shortened(s.streams.events)
	}
	if s.streams.raw == c.RawID && raw.State.LastSeq < max(c.Raw, c.CutRaw) {
		if err := followed(raw); err != nil {
			return err
		}
		s.log.Warn("the raw stream lost its end", zap.Uint64("last", raw.State.LastSeq), zap.Uint64("want", max(c.Raw, c.CutRaw)))
		s.streams.raw = shortened(s.streams.raw)
	}
	known := c.RawID != ""
	otherRaw := known && c.RawID != s.streams.raw
	otherEvents := c.EventsID != s.streams.events
	switch {
	case otherRaw: // EVENTS holds what an older one gave
		s.log.Warn("the raw stream is another one")
		*c = checkpoint{Anew: last}
	case otherEvents: // make all of it from RAW
		*c = checkpoint{Anew: c.Anew}
	case c.RunsID != "" && c.RunsID != s.streams.runs: // make all records from RAW
		s.log.Warn("the run records were made anew")
		c.Raw, c.Runs = 0, 0
	case runs.State.LastSeq < c.Runs: // some are older than the checkpoint says, or gone: bring all up to date
		if err := followed(runs); err != nil {
			return err
		}
		s.log.Warn("the run records lost their end", zap.Uint64("last", runs.State.LastSeq), zap.Uint64("want", c.Runs))
		c.Raw, c.Runs = 0, runs.State.LastSeq
	}
	c.RawID, c.EventsID, c.RunsID = s.streams.raw, s.streams.events, s.streams.runs
	if known && (otherRaw || otherEvents) {
		if err := s.saveCheckpoint(ctx, *c); err != nil {
			return err
		}
	}
	c.Anew = min(c.Anew, last)
	s.anew, s.raw = c.Anew, c.Raw
	if err := s.allOurs(ctx, max(c.CutEvents, c.Anew), last); err != nil {
		return err
	}
	switch {
	case last <= s.anew: // nothing of this RAW yet
		s.resume.all = true
	case found:
		s.resume.cursor = cursor
	case !known: // nobody knows what EVENTS held: rather some of it twice than not at all
		s.log.Warn("the event stream is empty and there is no checkpoint")
		s.resume.all = true
	default:
		s.resume.purged, s.resume.cutRaw, s.resume.beyond = true, c.CutRaw, last-max(c.CutEvents, s.anew)
	}
	s.log.Info("reading", zap.String("stream", s.Bus.Raw()), zap.Uint64("from", c.Raw+1), zap.Uint64("events", events.State.LastSeq))
	return nil
}

func (s *session) streamInfo(ctx context.Context, js jetstream.JetStream, name string) (*jetstream.StreamInfo, error) {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	if err := checkFormat(stream.CachedInfo().Config.Metadata); err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	return stream.CachedInfo(), nil
}

// cursor is the position of the event at sequence last, if it is still there.
func (s *session) cursor(ctx context.Context, last uint64) (normalizer.Pos, bool, error) {
	if last == 0 {
		return normalizer.Pos{}, false, nil
	}
	_, header, err := askLeader(ctx, s.Bus.public, s.Out.Events(), fmt.Appendf(nil, `{"seq":%d}`, last))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return normalizer.Pos{}, false, nil
	}
	if err != nil {
		return normalizer.Pos{}, false, fmt.Errorf("read the last event: %w", err)
	}
	pos, ok := parsePos(header.Get(HeaderPos))
	if !ok {
		return pos, false, fmt.Errorf("%w: %s, sequence %d, has no %s header", ErrForeign, s.Out.Events(), last, HeaderPos)
	}
	return pos, true, nil
}

// mostLookedAt bounds how many events are looked at when a normalizer begins:
// more than are on their way at a time.
const mostLookedAt = 100_000

// allOurs returns ErrForeign where somebody else has written an event behind
// one sequence, up to another. A message of his in the midst of ours took the
// number of one that was then refused, and the fences of those behind it fit:
// so what comes last is ours, and one before it is missing.
func (s *session) allOurs(ctx context.Context, behind, last uint64) error {
	if last > mostLookedAt {
		behind = max(behind, last-mostLookedAt)
	}
	if behind >= last {
		return nil
	}
	consumer, err := s.Bus.jsPub.OrderedConsumer(ctx, s.Out.Events(), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{s.Out.EventSubjects()}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: behind + 1, HeadersOnly: true,
	})
	if err != nil {
		return fmt.Errorf("read %s from %d: %w", s.Out.Events(), behind+1, err)
	}
	if consumer.CachedInfo().NumPending == 0 {
		return nil
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(1024))
	if err != nil {
		return fmt.Errorf("read %s from %d: %w", s.Out.Events(), behind+1, err)
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	for {
		m, err := next(ctx, messages, false)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, context.DeadlineExceeded): // the rest is gone meanwhile
			return nil
		case err != nil:
			return fmt.Errorf("read %s from %d: %w", s.Out.Events(), behind+1, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read %s: %w", s.Out.Events(), err)
		}
		if _, ours := parsePos(m.Headers().Get(HeaderPos)); !ours {
			return fmt.Errorf("%w: %s, sequence %d, has no %s header", ErrForeign, s.Out.Events(), meta.Sequence.Stream, HeaderPos)
		}
		if meta.NumPending == 0 || meta.Sequence.Stream >= last {
			return nil
		}
	}
}

// surplus is how many events of the run EVENTS has from a RAW that is gone,
// behind the sequence that the run's record covers.
func (s *session) surplus(ctx context.Context, agent, id string, covers uint64) (uint64, error) {
	if s.anew <= covers {
		return 0, nil
	}
	behind := func(seq uint64) (uint64, error) {
		c, err := s.Bus.jsPub.CreateConsumer(ctx, s.Out.Events(), jetstream.ConsumerConfig{
			FilterSubject: s.Out.EventSubject(agent, id, "*"), DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq + 1,
			AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: 5 * time.Second, MemoryStorage: true,
		})
		if err != nil {
			return 0, fmt.Errorf("count the events of run %s: %w", id, err)
		}
		defer func() { _ = s.Bus.jsPub.DeleteConsumer(ctx, s.Out.Events(), c.CachedInfo().Name) }()
		return c.CachedInfo().NumPending, nil
	}
	all, err := behind(covers)
	if err != nil || all == 0 {
		return 0, err
	}
	ours, err := behind(s.anew)
	return all - min(ours, all), err
}

const checkpointKey = "checkpoint"

func (s *session) loadCheckpoint(ctx context.Context) (checkpoint, uint64, error) {
	var c checkpoint
	revision, _, err := s.loadKey(ctx, s.Out.State(), checkpointKey, &c)
	return c, revision, err
}

func (s *session) saveCheckpoint(ctx context.Context, c checkpoint) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	ack, err := s.Bus.js.Publish(ctx, bucketSubject(s.Out.State(), checkpointKey), b, jetstream.WithExpectLastSequencePerSubject(s.lastRev))
	if err != nil {
		return fmt.Errorf("save the checkpoint: %w", err)
	}
	s.lastRev, s.last = ack.Sequence, c
	return nil
}

// loadRecord reads a run's record and its revision. One that was removed is
// nil, with the revision of that.
func (s *session) loadRecord(ctx context.Context, id string) (*stored, uint64, error) {
	var v stored
	revision, rowless, err := s.loadKey(ctx, s.Out.Runs(), id, &v)
	if err != nil || v.Record == nil {
		return nil, revision, err
	}
	v.Older = v.Older || rowless
	if v.Format > Format {
		return nil, 0, fmt.Errorf("%w: the record of run %s has format %d, and this linesman reads up to %d; use a newer one", ErrUnfit, id, v.Format, Format)
	}
	return &v, revision, nil
}

// loadKey reads a key's value into v, and tells its revision, 0 where there is
// none, and whether there is no row beside it.
func (s *session) loadKey(ctx context.Context, bucket, key string, v any) (revision uint64, rowless bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	stream, err := s.bucket(ctx, bucket)
	if err != nil {
		return 0, false, err
	}
	m, err := stream.GetLastMsgForSubject(ctx, bucketSubject(bucket, key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("read %s of %s: %w", key, bucket, err)
	}
	if len(m.Data) == 0 { // a delete marker
		return m.Sequence, false, nil
	}
	if err := json.Unmarshal(m.Data, v); err != nil {
		return 0, false, fmt.Errorf("%w: %s of %s is not of the known form", ErrUnfit, key, bucket)
	}
	return m.Sequence, m.Header.Get(HeaderRow) == "", nil
}

func (s *session) bucket(ctx context.Context, name string) (jetstream.Stream, error) {
	if stream, ok := s.buckets[name]; ok {
		return stream, nil
	}
	stream, err := s.Bus.js.Stream(ctx, bucketStream(name))
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", name, err)
	}
	s.buckets[name] = stream
	return stream, nil
}

// lowest is the last sequence of RAW that need not be read again: an
// unfinished line must be, from its beginning.
func (s *session) lowest() uint64 {
	low := s.raw
	for _, r := range s.runs {
		if r.from != 0 {
			low = min(low, r.from-1)
		}
	}
	return low
}

// beginCut takes a picture of all that changed, as of now. It is stored once
// the events that it covers are, while the folding goes on.
func (s *session) beginCut(ctx context.Context) error {
	if s.cut != nil {
		return nil
	}
	if err := s.events.settle(ctx); err != nil {
		return err
	}
	covers := s.events.next - 1
	c := s.last
	c.CutRaw, c.CutEvents = s.raw, covers
	done := c
	done.Raw = max(s.lowest(), c.Raw)

	var values []keyed
	s.cutRun = s.cutRun[:0]
	for _, r := range s.runs {
		if !r.dirty {
			continue
		}
		state, err := r.State()
		if err != nil {
			return err
		}
		v, err := bounds.Encode(stored{Format: Format, Raw: s.streams.raw, Events: s.streams.events, Covers: covers, Skip: r.skip, Named: r.named, Older: r.older, Record: r.Record, State: state})
		if err != nil {
			return fmt.Errorf("run %s: encode its record: %w", r.Record.ID, err)
		}
		values = append(values, keyed{bucketSubject(s.Out.Runs(), r.Record.ID), v, r.Record.Row().Text(), &r.revision})
		s.cutRun = append(s.cutRun, r)
		r.dirty = false
	}
	usages, err := s.usages()
	if err != nil {
		return err
	}
	s.dirty, s.urgent = 0, false
	s.cut = make(chan error, 1)
	s.cutAt = time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*ackTimeout) // what is begun is ended
	go func(result chan<- error) {
		defer cancel()
		result <- s.storeCut(ctx, c, done, usages, values)
	}(s.cut)
	return nil
}

// keyed is a value on its way into a bucket.
type keyed struct {
	subject  string
	value    []byte
	row      string  // of a run record
	revision *uint64 // that it must follow; then its own
}

// storeCut stores a cut: that it has begun, what changed, that it is done.
func (s *session) storeCut(ctx context.Context, begun, done checkpoint, usages, records []keyed) error {
	if err := s.events.stored(ctx, begun.CutEvents); err != nil {
		return err
	}
	if err := s.saveCheckpoint(ctx, begun); err != nil {
		return err
	}
	for _, values := range [][]keyed{usages, records} {
		if err := s.putAll(ctx, values); err != nil {
			return err
		}
	}
	for _, r := range records {
		done.Runs = max(done.Runs, *r.revision)
	}
	return s.saveCheckpoint(ctx, done)
}

// putAll stores values, many in flight.
func (s *session) putAll(ctx context.Context, values []keyed) error {
	const window = 256
	futures := make([]jetstream.PubAckFuture, len(values))
	wait := func(i int) error {
		select {
		case ack := <-futures[i].Ok():
			if values[i].revision != nil {
				*values[i].revision = ack.Sequence
			}
			return nil
		case err := <-futures[i].Err():
			return fmt.Errorf("store %s: %w", values[i].subject, err)
		case <-time.After(ackTimeout):
			return fmt.Errorf("store %s: no acknowledgement", values[i].subject)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for i, v := range values {
		if i >= window {
			if err := wait(i - window); err != nil {
				return err
			}
		}
		m := nats.NewMsg(v.subject)
		m.Data = v.value
		if v.revision != nil {
			m.Header.Set(headerLastSubject, strconv.FormatUint(*v.revision, 10))
		}
		if v.row != "" {
			m.Header.Set(HeaderRow, v.row)
		}
		f, err := s.Bus.js.PublishMsgAsync(m)
		if err != nil {
			return fmt.Errorf("store %s: %w", v.subject, err)
		}
		futures[i] = f
	}
	for i := max(len(values)-window, 0); i < len(values); i++ {
		if err := wait(i); err != nil {
			return err
		}
	}
	return nil
}

// mostRuns is how many runs are held that have not ended; one that is recorded
// can be read again.
const mostRuns = 4096

// cutDone ends a cut. Runs that ended, and are recorded so, are forgotten, and
// others where there are too many.
func (s *session) cutDone(err error) error {
	s.cut = nil
	if err != nil {
		return err
	}
	for _, r := range s.cutRun {
		if r.Done() && !r.dirty {
			delete(s.runs, r.Record.ID)
			s.ended.add(r.Record.ID)
		}
	}
	most := s.most
	if most == 0 {
		most = mostRuns
	}
	for id, r := range s.runs {
		if len(s.runs) <= most {
			break
		}
		if !r.dirty && r.from == 0 {
			delete(s.runs, id)
		}
	}
	return nil
}
