package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/runs"
)

// Saved folds are a cache for readers of the end of a long log.
const (
	foldEvery    = 1 << 20 // how much of a run is between two of them, see [normalizer.Fold.Weight]
	maxSaved     = 8 << 20 // bytes of those that wait for a cut; more are not saved
	foldsTimeout = time.Second
)

// savedFolds are the saved folds of a term. Each names the newest message of their bucket; if one is
// refused or lost, all that wait are dropped.
//
// Nothing of a run may be stored after the run was forgotten, not even by a normalizer that was paused
// while another one finished the run. So forgetting stores a message in the bucket, see
// [bus.Bus.BeginFolds]. A normalizer that is refused stores such a message, too, but no fold before the
// checkpoint of that cut is stored: the checkpoint is refused if another normalizer has stored one.
type savedFolds struct {
	waiting []keyed // for the next cut
	size    int     // bytes of them
	last    uint64  // newest message of the bucket; 0: unknown
}

// take returns those that wait.
func (f *savedFolds) take() []keyed {
	all := f.waiting
	f.waiting, f.size = nil, 0
	return all
}

// add adds one, in place of one with the same key.
func (f *savedFolds) add(one keyed) {
	if i := slices.IndexFunc(f.waiting, func(k keyed) bool { return k.key == one.key }); i >= 0 {
		f.size -= len(f.waiting[i].value)
		f.waiting = slices.Delete(f.waiting, i, i+1)
	}
	if n := len(one.value); n <= bus.MaxFold && f.size+n <= maxSaved {
		f.waiting, f.size = append(f.waiting, one), f.size+n
	}
}

// foldNumber returns the number of the saved fold that is due at this place of a run; 0: none so far.
func (s *session) foldNumber(r *run) uint64 {
	return uint64(max(r.Weight(), 0) / cmp.Or(s.foldEvery, foldEvery))
}

// saveFold saves the fold of a run if that is due. The run's last entry was stored at a time.
func (s *session) saveFold(r *run, at time.Time) error {
	if r.by != s.By {
		r.by = "" // also if the setting changes back
	}
	number := s.foldNumber(r)
	if number <= r.saved || r.Pending() > 0 || r.Done() || r.by == "" {
		return nil
	}
	r.saved = number
	state, err := r.State()
	if err != nil {
		return err
	}
	record := *r.Record
	record.Activity = "" // of a command it has the beginning, which is in RAW alone once it has ended
	v, err := bounds.Encode(runs.SavedFold{
		By: s.By, Number: number, Seq: r.Seen(), At: at.UnixNano(), Record: &record, State: state,
	})
	if err != nil {
		return fmt.Errorf("run %s: save its fold: %w", r.Record.ID, err)
	}
	s.saved.add(keyed{of: s.Out.Folds(), key: bus.FoldKey(r.Record.ID, number), value: v})
	return nil
}

// beginFolds stores a message in the bucket, behind which saved folds can be stored.
func (s *session) beginFolds(ctx context.Context) {
	if s.By == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, foldsTimeout)
	defer cancel()
	var err error
	if s.saved.last, err = s.out.BeginFolds(ctx); err != nil {
		s.notStored(err)
	}
}

// storeFolds stores the saved folds of a cut.
func (s *session) storeFolds(ctx context.Context, all []keyed) {
	if len(all) > 0 && s.saved.last == 0 {
		s.beginFolds(ctx)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, foldsTimeout)
	defer cancel()
	for _, one := range all {
		var err error
		s.saved.last, err = bucket.New(s.Bus.JetStream(), one.of).Put(ctx, one.key, one.value, nil,
			jetstream.WithExpectLastSequence(s.saved.last), bucket.Once())
		if err != nil {
			s.notStored(err)
			return
		}
	}
}

func (s *session) notStored(err error) {
	s.log.Debug("saved folds were not stored", zap.String("why", s.Bus.Explain(err)))
}
