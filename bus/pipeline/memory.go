package pipeline

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/metrics"
)

// maxEnded is the maximum number of runs that are known to have ended; beyond that, their
// records are read again.
const maxEnded = 1024

// run is a run in progress.
type run struct {
	*normalizer.Fold
	subjects map[string]string // subjects of its events, by token
	from     uint64            // RAW sequence where its unfinished line begins; 0: none
	dropped  bool              // the unfinished line is not in memory
	skip     uint64            // events that EVENTS already has from a former RAW
	covers   uint64            // see stored
	more     uint64            // see stored
	revision uint64            // of its record, 0: none
	named    uint64            // RAW sequence of the entry that named its thread
	older    bool              // see stored
	by       string            // see stored
	saved    uint64            // number of the last saved fold, or of one that was due
	dirty    bool
	due      bool   // somebody waits for its record
	since    uint64 // RAW sequence of the first entry that its record does not have; 0: none
	begin    uint64 // with since: the same as from, for its record
	size     int    // of the record and state that were stored last, bytes

	tally    *metrics.Agent // nil: nothing is counted
	counted  metrics.Counted
	observed observations
}

// subject returns the subject of the run's messages of a kind.
func (r *run) subject(n bus.Names, token string) string {
	subject, ok := r.subjects[token]
	if !ok {
		subject = n.EventSubject(r.Record.Agent, r.Record.ID, token)
		r.subjects[token] = subject
	}
	return subject
}

// run returns the run of an entry: from memory, from its record, or a new one; nil if the record of
// the ended run was removed. Begins says that the entry is the first one of a run.
func (s *session) run(ctx context.Context, agent, id string, seq uint64, begins bool) (*run, error) {
	if r, ok := s.runs[id]; ok {
		return r, nil
	}
	stored, revision, err := s.loadRecord(ctx, id, begins)
	if err != nil {
		return nil, err
	}
	if stored == nil && revision != 0 {
		s.hasEnded(id)
		return nil, nil
	}
	if stored == nil && !begins {
		if err := s.isFirst(ctx, agent, id, seq); err != nil {
			return nil, err
		}
	}
	r := &run{revision: revision, subjects: map[string]string{}}
	switch {
	case stored == nil || stored.Events != s.streams.events: // new, or its events are gone: derive them again
		r.Fold, r.by = normalizer.NewFold(s.backend(agent), id, s.MaxLine), s.By
		r.covers = s.base
		r.skip, err = s.surplus(ctx, agent, id, 0)
	default:
		r.size = len(stored.State) + recordSize
		r.Fold, err = normalizer.Restore(s.backend(stored.Record.Agent), stored.Record, stored.State, s.MaxLine)
		r.skip, r.named, r.older, r.by = stored.Skip, stored.Named, stored.Older, stored.By
		r.covers, r.more = stored.Covers, stored.More
		if err == nil && stored.Raw != s.streams.raw && !r.Done() {
			r.Forget()
			r.by = "" // its state is not that of this log
			var all uint64
			all, err = s.surplus(ctx, agent, id, r.covers)
			r.skip += all - min(r.more, all) // some may have expired
			r.covers, r.more = max(r.covers, s.base), 0
		}
	}
	if err != nil {
		return nil, err
	}
	r.Use(&s.memory)
	r.saved = s.foldNumber(r)
	s.countFrom(r, agent, stored)
	if r.Done() {
		s.hasEnded(id)
		return r, nil
	}
	s.runs[id] = r
	return r, nil
}

// isFirst returns errLostEnd if RAW has an entry of a run before this one: the record of the run is gone. The next term
// derives all records again.
func (s *session) isFirst(ctx context.Context, agent, id string, seq uint64) error {
	first, err := reader.Next(ctx, s.Bus.JetStream().Conn(), s.Bus.Raw(), s.Bus.RawSubject(agent, id), 1)
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && first.Sequence >= seq {
		return nil
	}
	if err == nil && s.cut != nil {
		err = s.cutDone(<-s.cut)
	}
	if err != nil {
		return fmt.Errorf("read the first entry of run %s: %w", id, err)
	}
	c := s.last
	c.Raw, c.Runs, c.Known = 0, 0, 0
	if err := s.saveCheckpoint(ctx, c); err != nil {
		return err
	}
	return fmt.Errorf("the record of run %s is gone: %w", id, errLostEnd)
}

func (n *Normalizer) backend(agent string) normalizer.Backend {
	i := slices.IndexFunc(n.Backends, func(b normalizer.Backend) bool { return b.Agent() == agent })
	if i < 0 {
		return normalizer.Opaque(agent)
	}
	return n.Backends[i]
}

// hasEnded notes that a run has ended.
func (s *session) hasEnded(id string) {
	if len(s.ended) >= maxEnded {
		clear(s.ended)
	}
	s.ended[id] = true
}

// threadUsage is the usage of a thread so far, and of which run: agents report the
// total of the thread, even if a later process resumes it.
type threadUsage struct {
	Events string       `json:"event_stream"` // as in a run's record: invalid for another one
	Runs   string       `json:"run_stream"`   // the same for RUNS
	Run    string       `json:"run"`          // the last run that added to it
	Named  uint64       `json:"raw_seq"`      // where that run first named the thread
	Total  runs.Account `json:"total"`        // after the run
	Before runs.Account `json:"before"`       // when the run started
	dirty  bool         // must be stored
}

// maxThreads is the maximum number of stored threads' usage in memory.
const maxThreads = 4096

// threadKey returns a thread's key in its bucket; any id results in a valid key.
func threadKey(thread string) string {
	sum := sha256.Sum256([]byte(thread))
	return hex.EncodeToString(sum[:16])
}

// thread determines what the run's thread had used before the run. A fork begins with what the
// thread had used that it was started from.
func (s *session) thread(ctx context.Context, r *run) error {
	u, err := s.usageOf(ctx, r.Record.Thread)
	if err != nil {
		return err
	}
	r.named = r.Seen()
	s.share(r, u.Run)
	if from := r.Record.Resumes; u.Run == "" && from != "" && r.Record.Before == nil {
		if u, err = s.usageOf(ctx, from); err != nil {
			return err
		}
	}
	switch {
	case u.Run == r.Record.ID:
		r.named, u.Total = u.Named, u.Before
	case u.Named >= r.named: // a later run has added to it
		return nil
	}
	if u.Total.Usage != (runs.Usage{}) {
		r.Record.Resumed(u.Total)
	}
	return nil
}

// usageOf returns the usage of a thread. It is the zero value if there is none, or if it is of
// streams that are being derived again.
func (s *session) usageOf(ctx context.Context, thread string) (u threadUsage, err error) {
	u, ok := s.threads[thread]
	if !ok {
		if _, _, err := s.loadKey(ctx, s.Out.Threads(), threadKey(thread), true, &u); err != nil {
			return threadUsage{}, err
		}
	}
	if u.Events != s.streams.events || u.Runs != s.streams.runs {
		return threadUsage{}, nil
	}
	return u, nil
}

// share makes two runs of a thread due: what is stored of the thread is of the later one, and what of the other is
// folded again may not take its place.
func (s *session) share(r *run, other string) {
	r.due = true
	if o := s.runs[other]; o != nil {
		o.due = o.dirty
	}
}

// used updates the usage of the run's thread.
func (s *session) used(r *run) {
	if u, ok := s.threads[r.Record.Thread]; ok && u.Run != r.Record.ID {
		s.share(r, u.Run)
	}
	u := threadUsage{
		Events: s.streams.events,
		Runs:   s.streams.runs,
		Run:    r.Record.ID,
		Named:  r.named,
		Total:  r.Record.Account(),
		dirty:  true,
	}
	if r.Record.Before != nil {
		u.Before = *r.Record.Before
	}
	s.threads[r.Record.Thread] = u
}

// usages returns the usage values to be stored, and drops stored ones from memory above
// the limit.
func (s *session) usages() ([]keyed, error) {
	var changed []keyed
	for id, u := range s.threads {
		if !u.dirty {
			if len(s.threads) > maxThreads {
				delete(s.threads, id)
			}
			continue
		}
		b, err := json.Marshal(u)
		if err != nil {
			return nil, err
		}
		key := threadKey(id)
		s.keys[s.Out.Threads()].add(key)
		changed = append(changed, keyed{of: s.Out.Threads(), key: key, value: b})
		u.dirty = false
		s.threads[id] = u
	}
	return changed, nil
}

// holdBytes is the maximum size of all unfinished lines in memory; one line is always
// allowed. At the limit the lines that have waited longest are dropped, and read again
// from RAW when they continue.
const holdBytes = 32 << 20

func (s *session) maxHeld() int { return cmp.Or(s.hold, max(holdBytes, 2*s.MaxLine)) }

// keepLine updates where the unfinished lines of a run begin, after an entry was folded by which they
// grew. It drops those of other runs if all of them together are too long.
func (s *session) keepLine(r *run, grown int) {
	r.from = r.From()
	if s.held += grown; s.held > s.maxHeld() {
		s.shed(r)
	}
}

// shed drops unfinished lines, except that of keep, until they take at most half of the
// limit.
func (s *session) shed(keep *run) {
	var waiting []*run
	for _, r := range s.runs {
		if r != keep && r.Pending() > 0 {
			waiting = append(waiting, r)
		}
	}
	slices.SortFunc(waiting, func(a, b *run) int { return cmp.Compare(a.Seen(), b.Seen()) })
	for _, r := range waiting {
		if s.held <= s.maxHeld()/2 {
			return
		}
		s.held -= r.Pending()
		r.Drop()
		r.dropped = true
	}
}

// recall reads a run's unfinished line again, from its entries before seq.
func (s *session) recall(ctx context.Context, r *run, subject string, seq uint64, emit func(normalizer.Message)) error {
	stream, err := s.Bus.Stream(ctx, s.Bus.Raw())
	if err != nil {
		return err
	}
	for at := r.from; at < seq; {
		m, err := stream.GetMsg(ctx, at, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			return fmt.Errorf("run %s: read its line again: %w", r.Record.ID, err)
		}
		if m.Sequence >= seq {
			break
		}
		if e, ok := bus.DecodeEntry(m.Header, m.Data); ok {
			r.Apply(m.Sequence, e, emit)
		}
		at = m.Sequence + 1
	}
	s.held += r.Pending()
	r.dropped = false
	return nil
}
