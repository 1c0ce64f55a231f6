package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// ErrForeign reports that somebody but a normalizer wrote to EVENTS. Nothing
// can be promised then, so the normalizer stops.
var ErrForeign = errors.New("somebody else wrote to the event stream")

// Normalizer makes EVENTS and RUNS from RAW. Any number may run: the lease
// says which one works, and the fences of the streams refuse every other.
type Normalizer struct {
	Bus      *bus.Bus
	Backends []normalizer.Backend
	MaxLine  int // bytes; 0: [normalizer.DefaultMaxLine]
	Log      *zap.Logger

	// Prepare is called before each beginning, if it is given: it may make
	// streams that are missing.
	Prepare func(context.Context) error

	// Ready is called each time that it has looked where the streams stand,
	// if it is given. A RAW that lost its end in a power failure is noticed
	// then, as long as nobody has filled it up again before.
	Ready func()

	// Out is where it writes; where it is not the bus's own names, the
	// normalizer works beside another one, without a lease, and leaves RAW alone.
	Out bus.Names
	// Until ends the work at the given sequence of RAW; 0 is never.
	Until uint64

	// CutEvery is how often records and the checkpoint are stored at most; 0 is a
	// second. The streams are compared with the checkpoint after five times that.
	CutEvery time.Duration

	die  func(next uint64) bool // tests: break off before this event
	hold int                    // bytes; 0: holdBytes
	most int                    // runs; 0: maxRuns
}

var errDied = errors.New("broken off by a test")

// Run works until ctx ends, which is no error, or something breaks that no
// waiting mends.
func (n *Normalizer) Run(ctx context.Context) error {
	log := n.Log.Named("normalizer")
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 50*time.Millisecond, 2*time.Second
	const often = 8 // what comes again after so many times is said once a minute
	failures, said := 0, time.Time{}
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
		case errors.Is(err, ErrForeign), errors.Is(err, bus.ErrUnfit):
			return err
		}
		if time.Since(began) > time.Minute {
			pause.Reset()
			failures = 0
		}
		if failures++; failures <= often || time.Since(said) > time.Minute {
			said = time.Now()
			log.Warn("starting over from the streams", zap.String("why", n.Bus.Explain(err)))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// term is one term of office: from getting the lease to losing it, or to the
// first thing that goes wrong. What it did not finish, the next one does.
func (n *Normalizer) term(ctx context.Context, log *zap.Logger) error {
	work := func(ctx context.Context) error {
		s, err := n.open(ctx, log)
		if err != nil {
			return err
		}
		defer s.close()
		return s.work(ctx)
	}
	if n.Out != n.Bus.Names {
		return work(ctx)
	}
	return n.Bus.WithLease(ctx, bus.NormalizerLease, work)
}

// session is the work of one term.
type session struct {
	*Normalizer
	log     *zap.Logger
	out     *bus.Bus // under the names of Out
	events  *publisher
	runs    map[string]*run // those that are open, and those not yet recorded
	ended   recent          // runs that are known to have ended
	threads map[string]threadUsage
	buckets map[string]*bucket.Bucket // by name, once they were asked for

	streams identity
	anew    uint64         // RAW was made anew when EVENTS had this many
	last    bus.Checkpoint // as stored
	lastRev uint64         // its revision
	resume  resume

	canBurst bool // the event stream takes fast ingest

	raw      uint64 // sequence of RAW that was folded last
	progress reader.Progress
	held     int  // bytes of unfinished lines in memory
	dirty    int  // runs whose records are out of date
	urgent   bool // one of them has ended
	cut      chan error
	cutAt    time.Time
	cutRun   []*run
}

// run is a run that is being folded.
type run struct {
	*normalizer.Fold
	subjects map[string]string // of its events, by token
	from     uint64            // RAW sequence where its unfinished line begins, 0: none
	dropped  bool              // that line is not in memory
	skip     uint64            // events that EVENTS has already, from a RAW that is gone
	revision uint64            // of its record, 0: none
	named    uint64            // RAW sequence where it named its thread
	older    bool              // see stored
	dirty    bool
}

// open finds out where to go on.
func (n *Normalizer) open(ctx context.Context, log *zap.Logger) (*session, error) {
	s := &session{Normalizer: n, log: log, out: n.Bus.Under(n.Out), runs: map[string]*run{}, threads: map[string]threadUsage{}, buckets: map[string]*bucket.Bucket{}}
	if err := s.locate(ctx); err != nil {
		return nil, err
	}
	if n.Ready != nil {
		n.Ready()
	}
	var err error
	s.events, err = newPublisher(n.Bus, s.resume.next, s.canBurst)
	return s, err
}

// close waits for what is under way, so that the next term reads streams
// that stand still.
func (s *session) close() {
	s.events.close()
	if s.cut != nil {
		if err := <-s.cut; err != nil {
			s.log.Debug("the last cut was not stored", zap.Error(err))
		}
	}
}

// work folds RAW until ctx ends or something breaks. Where ctx ends, what was
// folded is recorded before it returns.
func (s *session) work(ctx context.Context) error {
	start := s.last.Raw + 1
	messages := make(chan jetstream.Msg, 16)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	consumer, err := reader.Consume(ctx, s.Bus.JetStream(), s.Bus.Raw(), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{s.Bus.RawSubjects()},
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy, OptStartSeq: start,
	}, func(m jetstream.Msg) {
		select {
		case messages <- m:
		case <-reading.Done():
		}
	}, jetstream.PullMaxMessagesWithBytesLimit(64, reader.PullBytes))
	if err != nil {
		return fmt.Errorf("read %s from %d: %w", s.Bus.Raw(), start, err)
	}
	defer func() {
		stop() // nobody takes messages any more
		consumer.Stop()
	}()

	every := s.CutEvery
	if every == 0 {
		every = time.Second
	}
	tick := time.NewTicker(max(every/20, time.Millisecond))
	defer tick.Stop()
	look := time.NewTicker(5 * every)
	defer look.Stop()
	for {
		if s.Until != 0 && s.raw >= s.Until {
			return s.finish(ctx)
		}
		var err error
		select {
		case m := <-messages:
			err = s.entry(ctx, m)
		case cut := <-s.cut:
			err = s.cutDone(cut)
		case <-tick.C:
			err = s.cutIfDue(ctx, every, messages)
		case <-look.C:
			err = s.lookAround(ctx)
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

// cutIfDue begins a cut where there is something to record: after each so long,
// and sooner where nothing else is to be done.
func (s *session) cutIfDue(ctx context.Context, every time.Duration, next <-chan jetstream.Msg) error {
	if len(next) == 0 {
		if err := s.events.quiet(ctx); err != nil {
			return err
		}
	}
	quiet := len(next) == 0 && s.events.idle()
	age := time.Since(s.cutAt)
	if s.unrecorded() && (age >= every || quiet && (s.urgent || age >= every/10)) {
		return s.beginCut(ctx)
	}
	return nil
}

// unrecorded reports whether a cut would say something new. It is said of
// entries that gave nothing, too: who waits for the normalizer sees how far it is.
func (s *session) unrecorded() bool {
	return s.dirty > 0 || s.cut == nil && s.raw > s.last.CutRaw
}

// finish records what was folded.
func (s *session) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for s.cut != nil || s.unrecorded() || s.raw > s.last.Raw && s.lowest() > s.last.Raw {
		if s.cut == nil {
			if err := s.beginCut(ctx); err != nil {
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
	defer func() { s.raw = max(s.raw, seq) }()
	agent, id, ok := s.Bus.ParseRaw(m.Subject())
	if !ok || s.ended.has(id) {
		return nil
	}
	r, err := s.run(ctx, agent, id)
	if err != nil {
		return err
	}
	if r == nil || r.Done() || r.Record.Agent != agent { // a foreign entry behind the end, or under another agent's name
		return nil
	}
	thread, lines, usage := r.Record.Thread, r.Record.Lines, r.Record.Usage
	kind, grown, err := s.fold(ctx, r, m, seq)
	if err != nil {
		return err
	}
	s.keepLine(r, seq, grown, r.Record.Lines != lines)
	if r.Record.Thread != thread {
		if err := s.thread(ctx, r); err != nil {
			return err
		}
	}
	if r.Record.Usage != usage && r.Record.Thread != "" {
		s.used(r)
	}
	if !r.dirty {
		r.dirty = true
		s.dirty++
	}
	s.urgent = s.urgent || r.Done() || kind == runs.Started || kind == runs.Queued || kind == runs.Cancelled
	return nil
}

// keepLine notes where the unfinished line of a run begins, once the entry at seq
// was folded: there, where lines ended in it. It drops others where all of them are
// too long together.
func (s *session) keepLine(r *run, seq uint64, grown int, ended bool) {
	switch {
	case r.Pending() == 0:
		r.from = 0
	case r.from == 0 || ended:
		r.from = seq
	}
	if s.held += grown; s.held > s.maxHeld() {
		s.shed(r)
	}
}

// fold folds one entry of a run, and publishes what it gives. It returns the
// entry's kind, and how many bytes more of an unfinished line are in memory.
func (s *session) fold(ctx context.Context, r *run, m jetstream.Msg, seq uint64) (kind runs.Kind, grown int, err error) {
	emit := func(msg normalizer.Message) {
		if err == nil && !s.have(r, msg.Pos) {
			if s.die != nil && s.die(s.events.next) {
				err = errDied
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
	e, ok := bus.DecodeEntry(m.Headers(), m.Data())
	if ok {
		r.Apply(seq, e, emit)
	} else {
		r.Unreadable(seq, e.Time, emit)
	}
	return e.Kind, r.Pending() - pending, err
}

// run is the run of the given name: one being folded, one that was recorded,
// or a new one; nil where the record of one that had ended was removed.
func (s *session) run(ctx context.Context, agent, id string) (*run, error) {
	if r, ok := s.runs[id]; ok {
		return r, nil
	}
	stored, revision, err := s.loadRecord(ctx, id)
	if err != nil {
		return nil, err
	}
	if stored == nil && revision != 0 {
		s.ended.add(id)
		return nil, nil
	}
	r := &run{revision: revision, subjects: map[string]string{}}
	switch {
	case stored == nil || stored.Events != s.streams.events: // new, or its events are gone: make them again
		r.Fold = normalizer.NewFold(s.backend(agent), id, s.MaxLine)
		r.skip, err = s.surplus(ctx, agent, id, 0)
	default:
		r.Fold, err = normalizer.Restore(s.backend(stored.Record.Agent), stored.Record, stored.State, s.MaxLine)
		r.skip, r.named, r.older = stored.Skip, stored.Named, stored.Older
		if err == nil && stored.Raw != s.streams.raw && !r.Done() {
			r.Forget()
			var more uint64
			more, err = s.surplus(ctx, agent, id, stored.Covers)
			r.skip += more
		}
	}
	if err != nil {
		return nil, err
	}
	if r.Done() {
		s.ended.add(id)
		return r, nil
	}
	s.runs[id] = r
	return r, nil
}

func (s *session) backend(agent string) normalizer.Backend {
	for _, b := range s.Backends {
		if b.Agent() == agent {
			return b
		}
	}
	return normalizer.Opaque(agent)
}

// have reports whether EVENTS holds the run's message at pos already.
func (s *session) have(r *run, pos normalizer.Pos) bool {
	if r.skip > 0 {
		r.skip--
		return true
	}
	return s.resume.have(pos)
}

// subject is where the run's messages of a kind go.
func (r *run) subject(n bus.Names, token string) string {
	subject, ok := r.subjects[token]
	if !ok {
		subject = n.EventSubject(r.Record.Agent, r.Record.ID, token)
		r.subjects[token] = subject
	}
	return subject
}
