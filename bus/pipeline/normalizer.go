package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/metrics"
)

// errForeign reports that another program wrote to EVENTS. The guarantees no longer
// hold, so the normalizer stops.
var errForeign = errors.New("somebody else wrote to the event stream")

// Normalizer derives EVENTS and RUNS from RAW. Any number may run: the lease selects
// one, and the fences of the streams refuse all others.
type Normalizer struct {
	Bus      *bus.Bus
	Backends []normalizer.Backend
	MaxLine  int    // bytes; 0: [normalizer.DefaultMaxLine]
	By       string // identifies program and settings, for readers of saved folds; "": none are stored
	Log      *zap.Logger
	Metrics  *metrics.Normalizer // nil: nothing is counted

	// Prepare, if set, is called before each term: it may create missing streams.
	Prepare func(context.Context) error

	// Ready, if set, is called in each term after the streams were checked. A RAW that
	// lost its end in a power failure is detected then, unless it was filled up again
	// before.
	Ready func()

	// Out are the names to write to. If they are not the bus's own, the normalizer
	// works beside another one, without a lease, and does not modify RAW.
	Out bus.Names
	// Until stops the normalizer at this sequence of RAW; 0: never.
	Until uint64
	// take, if set, receives the messages in place of EVENTS under Out, which stays empty. The
	// messages of one entry of RAW may come again in a later term.
	take func(ctx context.Context, run string, m normalizer.Message) error

	// CutEvery is the minimum time between cuts, which store records and the
	// checkpoint; 0: a second. The streams are compared with the checkpoint after five
	// times that.
	CutEvery time.Duration

	state  atomic.Int32 // a State
	outage reader.Outage

	die       func(next uint64) bool // tests: stop before
	hold      int                    // bytes; 0: holdBytes
	stall     time.Duration          // see [reader.Background]
	foldEvery int64                  // tests: see foldEvery
	maxRuns   int                    // tests: maximum number of runs in memory; 0: the default
	maxStored int                    // tests: the same for their records, bytes
	perCut    int                    // tests: see recordsPerCut
	toList    int                    // tests: see missesToList
}

// state is what a normalizer does.
type state int32

// The states.
const (
	waiting  state = iota // for the server, or for the lease, which another one may hold
	Starting              // it has the lease, and determines where to resume
	Active                // it reads RAW
)

// State returns what the normalizer does.
func (n *Normalizer) State() state { return state(n.state.Load()) }

var errDied = errors.New("interrupted by a test")

// Run works until ctx ends, which is not an error, or until an error that retries
// cannot fix.
func (n *Normalizer) Run(ctx context.Context) error {
	log := n.Log.Named("normalizer")
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 50*time.Millisecond, 2*time.Second
	n.outage = reader.Outage{Log: log, Began: "starting over from the streams"} // "reading" ends it, or "standing by"
	for {
		began := time.Now()
		var err error
		if n.Prepare != nil {
			err = n.Prepare(ctx)
		}
		if err == nil {
			err = n.term(ctx, log)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			return nil
		}
		n.Metrics.Failed(causeOf(err))
		switch {
		case errors.Is(err, errForeign), errors.Is(err, bus.ErrUnfit):
			return err
		}
		if time.Since(began) > time.Minute {
			pause.Reset()
		}
		n.outage.Failed(n.Bus.Explain(err))
		if reader.Sleep(ctx, pause.NextBackOff()) != nil {
			return nil
		}
	}
}

// term runs from the acquisition of the lease to its loss, or to the first error. The
// next term completes what was left.
func (n *Normalizer) term(ctx context.Context, log *zap.Logger) error {
	work := func(ctx context.Context) error {
		n.state.Store(int32(Starting))
		defer n.state.Store(int32(waiting))
		s, err := n.open(ctx, log)
		if err != nil {
			return err
		}
		defer s.close()
		defer n.Metrics.Active()()
		return s.work(ctx)
	}
	if n.Out != n.Bus.Names {
		return work(ctx)
	}
	return n.Bus.Lead(ctx, bus.NormalizerLease, func() {
		n.outage.Over()
		log.Info("standing by: another normalizer has the lease")
	}, work)
}

// session is the work of one term.
type session struct {
	*Normalizer
	log     *zap.Logger
	out     *bus.Bus // under the names of Out
	events  *publisher
	runs    map[string]*run // open ones, and those
	ended   map[string]bool // runs that are known to have ended
	threads map[string]threadUsage
	buckets map[string]*bucket.Bucket // open ones, by name
	keys    map[string]*keySet        // by bucket: those of records and threads

	streams identity
	base    uint64         // last sequence of EVENTS when RAW was recreated
	last    bus.Checkpoint // as stored
	lastRev uint64         // its revision
	resume  resume

	canBurst bool // the event stream supports fast ingest

	memory normalizer.Workspace // of all folds
	tally  *metrics.Tally       // nil: nothing is counted
	lag    lag
	first  uint64    // sequence of RAW from which the term reads
	raw    uint64    // last folded sequence of RAW
	readAt time.Time // when all that there was had been folded
	held   int       // bytes of unfinished lines in memory
	dirty  int       // runs whose records must be stored
	full   bool      // too many runs are in memory: all that changed are recorded, so that they can be dropped
	urgent bool      // somebody waits for one of them, see entry
	cut    chan error
	cutAt  time.Time
	cutRun []*run
	saved  savedFolds

	keep keeper
}

// open starts a session: it determines where to resume.
func (n *Normalizer) open(ctx context.Context, log *zap.Logger) (*session, error) {
	s := &session{
		Normalizer: n,
		log:        log,
		out:        n.Bus.Under(n.Out),
		runs:       map[string]*run{},
		ended:      map[string]bool{},
		threads:    map[string]threadUsage{},
		buckets:    map[string]*bucket.Bucket{},
		keys:       map[string]*keySet{n.Out.Runs(): newKeySet(), n.Out.Threads(): newKeySet()},
		tally:      n.Metrics.NewTally(),
	}
	if err := s.locate(ctx); err != nil {
		return nil, err
	}
	s.first = s.last.Raw + 1
	if n.Ready != nil {
		n.Ready()
	}
	var err error
	s.events, err = newPublisher(n.Bus, s.resume.next, s.canBurst)
	if err != nil {
		return nil, err
	}
	s.events.metrics, s.lag.to = n.Metrics, s.last.Recorded()
	s.beginFolds(ctx)
	return s, nil
}

// close waits for pending writes, so that the next term reads streams that do not
// change.
func (s *session) close() {
	s.events.close()
	if s.cut != nil {
		if err := <-s.cut; err != nil {
			s.log.Debug("the last cut was not stored", zap.Error(err))
		} else {
			s.countCut()
		}
	}
}

// work folds RAW until ctx ends or an error occurs. When ctx ends, it records what was
// folded before it returns.
func (s *session) work(ctx context.Context) error {
	messages := make(chan jetstream.Msg, 16)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	from := reader.Background{
		JS: s.Bus.JetStream(), Stream: s.Bus.Raw(), Subject: s.Bus.RawSubjects(),
		Policy: jetstream.DeliverByStartSequencePolicy, From: s.first,
		Limit: jetstream.PullMaxMessagesWithBytesLimit(64, reader.PullBytes), Stall: s.stall,
	}
	consumer, err := from.Consume(ctx, func(m jetstream.Msg) {
		select {
		case messages <- m:
		case <-reading.Done():
		}
	})
	if err != nil {
		return fmt.Errorf("read %s from %d: %w", s.Bus.Raw(), s.first, err)
	}
	defer func() {
		stop() // messages are no longer received
		consumer.Stop()
	}()

	s.state.Store(int32(Active))
	s.outage.Over()
	every := cmp.Or(s.CutEvery, time.Second)
	pace := max(every/20, time.Millisecond)
	tick := time.NewTicker(pace)
	defer tick.Stop()
	check := time.NewTicker(5 * every)
	defer check.Stop()
	var taken <-chan jetstream.Msg // nil until group
	group := time.NewTimer(0)
	defer group.Stop()
	for {
		if s.Until != 0 && s.raw >= s.Until {
			return s.finish(ctx)
		}
		var err error
		select {
		case m := <-taken:
			wasUrgent := s.urgent
			if err = s.entry(ctx, m); s.urgent && !wasUrgent {
				tick.Reset(max(pace/10, time.Millisecond))
			}
			if err == nil && s.lag.unread == 0 && len(messages) == 0 {
				if s.readAt = time.Now(); len(s.runs) >= groupRuns {
					taken, err = nil, s.events.quiet(ctx)
					group.Reset(groupTime)
				}
			}
		case <-group.C:
			taken = messages
			s.events.group(len(messages))
		case cut := <-s.cut:
			if err = s.cutDone(cut); err == nil {
				err = s.storeAgain(ctx)
			}
		case found := <-s.keep.looks:
			err = s.hasLooked(reading, found)
		case <-tick.C:
			wasUrgent := s.urgent
			if err = s.cutIfDue(ctx, every, messages); wasUrgent && !s.urgent {
				tick.Reset(pace)
			}
			s.tellLag()
		case <-check.C:
			err = s.upkeep(reading, consumer)
		case err = <-consumer.Broken:
		case err = <-s.events.broken:
		case <-ctx.Done():
			return s.finish(context.WithoutCancel(ctx))
		}
		if err != nil {
			return err
		}
	}
}

// Once all entries are read, those that follow are collected for groupTime, from groupRuns open runs on: what many runs
// write now and then is folded and published together.
const (
	groupTime = 5 * time.Millisecond
	groupRuns = 8
)

// cutIfDue starts a cut if there is something to record: after each interval, or
// earlier when nothing comes, and at most 20 times in an interval.
func (s *session) cutIfDue(ctx context.Context, every time.Duration, next <-chan jetstream.Msg) error {
	if len(next) == 0 {
		if err := s.events.quiet(ctx); err != nil {
			return err
		}
	}
	idle := s.lag.unread == 0 && s.events.idle()
	age, silent := time.Since(s.cutAt), idle && time.Since(s.readAt) >= every/4
	if s.unrecorded() && (age >= every || idle && s.urgent && age >= every/20 || silent && age >= every/10) {
		part := min(float64(age)/float64(every), 1)
		if silent {
			part = whole
		}
		return s.beginCut(ctx, part)
	}
	return nil
}

// unrecorded reports whether a cut would change the checkpoint or records. Entries
// without events count: callers wait for the normalizer's progress.
func (s *session) unrecorded() bool {
	return s.dirty > 0 || s.cut == nil && s.raw > s.last.CutRaw
}

// finish records what was folded.
func (s *session) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for s.cut != nil || s.unrecorded() || s.raw > s.last.Raw && s.lowest() > s.last.Raw {
		if s.cut == nil {
			if err := s.beginCut(ctx, whole); err != nil {
				return err
			}
		}
		select {
		case err := <-s.cut:
			if err := s.cutDone(err); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// entry folds one message of RAW.
func (s *session) entry(ctx context.Context, m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("read %s: %w", s.Bus.Raw(), err)
	}
	seq := meta.Sequence.Stream
	s.lag.unread, s.lag.at = meta.NumPending, meta.Timestamp
	defer func() { s.raw = max(s.raw, seq) }()
	agent, id, ok := s.Bus.ParseRaw(m.Subject())
	if !ok || s.ended[id] {
		return nil
	}
	r, err := s.run(ctx, agent, id, seq, begins(m.Headers(), m.Data()))
	if err != nil {
		return err
	}
	if r == nil || r.Done() || r.Record.Agent != agent { // a foreign entry after the end, or of another agent
		return nil
	}
	thread, usage, begin, known := r.Record.Thread, r.Record.Usage, r.from, r.Seen() >= seq
	kind, grown, err := s.fold(ctx, r, m, seq)
	if err != nil {
		return err
	}
	s.keepLine(r, grown)
	if err := s.saveFold(r, meta.Timestamp); err != nil {
		return err
	}
	if r.Record.Thread != thread {
		r.due = true // the thread can be continued, see thread
		if err := s.thread(ctx, r); err != nil {
			return err
		}
	}
	if r.Record.Usage != usage && r.Record.Thread != "" {
		s.used(r)
	}
	if known { // only its unfinished line is read again
		return nil
	}
	if !r.dirty {
		r.dirty, r.since, r.begin = true, seq, begin
		s.dirty++
	}
	r.due = r.due || len(r.observed) > maxObserved
	switch kind {
	case runs.Started, runs.Queued, runs.Cancelled, runs.Ordered:
		r.due, s.urgent = true, true // a caller waits for the record, or people are asked
	default:
		if r.Done() {
			r.due, s.urgent = true, true
		}
	}
	return nil
}

// fold folds one entry of a run, and publishes its events. It returns the entry's kind,
// and by how many bytes the unfinished line in memory grew.
func (s *session) fold(ctx context.Context, r *run, m jetstream.Msg,
	seq uint64) (kind runs.Kind, grown int, err error) {
	emit := func(msg normalizer.Message) {
		if err == nil && !s.have(r, msg.Pos) {
			if s.die != nil && s.die(s.events.next) {
				err = errDied
				return
			}
			if s.take != nil {
				err = s.take(ctx, r.Record.ID, msg)
				return
			}
			err = s.events.publish(ctx, r.subject(s.Out, msg.Token), msg)
		}
	}
	if r.dropped {
		if err := s.recall(ctx, r, m.Subject(), seq, emit); err != nil {
			return "", 0, err
		}
	}
	pending := r.Pending()
	r.observe()
	kind = apply(r.Fold, seq, m.Headers(), m.Data(), emit)
	return kind, r.Pending() - pending, err
}

// apply folds the entry at seq of RAW, and returns its kind.
func apply(f *normalizer.Fold, seq uint64, h nats.Header, body []byte, emit func(normalizer.Message)) runs.Kind {
	e, ok := bus.DecodeEntry(h, body)
	if ok {
		f.Apply(seq, e, emit)
	} else {
		f.Unreadable(seq, e.Time, emit)
	}
	return e.Kind
}

// have reports whether EVENTS already has the run's message at pos.
func (s *session) have(r *run, pos normalizer.Pos) bool {
	if r.skip > 0 {
		r.skip--
		return true
	}
	if !s.resume.have(pos) {
		return false
	}
	r.more++
	return true
}
